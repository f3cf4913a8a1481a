"""Aligned tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from service.pictures.style import cell_text

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
        Whether the names of the columns stand above.
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
    widths = [max(len(row[column]) for row in lines) for column in range(len(lines[0]))]
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
        short = text if len(text) <= width else f"{text[: width - 1]}…"
        padded = short.rjust(width) if numeric else short.ljust(width)
        tone = _COLOURS.get(text) if coloured else None
        cells.append(padded if tone is None else click.style(padded, fg=tone))
    return _APART.join(cells).rstrip() + "\n"


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
