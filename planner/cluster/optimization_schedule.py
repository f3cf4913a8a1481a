"""OptimizationSchedule: when a service looks for a better Plan by itself, and when it takes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from planner.cluster.policy import local_instant_ms

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OptimizationSchedule:
    """One optimisation that runs at a time of day.

    Attributes
    ----------
    name
        Of the schedule; its optimisations are called by it.
    at
        Local time of day at which it begins; in a gap of the clock, at the end of the gap.
    days
        Days (0 = Monday) on which it begins; empty is every day.
    zone
        IANA zone of the time.
    time_limit_ms
        How long it looks.
    frozen_ms
        Nothing moves that begins before so long after its time limit.
    admit_refused
        Whether refused requests may come in.
    solver
        Agent that proves a bound; None lets the optimiser choose, ``""`` is none.
    apply_below
        Largest part of the work held that may move where it is applied by itself, 0 to 1; None
        leaves it to a person.
    """

    name: str
    at: time
    days: frozenset[int] = frozenset()
    zone: str = "UTC"
    time_limit_ms: int = 60_000
    frozen_ms: int = 300_000
    admit_refused: bool = True
    solver: str | None = None
    apply_below: float | None = None

    def last_ms(self, now_ms: int) -> int:
        """Return when it last was to begin, at or before `now_ms`; both Unix ms."""
        zone = ZoneInfo(self.zone)
        day = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()
        while True:
            begin = local_instant_ms(day, self.at, zone, _EPOCH)
            if begin <= now_ms and (not self.days or day.weekday() in self.days):
                return begin
            day -= _DAY
