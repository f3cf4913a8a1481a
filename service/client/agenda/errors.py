"""What may go wrong between a program and a server, as exceptions with codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from agenda.records import Offer

#: Codes that answer "no" to a request that could be read (docs/api.md).
REFUSAL_CODES: Final = frozenset(
    {
        "capacity", "capacity_over_time", "quota", "window_limit", "lead_time", "count_limit",
        "priority_limit", "agent_limit", "conflict", "time_limit", "unsatisfiable",
        "beyond_horizon",
    }
)  # fmt: skip


_SHOWN_ERRORS: Final = 10


class AgendaError(Exception):
    """Anything that this library raises."""


class SettingError(AgendaError, ValueError):
    """An address or a token that cannot be used; the message says what would be right."""


class ServerAwayError(AgendaError, ConnectionError):
    """Nothing came back.

    Attributes
    ----------
    sent
        Whether the request may have arrived.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class ForeignAnswerError(AgendaError):
    """What answered is no Agenda server."""


class WaitTimeoutError(AgendaError, TimeoutError):
    """What was waited for did not happen in time."""


class ProblemError(AgendaError):
    """The server said no, or that something is wrong.

    Attributes
    ----------
    status
        HTTP status.
    code
        The word for programs, as docs/api.md lists them; empty where something else answered.
    detail
        The sentence for people.
    errors
        Every problem with its place: ``{pointer, span, code, message, fix}``.
    body
        The whole problem document.
    """

    def __init__(self, status: int, body: Mapping[str, Any] | None) -> None:
        self.status = status
        self.body: Mapping[str, Any] = body or {}
        self.code = str(self.body.get("code") or "")
        self.detail = str(self.body.get("detail") or "")
        self.errors: Sequence[Mapping[str, Any]] = tuple(self.body.get("errors") or ())
        told = bool(self.code or self.detail)
        super().__init__(problem_text(self.body) if told else status_text(status))


class RefusedError(ProblemError):
    """The request was read, and there is no place for it.

    Attributes
    ----------
    refusal
        The limit that was binding; empty if it is not kept.
    offers
        What would be accepted instead, the least change first.
    """

    def __init__(self, status: int, body: Mapping[str, Any] | None) -> None:
        super().__init__(status, body)
        self.refusal: Mapping[str, Any] = self.body.get("refusal") or {}
        self.offers: tuple[Offer, ...] = Offer.all_of(self.refusal)


class MalformedRequestError(ProblemError):
    """400, 413, 415 and 422: the request cannot be read, or cannot be meant."""


class UnauthenticatedError(ProblemError):
    """401: the server asks for a token, or does not take this one."""


class ForbiddenError(ProblemError):
    """403: this user may not do this."""


class NotFoundError(ProblemError):
    """404: there is no such thing here."""


class StateConflictError(ProblemError):
    """409 that is no refusal: the id is taken, or its state does not allow this."""


class StaleRevisionError(ProblemError):
    """412 and 428: it has changed since the revision that was named, or none was."""


class RateLimitError(ProblemError):
    """429: too many of these run or wait, also after trying again."""


class ServerFaultError(ProblemError):
    """5xx: the server failed or cannot answer now; after 503 the change may have been made."""


_BY_STATUS: Final[dict[int, type[ProblemError]]] = {
    HTTPStatus.BAD_REQUEST: MalformedRequestError,
    HTTPStatus.UNAUTHORIZED: UnauthenticatedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.CONFLICT: StateConflictError,
    HTTPStatus.PRECONDITION_FAILED: StaleRevisionError,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: MalformedRequestError,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: MalformedRequestError,
    HTTPStatus.UNPROCESSABLE_ENTITY: MalformedRequestError,
    HTTPStatus.PRECONDITION_REQUIRED: StaleRevisionError,
    HTTPStatus.TOO_MANY_REQUESTS: RateLimitError,
}


def problem_of(status: int, body: object) -> ProblemError:
    """Return the exception for an answer that is a problem."""
    document = body if isinstance(body, Mapping) else None
    if document is not None and document.get("code") in REFUSAL_CODES:
        return RefusedError(status, document)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerFaultError(status, document)
    return _BY_STATUS.get(status, ProblemError)(status, document)


def problem_text(
    body: Mapping[str, Any], parameter: Callable[[str], str] = lambda name: name
) -> str:
    """Return a problem document as lines for a person.

    Parameters
    ----------
    parameter
        How a parameter of the query is called.
    """
    title, detail = body.get("title") or "refused", body.get("detail") or body.get("code")
    errors = body.get("errors") or []
    if len(errors) == 1 and errors[0].get("message") == detail:  # said once is enough
        return f"{title}: {_entry_text(errors[0], parameter)}"
    lines = [f"{title}: {detail}"]
    lines += [f"  {_entry_text(entry, parameter)}" for entry in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - _SHOWN_ERRORS} more")
    return "\n".join(lines)


def status_text(status: int) -> str:
    """Return what to say of an answer without a problem document."""
    names = {one.value: one.phrase for one in HTTPStatus}
    phrase = f"{status} {names.get(status, '')}".strip()
    return f"the server answered {phrase} without saying why"


def _entry_text(entry: Mapping[str, Any], parameter: Callable[[str], str]) -> str:
    pointer, message = entry.get("pointer") or "", entry.get("message", "")
    if pointer.startswith("?"):
        name = pointer[1:]
        pointer, message = parameter(name), message.removeprefix(f"{name}: ")
    where = f"{pointer}: " if pointer else ""
    fix = f"; {entry['fix']}" if entry.get("fix") else ""
    return f"{where}{message}{fix}"
