"""Exceptions of the client, with the codes of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from agenda.records import Offer

#: Codes of refusals, answers to valid requests that do not fit (docs/api.md).
REFUSAL_CODES: Final = frozenset(
    {
        "capacity", "capacity_over_time", "quota", "window_limit", "lead_time", "count_limit",
        "priority_limit", "agent_limit", "conflict", "time_limit", "unsatisfiable",
        "beyond_horizon",
    }
)  # fmt: skip


_SHOWN_ERRORS: Final = 10


class AgendaError(Exception):
    """Base class of the exceptions of this library."""


class SettingError(AgendaError, ValueError):
    """An invalid address or token; the message says how to correct it."""


class ServerAwayError(AgendaError, ConnectionError):
    """The server did not answer.

    Attributes
    ----------
    sent
        Whether the request may have arrived.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class ForeignAnswerError(AgendaError):
    """The answer is not one of an Agenda server."""


class WaitTimeoutError(AgendaError, TimeoutError):
    """A reservation did not reach the awaited state in time."""


class ProblemError(AgendaError):
    """The server answered with a problem: a refusal or an error.

    Attributes
    ----------
    status
        HTTP status.
    code
        The machine-readable code (docs/api.md); empty if no Agenda server answered.
    detail
        The message for users.
    errors
        All errors with their places: ``{pointer, span, code, message, fix}``.
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
    """The request is valid, but it was refused.

    Attributes
    ----------
    refusal
        The binding limit; empty if the server does not store it.
    offers
        Requests that would be accepted instead, the least change first.
    """

    def __init__(self, status: int, body: Mapping[str, Any] | None) -> None:
        super().__init__(status, body)
        self.refusal: Mapping[str, Any] = self.body.get("refusal") or {}
        self.offers: tuple[Offer, ...] = Offer.all_of(self.refusal)


class MalformedRequestError(ProblemError):
    """400, 413, 415 and 422: the request is malformed or makes no sense."""


class UnauthenticatedError(ProblemError):
    """401: the server requires a token, or does not accept this one."""


class ForbiddenError(ProblemError):
    """403: this user may not do this."""


class NotFoundError(ProblemError):
    """404: the object does not exist."""


class StateConflictError(ProblemError):
    """409 other than a refusal: the id is taken, or the object's state does not allow this."""


class StaleRevisionError(ProblemError):
    """412 and 428: the object has changed since the given revision, or none was given."""


class RateLimitError(ProblemError):
    """429: too many calls or jobs are running or waiting, even after retries."""


class ServerFaultError(ProblemError):
    """5xx: the server failed or is unavailable; after 503 the change may have been made."""


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
    """Return a problem document as text for the user.

    Parameters
    ----------
    parameter
        Returns the displayed name of a parameter of the query.
    """
    title, detail = body.get("title") or "refused", body.get("detail") or body.get("code")
    errors = body.get("errors") or []
    if len(errors) == 1 and errors[0].get("message") == detail:  # do not repeat it
        return f"{title}: {_entry_text(errors[0], parameter)}"
    lines = [f"{title}: {detail}"]
    lines += [f"  {_entry_text(entry, parameter)}" for entry in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - _SHOWN_ERRORS} more")
    return "\n".join(lines)


def status_text(status: int) -> str:
    """Return the message for an answer without a problem document."""
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
