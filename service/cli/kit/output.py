"""The output of commands: one answer on standard output, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Final, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from rdl.errors import nearest
from rdl.local_time import UTC_ZONE
from service.cli.kit.errors import CliError
from service.cli.kit.options import names
from service.pictures.style import cell_text

_KEY: Final = "agenda.layout"


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of a list.

    Attributes
    ----------
    name
        As CSV, ``--columns`` and ``--sort`` have it.
    label
        As a table has it, with the unit; the name when empty.
    is_wide
        Whether a table shows it only with ``-o wide``.
    """

    name: str
    label: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Values of the options of a list."""

    wide: bool = False
    columns: tuple[str, ...] = ()
    sort: str = ""
    headers: bool = True


def present_layout() -> Layout:
    """Return the output options of the running command."""
    context = click.get_current_context(silent=True)
    layout = None if context is None else context.meta.get(_KEY)
    return layout if isinstance(layout, Layout) else Layout()


def change_layout(context: click.Context, **changes: Any) -> None:
    """Store the value of an option."""
    context.meta[_KEY] = replace(context.meta.get(_KEY, Layout()), **changes)


def sorted_numbers(
    header: Sequence[ListColumn], rows: Sequence[Sequence[object]], layout: Layout
) -> list[int]:
    """Return the numbers of the rows in the order asked for; entries without a value come last.

    Raises
    ------
    click.UsageError
        If there is no such column.
    """
    numbers = list(range(len(rows)))
    if not layout.sort:
        return numbers
    descending = layout.sort.startswith("-")
    at = _place(header, layout.sort.removeprefix("-"), "--sort")
    known = [number for number in numbers if rows[number][at] is not None]
    unknown = [number for number in numbers if rows[number][at] is None]
    if all(isinstance(rows[number][at], int | float) for number in known):
        known.sort(key=lambda number: float(str(rows[number][at])), reverse=descending)
    else:
        known.sort(key=lambda number: str(rows[number][at]), reverse=descending)
    return known + unknown


def shown_places(header: Sequence[ListColumn], layout: Layout, *, all_columns: bool) -> list[int]:
    """Return the places of the columns to show.

    Raises
    ------
    click.UsageError
        If one that was requested is not there.
    """
    if layout.columns:
        return [_place(header, name, "--columns") for name in layout.columns]
    wide = all_columns or layout.wide
    return [place for place, column in enumerate(header) if wide or not column.is_wide]


def _place(header: Sequence[ListColumn], name: str, option: str) -> int:
    names = [column.name for column in header]
    if name not in names:
        advice = nearest(name, names) or ", ".join(names)
        raise click.UsageError(f"{option}: there is no column {name!r}; write {advice}")
    return names.index(name)


def terminal_width() -> int | None:
    """Return how many characters a line of standard output holds; None if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def has_colour() -> bool:
    """Return whether standard output shows colours and NO_COLOR is not set."""
    asked = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return sys.stdout.isatty() and asked


