"""Instants and periods: offsets, submissions, RFC 3339 and civil days, in ms from the origin."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from rdl.expressions import (
    Absolute,
    AfterSubmission,
    Every,
    Instant,
    MonthDay,
    Offset,
    TimeOfDay,
    Window,
)
from rdl.time_grid import GIVE_AN_ORIGIN, TimeGrid, TimeGridError

DAY_MS = 86_400_000

#: Message for a time of day without a zone around it.
NO_ZONE = "a time of day needs a zone"
ADD_A_ZONE = 'write zone="Europe/Paris" in its window or every, or zone in the cluster file'

_MS = timedelta(milliseconds=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Frame:
    """The reference of relative times: the origin, or the start of a period.

    Attributes
    ----------
    start_ms
        Start in ms from the origin.
    day
        The start on the wall clock of `zone` (naive), if periods are civil days; then relative
        times are wall-clock times counted from it.
    zone
        The zone, or None for elapsed time.
    in_period
        Whether it is a period; else relative times count from the origin.
    """

    start_ms: int = 0
    day: datetime | None = None
    zone: ZoneInfo | None = None
    in_period: bool = False

    def changes(self, grid: TimeGrid) -> bool:
        """Return whether the clock changes in the civil day that starts here."""
        if self.day is None or self.zone is None:
            return False
        next_day = grid.instant_ms(first_instant(self.day + _DAY, self.zone))
        return next_day - self.start_ms != DAY_MS


ORIGIN = Frame()


@dataclass(frozen=True, slots=True)
class Period:
    """One period, [start, end) in ms from the origin."""

    start_ms: int
    end_ms: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound of a window: ms from the origin, and the wall-clock time as written.

    `wall` is naive, and None if the bound is no wall-clock time; `zone` is its zone.
    """

    ms: int
    wall: datetime | None = None
    zone: ZoneInfo | None = None


def window_ms(
    window: Window, frame: Frame, grid: TimeGrid, submitted_ms: int
) -> tuple[int | None, int]:
    """Return [start, end) of a window in ms from the origin; the start is None without one.

    A time of day as the start is the first at or after the start of the enclosing period, else of
    the submission; as the end it is the next one on the clock after the start. A window that lies
    entirely in a skipped hour has its written length right after the gap.

    Raises
    ------
    TimeGridError
        If it needs an origin that the grid lacks, or lies outside the calendar.
    """
    base = frame.start_ms if frame.in_period else submitted_ms
    if window.start is None:
        if isinstance(window.end, TimeOfDay):
            return None, _next_clock(window.end, _zone_of(window, frame), base + 1, grid).ms
        return None, instant_ms(window.end, frame, grid, submitted_ms)
    try:
        start = _bound(window, window.start, frame, base, grid, submitted_ms)
        if not isinstance(window.end, TimeOfDay):
            end = _bound(window, window.end, frame, base, grid, submitted_ms)
        elif (zone := _zone_of(window, frame)) == start.zone and start.wall is not None:
            end = _clock_after(start.wall, window.end, zone, grid)
        else:
            end = _next_clock(window.end, zone, start.ms + 1, grid)
    except OverflowError as error:
        raise TimeGridError("the time lies outside the calendar") from error
    if start.wall is None or end.wall is None or start.zone != end.zone:
        return start.ms, end.ms
    if end.ms <= start.ms and end.wall > start.wall:  # the clock skips all of it
        return start.ms, start.ms + (end.wall - start.wall) // _MS
    return start.ms, end.ms


def _bound(
    window: Window, instant: Instant, frame: Frame, base_ms: int, grid: TimeGrid, submitted_ms: int
) -> _Bound:
    if isinstance(instant, TimeOfDay):
        zone = _zone_of(window, frame)
        if frame.day is not None and zone == frame.zone:
            return _clock_after(frame.day - _MS, instant, zone, grid)
        return _next_clock(instant, zone, base_ms, grid)
    ms = instant_ms(instant, frame, grid, submitted_ms)
    if isinstance(instant, Offset) and frame.day is not None:
        return _Bound(ms, frame.day + instant.ms * _MS, frame.zone)
    return _Bound(ms)


def _zone_of(window: Window, frame: Frame) -> ZoneInfo:
    if window.zone is not None:
        return ZoneInfo(window.zone)
    if frame.zone is None:
        raise TimeGridError(NO_ZONE, ADD_A_ZONE)
    return frame.zone


def _next_clock(time: TimeOfDay, zone: ZoneInfo, base_ms: int, grid: TimeGrid) -> _Bound:
    """Return the first instant at or after `base_ms` with a time of day in `zone`.

    Each day has one: the first of two when the clock goes back, the end of the gap when it skips
    the time.
    """
    try:
        wall = _day_of(base_ms, zone, grid) - _DAY + time.ms * _MS
        while (found := grid.instant_ms(first_instant(wall, zone))) < base_ms:
            wall += _DAY
    except OverflowError as error:
        raise TimeGridError("the time lies outside the calendar") from error
    return _Bound(found, wall, zone)


def _clock_after(wall: datetime, time: TimeOfDay, zone: ZoneInfo, grid: TimeGrid) -> _Bound:
    """Return the first occurrence of a time of day after a wall-clock time in the same zone."""
    end = datetime(wall.year, wall.month, wall.day) + time.ms * _MS  # noqa: DTZ001 - a clock's
    if end <= wall:
        end += _DAY
    return _Bound(grid.instant_ms(first_instant(end, zone)), end, zone)


