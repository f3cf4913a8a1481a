"""The interface of all agents, and the reports of solvers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from planner.placement import PlacementResult
from planner.request import Request
from planner.value import relative_gap, value_asked
from planner.view import PlanView
from rdl.resources import Resources


@dataclass(frozen=True, slots=True)
class SolveProgress:
    """The progress of a solver agent.

    Attributes
    ----------
    elapsed_s
        Seconds since its start.
    value, bound
        Value of the best checked plan; upper bound on the value of any plan.
    source, proof
        Source of the plan, and method that proved the bound.
    results
        The best checked plan, one result per request; None if the agent does not report it, or if
        no plan keeps all requests that it must keep.
    """

    elapsed_s: float
    value: float
    bound: float
    source: str
    proof: str
    results: Sequence[PlacementResult] | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float:
        """(bound - value) / bound, 0 if they are equal."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    time_s
        Wall-clock seconds, None for no limit. Greedy agents check it between requests.
    work
        Solver work (iterations, trials) instead of time, for reproducible runs.
    seed
        Seed of the random numbers.
    stop
        Called between requests or rounds; True ends the run with the best plan so far.
    progress
        Called with (done, all) from time to time.
    gap
        Stop at a proven gap of at most this; None leaves it to the agent.
    news
        Called with every better plan or bound, from any thread (`exact`).
    """

    time_s: float | None = None
    work: int | None = None
    seed: int = 0
    stop: Callable[[], bool] | None = None
    progress: Callable[[int, int], None] | None = None
    gap: float | None = None
    news: Callable[[SolveProgress], None] | None = None


class Agent(Protocol):
    """Places a set of requests on a view; it never changes the Plan.

    Results are in input order, one per request. Greedy agents *take* requests by (priority, larger
    first; submitted; position). The same requests, view and seed give the same results.
    """

    @property
    def name(self) -> str:
        """The name that users type: ``headroom``, ``gree``."""
        ...

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return one result per request: placed within all limits of the view, or refused."""
        ...


def plans_early(agent: Agent | None) -> bool:
    """Return whether an agent places as early as possible: its `early` is true.

    Other agents, and None, place late.
    """
    return bool(getattr(agent, "early", False))


#: Relative tolerance within which two values count as equal.
VALUE_TOLERANCE = 1e-6

#: Tolerance relative to the value of all requests, for values near 0.
REQUESTED_TOLERANCE = 1e-9


class SolverOutcome(StrEnum):
    """How a solve ended. In every case the plan is valid and at least as good as its start."""

    OPTIMAL = "optimal"
    """Proven: no plan accepts more value."""

    FEASIBLE = "feasible"
    """Not proven; the bound says how much value may be missing."""

    NO_ANSWER = "no_answer"
    """A limit was reached before the solver had a result: the plan is the greedy one."""

    STOPPED = "stopped"
    """The caller stopped it; the plan is the best so far."""

    FAILED = "failed"
    """The solver or its process failed; the plan is the best so far."""

    TOO_LARGE = "too_large"
    """The model does not fit into memory: the plan is the greedy one."""


class Ending(StrEnum):
    """Why a solve ended, if its status does not show it."""

    PROVEN = "proven"
    """No plan has a higher value."""

    GAP = "gap"
    """The proven gap is at most the requested one."""

    LIMIT = "limit"
    """The limit on time or work was reached before the proof."""

    EXHAUSTED = "exhausted"
    """It ended before any limit: nothing was left to try."""

    STOPPED = "stopped"
    """The caller stopped it."""

    BROKEN = "broken"
    """An error ended it."""

    TOO_LARGE = "too_large"
    """It was not started, for lack of memory."""


class BoundError(RuntimeError):
    """A bound is below the value of a checked plan: one of them is wrong, so nothing is proven."""


@dataclass(frozen=True, slots=True)
class SolverReport:
    """The report of a solver agent on its plan.

    Attributes
    ----------
    status
        A word of `SolverOutcome`.
    value, bound
        Accepted value, and upper bound on the accepted value of any plan.
    source
        Source of the plan: a solver, a search, or the greedy agent it started from.
    detail
        One sentence for a person: why the status is not ``optimal``, or what else, apart from the
        value, is not proven; else empty.
    ending
        Why it ended; None if the agent does not report it.
    """

    status: str
    value: float
    bound: float
    source: str
    detail: str = ""
    ending: Ending | None = None

    @property
    def gap(self) -> float:
        """(bound - value) / bound; 0 if nothing more can be accepted."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True)
class MustKeep:
    """Requests that must stay placed, whatever their value.

    Attributes
    ----------
    requests
        Indices of the requests.
    standing
        The current allocation, one result per request (refused if not placed), which fits in the
        view as a whole; empty if unknown. The solver starts from it.
    """

    requests: frozenset[int]
    standing: Sequence[PlacementResult] = ()


@runtime_checkable
class SolverAgent(Agent, Protocol):
    """An agent that proves an upper bound on the value of any plan.

    Its plan has at least the value of the greedy plan it starts from.
    """

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return the best plan found within the limits, at least the greedy one."""
        return self.solve(requests, view, limits)[0]

    def solve(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        must_keep: MustKeep | None = None,
    ) -> tuple[Sequence[PlacementResult], SolverReport]:
        """Return the plan and its report; every ending leaves the best plan so far.

        Parameters
        ----------
        must_keep
            Requests that must stay placed, and the current allocation, from which the solver
            starts. The bound is then an upper bound on the value of plans with all of them, and
            only such plans count. If none is found, the status is ``no_answer``, with the greedy
            plan.

        Raises
        ------
        ValueError
            If `must_keep` names no request, or the current allocation breaks a limit of the view.
        """
        ...


def no_plan_report(bound: float, source: str, ending: Ending | None = None) -> SolverReport:
    """Return the report of a solve that found no plan with all requests that must be kept.

    Parameters
    ----------
    bound
        Minus infinity if it is proven that there is none.
    """
    if bound < 0:
        detail, ending = "proven: not all that must be kept can be", Ending.PROVEN
    else:
        detail = "no plan with all that must be kept was found; the bound is one of those plans"
    return SolverReport(SolverOutcome.NO_ANSWER.value, 0.0, max(bound, 0.0), source, detail, ending)


def total_requested_value(requests: Sequence[Request], reference: Resources) -> float:
    """Return the value of all satisfiable requests: a trivial upper bound."""
    return sum(value_asked(request, reference) for request in requests)


def is_proven(value: float, bound: float, requested: float) -> bool:
    """Return whether a value reaches a bound, within tolerance; `requested` is the total value."""
    return bound - value <= VALUE_TOLERANCE * abs(bound) + REQUESTED_TOLERANCE * requested


class Deadline:
    """When a search ends; its time starts now.

    Parameters
    ----------
    limits
        `time_s`, `work` (rounds) and `stop` end it.
    rounds
        Rounds if neither time nor work is limited.

    Attributes
    ----------
    rounds
        Rounds so far; the search counts them.
    """

    def __init__(self, limits: Limits, rounds: int) -> None:
        self.rounds = 0
        self._stop = limits.stop
        self._most = limits.work
        if limits.work is None and limits.time_s is None:
            self._most = rounds
        self._began = time.monotonic()
        self._time_s = limits.time_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Return whether the search must stop."""
        if self._stop is not None and self._stop():
            return True
        if self._time_s is not None and self.elapsed_s >= self._time_s:
            return True
        return self._most is not None and self.rounds >= self._most
