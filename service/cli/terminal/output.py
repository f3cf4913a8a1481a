"""What commands print: one answer on standard output, as a table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from rdl.durations import rfc3339_text
from service.pictures.style import cell_text

F = TypeVar("F", bound=Callable[..., Any])

TABLE, JSON, CSV = "table", "json", "csv"


def format_option(*forms: str) -> Callable[[F], F]:
    """Return the ``-o`` option, offering `forms` (all three when none are given)."""
    offered = forms or (TABLE, JSON, CSV)
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(offered),
        default=offered[0],
        show_default=True,
        help="How the answer is printed.",
    )


def print_json(value: object) -> None:
    """Print one JSON document, indented, keys in the order given."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as CSV (RFC 4180 quoting, plain newlines); None is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    click.echo(buffer.getvalue(), nl=False)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table: numbers to the right, text to the left; None is a dash."""
    click.echo(table_text(header, rows), nl=False)


def print_listing(
    body: object,
    header: Sequence[str],
    rows: Sequence[Sequence[object]],
    form: str,
    nothing: str | None = None,
) -> None:
    """Print a list in the form asked for.

    Parameters
    ----------
    body
        What JSON shows.
    nothing
        What stands in place of a table without rows; its header without.
    """
    if form == JSON:
        print_json(body)
    elif form == CSV:
        print_csv(header, rows)
    elif rows or nothing is None:
        print_table(header, rows)
    else:
        click.echo(nothing)


def table_text(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return what :func:`print_table` prints."""
    cells = [list(header), *([_printable(cell_text(value)) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    right = [_is_numeric([row[column] for row in rows]) for column in range(len(header))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def _printable(text: str) -> str:
    """Return a name that steers no terminal and keeps its row: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _is_numeric(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(value, int | float) for value in present)


def moved_text(instant: str, seconds: float) -> str:
    """Return an instant so many seconds later, both RFC 3339."""
    later = timedelta(milliseconds=round(1000 * seconds))
    return rfc3339_text(datetime.fromisoformat(instant) + later)
