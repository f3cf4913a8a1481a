"""Instants and periods: offsets, submissions, RFC 3339 and civil days, in ms from the origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rdl.expressions import Absolute, AfterSubmission, Every, Instant
from rdl.time_grid import TimeGrid, TimeGridError

DAY_MS = 86_400_000

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a bare time counts from: the origin, or the start of a period.

    Attributes
    ----------
    start_ms
        Start in ms from the origin.
    day
        The start on the wall clock of `zone` (naive), where periods are civil days; then bare
        times are wall-clock times counted from it.
    zone
        The zone, or None where an hour is an hour.
    """

    start_ms: int = 0
    day: datetime | None = None
    zone: ZoneInfo | None = None


ORIGIN = Frame()


@dataclass(frozen=True, slots=True)
class Period:
    """One period, [start, end) in ms from the origin."""

    start_ms: int
    end_ms: int
    frame: Frame


def instant_ms(instant: Instant, frame: Frame, grid: TimeGrid, submitted_ms: int) -> int:
    """Return an instant in ms from the origin.

    Raises
    ------
    TimeGridError
        If it needs an origin that the grid lacks, or lies outside the calendar.
    """
    if isinstance(instant, AfterSubmission):
        return submitted_ms + instant.ms
    if isinstance(instant, Absolute):
        return grid.instant_ms(instant.at)
    if frame.zone is None or frame.day is None:
        return frame.start_ms + instant.ms
    try:
        wall = frame.day + instant.ms * _MS
        return grid.instant_ms(first_instant(wall, frame.zone))
    except OverflowError as error:
        raise TimeGridError("the time lies outside the calendar") from error


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the UTC instant at which the clocks of `zone` first show `wall` (naive) or later.

    A wall time that exists twice is the first of the two; one that clocks skip is the first
    instant after the gap.
    """
    late = (wall.replace(tzinfo=zone)).astimezone(UTC)
    if _wall(late, zone) == wall:
        return late
    # Skipped: the offset in force before the gap puts the instant past the change, the offset after
    # it before the change. Changes fall on whole seconds.
    early = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    before, seconds = early.replace(microsecond=0), 0
    step = int((late - before).total_seconds()) + 1
    changed = late.astimezone(zone).utcoffset()
    while step > 1:
        half = step // 2
        probe = before + timedelta(seconds=seconds + half)
        if probe.astimezone(zone).utcoffset() == changed:
            step = half
        else:
            seconds += half
            step -= half
    return before + timedelta(seconds=seconds + 1)


def _wall(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


def periods(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[Period]:
    """Yield period 0, 1, 2, ... without end.

    Period k is [anchor + kP, anchor + (k+1)P); in a zone, P in days from the civil day of the
    anchor.

    Raises
    ------
    TimeGridError
        If P is not a whole number of steps (of days, in a zone), or a zone meets a grid without an
        origin, or the calendar ends.
    """
    if every.zone is not None:
        yield from _civil_periods(every.period_ms, ZoneInfo(every.zone), anchor_ms, grid)
        return
    grid.period(every.period_ms)
    start = anchor_ms
    while True:
        yield Period(start, start + every.period_ms, Frame(start))
        start += every.period_ms


def _civil_periods(
    period_ms: int, zone: ZoneInfo, anchor_ms: int, grid: TimeGrid
) -> Iterator[Period]:
    if grid.origin is None:
        message = "this plan has no origin, so civil days cannot be placed in it"
        raise TimeGridError(message, "give the plan an origin, or leave the zone out")
    if period_ms < 1 or period_ms % DAY_MS:
        raise TimeGridError("a period in a zone is a whole number of days")
    try:
        days = timedelta(days=period_ms // DAY_MS)
        anchor = (grid.origin + anchor_ms * _MS).astimezone(zone)
        day = datetime(anchor.year, anchor.month, anchor.day)  # noqa: DTZ001 - a wall clock's
        start = grid.instant_ms(first_instant(day, zone))
        while True:
            end = grid.instant_ms(first_instant(day + days, zone))
            yield Period(start, end, Frame(start, day, zone))
            day, start = day + days, end
    except OverflowError as error:
        raise TimeGridError("the period lies outside the calendar") from error
