"""Commands that call a server: one decorator, declarative tables, one way to show an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import click

from service.cli.kit.errors import DONE, reports_errors
from service.cli.kit.options import Option
from service.cli.kit.output import (
    CSV,
    JSON,
    JSON_LINES,
    TABLE,
    ListColumn,
    format_option,
    instant_text,
    listing_options,
    local_text,
    print_csv,
    print_json,
    print_listing,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, client_options, completing

#: An entry of an answer as a JSON object.
Entry = Mapping[str, Any]


class Table:
    """The columns of a table of entries, declared once for all output forms.

    Parameters
    ----------
    names
        The columns: ``"id tenant start end names*"``; a star marks columns of wide tables only.
    times
        Those of `names` that are times. A table shows the instant that an entry has as ``NAME_at``
        or NAME, or seconds from the origin of its `submitted`, in the local time of a zone; CSV
        shows the value of NAME.
    headers
        Headers of columns, if they differ from the names.
    cells
        Functions that compute the values of columns that are no keys of an entry.
    """

    def __init__(
        self,
        names: str,
        times: str = "",
        headers: Mapping[str, str] | None = None,
        /,
        **cells: Callable[[Entry], object],
    ) -> None:
        self.columns = tuple(
            ListColumn(name.rstrip("*"), (headers or {}).get(name.rstrip("*"), ""), name[-1] == "*")
            for name in names.split()
        )
        self.names = tuple(column.name for column in self.columns)
        self._times = frozenset(times.split())
        self._cells = cells

    def row(self, entry: Entry, zone: str | None = None) -> list[object]:
        """Return an entry's row, with times in a zone; None leaves them unchanged."""
        return [self._cell(name, entry, zone) for name in self.names]

    def _cell(self, name: str, entry: Entry, zone: str | None) -> object:
        compute = self._cells.get(name)
        value = entry.get(name) if compute is None else compute(entry)
        if zone is None or name not in self._times:
            return value
        instant = entry.get(f"{name}_at") or value
        if isinstance(instant, str) and instant:
            return local_text(instant, 0, zone)
        return instant_text(entry, value, zone) if isinstance(value, int | float) else value

    def print(self, entries: Sequence[Entry], zone: str | None = None, title: str = "") -> None:
        """Print entries as an aligned table of all columns."""
        if title:
            print_title(title)
        labels = [column.label or column.name for column in self.columns]
        print_table(labels, [self.row(entry, zone) for entry in entries])

    def print_csv(self, entries: Sequence[Entry]) -> None:
        """Print entries as CSV."""
        print_csv(self.names, [self.row(entry) for entry in entries])


@dataclass(frozen=True, slots=True)
class Listing:
    """A list as the answer of a command.

    Attributes
    ----------
    body
        The JSON: the list, or an object that contains it as `listed` (or as its only list).
    entries, table
        The rows of the other forms.
    title
        First line of a table. If times are shown in the server's zone, the zone follows.
    empty
        Text that replaces a table without rows; None: its header.
    timed
        Whether times are shown in a zone.
    zone
        That zone; None: the zone of the server's cluster.
    after
        Printed below a table.
    """

    body: object
    entries: Sequence[Entry]
    table: Table
    title: str = ""
    empty: str | None = None
    listed: str | None = None
    timed: bool = True
    zone: str | None = None
    after: Callable[[], None] | None = None

    def show(self, form: str, server: Server | None) -> None:
        """Print the list in a form."""
        if form == JSON_LINES:
            for entry in self.entries:
                click.echo(json.dumps(entry, ensure_ascii=False))
            return
        zone = None
        if self.timed and form == TABLE:
            zone = self.zone or (None if server is None else server.zone())
        rows = [self.table.row(entry, zone) for entry in self.entries]
        title = self.title if zone is None else f"{self.title}; {zone_line(zone)}"
        print_listing(
            self.body, self.table.columns, rows, form, self.empty, title or None, self.listed
        )
        if self.after is not None and form == TABLE:
            self.after()


