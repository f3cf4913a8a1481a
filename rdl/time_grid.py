"""Conversion of milliseconds to steps and back; no other module does it.

Inside Agenda time is integer steps counted from the grid's origin, intervals half-open. Outside it
is milliseconds, seconds, durations or instants. Windows are rounded inward, the minimum of a gap up
and its maximum down, so that a request that is satisfied on the grid is also satisfied in the
client's own time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from rdl.read_error import ReadError


class TimeGridError(ReadError):
    """A time that the grid cannot represent."""


#: The fix if a calendar is needed and there is none.
GIVE_AN_ORIGIN = "give the plan an origin, or write times from it, such as 2h"


@dataclass(frozen=True, slots=True)
class RoundedWork:
    """A lease and a work rounded to the grid, in steps and bundle-steps.

    `work` is w' of the joint rounding; the smallest *reachable* work at or above it (w'') depends
    on the atom's shape and is computed by `rdl.compile.shapes`.
    """

    lease: int
    work: int


@dataclass(frozen=True, slots=True)
class TimeGrid:
    """Origin, step and horizon.

    Attributes
    ----------
    step_ms
        Length of a step in milliseconds, at least 1.
    horizon
        The first step that is no longer planned, counted from the origin. In a service it grows as
        the plan rolls; the origin never moves.
    origin
        The aware UTC instant of step 0, or None if a plan has no calendar.
    zone
        The time zone of displayed times; None is UTC. It does not affect steps.
    """

    step_ms: int
    horizon: int
    origin: datetime | None = None
    zone: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises
        ------
        TimeGridError
            If the step or horizon is not positive, or the origin has no zone.
        """
        if self.step_ms < 1:
            raise TimeGridError(f"a step must be at least 1 ms, not {self.step_ms}")
        if self.horizon < 1:
            raise TimeGridError(f"the horizon must be at least one step, not {self.horizon}")
        if self.origin is not None and self.origin.tzinfo is None:
            raise TimeGridError("the origin needs a zone, such as 2026-01-05T00:00:00Z")

    @property
    def horizon_ms(self) -> int:
        """End of the horizon in ms from the origin."""
        return self.horizon * self.step_ms

    def with_horizon(self, horizon: int) -> TimeGrid:
        """Return the same grid with another horizon, in steps from the origin."""
        return replace(self, horizon=horizon)

    def with_zone(self, zone: str | None) -> TimeGrid:
        """Return the same grid with another zone for displayed times."""
        return replace(self, zone=zone)

    def floor(self, ms: int) -> int:
        """Return the step that contains `ms`: ends of windows, maxima of gaps, capacity losses."""
        return ms // self.step_ms

    def ceil(self, ms: int) -> int:
        """Return the first step at or after `ms`: for starts of windows, and submissions."""
        return -(-ms // self.step_ms)

    def window(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        """Return [start, end) in steps, rounded inward; empty if end <= start."""
        return self.ceil(start_ms), self.floor(end_ms)

    def gap(self, minimum_ms: int, maximum_ms: int | None) -> tuple[int, int | None]:
        """Return a gap in steps: the minimum rounded up, the maximum rounded down.

        Raises
        ------
        TimeGridError
            If no whole number of steps lies in the range; the message names the step.
        """
        low = self.ceil(minimum_ms)
        if maximum_ms is None:
            return low, None
        high = self.floor(maximum_ms)
        if high < low:
            raise TimeGridError(
                f"no whole number of steps of {duration_text(self.step_ms)} lies in the gap "
                f"{duration_text(minimum_ms)}..{duration_text(maximum_ms)}"
            )
        return low, high

    def period(self, period_ms: int) -> int:
        """Return a period in steps.

        Raises
        ------
        TimeGridError
            If it is not a positive multiple of the step.
        """
        if period_ms < 1 or period_ms % self.step_ms:
            raise TimeGridError(
                f"the period {duration_text(period_ms)} is not a multiple of the step "
                f"{duration_text(self.step_ms)}",
                "write a period of whole steps",
            )
        return period_ms // self.step_ms

    def lease_and_work(self, lease_ms: int, work_ms: int) -> RoundedWork:
        """Round a lease and a work together.

        l' = max(1, ceil(l / step)). If l >= step and w is n whole leases in the client's units,
        w' = n l'; else w' = ceil(w / step). Rounded separately, n leases of 90 s at a step of 60 s
        would be 2 steps each but 1.5 n bundle-steps together: work no gang can reach.
        """
        lease = max(1, self.ceil(lease_ms))
        if lease_ms >= self.step_ms and work_ms % lease_ms == 0:
            return RoundedWork(lease, work_ms // lease_ms * lease)
        return RoundedWork(lease, self.ceil(work_ms))

    def ms(self, step: int) -> int:
        """Return the start of a step in ms from the origin."""
        return step * self.step_ms

    def seconds(self, step: int) -> int | float:
        """Return the start of a step in seconds from the origin, an int if it is whole."""
        return seconds_of(step * self.step_ms)

    def instant_ms(self, at: datetime) -> int:
        """Return an aware instant as ms from the origin.

        Raises
        ------
        TimeGridError
            If the grid has no origin, or `at` has no zone.
        """
        if self.origin is None:
            message = "this plan has no origin, so instants cannot be placed in it"
            raise TimeGridError(message, GIVE_AN_ORIGIN)
        if at.tzinfo is None:
            raise TimeGridError("an instant needs a zone, such as 2026-01-05T09:00:00Z")
        return (at - self.origin) // timedelta(milliseconds=1)

    def instant_at(self, ms: int) -> datetime:
        """Return ms from the origin as an aware UTC instant.

        Raises
        ------
        TimeGridError
            If the grid has no origin.
        """
        if self.origin is None:
            raise TimeGridError("this plan has no origin, so its steps have no date")
        return (self.origin + timedelta(milliseconds=ms)).astimezone(UTC)


def seconds_of(ms: int) -> int | float:
    """Return ms as seconds, an int if it is whole."""
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


_UNITS_MS = (("w", 604_800_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))


def duration_text(ms: int) -> str:
    """Return the canonical text of a duration: ``90000`` -> ``1m30s``, 500 -> ``0.5s``."""
    if ms == 0:
        return "0s"
    parts = []
    rest = ms
    for unit, size in _UNITS_MS[:-1]:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    if rest:
        parts.append(f"{seconds_of(rest)}s")
    return "".join(parts)
