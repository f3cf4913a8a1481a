"""Instants and periods in the oracle: civil days and offsets, in ms from the origin.

Part of the oracle (`rdl.oracle.satisfaction`), and equally independent: the compiler has its own
calendar, so that comparing the two reveals a fault in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rdl.expressions import (
    Absolute,
    AfterSubmission,
    Every,
    Instant,
    Offset,
    TimeOfDay,
    Window,
)
from rdl.time_grid import TimeGrid

_MS = timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_ONE_DAY = timedelta(days=1)


class PeriodError(ValueError):
    """A recurrence or an instant that has no meaning on this grid."""


@dataclass(frozen=True, slots=True)
class OracleFrame:
    """The reference of relative times: the origin, or the start of a period.

    Attributes
    ----------
    start_ms
        Start of the period in ms from the origin; 0 outside `every`.
    local
        The same instant as a local time in `zone` (naive), if the period is a civil day.
    zone
        The zone of the civil day, or None for elapsed time.
    repeats
        Whether it is a period of an `every`.
    """

    start_ms: int = 0
    local: datetime | None = None
    zone: ZoneInfo | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class OraclePeriod:
    """Period `k` of a recurrence: [start_ms, end_ms) from the origin, and its frame."""

    start_ms: int
    end_ms: int
    frame: OracleFrame


def instant_ms(instant: Instant, frame: OracleFrame, grid: TimeGrid, submitted_ms: int) -> int:
    """Return an instant in ms from the origin.

    Raises
    ------
    PeriodError
        For an absolute or a civil time on a grid without an origin, and for a time of day.
    """
    if isinstance(instant, TimeOfDay):
        raise PeriodError("a time of day that is no bound of a window")
    if isinstance(instant, AfterSubmission):
        return submitted_ms + instant.ms
    if isinstance(instant, Absolute):
        return _since_origin(instant.at, grid)
    if frame.zone is None or frame.local is None:
        return frame.start_ms + instant.ms
    wall = frame.local + timedelta(milliseconds=instant.ms)
    return _since_origin(first_instant(wall, frame.zone), grid)


def window_of(
    window: Window, frame: OracleFrame, grid: TimeGrid, submitted_ms: int
) -> tuple[int | None, int]:
    """Return the start (None without one) and end of a window, in ms from the origin.

    A time of day as the start is the first one not before the start of the enclosing period,
    outside `every` of the submission; as the end it is the next one on the clock after the start.
    If the clock skips the whole window, it has its written length right after the gap.

    Raises
    ------
    PeriodError
        For an absolute or a civil time on a grid without an origin, or without a zone.
    """
    least = frame.start_ms if frame.repeats else submitted_ms
    if window.start is None:
        if isinstance(window.end, TimeOfDay):
            zone = _zone(window, frame)
            return None, _at(_first_clock(window.end.ms, zone, least + 1, grid), zone, grid)
        return None, instant_ms(window.end, frame, grid, submitted_ms)
    # Local times of both ends; only an interval on a single clock can be skipped.
    reads, clock = _reading(window, frame, least, grid)
    if reads is None or clock is None:
        start = instant_ms(window.start, frame, grid, submitted_ms)
    else:
        start = _at(reads, clock, grid)
    ends: datetime | None = None
    if isinstance(window.end, TimeOfDay):
        zone = _zone(window, frame)
        if reads is None or clock != zone:
            return start, _at(_first_clock(window.end.ms, zone, start + 1, grid), zone, grid)
        ends = _midnight_of(reads) + timedelta(milliseconds=window.end.ms)
        ends = ends if ends > reads else ends + _ONE_DAY
    elif isinstance(window.end, Offset) and frame.local is not None and frame.zone == clock:
        ends = frame.local + timedelta(milliseconds=window.end.ms)
    if reads is None or ends is None or clock is None:
        return start, instant_ms(window.end, frame, grid, submitted_ms)
    end = _at(ends, clock, grid)
    skipped = reads < ends and start >= end
    return start, start + (ends - reads) // _MS if skipped else end


def _reading(
    window: Window, frame: OracleFrame, least: int, grid: TimeGrid
) -> tuple[datetime | None, ZoneInfo | None]:
    """Return the local time of the start of a window, and its zone; None without a clock."""
    if isinstance(window.start, TimeOfDay):
        zone = _zone(window, frame)
        if frame.local is None or frame.zone != zone:
            return _first_clock(window.start.ms, zone, least, grid), zone
        since = timedelta(milliseconds=window.start.ms) - (frame.local - _midnight_of(frame.local))
        return frame.local + since % _ONE_DAY, zone
    if isinstance(window.start, Offset) and frame.local is not None:
        return frame.local + timedelta(milliseconds=window.start.ms), frame.zone
    return None, None


def _at(reading: datetime, zone: ZoneInfo, grid: TimeGrid) -> int:
    return _since_origin(first_instant(reading, zone), grid)


def _zone(window: Window, frame: OracleFrame) -> ZoneInfo:
    if window.zone is not None:
        return _known_zone(window.zone)
    if frame.zone is None:
        raise PeriodError("a time of day has no zone around it")
    return frame.zone


def _known_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise PeriodError(f"{name!r} is not a zone") from error


def _first_clock(clock_ms: int, zone: ZoneInfo, least: int, grid: TimeGrid) -> datetime:
    """Return the local time of the first instant at or after `least` with a time of day."""
    midnight = _midnight_before(least, zone, grid)
    candidates = (midnight + timedelta(days=day, milliseconds=clock_ms) for day in range(-2, 5))
    return min(wall for wall in candidates if _at(wall, zone, grid) >= least)


def _midnight_before(ms: int, zone: ZoneInfo, grid: TimeGrid) -> datetime:
    if grid.origin is None:
        raise PeriodError("a zone needs a grid with an origin")
    here = (grid.origin + ms * _MS).astimezone(zone)
    return _midnight_of(here)


def _midnight_of(wall: datetime) -> datetime:
    return datetime.combine(wall.date(), datetime.min.time())  # naive local time


def is_over(every: Every, period: OraclePeriod, grid: TimeGrid, submitted_ms: int) -> bool:
    """Return whether the window that `every` repeats ends before the submission in a period.

    Only for windows by days or times of day; such periods do not count. Periods that start at the
    submission or later always count.
    """
    if not isinstance(every.of, Window) or period.start_ms >= max(0, submitted_ms):
        return False
    by_days = every.days is not None or every.dates or every.months
    if not by_days and not isinstance(every.of.end, TimeOfDay):
        return False
    return window_of(every.of, period.frame, grid, submitted_ms)[1] <= max(0, submitted_ms)


def periods_of(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[OraclePeriod]:
    """Yield period 0, 1, 2, ... without end; the caller stops.

    Without a zone, period k is [anchor + kP, anchor + (k+1)P). In a zone P is in days, which start
    at the local time of the anchor: a time of day, or the local time of an instant; without an
    anchor at midnight. Days of the week that are not named, excluded dates, and dates skipped by a
    zone have no period; additional dates have one, and if no days are named, only they do, so that
    periods end. Periods of months start at their day.

    Raises
    ------
    PeriodError
        If the period is not a whole number of steps (or of days, in a zone).
    """
    if every.zone is None:
        if every.period_ms < 1 or every.period_ms % grid.step_ms:
            raise PeriodError(f"a period of {every.period_ms} ms is not a whole number of steps")
        start = anchor_ms
        while True:
            end = start + every.period_ms
            yield OraclePeriod(start, end, OracleFrame(start, repeats=True))
            start = end
    yield from (_monthly if every.months else _civil_periods)(every, anchor_ms, grid)


def _civil_periods(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[OraclePeriod]:
    if every.zone is None or every.period_ms < 1 or every.period_ms % _DAY_MS:
        raise PeriodError(f"a period of {every.period_ms} ms is not a whole number of days")
    if every.holidays is not None:
        raise PeriodError(f"the calendar {every.holidays!r} has no dates here")
    zone = _known_zone(every.zone)
    days = timedelta(days=every.period_ms // _DAY_MS)
    local = _midnight_before(anchor_ms, zone, grid)
    start = _at(local, zone, grid)
    if isinstance(every.anchor, TimeOfDay):
        begins = timedelta(milliseconds=every.anchor.ms)
        local += begins if _at(local + begins, zone, grid) <= anchor_ms else begins - _ONE_DAY
        start = _at(local, zone, grid)
    elif every.anchor is not None and start != anchor_ms and grid.origin is not None:
        start = anchor_ms
        local = (grid.origin + anchor_ms * _MS).astimezone(zone).replace(tzinfo=None)
    while True:
        end = _at(local + days, zone, grid)
        if every.dates and every.days is None:
            if local.date() > max(every.dates):
                return
            named = local.date() in every.dates
        else:
            named = every.days is None or local.isoweekday() - 1 in every.days
            named = named or local.date() in every.dates
        if named and local.date() not in every.without and start < end:
            yield OraclePeriod(start, end, OracleFrame(start, local, zone, repeats=True))
        local, start = local + days, end


def _monthly(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[OraclePeriod]:
    """Yield the periods of some months, each from its named day."""
    if every.zone is None or grid.origin is None:
        raise PeriodError("months need a zone, and a grid with an origin")
    zone = _known_zone(every.zone)
    reading = (grid.origin + anchor_ms * _MS).astimezone(zone).replace(tzinfo=None)
    by_anchor = every.anchor is not None and not isinstance(every.anchor, TimeOfDay)
    since_midnight = timedelta()
    if isinstance(every.anchor, TimeOfDay):
        since_midnight = timedelta(milliseconds=every.anchor.ms)
    elif by_anchor:
        since_midnight = reading - _midnight_of(reading)
    firsts = reading.replace(day=1)
    starts: list[datetime] = []
    # Start one period before the anchor's month, to find which one is the first.
    month = _months_later(firsts, -every.months)
    while True:
        starts.append(_named_day(month, every) + since_midnight)
        month = _months_later(month, every.months)
        if len(starts) < 2:
            continue
        start, end = (_at(one, zone, grid) for one in starts[-2:])
        early = start < anchor_ms if by_anchor else end <= anchor_ms
        if not early and starts[-2].date() not in every.without and start < end:
            yield OraclePeriod(start, end, OracleFrame(start, starts[-2], zone, repeats=True))


def _months_later(first: datetime, months: int) -> datetime:
    """Return the first day of a later month."""
    years, index = divmod(first.month - 1 + months, 12)
    return datetime(first.year + years, index + 1, 1)  # noqa: DTZ001 - a reading of a wall clock


def _named_day(month: datetime, every: Every) -> datetime:
    """Return the midnight at the start of the named day of a month."""
    days = [month + timedelta(days=k) for k in range(31)]
    days = [one for one in days if one.month == month.month]
    if every.day is None:
        return days[0]
    number, weekday = every.day
    if weekday is not None:
        days = [one for one in days if one.isoweekday() == weekday + 1]
    return days[-1] if number < 0 else days[min(number, len(days)) - 1]


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first UTC instant at which the clock in `zone` shows `wall` (naive).

    For a skipped local time, return the first instant after the gap.
    """
    early = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == wall:
        return early
    # Skipped. With the offset before the gap the instant is after it, with the offset after the gap
    # before it: the change of offset is between the two.
    low = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = early
    after = high.astimezone(zone).utcoffset()
    while high - low > _MS:
        middle = low + (high - low) // _MS // 2 * _MS
        if middle.astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return high


def _since_origin(at: datetime, grid: TimeGrid) -> int:
    if grid.origin is None:
        raise PeriodError("an instant needs a grid with an origin")
    return (at.astimezone(UTC) - grid.origin) // _MS
