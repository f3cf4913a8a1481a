"""Instants and periods as the oracle reads them: civil days and offsets, in ms from the origin.

Part of the oracle (`rdl.oracle.satisfaction`) and as independent as it is: the compiler has its own
calendar, so that a fault in one shows against the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rdl.expressions import Absolute, AfterSubmission, Every, Instant, TimeOfDay, Window
from rdl.time_grid import TimeGrid

_MS = timedelta(milliseconds=1)
_DAY_MS = 86_400_000


class PeriodError(ValueError):
    """A recurrence or an instant that has no meaning on this grid."""


@dataclass(frozen=True, slots=True)
class OracleFrame:
    """What a bare offset counts from: the origin, or the start of a period.

    Attributes
    ----------
    start_ms
        Start of the period in ms from the origin; 0 outside `every`.
    local
        The same instant as a local time in `zone` (naive), where the period is a civil day.
    zone
        The zone of the civil day, or None where an hour is an hour.
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
    """Return where a window starts (None: nowhere) and ends, in ms from the origin.

    A time of day is the first one that is not before the start of the period around the window,
    outside `every` the submission; that of the end is also after the window's start.

    Raises
    ------
    PeriodError
        For an absolute or a civil time on a grid without an origin, or without a zone.
    """
    least = frame.start_ms if frame.repeats else submitted_ms
    start = None
    match window.start:
        case None:
            pass
        case TimeOfDay(ms=ms):
            start = _first_clock(ms, _zone(window, frame), least, grid)
        case other:
            start = instant_ms(other, frame, grid, submitted_ms)
    if not isinstance(window.end, TimeOfDay):
        return start, instant_ms(window.end, frame, grid, submitted_ms)
    least = least if start is None else start
    return start, _first_clock(window.end.ms, _zone(window, frame), least + 1, grid)


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


def _first_clock(clock_ms: int, zone: ZoneInfo, least: int, grid: TimeGrid) -> int:
    """Return the first of the instants, one a civil day, at which clocks show a time."""
    midnight = _midnight_before(least, zone, grid)
    candidates = (
        _since_origin(
            first_instant(midnight + timedelta(days=day, milliseconds=clock_ms), zone), grid
        )
        for day in range(-2, 4)
    )
    return min(found for found in candidates if found >= least)


def _midnight_before(ms: int, zone: ZoneInfo, grid: TimeGrid) -> datetime:
    if grid.origin is None:
        raise PeriodError("a zone needs a grid with an origin")
    here = (grid.origin + ms * _MS).astimezone(zone)
    return datetime.combine(here.date(), datetime.min.time())  # naive: a reading of a wall clock


def is_over(every: Every, period: OraclePeriod, grid: TimeGrid, submitted_ms: int) -> bool:
    """Return whether the window that `every` repeats ends before the submission in a period.

    Asked of windows whose days or times of day say when; such periods do not count. Those that
    begin at the submission or later do.
    """
    if not isinstance(every.of, Window) or period.start_ms >= max(0, submitted_ms):
        return False
    if every.days is None and not isinstance(every.of.end, TimeOfDay):
        return False
    return window_of(every.of, period.frame, grid, submitted_ms)[1] <= max(0, submitted_ms)


def periods_of(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[OraclePeriod]:
    """Yield period 0, 1, 2, ... without end; the caller stops.

    Without a zone, period k is [anchor + kP, anchor + (k+1)P). In a zone it is P in days counted
    from the civil day of the anchor there; an anchor by time of day moves their beginnings to it.
    Days of the week that are not named, and dates that are excepted, have no period.

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
    yield from _civil_periods(every, anchor_ms, grid)


def _civil_periods(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[OraclePeriod]:
    if every.zone is None or every.period_ms < 1 or every.period_ms % _DAY_MS:
        raise PeriodError(f"a period of {every.period_ms} ms is not a whole number of days")
    if every.holidays is not None:
        raise PeriodError(f"the calendar {every.holidays!r} has no dates here")
    zone = _known_zone(every.zone)
    days = timedelta(days=every.period_ms // _DAY_MS)
    local = _midnight_before(anchor_ms, zone, grid)
    if isinstance(every.anchor, TimeOfDay):
        begins = timedelta(milliseconds=every.anchor.ms)
        today = _since_origin(first_instant(local + begins, zone), grid)
        local += begins if today <= anchor_ms else begins - timedelta(days=1)
    start = _since_origin(first_instant(local, zone), grid)
    while True:
        end = _since_origin(first_instant(local + days, zone), grid)
        named = every.days is None or local.isoweekday() - 1 in every.days
        if named and local.date() not in every.without:
            yield OraclePeriod(start, end, OracleFrame(start, local, zone, repeats=True))
        local, start = local + days, end


def first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the UTC instant at which clocks in `zone` show `wall` (naive) for the first time.

    A wall time that clocks skip gives the first instant after the gap.
    """
    early = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == wall:
        return early
    # Skipped. Read with the offset before the gap the instant lies past it, with the offset after
    # the gap before it: the change of offset is between the two.
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
