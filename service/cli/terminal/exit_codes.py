"""Exit codes of every command: what a script may tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Final

from agenda.errors import REFUSAL_CODES


class ExitCode(IntEnum):
    """How a command ended; docs/cli.md has the table."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    REFUSED = 3
    STOPPED = 4
    NOT_ALLOWED = 5
    CONFLICT = 6
    AWAY = 7
    DIFFER = 8
    INTERRUPTED = 130


DONE: Final = ExitCode.DONE
ERROR: Final = ExitCode.ERROR
USAGE: Final = ExitCode.USAGE
REFUSED: Final = ExitCode.REFUSED
STOPPED: Final = ExitCode.STOPPED
NOT_ALLOWED: Final = ExitCode.NOT_ALLOWED
CONFLICT: Final = ExitCode.CONFLICT
AWAY: Final = ExitCode.AWAY
DIFFER: Final = ExitCode.DIFFER
INTERRUPTED: Final = ExitCode.INTERRUPTED

#: What each means, in the words of `agenda --help` and of docs/cli.md.
MEANINGS: Final[dict[ExitCode, str]] = {
    DONE: "done",
    ERROR: "malformed: input that cannot be read, or something that is not there or not valid",
    USAGE: "usage: an unknown option or command, or no such file",
    REFUSED: "refused: there is no place for the request",
    STOPPED: "stopped with nothing written",
    NOT_ALLOWED: "not allowed: no token, a wrong one, or one without the right",
    CONFLICT: "conflict: it changed meanwhile, or its state does not allow this",
    AWAY: "the server is away, overloaded or failed: try again",
    DIFFER: "differ: what was compared is not the same",
    INTERRUPTED: "stopped before it began",
}

_NOT_ALLOWED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_CHANGED: Final = (
    HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED,
)  # fmt: skip

#: The refusal that says that the Plan moved on while the request was placed.
_MOVED_ON: Final = "conflict"


def code_of_answer(status: int, code: Any) -> ExitCode:
    """Return how a command ends for which a server answered so.

    Parameters
    ----------
    status, code
        Of HTTP, and of the problem document if it is one.
    """
    if status < HTTPStatus.BAD_REQUEST:
        return DONE
    if status in _NOT_ALLOWED:
        return NOT_ALLOWED
    if code in REFUSAL_CODES and code != _MOVED_ON:
        return REFUSED
    if status in _CHANGED:
        return CONFLICT
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return AWAY
    return ERROR


def code_of_several(codes: Iterable[ExitCode]) -> ExitCode:
    """Return that of several: the first that is neither done nor refused, else the worst."""
    found = list(codes)
    return next((one for one in found if one not in (DONE, REFUSED)), max(found, default=DONE))
