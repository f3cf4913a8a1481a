"""What was asked of a list: which columns, in which order, how wide, how often."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from rdl.errors import nearest

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
    """What the options of a list say."""

    wide: bool = False
    columns: tuple[str, ...] = ()
    sort: str = ""
    headers: bool = True


def present_layout() -> Layout:
    """Return what the command that runs was asked for."""
    context = click.get_current_context(silent=True)
    layout = None if context is None else context.meta.get(_KEY)
    return layout if isinstance(layout, Layout) else Layout()


def change_layout(context: click.Context, **changes: Any) -> None:
    """Note what an option says."""
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
        If one that was asked for is not there.
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
    """Return how many characters a line of standard output holds; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def has_colour() -> bool:
    """Return whether standard output shows colours and nobody asked for none (NO_COLOR)."""
    asked = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return sys.stdout.isatty() and asked
