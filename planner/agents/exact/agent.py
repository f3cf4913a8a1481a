"""`exact`: the most value that two cores can prove in a minute (docs/exact.md).

A greedy portfolio is the warm start. Then ruin and recreate with annealing searches for plans while
prices (subgradient ascent and column generation) lower a Lagrangian bound, until the gap is as
small as requested. On blocks CP-SAT works alongside them, on few requests a MILP of the whole set:
they prove what prices cannot. The answer is never worth less than the warm start.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.agent import (
    BoundError,
    Ending,
    Limits,
    MustKeep,
    SolveProgress,
    SolverAgent,
    SolverOutcome,
    SolverReport,
    is_proven,
    no_plan_report,
    total_requested_value,
)
from planner.agents import agent_named
from planner.agents.exact.build import build_problem
from planner.agents.exact.cp_sat import solve_first, suits_cp_sat
from planner.agents.exact.incumbent import Budget, Incumbent, SolveInput
from planner.agents.exact.lagrangian import evaluation_s
from planner.agents.exact.parallel import load_loops, solve_in_parallel
from planner.agents.exact.search import MOST_ROWS
from planner.agents.fill import fill
from planner.agents.polish import polish
from planner.agents.warm_start import warm_start
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from rdl.work_graph import END, START

_LOG = logging.getLogger(__name__)

#: Bytes that prices and plans may take; above it the greedy plan stands.
MOST_MEMORY = 4 << 30

#: Bytes of one column of one vertex: caps, three scratch lines shared by a request's vertices.
_CELL = 8
#: Bytes of one slot of a row in three plans.
_SLOT = 72
#: Arrays as large as the profile that the bound's two starts and the search keep.
_COPIES = 13

#: Part of the time, and seconds at least, that the greedy start may take: thousands of requests
#: need half a minute for all of its runs, most small sets some milliseconds.
_START_SHARE = 0.25
_START_S = 1.0

#: Seconds above which loops were compiled, not loaded: a minute that no limit should pay for.
_LOADING_S = 2.0

#: Filling and the report take about as long as scoring a whole plan this many times, and a check of
#: a plan so many; the search leaves time for its last check.
_SCORES = 5
_SCORES_A_CHECK = 4

_ADVICE = "the greedy plan stands; plan fewer requests, shorter windows or longer steps"

#: Part of the time that the bound at one set of prices may take, which nothing can cut short; where
#: it takes more, only prices of buckets of steps are tried.
_EVALUATION_SHARE = 0.1

#: Part of the time that is kept for lowering falls once value is found, and most seconds.
_POLISH_SHARE = 0.05
_POLISH_S = 1.0


_EXHAUSTED = "nothing is left to try before the limit: the search finds no better plan, and"

_OUTCOMES = {
    Ending.PROVEN: SolverOutcome.OPTIMAL,
    Ending.STOPPED: SolverOutcome.STOPPED,
    Ending.BROKEN: SolverOutcome.FAILED,
    Ending.TOO_LARGE: SolverOutcome.TOO_LARGE,
}


@dataclass(frozen=True, slots=True)
class _End:
    """Why the search ended, and a sentence on it."""

    ending: Ending = Ending.LIMIT
    detail: str = "the limit came before the proof"


#: Requests up to which a solve ends with a proof and not with a gap.
_FEW = 10


@dataclass(frozen=True, slots=True)
class ExactAgent(SolverAgent):
    """The exact planner behind the agents' contract.

    Attributes
    ----------
    gap
        Ends when (bound - value) / bound is at most this; ten requests or fewer continue until
        nothing is left to prove.
    start
        The greedy agent it starts from.
    default_time_s
        Limit where a caller gives neither time nor work.
    most_memory
        Bytes; a set that is predicted to take more is left to the greedy plan.
    most_fine
        Requests up to which single steps are priced; of more only buckets of steps, which takes
        some seconds of the second core and then leaves it free. None: however many.
    clock
        Monotonic seconds.
    """

    name: str = "exact"
    gap: float = 0.01
    start: str = "portfolio-free"
    default_time_s: float = 60.0
    most_memory: int = MOST_MEMORY
    most_fine: int | None = None
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def solve(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        must_keep: MustKeep | None = None,
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report; see `planner.agent.SolverAgent`.

        Raises
        ------
        planner.agent.BoundError
            If a bound lies below a plan that was checked: a fault, never to be hidden.
        """
        began = self.clock()
        budget = self._budget_of(limits, began, len(requests))
        starter = self._start_limits(limits)
        greedy = warm_start(agent_named(self.start), requests, view, starter, must_keep)
        before = self.clock()
        bound = total_requested_value(requests, view.reference)
        kept = frozenset() if must_keep is None else must_keep.requests
        incumbent = Incumbent(requests, view, greedy, bound, self.start, must_keep=kept)
        score_s = self.clock() - before
        budget.check_s = _SCORES_A_CHECK * score_s
        budget.reserve(_SCORES * score_s)
        if limits.news is not None:
            incumbent.on_change = _progress_reporter(limits.news, self.clock, began)
            incumbent.on_change(incumbent)
        positions = [i for i, request in enumerate(requests) if len(request.graph.vertices)]
        end = _End()
        if positions and not budget.is_over(incumbent):
            end = self._search(incumbent, positions, budget, limits)
        best = incumbent.results
        # What stands stays where it is: churn comes first.
        if must_keep is None or incumbent.source != self.start:
            best = polish(requests, best, view, _polish_stop(budget, limits))
        results = fill(requests, best, view)
        return results, self._report(incumbent, results, end, limits)

    def _memory_refusal(self, requests: list[Request], view: PlanView) -> str:
        """Return why prices and plans of these requests take too much memory; else empty."""
        needed, gib = predicted_bytes(requests, view), 2.0**30
        if needed <= self.most_memory:
            return ""
        takes = f"{needed / gib:.1f} GiB, more than the {self.most_memory / gib:.1f} GiB"
        return f"prices and plans would take about {takes} they may: {_ADVICE}"

    def _allowed_s(self, limits: Limits) -> float:
        """Return the seconds of the whole solve; infinite where work is the limit."""
        if limits.work is not None:
            return math.inf
        return self.default_time_s if limits.time_s is None else limits.time_s

    def _start_limits(self, limits: Limits) -> Limits:
        """Return the limits of the greedy start; its first run always ends."""
        if limits.work is not None:
            return Limits(seed=limits.seed, stop=limits.stop)
        longest = max(_START_S, _START_SHARE * self._allowed_s(limits))
        return Limits(longest, seed=limits.seed, stop=limits.stop)

    def _gap(self, limits: Limits, count: int) -> float:
        """Return the gap that ends a solve; a few requests are proven unless a gap is given."""
        if limits.gap is not None:
            return limits.gap
        return 0.0 if count <= _FEW else self.gap

    def _budget_of(self, limits: Limits, began: float, count: int) -> Budget:
        allowed = self.default_time_s if limits.time_s is None else limits.time_s
        searching = allowed - min(_POLISH_S, _POLISH_SHARE * allowed)
        until = None if limits.work is not None else began + searching

        def report_progress() -> None:
            if limits.progress is not None and until is not None:
                limits.progress(int(self.clock() - began), max(1, int(allowed)))

        stop = limits.stop or (lambda: False)
        gap = self._gap(limits, count)
        return Budget(until, limits.work, gap, stop, self.clock, report_progress)

    def _search(
        self, incumbent: Incumbent, positions: list[int], budget: Budget, limits: Limits
    ) -> _End:
        """Search within the budget; a fault costs no plan in hand."""
        refusal = self._memory_refusal([incumbent.requests[i] for i in positions], incumbent.view)
        if refusal:
            return _End(Ending.TOO_LARGE, refusal)
        try:
            why_exhausted = self._run_search(incumbent, positions, budget, limits)
        except BoundError:
            raise
        except Exception as error:  # noqa: BLE001 - the best checked plan must outlive any fault
            _LOG.error("the search of %s broke", self.name, exc_info=True)
            why = f"{type(error).__name__}: {error}"
            return _End(Ending.BROKEN, f"the search broke ({why}): the best so far stands")
        if why_exhausted:
            return _End(Ending.EXHAUSTED, f"{_EXHAUSTED} {why_exhausted}")
        return _End()

    def _run_search(
        self, incumbent: Incumbent, positions: list[int], budget: Budget, limits: Limits
    ) -> str:
        """Build the problem and solve it; return why nothing was left to try, else empty."""
        must = [place for place, i in enumerate(positions) if i in incumbent.must_keep]
        problem = build_problem([incumbent.requests[i] for i in positions], incumbent.view, must)
        incumbent.lower(problem.total, "preferences")
        before = self.clock()
        load_loops(build_problem([incumbent.requests[positions[0]]], incumbent.view))
        spent = self.clock() - before
        if budget.until is not None and spent > _LOADING_S:
            budget.until += spent
        if not budget.is_over(incumbent):
            solve_first(incumbent, problem, positions, budget, limits.seed)
        if budget.is_over(incumbent):
            return ""
        few = self.most_fine is None or len(incumbent.requests) <= self.most_fine
        fine = few and evaluation_s(problem) <= _EVALUATION_SHARE * self._allowed_s(limits)
        prove = suits_cp_sat(problem)
        return solve_in_parallel(
            incumbent, SolveInput(problem, positions, limits.seed, prove, fine), budget
        )

    def _report(
        self, incumbent: Incumbent, results: list[PlacementResult], end: _End, limits: Limits
    ) -> SolverReport:
        value = score_of(incumbent.requests, results, incumbent.view.reference)[0]
        if not incumbent.whole:
            return no_plan_report(incumbent.bound, incumbent.source, end.ending)
        incumbent.hold_against(value, "the plan that was filled")
        if is_proven(value, incumbent.bound, incumbent.requested_value):
            end = _End(Ending.PROVEN, "")
        elif end.ending is not Ending.LIMIT:
            pass
        elif limits.stop is not None and limits.stop():
            end = _End(Ending.STOPPED, "the best so far stands")
        elif incumbent.gap <= self._gap(limits, len(incumbent.requests)):
            end = _End(Ending.GAP, "the gap asked for is proven")
        outcome = _OUTCOMES.get(end.ending, SolverOutcome.FEASIBLE)
        # What is above a proven plan is rounding; where the value is 0 it would be all of the gap.
        bound = value if end.ending is Ending.PROVEN else max(incumbent.bound, value)
        return SolverReport(outcome.value, value, bound, incumbent.source, end.detail, end.ending)