def _day_of(ms: int, zone: ZoneInfo, grid: TimeGrid) -> datetime:
    """Return the midnight (naive) at the start of an instant's civil day."""
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
        raise TimeGridError("a time of day belongs in a window or is an anchor")
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
    """Return the UTC instant at which the clock of `zone` first shows `wall` (naive) or later.

    A wall-clock time that exists twice is the first of the two; a skipped one is the first instant
    after the gap.
    """
    late = (wall.replace(tzinfo=zone)).astimezone(UTC)
    if _wall(late, zone) == wall:
        return late
    # Skipped: with the offset before the gap the instant is after the change, with the offset after
    # the gap it is before the change. Changes are at whole seconds.
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

    Period k is [anchor + kP, anchor + (k+1)P); in a zone, P in days on the clock, from the anchor
    that the recurrence names (a time of day is the last one at or before `anchor_ms`), else from
    the start of the civil day of `anchor_ms`. Excluded days of the week and dates are left out, and
    so are dates that a zone skipped. If only dates count, there is none after the last of them.
    Periods of months start at their day of the month: the last at or before `anchor_ms`, or the
    first at or after it if the recurrence names it.

    Raises
    ------
    TimeGridError
        If P is not a whole number of steps (of days, in a zone), if a zone is used on a grid
        without an origin, or if the calendar ends.
    """
    if every.zone is not None:
        laid = _month_periods if every.months else _civil_periods
        yield from laid(every, ZoneInfo(every.zone), anchor_ms, grid)
        return
    grid.period(every.period_ms)
    start = anchor_ms
    while True:
        yield Period(start, start + every.period_ms, Frame(start, in_period=True))
        start += every.period_ms


def _civil_periods(
    every: Every, zone: ZoneInfo, anchor_ms: int, grid: TimeGrid
) -> Iterator[Period]:
    _need_origin(grid)
    if every.period_ms < 1 or every.period_ms % DAY_MS:
        raise TimeGridError("a period in a zone is a whole number of days")
    without, dates = frozenset(every.without), frozenset(every.dates)
    last = every.dates[-1] if every.has_only_dates else date.max
    named = frozenset(range(7) if every.days is None else every.days)
    if every.has_only_dates:
        named = frozenset()
    try:
        days = timedelta(days=every.period_ms // DAY_MS)
        day, start = _first_day(every, zone, anchor_ms, grid)
        while day.date() <= last:
            end = grid.instant_ms(first_instant(day + days, zone))
            counts = day.weekday() in named or day.date() in dates
            if counts and day.date() not in without and end > start:
                yield Period(start, end, Frame(start, day, zone, in_period=True))
            day, start = day + days, end
    except OverflowError as error:
        raise TimeGridError("the period lies outside the calendar") from error


def _month_periods(
    every: Every, zone: ZoneInfo, anchor_ms: int, grid: TimeGrid
) -> Iterator[Period]:
    _need_origin(grid)
    named = every.anchor is not None and not isinstance(every.anchor, TimeOfDay)
    clock = timedelta()

    def begin(month: int) -> tuple[datetime, int]:
        """Return the start of a month's period; `month` counts from the year 0."""
        wall = datetime.combine(day_in(month, every.day or MonthDay(1)), time()) + clock
        return wall, grid.instant_ms(first_instant(wall, zone))

    try:
        shown = _wall(grid.instant_at(anchor_ms), zone)
        if isinstance(every.anchor, TimeOfDay):
            clock = every.anchor.ms * _MS
        elif named:
            clock = shown - datetime.combine(shown.date(), time())
        month = 12 * shown.year + shown.month - 1
        day, start = begin(month)
        if named and start < anchor_ms:
            month += every.months
        elif not named and start > anchor_ms:
            month -= every.months
        day, start = begin(month)
        while True:
            month += every.months
            next_day, end = begin(month)
            if day.date() not in every.without and end > start:
                yield Period(start, end, Frame(start, day, zone, in_period=True))
            day, start = next_day, end
    except (OverflowError, ValueError) as error:
        raise TimeGridError("the period lies outside the calendar") from error


def day_in(month: int, day: MonthDay) -> date:
    """Return the date of a day of a month; `month` counts from the year 0."""
    year, index = divmod(month, 12)
    first_weekday, length = monthrange(year, index + 1)
    if day.weekday is None:
        number = length if day.number < 0 else min(day.number, length)
    else:
        number = 1 + (day.weekday - first_weekday) % 7
        later = day.number - 1 if day.number > 0 else (length - number) // 7
        number += 7 * later
    return date(year, index + 1, number)


def _need_origin(grid: TimeGrid) -> None:
    if grid.origin is None:
        message = "this plan has no origin, so civil days cannot be placed in it"
        raise TimeGridError(message, "give the plan an origin, or leave the zone out")


def _first_day(
    every: Every, zone: ZoneInfo, anchor_ms: int, grid: TimeGrid
) -> tuple[datetime, int]:
    """Return the start of period 0: as wall-clock time, and in ms from the origin."""
    day = _day_of(anchor_ms, zone, grid)
    begin = grid.instant_ms(first_instant(day, zone))
    if every.anchor is None or (begin == anchor_ms and not isinstance(every.anchor, TimeOfDay)):
        return day, begin
    if not isinstance(every.anchor, TimeOfDay):
        return _wall(grid.instant_at(anchor_ms), zone), anchor_ms
    day += every.anchor.ms * _MS
    begin = grid.instant_ms(first_instant(day, zone))
    if begin > anchor_ms:
        day -= _DAY
        begin = grid.instant_ms(first_instant(day, zone))
    return day, begin


def day_start_ms(ms: int, zone: ZoneInfo, grid: TimeGrid) -> int:
    """Return the start of the civil day of an instant, in ms from the origin."""
    return grid.instant_ms(first_instant(_day_of(ms, zone, grid), zone))
