"""Input and budget of one solve, shared by primal search and bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.agents.exact.incumbent import Incumbent
from planner.agents.exact.problem import PlanningProblem

#: Seconds between looks at the clock, and the longest that a stop can go unnoticed.
SLICE_S = 0.05

#: A plan is checked when so many times the last check's time has passed.
CHECKS = 12


@dataclass(slots=True)
class Budget:
    """When to stop.

    Attributes
    ----------
    until
        Instant of `clock`, or None.
    moves
        Moves of the search instead of time; None for no such limit.
    gap
        Relative gap at which to end.
    stop
        Asked every `SLICE_S`.
    clock
        Monotonic seconds.
    report_progress
        Called every slice.
    check_s
        About the seconds of one check of a whole plan.
    """

    until: float | None
    moves: int | None
    gap: float
    stop: Callable[[], bool]
    clock: Callable[[], float]
    report_progress: Callable[[], None]
    check_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left; infinite without a limit of time."""
        return float("inf") if self.until is None else self.until - self.clock()

    def reserve(self, seconds: float) -> None:
        """End so much earlier, but leave the search at least half of the time that is left."""
        if self.until is not None:
            left = max(0.0, self.until - self.clock())
            self.until -= min(seconds, left / 2)

    def is_over(self, incumbent: Incumbent) -> bool:
        """Return whether the gap, the time or a stop ends the solve."""
        if incumbent.gap <= self.gap or self.stop():
            return True
        return self.until is not None and self.clock() >= self.until


@dataclass(frozen=True, slots=True)
class SolveInput:
    """Input of one solve: the problem, positions of its requests, seed.

    Attributes
    ----------
    positions
        Index among the results of the incumbent, of each request of the problem.
    seed
        Of the search, and of CP-SAT.
    prove
        Whether CP-SAT works on the bound too.
    fine
        Whether the bound may be evaluated on all columns, or on buckets of them only.
    """

    problem: PlanningProblem
    positions: Sequence[int]
    seed: int
    prove: bool = False
    fine: bool = True


def fill_slice(count: int, spent_s: float) -> int:
    """Return how often to do what took `spent_s` for `count` times, to fill a slice."""
    return max(1, min(100_000, int(count * min(4.0, SLICE_S / max(spent_s, 1e-4)))))
