"""What became of each request between two Plans, as rows: what was lost stands first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from service.cli.terminal.output import moved_text, print_table

#: Most rows of a table on a terminal.
_SHOWN: Final = 50

#: Fates in the order of rows: losses, which no cut of a long table may hide, then what was won.
_WORST_FIRST: Final = (
    "lost", "gone", "degraded", "gained", "added", "restored", "changed", "moved",
    "relocated",
)  # fmt: skip


def difference_rows(
    difference: Mapping[str, Any], *, calendar: bool = False
) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return header and one row a request that differs between two Plans.

    Losses come first; those of one fate by the work they moved, most first, then in plan order.

    Parameters
    ----------
    calendar
        Times as instants where a server told its origin; else as seconds from the Plan's origin.
    """
    header = ("id", "fate", "before", "after", "start before", "start after", "end before",
              "end after", "moved")  # fmt: skip
    ordered = sorted(
        difference["requests"], key=lambda x: (_WORST_FIRST.index(x["fate"]), -x["moved"])
    )
    origin = difference.get("origin") if calendar else None
    rows: list[list[object]] = []
    for x in ordered:
        times: list[Any] = [*x["start"], *x["end"]]
        if origin is not None:
            times = [None if at is None else moved_text(origin, at) for at in times]
        rows.append([x["id"], x["fate"], x["before"], x["after"], *times, x["moved"]])
    return header, rows


def print_differences(difference: Mapping[str, Any]) -> None:
    """Print how many met each fate, and the first of their rows as a table."""
    counts = difference["counts"].items()
    counted = [f"{count:,} {fate}" for fate, count in counts if count]
    click.echo(", ".join([*counted, f"{difference['same']:,} the same"]))
    header, rows = difference_rows(difference, calendar=True)
    if rows:
        click.echo()
        print_table(header, rows[:_SHOWN])
    if len(rows) > _SHOWN:
        click.echo(f"... and {len(rows) - _SHOWN:,} more")
