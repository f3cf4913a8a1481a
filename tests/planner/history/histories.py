"""Histories of recurring jobs made by rule, without chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.history.run import JobRun, Stretch

DAY_S = 86_400
#: 2026-01-05T00:00:00Z, a Monday.
MONDAY_S = 1_767_571_200


def spread_values(
    count: int, least: float, most: float, turn: float = 0.6180339887498949
) -> list[float]:
    """Return values that fill a range evenly in no order: multiples of an irrational turn."""
    return [least + (most - least) * ((place * turn) % 1) for place in range(count)]


def rectangles(lengths: list[float], widths: list[int], gap_s: float = DAY_S) -> list[JobRun]:
    """Return one run after another, each of one width."""
    return [
        JobRun("job", MONDAY_S + 7200 + place * gap_s, (Stretch(length, width),))
        for place, (length, width) in enumerate(zip(lengths, widths, strict=True))
    ]


def daily_runs(days: int, length: Callable[[int], float], width: int = 8) -> Iterator[JobRun]:
    """Yield a run a day at 02:00 UTC, from a Monday on."""
    for day in range(days):
        began_s = MONDAY_S + day * DAY_S + 7200
        yield JobRun("nightly", began_s, (Stretch(length(day), width),))
