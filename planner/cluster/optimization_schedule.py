"""OptimizationSchedule: when a service optimizes the Plan, and when it applies the result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from planner.cluster.policy import local_instant_ms

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OptimizationSchedule:
    """An optimisation that runs at a time of day.

    Attributes
    ----------
    name
        Name of the schedule; its optimisations are named after it.
    at
        Local time of day of the start; in a gap of the clock, the end of the gap.
    days
        Days (0 = Monday) on which it starts; empty is every day.
    zone
        IANA zone of the time.
    time_limit_ms
        How long it runs.
    frozen_ms
        Reservations that start within this time after its time limit do not move.
    admit_refused
        Whether refused requests may be admitted.
    solver
        Agent that proves a bound; None lets the optimiser choose, ``""`` uses none.
    apply_below
        Largest share of the reserved work that may move if it is applied automatically, 0 to 1;
        None leaves it to a person.
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
        """Return its last scheduled start at or before `now_ms`; both Unix ms."""
        zone = ZoneInfo(self.zone)
        day = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()
        while True:
            begin = local_instant_ms(day, self.at, zone, _EPOCH)
            if begin <= now_ms and (not self.days or day.weekday() in self.days):
                return begin
            day -= _DAY
