"""The one contract of every planner of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class News:
    """What an agent that solves knows so far.

    Attributes
    ----------
    elapsed_s
        Seconds since it began.
    value, bound
        Of the best plan that was checked; most that any plan can be worth.
    source, proof
        Who found the plan, and who the bound.
    """

    elapsed_s: float
    value: float
    bound: float
    source: str
    proof: str

    @property
    def gap(self) -> float:
        """(bound - value) / bound, 0 when they meet."""
        return (self.bound - self.value) / self.bound if self.bound > self.value else 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    time_s
        Wall-clock seconds, None for no limit. Greedy agents look at it between requests.
    work
        Solver work (iterations, trials) instead of time, for runs that must repeat exactly.
    seed
        Seed of whatever is random.
    stop
        Asked between requests or rounds; True ends the run with the best so far.
    progress
        Called with (done, all) now and then.
    gap
        A proven gap that is small enough to end; None leaves it to the agent.
    news
        Called with every better plan or bound, from any thread (`exact`).
    """

    time_s: float | None = None
    work: int | None = None
    seed: int = 0
    stop: Callable[[], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    gap: float | None = None
    news: Callable[[News], None] | None = None


class Agent(Protocol):
    """Places a set of requests on a view; it never changes the Plan.

    Results stand in input order, one a request. Greedy agents *take* requests by (priority, larger
    first; submitted; position). The same requests, view and seed give the same results.
    """

    @property
    def name(self) -> str:
        """The word users type: ``gree``, ``gree-l``."""
        ...

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return one result a request: placed within all limits of the view, or refused."""
        ...
