"""Exit codes, and messages on standard error for bad input: its place and how to correct it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast

import click

from agenda.errors import REFUSAL_CODES
from rdl.errors import limited_suggestions


class ExitCode(IntEnum):
    """The exit code of a command; docs/cli.md has the table."""

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

#: The meaning of each code, as in `agenda --help` and docs/cli.md.
MEANINGS: Final[dict[ExitCode, str]] = {
    DONE: "done",
    ERROR: "malformed: unreadable or invalid input, or an object that does not exist",
    USAGE: "usage: an unknown option or command, or no such file",
    REFUSED: "refused: the request does not fit",
    STOPPED: "stopped with nothing written",
    NOT_ALLOWED: "not allowed: no token, an invalid one, or one without the right",
    CONFLICT: "conflict: the object has changed, or its state does not allow this",
    AWAY: "the server is unavailable, overloaded or failed: try again",
    DIFFER: "differ: the compared objects are not equal",
    INTERRUPTED: "stopped before it began",
}

_NOT_ALLOWED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_CHANGED: Final = (
    HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED,
)  # fmt: skip

#: The code of a refusal because the Plan changed while the request was placed.
_MOVED_ON: Final = "conflict"


def code_of_answer(status: int, code: Any) -> ExitCode:
    """Return the exit code of a command for a server's answer.

    Parameters
    ----------
    status, code
        The HTTP status, and the code of the problem document if it is one.
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
    """Return the exit code of several calls: the first but for done and refused, else the worst."""
    found = list(codes)
    return next((one for one in found if one not in (DONE, REFUSED)), max(found, default=DONE))


F = TypeVar("F", bound=Callable[..., Any])

_OURS = frozenset({"agenda", "rdl", "lp", "planner", "dispatch", "service"})


class CliError(click.ClickException):
    """An error for the user; the message is complete.

    Parameters
    ----------
    code
        The exit code.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance

    def show(self, file: Any = None) -> None:
        """Write the message to standard error."""
        click.echo(f"agenda: {self.format_message()}", file=file, err=True)


def reports_errors(function: F) -> F:
    """Turn malformed input and missing files into messages; anything else stays an exception.

    Malformed input always raises one of Agenda's own subclasses of ValueError (RdlError, FileError,
    TraceError, PictureError, AmountError ...), whose message gives the place and the correction. A
    ValueError from elsewhere is a bug and keeps its traceback.
    """

    @wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        with as_cli_error():
            return function(*args, **options)

    return cast("F", wrapper)


@contextmanager
def as_cli_error(where: str = "") -> Iterator[None]:
    """Turn malformed input and file errors of the context into `CliError`; `where` is a prefix."""
    head = f"{where}: " if where else ""
    try:
        with limited_suggestions():
            yield
    except BrokenPipeError:
        raise
    except OSError as error:
        name = f"{error.filename}: " if error.filename else head
        raise CliError(f"{name}{error.strerror or error}") from error
    except ValueError as error:
        if type(error).__module__.partition(".")[0] not in _OURS:
            raise
        raise CliError(f"{head}{error}") from error
