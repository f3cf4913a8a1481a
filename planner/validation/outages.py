"""Outages of machines, occurrence by occurrence, from files.md's description only.

Visits dates one by one and shares no code with the Plan's computation of occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from planner.cluster.cluster import Cluster, Outage
from planner.cluster.recurrence import Recurrence
from rdl.oracle.periods import first_instant
from rdl.time_grid import TimeGrid

_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)


def away_steps(cluster: Cluster, grid: TimeGrid) -> Iterator[tuple[Outage, int, int]]:
    """Yield each outage with the steps [start, end) of each of its occurrences.

    A partly lost step counts as lost. Occurrences end with the grid.
    """
    for outage in cluster.outages:
        for start_ms, end_ms in _occurrences(outage, cluster.origin, grid.horizon_ms):
            yield outage, grid.floor(start_ms), grid.ceil(end_ms)


def _occurrences(
    outage: Outage, origin: datetime | None, horizon_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield an outage's occurrences in ms from the origin."""
    rule = outage.recurs
    if rule is None:
        yield outage.start_ms, outage.end_ms
        return
    last_ms = horizon_ms if rule.until_ms is None else min(horizon_ms, rule.until_ms)
    zone = ZoneInfo(rule.zone)
    base = datetime(2000, 1, 1, tzinfo=UTC) if origin is None else origin
    start, end = (base + ms * _MS for ms in (outage.start_ms, outage.end_ms))
    first, until = (one.astimezone(zone).replace(tzinfo=None) for one in (start, end))
    passed = 0
    while outage.start_ms < last_ms:
        shift = passed * _DAY
        begin, stop = start + shift, end + shift
        if origin is not None and passed:
            begin, stop = (first_instant(wall + shift, zone) for wall in (first, until))
            if stop <= begin:
                stop = begin + max(_MS, until - first)
        begin_ms, stop_ms = (begin - base) // _MS, (stop - base) // _MS
        if begin_ms >= last_ms:
            return
        day = (first + shift).date()
        due = passed % rule.days == 0 if rule.days else _is_day_of_month(day, first.date(), rule)
        if (
            due
            and day not in rule.without
            and (not rule.weekdays or day.weekday() in rule.weekdays)
        ):
            yield begin_ms, stop_ms if rule.until_ms is None else min(stop_ms, rule.until_ms)
        passed += 1


def _is_day_of_month(day: date, first: date, rule: Recurrence) -> bool:
    """Return whether an outage recurs on a date of its month."""
    if (12 * (day.year - first.year) + day.month - first.month) % rule.months:
        return False
    is_last = (day + _DAY).month != day.month
    if rule.day is None:
        return day.day == first.day or (is_last and day.day < first.day)
    number, weekday = rule.day.number, rule.day.weekday
    if weekday is None:
        return is_last if number < 0 else day.day == number or (is_last and day.day < number)
    if day.weekday() != weekday:
        return False
    if number < 0:
        return (day + 7 * _DAY).month != day.month
    return (day.day + 6) // 7 == number
