"""Instants and periods: offsets, submissions, RFC 3339 and civil days, in ms from the origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from rdl.expressions import Absolute, AfterSubmission, Every, Instant, TimeOfDay, Window
from rdl.time_grid import GIVE_AN_ORIGIN, TimeGrid, TimeGridError

DAY_MS = 86_400_000

#: What is said of a time of day that no zone stands around.
NO_ZONE = "a time of day needs a zone"
ADD_A_ZONE = 'write zone="Europe/Paris" beside it, or in the every around it'

_MS = timedelta(milliseconds=1)
_DAY = timedelta(days=1)


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
    in_period
        Whether it is a period; else bare times count from the origin.
    """

    start_ms: int = 0
    day: datetime | None = None
    zone: ZoneInfo | None = None
    in_period: bool = False


ORIGIN = Frame()


@dataclass(frozen=True, slots=True)
class Period:
    """One period, [start, end) in ms from the origin."""

    start_ms: int
    end_ms: int
    frame: Frame


def window_ms(
    window: Window, frame: Frame, grid: TimeGrid, submitted_ms: int
) -> tuple[int | None, int]:
    """Return [start, end) of a window in ms from the origin; no start is None.

    A time of day as the start is the first at or after the start of the period around it, else the
    submission; as the end the first after the start.

    Raises
    ------
    TimeGridError
        If it needs an origin that the grid lacks, or lies outside the calendar.
    """
    start: int | None = None
    base = frame.start_ms if frame.in_period else submitted_ms
    if isinstance(window.start, TimeOfDay):
        start = clock_ms(window.start, _zone_of(window, frame), base, grid)
    elif window.start is not None:
        start = instant_ms(window.start, frame, grid, submitted_ms)
    if isinstance(window.end, TimeOfDay):
        after = (base if start is None else start) + 1
        return start, clock_ms(window.end, _zone_of(window, frame), after, grid)
    return start, instant_ms(window.end, frame, grid, submitted_ms)


def _zone_of(window: Window, frame: Frame) -> ZoneInfo:
    if window.zone is not None:
        return ZoneInfo(window.zone)
    if frame.zone is None:
        raise TimeGridError(NO_ZONE, ADD_A_ZONE)
    return frame.zone


def clock_ms(time: TimeOfDay, zone: ZoneInfo, base_ms: int, grid: TimeGrid) -> int:
    """Return the first instant at or after `base_ms` at which clocks of `zone` show a time.

    Each day has one: the first of two where clocks go back, the end of the gap where they skip it.

    Raises
    ------
    TimeGridError
        If the grid has no origin, or the time lies outside the calendar.
    """
    try:
        day = _day_of(base_ms, zone, grid) - _DAY
        while True:
            found = grid.instant_ms(first_instant(day + time.ms * _MS, zone))
            if found >= base_ms:
                return found
            day += _DAY
    except OverflowError as error:
        raise TimeGridError("the time lies outside the calendar") from error


def _day_of(ms: int, zone: ZoneInfo, grid: TimeGrid) -> datetime:
    """Return the midnight (naive) that begins the civil day of an instant."""
    if grid.origin is None:
        message = "this plan has no origin, so times of day cannot be placed in it"
        raise TimeGridError(message, GIVE_AN_ORIGIN)
    local = (grid.origin + ms * _MS).astimezone(zone)
    return datetime(local.year, local.month, local.day)  # noqa: DTZ001 - a wall clock's


def instant_ms(instant: Instant, frame: Frame, grid: TimeGrid, submitted_ms: int) -> int:
    """Return an instant in ms from the origin.

    Raises
    ------
    TimeGridError
        If it needs an origin that the grid lacks, or lies outside the calendar, or is a time of
        day, which only a window or an anchor can be.
    """
    if isinstance(instant, TimeOfDay):
        raise TimeGridError("a time of day stands in a window or as an anchor")
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
    anchor, or from the last time of day at or before it that the anchor says. Days of the week and
    dates that do not count are left out.

    Raises
    ------
    TimeGridError
        If P is not a whole number of steps (of days, in a zone), or a zone meets a grid without an
        origin, or the calendar ends.
    """
    if every.zone is not None:
        yield from _civil_periods(every, ZoneInfo(every.zone), anchor_ms, grid)
        return
    grid.period(every.period_ms)
    start = anchor_ms
    while True:
        yield Period(start, start + every.period_ms, Frame(start, in_period=True))
        start += every.period_ms


def _civil_periods(
    every: Every, zone: ZoneInfo, anchor_ms: int, grid: TimeGrid
) -> Iterator[Period]:
    if grid.origin is None:
        message = "this plan has no origin, so civil days cannot be placed in it"
        raise TimeGridError(message, "give the plan an origin, or leave the zone out")
    if every.period_ms < 1 or every.period_ms % DAY_MS:
        raise TimeGridError("a period in a zone is a whole number of days")
    without = frozenset(every.without)
    try:
        days = timedelta(days=every.period_ms // DAY_MS)
        day = _day_of(anchor_ms, zone, grid)
        if isinstance(every.anchor, TimeOfDay):
            day += every.anchor.ms * _MS
            if grid.instant_ms(first_instant(day, zone)) > anchor_ms:
                day -= _DAY
        start = grid.instant_ms(first_instant(day, zone))
        while True:
            end = grid.instant_ms(first_instant(day + days, zone))
            counts = every.days is None or day.weekday() in every.days
            if counts and day.date() not in without:
                yield Period(start, end, Frame(start, day, zone, in_period=True))
            day, start = day + days, end
    except OverflowError as error:
        raise TimeGridError("the period lies outside the calendar") from error
