"""The error format of the API (RFC 9457), and the table from code to status and title."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.files.errors import FileError
from planner.placement import Code
from rdl.errors import Problem as Fault
from rdl.errors import ProblemList, RdlError

CONTENT_TYPE: Final = "application/problem+json"
#: `type` of a problem is this and the code: a reference to its entry on the page /docs.
TYPE_PREFIX: Final = "/docs#problem-"

#: code -> (HTTP status, title). docs/api.md lists exactly these (tested).
CODES: Final[dict[str, tuple[int, str]]] = {
    Code.MALFORMED: (400, "The request cannot be read"),
    "unauthenticated": (401, "The caller is not authenticated"),
    "forbidden": (403, "This user may not do this"),
    "foreign_origin": (403, "A page of another site may not make this call"),
    "not_found": (404, "The object does not exist"),
    "method_not_allowed": (405, "This path does not support that method"),
    "request_timeout": (408, "The request did not arrive in time"),
    Code.CAPACITY: (409, "The cluster has no free capacity"),
    Code.CAPACITY_OVER_TIME: (409, "A share of the cluster over time is used up"),
    Code.QUOTA: (409, "A quota leaves no free capacity"),
    Code.WINDOW_LIMIT: (409, "The window is longer than a policy allows"),
    Code.LEAD_TIME: (409, "The request is too early or too late for a policy"),
    Code.COUNT_LIMIT: (409, "A policy allows no more of these"),
    Code.PRIORITY_LIMIT: (409, "The priority is higher than a policy allows"),
    Code.AGENT_LIMIT: (409, "A policy does not let the agent reserve more"),
    Code.CONFLICT: (409, "The Plan kept changing during this request"),
    Code.DUPLICATE_ID: (409, "The id is taken"),
    Code.TIME_LIMIT: (409, "The agent found no place within its time limit"),
    "wrong_state": (409, "The reservation is in a state that does not allow this"),
    "not_covered": (409, "The reservation does not cover this application"),
    "gone": (410, "It has stopped for good"),
    "stale_revision": (412, "It has changed since that revision"),
    "too_large": (413, "The body is larger than this server accepts"),
    "unsupported_media_type": (415, "This call does not accept that type of body"),
    "foreign_host": (421, "This server does not answer under that name"),
    Code.UNSATISFIABLE: (422, "No plan can satisfy this request"),
    Code.BEYOND_HORIZON: (422, "The request lies beyond the planned horizon"),
    Code.PAST_CHANGED: (422, "What has already run cannot be changed"),
    "unplannable_cluster": (422, "The cluster cannot be planned"),
    "idempotency_mismatch": (422, "The idempotency key was used for another request"),
    "revision_required": (428, "If-Match is missing"),
    "too_many": (429, "Too many of these are running or waiting"),
    "internal": (500, "The server failed"),
    "unavailable": (503, "The server cannot answer now"),
    "clock_unconfirmed": (503, "The clock jumped ahead and has not been confirmed"),
    "plan_ahead": (503, "The Plan is ahead of the clock"),
}

#: Statuses raised by the web framework, and the code of each.
CODE_OF_STATUS: Final[dict[int, str]] = {
    400: Code.MALFORMED,
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal",
    503: "unavailable",
}


#: Most characters of a text of a problem; a hostile name or value may have millions.
_LONGEST_TEXT: Final = 2_000


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


@dataclass(frozen=True, slots=True)
class ApiError:
    """One entry of ``errors``.

    Attributes
    ----------
    message
        The error, one sentence.
    code
        One of `CODES`.
    pointer
        JSON pointer into the body, or ``?name`` of a query parameter, or a header's name.
    span
        Offsets in RDL text at `pointer`.
    fix
        A suggested fix.
    """

    message: str
    code: str = Code.MALFORMED
    pointer: str | None = None
    span: tuple[int, int] | None = None
    fix: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the entry as JSON."""
        return {
            "pointer": None if self.pointer is None else _brief(self.pointer),
            "span": None if self.span is None else list(self.span),
            "code": str(self.code),
            "message": _brief(self.message),
            "fix": self.fix,
        }


