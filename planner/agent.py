"""The one contract of every planner of requests, and what a solver reports."""

from __future__ import annotations

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
    """What a solver agent knows so far.

    Attributes
    ----------
    elapsed_s
        Seconds since it began.
    value, bound
        Of the best checked plan; the most that any plan can be worth.
    source, proof
        What found the plan, and what the bound.
    results
        The best checked plan, one result a request; None if the agent does not tell it, or no
        plan holds all that it must.
    """

    elapsed_s: float
    value: float
    bound: float
    source: str
    proof: str
    results: Sequence[PlacementResult] | None = field(default=None, compare=False, repr=False)

    @property
    def gap(self) -> float:
        """(bound - value) / bound, 0 when they meet."""
        return relative_gap(self.value, self.bound)


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
        Seed of the random numbers.
    stop
        Called between requests or rounds; True ends the run with the best plan so far.
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
    news: Callable[[SolveProgress], None] | None = None


class Agent(Protocol):
    """Places a set of requests on a view; it never changes the Plan.

    Results stand in input order, one a request. Greedy agents *take* requests by (priority, larger
    first; submitted; position). The same requests, view and seed give the same results.
    """

    @property
    def name(self) -> str:
        """The word users type: ``headroom``, ``gree``."""
        ...

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return one result a request: placed within all limits of the view, or refused."""
        ...


def plans_early(agent: Agent | None) -> bool:
    """Return whether an agent places as early as it can, and says so by a true `early`.

    Others, and no one, place late.
    """
    return bool(getattr(agent, "early", False))


#: Part of a value that rounding may lose before two values count as different.
VALUE_TOLERANCE = 1e-6

#: The same as a part of the value of all requests, for values near 0.
REQUESTED_TOLERANCE = 1e-9


class SolverOutcome(StrEnum):
    """How a solve ended. Whatever it is, the plan is valid and at least as good as its start."""

    OPTIMAL = "optimal"
    """No plan accepts more value: proven."""

    FEASIBLE = "feasible"
    """Not proven, whatever ended it; the bound says how much may be missing."""

    NO_ANSWER = "no_answer"
    """A limit came before the solver had anything: the plan is the greedy one."""

    STOPPED = "stopped"
    """The caller stopped it; the best so far."""

    FAILED = "failed"
    """The solver broke or its process died; the best so far."""

    TOO_LARGE = "too_large"
    """The model was not built, because it would not fit into memory: the greedy plan."""


class Ending(StrEnum):
    """Why a solve ended, where its status alone does not say."""

    PROVEN = "proven"
    """No plan is worth more."""

    GAP = "gap"
    """What is proven is within the gap that was requested."""

    LIMIT = "limit"
    """Time or work was over before the proof."""

    EXHAUSTED = "exhausted"
    """Before any limit: nothing was left to try."""

    STOPPED = "stopped"
    """The caller stopped it."""

    BROKEN = "broken"
    """A fault ended it."""

    TOO_LARGE = "too_large"
    """It was not begun, for lack of memory."""


class BoundError(RuntimeError):
    """A bound lies below a plan that was checked: one of the two is wrong, so nothing is proven."""


@dataclass(frozen=True, slots=True)
class SolverReport:
    """What a solver agent knows apart from its plan.

    Attributes
    ----------
    status
        A word of `SolverOutcome`.
    value, bound
        Accepted value, and the most that any plan can accept.
    source
        Where the plan came from: a solver, a search, or the greedy agent it started from.
    detail
        One sentence for a person: why the status is not ``optimal``, or what alongside value is not
        proven where it is; else empty.
    ending
        Why it ended; None if an agent does not tell.
    """

    status: str
    value: float
    bound: float
    source: str
    detail: str = ""
    ending: Ending | None = None

    @property
    def gap(self) -> float:
        """(bound - value) / bound; 0 when nothing more can be accepted."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True)
class MustKeep:
    """Requests that may not be lost, whatever they are worth.

    Attributes
    ----------
    requests
        Their indexes.
    standing
        What is placed now, one result a request (refused where nothing does), together within the
        view; empty if nothing is known. It is what the plan starts from.
    """

    requests: frozenset[int]
    standing: Sequence[PlacementResult] = ()


@runtime_checkable
class SolverAgent(Agent, Protocol):
    """An agent that proves a bound on what any plan can be worth.

    Its plan is never worth less than the greedy plan it starts from.
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
            Requests that no plan may lose, and what is placed now, which the solver starts from.
            The bound is then the most that a plan with all of them can be worth, and only such
            plans count. Where none is found the status is ``no_answer``, with what greedy placing
            holds.

        Raises
        ------
        ValueError
            If `must_keep` names no request, or the current allocation breaks a limit of the view.
        """
        ...


def no_plan_report(bound: float, source: str, ending: Ending | None = None) -> SolverReport:
    """Return the report of a solve that found no plan with all that must be kept.

    Parameters
    ----------
    bound
        Minus infinity where it is proven that there is none.
    """
    if bound < 0:
        detail, ending = "proven: not all that must be kept can be", Ending.PROVEN
    else:
        detail = "no plan with all that must be kept was found; the bound is one of those plans"
    return SolverReport(SolverOutcome.NO_ANSWER.value, 0.0, max(bound, 0.0), source, detail, ending)


def total_requested_value(requests: Sequence[Request], reference: Resources) -> float:
    """Return the value of everything that some plan could satisfy: a bound that costs nothing."""
    return sum(value_asked(request, reference) for request in requests)


def is_proven(value: float, bound: float, requested: float) -> bool:
    """Return whether a value reaches a bound, up to rounding; `requested` is the value of all."""
    return bound - value <= VALUE_TOLERANCE * abs(bound) + REQUESTED_TOLERANCE * requested