@dataclass(frozen=True, slots=True)
class Answer:
    """A single object as the answer of a command.

    Attributes
    ----------
    body
        The JSON.
    text
        Prints it as text.
    csv
        Prints it as CSV, for commands that offer that.
    code
        The exit code.
    after
        Writes files; called after printing, even if that failed. So neither an unwritable file nor
        a closed pipe loses minutes of work.
    """

    body: object
    text: Callable[[], None]
    csv: Callable[[], None] | None = None
    code: int = DONE
    after: Callable[[], None] | None = None

    def show(self, form: str, _server: Server | None) -> int:
        """Print the answer in a form; return the exit code."""
        try:
            if form == JSON:
                print_json(self.body)
            elif form == CSV and self.csv is not None:
                self.csv()
            else:
                self.text()
        finally:
            if self.after is not None:
                self.after()
        return self.code


def server_command(
    group: click.Group | None,
    name: str,
    *options: Option,
    forms: tuple[str, ...] = (TABLE, JSON),
    lists: bool = False,
    offline: bool = False,
    shows_itself: bool = False,
    short_help: str | None = None,
    epilog: str | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return the decorator of a command that calls a server.

    The function gets `server` and the values of its options, and returns the output: a
    `Listing`, an `Answer`, or an exit code if it has printed everything itself. Exceptions for bad
    input and failed calls become messages.

    Parameters
    ----------
    group
        The group of the command; None: `main` adds it.
    options
        Its own arguments and options, in the order of its help.
    forms
        The choices of ``-o``; none: the command has no ``-o``.
    lists
        Whether it lists entries: it has the options of lists, and `forms` begins with their forms.
    offline
        Whether it calls no server.
    shows_itself
        Whether it gets `form` and prints everything itself, such as output line by line.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def run(form: str = TABLE, **given: Any) -> int:
            shown = function(**given, form=form) if shows_itself else function(**given)
            if isinstance(shown, Listing | Answer):
                return shown.show(form, given.get("server")) or DONE
            return shown if isinstance(shown, int) else DONE

        decorated: Any = reports_errors(run)
        if lists:
            decorated = listing_options(*(forms if forms != (TABLE, JSON) else ()))(decorated)
        elif forms:
            decorated = format_option(*forms)(decorated)
        if not offline:
            decorated = client_options(decorated)
        for option in reversed(options):
            decorated = option(decorated)
        command: click.Command = click.command(name, short_help=short_help, epilog=epilog)(
            decorated
        )
        if group is not None:
            group.add_command(command)
        return command

    return decorate


def id_of(kind: str) -> Option:
    """Return the argument ID, completed with the ids of a kind on the server."""
    return click.argument("id_", metavar="ID", shell_complete=completing(kind))


def tenant_option(text: str = "Tenant of the request.") -> Option:
    """Return the option `--tenant`, completed with the server's tenants."""
    return click.option("--tenant", shell_complete=completing("tenant"), help=text)


def queue_option(text: str = "Queue of the request.") -> Option:
    """Return the option `--queue`, completed with the server's queues."""
    return click.option("--queue", shell_complete=completing("queue"), help=text)


def flag(name: str, text: str) -> Option:
    """Return an option without a value."""
    return click.option(name, is_flag=True, help=text)


#: All output forms.
ALL_FORMS: Final = (TABLE, JSON, CSV)

#: The option with which a command only shows what would happen.
DRY_RUN: Final = flag("--dry-run", "Show what the answer would be and change nothing.")


def given(**options: object) -> dict[str, Any]:
    """Return the options that were given, repeatable ones as lists."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value is not False and value != ()
    }


def dry_run_query(dry_run: bool, **more: object) -> dict[str, object]:
    """Return the query of a call that may be a dry run."""
    return {"dry_run": "true" if dry_run else None, **more}