def common_zone(entries: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the zone in which all entries are read, or None if they differ.

    An entry says its `zone`: that of its request, else the cluster's; without one it is UTC.
    """
    zones = {entry.get("zone", UTC_ZONE) for entry in entries}
    return next(iter(zones or {UTC_ZONE})) if len(zones) < 2 else None


def zone_line(zone: str | None) -> str:
    """Return the line that says how times are to be read."""
    return "times with their offset from UTC" if zone is None else f"times in {zone}"


def local_text(
    instant: str, seconds: float = 0, zone: str = UTC_ZONE, *, with_offset: bool = False
) -> str:
    """Return an RFC 3339 instant, this many seconds later, by the clock of a zone.

    ``2026-11-23 18:12``, with seconds where they are not 0, and ``+01:00`` if the offset is wanted.
    Fractions of a second are left out; JSON and CSV have them.
    """
    at = datetime.fromisoformat(instant) + timedelta(milliseconds=round(1000 * seconds))
    local = at.astimezone(_zone(zone))
    parts = local.strftime("%Y-%m-%d %H:%M:%S" if local.second else "%Y-%m-%d %H:%M")
    offset = local.strftime("%z")
    return f"{parts} {offset[:3]}:{offset[3:]}" if with_offset else parts


def instant_text(entry: Mapping[str, Any], seconds: float | None, zone: str | None) -> Any:
    """Return a time of an entry by the clock of a zone; None is the entry's own, with its offset.

    It stays seconds if the server has no calendar.
    """
    if seconds is None or "submitted_at" not in entry:
        return seconds
    later = seconds - entry["submitted"]
    own = entry.get("zone", UTC_ZONE) if zone is None else zone
    return local_text(entry["submitted_at"], later, own, with_offset=zone is None)


def _zone(name: str) -> ZoneInfo:
    """Return a zone; UTC where this machine does not know the name that a server says."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo(UTC_ZONE)


_APART: Final = "  "

#: Characters that a column keeps when a table is wider than the terminal.
_LEAST: Final = 8

#: Columns whose words have colours, and those words.
_COLOURED: Final = frozenset({"state", "fate"})
_COLOURS: Final = {
    "refused": "red",
    "failed": "red",
    "degraded": "yellow",
    "active": "green",
    "restored": "green",
}


def table_text(
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    width: int | None = None,
    colour: bool = False,
    headers: bool = True,
) -> str:
    """Return an aligned table: numbers to the right, text to the left; None is a dash.

    Parameters
    ----------
    width
        Characters of a line; the widest texts but those of the first column are cut to fit. None:
        nothing is cut.
    headers
        Whether the table has a header.
    """
    cells = [[printable(cell_text(value)) for value in row] for row in rows]
    lines = [list(header), *cells] if headers else cells
    if not lines:
        return ""
    right = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    widths = _fitting(lines, right, width)
    colours = [colour and name in _COLOURED for name in header]
    return "".join(_line(row, widths, right, colours) for row in lines)


def _fitting(lines: Sequence[Sequence[str]], right: Sequence[bool], width: int | None) -> list[int]:
    """Return the widths of the columns, those of the widest texts cut until a line fits."""
    widths = [max(_width(row[column]) for row in lines) for column in range(len(lines[0]))]
    if width is None:
        return widths
    over = sum(widths) + len(_APART) * (len(widths) - 1) - width
    while over > 0:
        may = [place for place in range(1, len(widths)) if not right[place]]
        widest = max(may, key=lambda place: widths[place], default=None)
        if widest is None or widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
        over -= 1
    return widths


def _line(
    row: Sequence[str], widths: Sequence[int], right: Sequence[bool], colours: Sequence[bool]
) -> str:
    cells = []
    for text, width, numeric, coloured in zip(row, widths, right, colours, strict=True):
        short = text
        while _width(short) > width:
            short = f"{short.removesuffix('…')[:-1]}…"
        blank = " " * (width - _width(short))
        padded = blank + short if numeric else short + blank
        tone = _COLOURS.get(text) if coloured else None
        cells.append(padded if tone is None else click.style(padded, fg=tone))
    return _APART.join(cells).rstrip() + "\n"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: wide letters two, marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def printable(text: str, kept: str = "") -> str:
    """Return a name that steers no terminal and keeps its row: control characters are escaped.

    Those that are `kept`, such as line breaks of a text of several lines, stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else ascii(one)[1:-1] for one in text)


def _is_numeric(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) for value in present)


F = TypeVar("F", bound=Callable[..., Any])

TABLE, JSON, CSV = "table", "json", "csv"
WIDE = "wide"

#: One JSON object a line, which other tools read as it comes.
JSON_LINES: Final = "jsonl"

_EVERY_S: Final = 2.0


def format_option(*forms: str) -> Callable[[F], F]:
    """Return the ``-o`` option, offering `forms` (table, JSON and CSV when none are given).

    Every table has a wide form; the command gets TABLE for both, and `print_listing`
    distinguishes them.
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
        help="Output format.",
    )


def listing_options(*forms: str) -> Callable[[F], F]:
    """Return the options of a command that lists: ``-o``, columns, order, and looking again.

    The command itself is given only the form: `print_listing` applies the others. After a
    table, problems of the server's cluster are printed to standard error.
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

            def show() -> Any:
                code = function(*args, **options)
                server = options.get("server")  # none of a list that is read from a database
                line = server.attention() if server and options["form"] == TABLE else ""
                if line:
                    click.echo(line, err=True)
                return code

            return show() if watch is None else _again_and_again(show, watch)

        decorated: Any = listing
        for option in reversed(_LISTING_OPTIONS):
            decorated = option(decorated)
        return cast("F", format_option(*forms)(decorated))

    return decorate


#: How many entries a server is requested, of lists that come page by page.
limit_option: Final = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Maximum number of lines.",
)

_LISTING_OPTIONS: Final = (
    click.option(
        "--columns",
        type=names,
        metavar="NAMES",
        help="Show these columns of table, wide and csv, in this order: id,state.",
    ),
    click.option("--sort", metavar="NAME", help="Sort by this column; -NAME: largest first."),
    click.option("--no-headers", is_flag=True, help="Leave out the first lines of table and csv."),
    click.option(
        "--watch",
        is_flag=False,
        flag_value=_EVERY_S,
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help=f"Repeat every SECONDS until stopped; default: {_EVERY_S:g}.",
    ),
)


def _again_and_again(show: Callable[[], Any], pause_s: float) -> Any:
    """Show something until ^C; a terminal shows only the last answer.

    An error of the first call ends the command; later errors are reported and the call is retried,
    because servers restart.
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
    """Return a cell that is not a formula; numbers stay numbers."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table, cut to the terminal's width unless a wide one was requested."""
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
        The JSON document: a list with an entry for each row, or an object with one such list.
    nothing
        Text that replaces a table without rows; default: its header.
    title
        First line of a table, its title.
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
            raise click.UsageError(
                "--columns applies to table, wide and csv; json always has all columns"
            )
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
