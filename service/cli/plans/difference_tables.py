"""What became of each request between two Plans, as rows: what was lost stands first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from rdl.local_time import UTC_ZONE
from service.cli.forms.layout import present_layout
from service.cli.forms.local_times import local_text, zone_line
from service.cli.terminal.output import print_table, print_title

#: Most rows of a table on a terminal.
_SHOWN: Final = 50

#: Fates in the order of rows: losses, which no cut of a long table may hide, then what was won.
_WORST_FIRST: Final = (
    "lost", "gone", "degraded", "gained", "added", "restored", "changed", "moved",
    "relocated",
)  # fmt: skip


#: Columns of a difference; `moved` is in bundle-seconds.
HEADER: Final = (
    "id", "fate", "before", "after", "start before", "start after", "end before", "end after",
    "moved",
)  # fmt: skip

#: Those that 80 columns hold.
_NARROW: Final = ("id", "fate", "start before", "start after", "moved")


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
    ordered = sorted(
        difference["requests"], key=lambda x: (_WORST_FIRST.index(x["fate"]), -x["moved"])
    )
    origin = difference.get("origin") if calendar else None
    zone = difference.get("zone", UTC_ZONE)
    rows: list[list[object]] = []
    for x in ordered:
        times: list[Any] = [*x["start"], *x["end"]]
        if origin is not None:
            times = [None if at is None else local_text(origin, at, zone) for at in times]
        rows.append([x["id"], x["fate"], x["before"], x["after"], *times, x["moved"]])
    return HEADER, rows


def print_differences(difference: Mapping[str, Any]) -> None:
    """Print how many met each fate, and the first of their rows as a table."""
    counts = difference["counts"].items()
    counted = [f"{count:,} {fate}" for fate, count in counts if count]
    click.echo(", ".join([*counted, f"{difference['same']:,} the same"]))
    header, rows = difference_rows(difference, calendar=True)
    if rows:
        told = difference.get("origin")
        times = "times in seconds from the origin"
        if told is not None:
            times = zone_line(difference.get("zone", UTC_ZONE))
        click.echo()
        print_title(f"{times}; moved: work that stands elsewhere, bundle-seconds")
        names = header if present_layout().wide else _NARROW
        places = [header.index(name) for name in names]
        print_table(names, [[row[place] for place in places] for row in rows[:_SHOWN]])
    if len(rows) > _SHOWN:
        click.echo(f"... and {len(rows) - _SHOWN:,} more")
