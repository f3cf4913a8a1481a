"""Instants and periods as the oracle reads them: civil days and offsets, in ms from the origin.

Part of the oracle (`rdl.oracle.satisfaction`) and as independent as it is: the compiler has its own
calendar, so that a fault in one shows against the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rdl.expressions import Absolute, AfterSubmission, Every, Instant
from rdl.time_grid import TimeGrid

_MS = timedelta(milliseconds=1)
_DAY_MS = 86_400_000


class PeriodError(ValueError):
    """A recurrence or an instant that has no meaning on this grid."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a bare offset counts from: the origin, or the start of a period.

    Attributes
    ----------
    start_ms
        Start of the period in ms from the origin; 0 outside `every`.
    local
        The same instant as a local time in `zone` (naive), where the period is a civil day.
    zone
        The zone of the civil day, or None where an hour is an hour.
    """

    start_ms: int = 0
    local: datetime | None = None
    zone: ZoneInfo | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """Period `k` of a recurrence: [start_ms, end_ms) from the origin, and its frame."""

    start_ms: int
    end_ms: int
    frame: Frame


def instant_ms(instant: Instant, frame: Frame, grid: TimeGrid, submitted_ms: int) -> int:
    """Return an instant in ms from the origin.

    Raises
    ------
    PeriodError
        For an absolute or a civil time on a grid without an origin.
    """
    if isinstance(instant, AfterSubmission):
        return submitted_ms + instant.ms
    if isinstance(instant, Absolute):
        return _since_origin(instant.at, grid)
    if frame.zone is None or frame.local is None:
        return frame.start_ms + instant.ms
    wall = frame.local + timedelta(milliseconds=instant.ms)
    return _since_origin(first_instant(wall, frame.zone), grid)


def periods_of(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[Period]:
    """Yield period 0, 1, 2, ... without end; the caller stops.

    Without a zone, period k is [anchor + kP, anchor + (k+1)P). In a zone it is P in days counted
    from the civil day of the anchor there.

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
            yield Period(start, end, Frame(start))
            start = end
    yield from _civil_periods(every, anchor_ms, grid)


def _civil_periods(every: Every, anchor_ms: int, grid: TimeGrid) -> Iterator[Period]:
    if every.zone is None or every.period_ms < 1 or every.period_ms % _DAY_MS:
        raise PeriodError(f"a period of {every.period_ms} ms is not a whole number of days")
    if grid.origin is None:
        raise PeriodError("a zone needs a grid with an origin")
    try:
        zone = ZoneInfo(every.zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise PeriodError(f"{every.zone!r} is not a zone") from error
    days = timedelta(days=every.period_ms // _DAY_MS)
    anchor = (grid.origin + anchor_ms * _MS).astimezone(zone)
    local = datetime.combine(anchor.date(), datetime.min.time())  # naive: a reading of a wall clock
    start = _since_origin(first_instant(local, zone), grid)
    while True:
        end = _since_origin(first_instant(local + days, zone), grid)
        yield Period(start, end, Frame(start, local, zone))
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