@dataclass(frozen=True, slots=True)
class ProblemDocument:
    """The answer to a failed call.

    Attributes
    ----------
    code
        One of `CODES`; determines status, type and title.
    detail
        One sentence about this failure.
    errors
        The first errors, if they have a location: at most 20.
    refusal
        For a request refused by planning: the refusal as stored in the Plan (files.md).
    headers
        Extra response headers.
    """

    code: str
    detail: str
    errors: Sequence[ApiError] = ()
    refusal: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep the first errors; reject an undocumented code."""
        if self.code not in CODES:
            raise KeyError(f"{self.code!r} is not a documented problem code")
        if self.errors and not isinstance(self.errors, ProblemList):
            object.__setattr__(self, "errors", ProblemList(self.errors))

    @property
    def status(self) -> int:
        """HTTP status."""
        return CODES[self.code][0]

    def to_json(self) -> dict[str, object]:
        """Return the document as JSON."""
        body: dict[str, object] = {
            "type": f"{TYPE_PREFIX}{self.code}",
            "code": str(self.code),
            "title": CODES[self.code][1],
            "detail": f"{_brief(self.detail)}{_unlisted(self.errors)}",
            "errors": [error.to_json() for error in self.errors],
        }
        if self.refusal is not None:
            body["refusal"] = dict(self.refusal)
        return body

    def listing(self, most: int) -> ProblemDocument:
        """Return the problem with at most this many of its errors."""
        if len(self.errors) <= most:
            return self
        cut = ProblemList(self.errors, most)
        cut.more += self.errors.more if isinstance(self.errors, ProblemList) else 0
        return replace(self, errors=cut)


def _unlisted(errors: Sequence[ApiError]) -> str:
    """Return the total number of errors in words, if only some are listed."""
    if not isinstance(errors, ProblemList) or not errors.more:
        return ""
    return f" ({len(errors)} of {errors.total} problems are listed)"


class ApiProblemError(Exception):
    """A call fails with a problem; raised by calls and views, and answered by `Answering`."""

    def __init__(self, document: ProblemDocument) -> None:
        self.document = document
        super().__init__(f"{document.code}: {document.detail}")


def problem(
    code: str,
    detail: str,
    errors: Iterable[ApiError] = (),
    headers: Mapping[str, str] | None = None,
) -> ApiProblemError:
    """Return a problem to raise."""
    return ApiProblemError(
        ProblemDocument(code, detail, ProblemList(errors), headers=headers or {})
    )


def problem_of_rdl(error: RdlError, pointer: str) -> ApiProblemError:
    """Return the problem of RDL at `pointer` of the body, with all errors."""
    errors = tuple(_error_of_fault(fault, pointer) for fault in error.problems)
    return ApiProblemError(ProblemDocument(error.code, detail_of(errors), errors))


def problem_of_file(error: FileError, at: str = "", detail: str | None = None) -> ApiProblemError:
    """Return the problem of a document at `at` of the body."""
    errors = error.problems.each(
        lambda one: ApiError(
            one.message, pointer=f"{at}{one.pointer or ''}".rstrip("/"), fix=one.fix
        )
    )
    return problem(Code.MALFORMED, detail or detail_of(errors), errors)


def detail_of(errors: Sequence[ApiError]) -> str:
    """Return one sentence for all of `errors`."""
    total = errors.total if isinstance(errors, ProblemList) else len(errors)
    first = errors[0].message
    return first if total == 1 else f"{total} problems; the first: {first}"


def _error_of_fault(fault: Fault, pointer: str) -> ApiError:
    return ApiError(
        message=fault.message,
        code=fault.code,
        pointer=pointer + (fault.pointer or ""),
        span=fault.span,
        fix=fault.fix,
    )


class FieldError(ValueError):
    """An invalid value of a field; the message gives the valid ones."""


def malformed_problem(errors: Sequence[ApiError]) -> ApiProblemError:
    """Return the problem of `errors`, at least one."""
    return ApiProblemError(ProblemDocument(Code.MALFORMED, detail_of(errors), errors))
