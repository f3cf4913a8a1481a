"""Times for people: in the zone that a request names, else in that of its plan."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from rdl.expressions import Every, Expression, Window, children_of
from rdl.time_grid import TimeGrid, duration_text

#: The zone of times if neither the request nor the plan names one.
UTC_ZONE: Final = "UTC"


def zone_named(expression: Expression) -> str | None:
    """Return the first time zone that a request names, or None."""
    pending = [expression]
    while pending:
        here = pending.pop()
        if isinstance(here, Every | Window) and here.zone is not None:
            return here.zone
        pending.extend(reversed(children_of(here)))
    return None


def zone_of_text(text: str) -> str | None:
    """Return the first time zone that a canonical text names; None also if it is unreadable."""
    return _zone_of_text(text) if "zone=" in text else None


@lru_cache(maxsize=256)
def _zone_of_text(text: str) -> str | None:
    from rdl.errors import RdlError
    from rdl.text.parser import parse

    try:
        return zone_named(parse(text))
    except RdlError:
        return None


def local_instant(ms: int, grid: TimeGrid, zone: str | None = None) -> datetime:
    """Return ms from the origin as an instant in a zone; None is the zone of the plan.

    Raises
    ------
    TimeGridError
        If the grid has no origin.
    """
    return grid.instant_at(ms).astimezone(ZoneInfo(zone or grid.zone or UTC_ZONE))


def clock_words(at: datetime) -> str:
    """Return an instant as local time of its own zone: ``Mon 2026-11-23 18:12``."""
    seconds = ":%S" if at.second or at.microsecond else ""
    words = at.strftime(f"%a %Y-%m-%d %H:%M{seconds}")
    return f"{words}.{at.microsecond // 1000:03d}" if at.microsecond else words


def time_words(ms: int, grid: TimeGrid, zone: str | None = None) -> str:
    """Return a time with its zone:

    ``Mon 2026-11-23 18:12 (Europe/Berlin)``. If the plan has no origin, it is the offset: ``1h30m
    from the origin``, ``the origin``.
    """
    if grid.origin is None:
        if ms == 0:
            return "the origin"
        side = "from" if ms >= 0 else "before"
        return f"{duration_text(abs(ms))} {side} the origin"
    name = zone or grid.zone or UTC_ZONE
    return f"{clock_words(local_instant(ms, grid, name))} ({name})"


def span_words(start_ms: int, end_ms: int, grid: TimeGrid, zone: str | None = None) -> str:
    """Return a time span with its zone:

    ``Mon 2026-11-23 17:23 to 22:30 (Europe/Berlin)``. If the plan has no origin: ``from 2h to 5h30m
    after the origin``.
    """
    if grid.origin is None:
        start, end = (f"-{duration_text(-ms)}" if ms < 0 else duration_text(ms)
                      for ms in (start_ms, end_ms))  # fmt: skip
        return f"from {start} to {end} after the origin"
    name = zone or grid.zone or UTC_ZONE
    first, last = (local_instant(ms, grid, name) for ms in (start_ms, end_ms))
    end = clock_words(last)
    if first.date() == last.date():
        end = end.split()[-1]
    return f"{clock_words(first)} to {end} ({name})"
