"""What commands print: one answer on standard output, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from service.cli.forms.layout import (
    ListColumn,
    change_layout,
    has_colour,
    present_layout,
    shown_places,
    sorted_numbers,
    terminal_width,
)
from service.cli.forms.table_text import table_text
from service.cli.terminal.errors import CliError
from service.cli.terminal.options import names

F = TypeVar("F", bound=Callable[..., Any])

TABLE, JSON, CSV = "table", "json", "csv"
WIDE = "wide"

_EVERY_S: Final = 2.0


def format_option(*forms: str) -> Callable[[F], F]:
    """Return the ``-o`` option, offering `forms` (table, JSON and CSV when none are given).

    Where there is a table there is a wide one; the command is given TABLE for both, and
    `print_listing` knows which.
    """
    given = forms or (TABLE, JSON, CSV)
    offered = [one for form in given for one in ((form, WIDE) if form == TABLE else (form,))]

    def nature(context: click.Context, _: click.Parameter, form: str) -> str:
        change_layout(context, wide=form == WIDE)
        return TABLE if form == WIDE else form

    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(offered),
        default=offered[0],
        show_default=True,
        callback=nature,
        help="How the answer is printed.",
    )


def listing_options(*forms: str) -> Callable[[F], F]:
    """Return the options of a command that lists: ``-o``, columns, order, and looking again.

    The command itself is told the form alone: `print_listing` does what the others say.
    """

    def decorate(function: F) -> F:
        @wraps(function)
        def listing(
            *args: Any,
            columns: tuple[str, ...] | None,
            sort: str | None,
            no_headers: bool,
            watch: float | None,
            **options: Any,
        ) -> Any:
            context = click.get_current_context()
            change_layout(context, columns=columns or (), sort=sort or "", headers=not no_headers)
            if watch is None:
                return function(*args, **options)
            return _again_and_again(lambda: function(*args, **options), watch)

        decorated: Any = listing
        for option in reversed(_LISTING_OPTIONS):
            decorated = option(decorated)
        return cast("F", format_option(*forms)(decorated))

    return decorate


#: How many entries a server is asked for, of lists that come page by page.
limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="List at most so many.",
)

_LISTING_OPTIONS: Final = (
    click.option(
        "--columns",
        type=names,
        metavar="NAMES",
        help="Show these columns of table, wide and csv, in this order: id,state.",
    ),
    click.option("--sort", metavar="NAME", help="Order by this column; -NAME: the largest first."),
    click.option("--no-headers", is_flag=True, help="Leave out the first lines of table and csv."),
    click.option(
        "--watch",
        is_flag=False,
        flag_value=_EVERY_S,
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help=f"Show it anew every SECONDS, until stopped; {_EVERY_S:g} where no number is given.",
    ),
)


def _again_and_again(show: Callable[[], Any], pause_s: float) -> Any:
    """Show something until ^C; a terminal shows the last answer alone.

    What fails at first ends it; later it is told, and tried again: servers are restarted.
    """
    code = None
    begun = False
    try:
        while True:
            if sys.stdout.isatty():
                click.clear()
            try:
                code = show()
                begun = True
            except CliError as error:
                if not begun:
                    raise
                error.show()
            sys.stdout.flush()
            time.sleep(pause_s)
    except KeyboardInterrupt:
        return code


def print_json(value: object) -> None:
    """Print one document: JSON, indented, keys in the order given."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


#: What a formula of a spreadsheet begins with, and a number that begins so too.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9_,.]*(e[+-]?[0-9]+)?%?", re.IGNORECASE | re.ASCII)


def print_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as CSV (RFC 4180 quoting, plain newlines); None is an empty field.

    A text that a spreadsheet would take for a formula has an apostrophe in front.
    """
    lines = [_csv_line(header)] if present_layout().headers else []
    lines += [_csv_line([_plain_cell(cell) for cell in row]) for row in rows]
    click.echo("".join(lines), nl=False)


def _csv_line(row: Sequence[object]) -> str:
    """Return a row with a plain newline; a carriage return inside it is quoted as a newline is."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(row)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def _plain_cell(cell: object) -> object:
    """Return a cell that is no formula; what reads as a number stays one."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table, cut to the terminal's width unless a wide one was asked for."""
    layout = present_layout()
    width = None if layout.wide else terminal_width()
    colour = has_colour()
    text = table_text(header, rows, width=width, colour=colour, headers=layout.headers)
    click.echo(text, nl=False)


def print_title(text: str) -> None:
    """Print the first line of a table, unless no headers are wanted."""
    if present_layout().headers:
        click.echo(f"{text}\n")


def print_listing(
    body: object,
    header: Sequence[str | ListColumn],
    rows: Sequence[Sequence[object]],
    form: str,
    nothing: str | None = None,
    title: str | None = None,
    listed: str | None = None,
) -> None:
    """Print a list in the form, the order and the columns asked for.

    Parameters
    ----------
    body
        What JSON shows: a list with an entry for each row, or an object with one such list.
    nothing
        What stands in place of a table without rows; its header without.
    title
        First line of a table: what it lists.
    listed
        Name of the list in an object that holds several.
    """
    layout = present_layout()
    columns = [ListColumn(one) if isinstance(one, str) else one for one in header]
    order = sorted_numbers(columns, rows, layout)
    places = shown_places(columns, layout, all_columns=form == CSV)
    shown = [[rows[number][place] for place in places] for number in order]
    if form == JSON:
        if layout.columns:
            raise click.UsageError("--columns is for table, wide and csv; a document has all")
        print_json(_ordered(body, order, listed))
    elif form == CSV:
        print_csv([columns[place].name for place in places], shown)
    elif rows or nothing is None:
        if title:
            print_title(title)
        print_table([columns[place].label or columns[place].name for place in places], shown)
    else:
        click.echo(nothing)


def _ordered(body: object, order: Sequence[int], listed: str | None) -> object:
    """Return a body with the list of its rows in another order; no other list is touched."""
    if isinstance(body, list):
        return [body[number] for number in order]
    if not isinstance(body, dict):
        return body
    name = listed or next(name for name, one in body.items() if isinstance(one, list))
    return {**body, name: [body[name][number] for number in order]}
