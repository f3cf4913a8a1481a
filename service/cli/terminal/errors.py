"""Bad input as messages: where it is and what would be right, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import click

from rdl.errors import limited_suggestions
from service.cli.terminal.exit_codes import ExitCode

F = TypeVar("F", bound=Callable[..., Any])

_OURS = frozenset({"agenda", "rdl", "lp", "planner", "dispatch", "service"})


class CliError(click.ClickException):
    """An error for the user; the message is complete.

    Parameters
    ----------
    code
        How the command ends.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it of the instance

    def show(self, file: Any = None) -> None:
        """Write the message to standard error."""
        click.echo(f"agenda: {self.format_message()}", file=file, err=True)


def reports_errors(function: F) -> F:
    """Turn malformed input and missing files into messages; anything else stays an exception.

    Malformed input is a ValueError of Agenda's own everywhere (RdlError, FileError, TraceError,
    PictureError, AmountError ...), with a message that says where and what would be right. A
    ValueError of anyone else is a fault of ours and keeps its traceback.
    """

    @wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        with as_cli_error():
            return function(*args, **options)

    return cast("F", wrapper)


@contextmanager
def as_cli_error(where: str = "") -> Iterator[None]:
    """Inside, malformed input and failing files become `CliError`; `where` begins the message."""
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