def _polish_stop(budget: Budget, limits: Limits) -> Callable[[], bool]:
    """Return a function that says whether no time is left to lower falls.

    A search that ended early leaves no more time than one that took all of it, or a second.
    """
    if budget.until is None:
        return budget.stop
    part = _POLISH_S if limits.time_s is None else _POLISH_SHARE * limits.time_s
    until = budget.until + min(_POLISH_S, part)
    until = min(until, budget.clock() + max(_POLISH_S, part))
    return lambda: budget.stop() or budget.clock() >= until


def _progress_reporter(
    news: Callable[[SolveProgress], None], clock: Callable[[], float], began: float
) -> Callable[[Incumbent], None]:
    def report(incumbent: Incumbent) -> None:
        news(
            SolveProgress(
                clock() - began,
                incumbent.value,
                incumbent.bound,
                incumbent.source,
                incumbent.proof,
                incumbent.results if incumbent.whole else None,
            )
        )

    return report


def predicted_bytes(requests: Sequence[Request], view: PlanView) -> int:
    """Return about how many bytes prices and plans of these requests will take."""
    caps = slots = largest = 0
    for request in requests:
        vertices = request.graph.vertices
        widths = (vertices[:, END] - vertices[:, START]).clip(1)
        own = int(widths.sum())
        caps += own
        largest = max(largest, own)
        slots += int(widths.clip(max=MOST_ROWS).sum())
    profile = int(view.free.size) * _COPIES
    return _CELL * (caps + 9 * largest + profile) + _SLOT * slots


#: The agents that users name.
EXACT = ExactAgent()
HYBRID = ExactAgent(name="hybrid", most_fine=1000)
