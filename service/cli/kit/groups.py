"""A click group that imports its commands only when they are called, and its exit codes.

`agenda --help` must not wait for NumPy or a compiler: the group knows only the names and the
one-line help texts of its commands.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from service.cli.kit.errors import ERROR, INTERRUPTED, STOPPED


class InterruptedEarlyError(click.ClickException):
    """^C was pressed before the command began."""

    exit_code = INTERRUPTED

    def __init__(self) -> None:
        super().__init__("stopped before it began")

    def show(self, file: Any = None) -> None:
        """Write one line to standard error."""
        click.echo(f"agenda: {self.format_message()}", file=file, err=True)


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """One command: its name, ``module:attribute``, one-line help, and section of the help."""

    name: str
    target: str
    help: str
    section: str = "Commands"

    def load(self) -> click.Command:
        """Import the module and return the command.

        Raises
        ------
        InterruptedEarlyError
            On ^C during the import: the command has not begun.
        """
        module, _, attribute = self.target.partition(":")
        try:
            command = getattr(importlib.import_module(module), attribute)
        except KeyboardInterrupt:
            raise InterruptedEarlyError from None
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group that imports a command when it is called."""

    def __init__(self, *args: Any, parts: Sequence[LazyCommand] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self._parts = {part.name: part for part in parts}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of their definition."""
        return [*self._parts, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None for an unknown name."""
        part = self._parts.get(cmd_name)
        return part.load() if part else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command; suggest similar names for an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from rdl.errors import nearest

            found = nearest(args[0], self.list_commands(ctx))
            if found is None:
                raise
            raise click.UsageError(f"{error.message} Did you mean {found!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands by section, with their one-line help texts."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for part in self._parts.values():
            sections.setdefault(part.section, []).append((part.name, part.help))
        width = max(len(name) for name in self._parts)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", line) for name, line in rows])


class AgendaGroup(LazyGroup):
    """The top-level group: turns results and exceptions of commands into exit codes and texts."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; in standalone mode (the default) exit with an `ExitCode`."""
        standalone = options.pop("standalone_mode", True)
        run = partial(super().main, *args, standalone_mode=False, **options)
        if not standalone:
            return run()
        _answer_in_any_locale()
        sys.exit(_code_of(run))


def _answer_in_any_locale() -> None:
    """Write UTF-8 to files and pipes, and replace characters that a terminal cannot show."""
    stdout = sys.stdout
    if not isinstance(stdout, io.TextIOWrapper):
        return
    if stdout.isatty():
        stdout.reconfigure(errors="replace")
    else:
        stdout.reconfigure(encoding="utf-8")


def _code_of(run: Callable[[], Any]) -> int:
    try:
        code = run()
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("stopped; nothing was written", err=True)
        return STOPPED
    except BrokenPipeError:
        # The reader closed the pipe (`agenda ... | head`): the rest of the output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    return code if isinstance(code, int) else 0
