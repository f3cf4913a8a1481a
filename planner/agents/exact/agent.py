"""`exact`: near-optimal value with a proven bound, within a minute on two cores (docs/exact.md).

A greedy portfolio is the warm start. Then ruin and recreate with annealing searches for plans while
prices (subgradient ascent and column generation) lower a Lagrangian bound, until the gap is as
small as requested. CP-SAT runs alongside them if all atoms are blocks, a MILP of the whole set if
there are few requests: they prove bounds that prices cannot. The result is never worth less than
the warm start.
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
from planner.agents.polish import polish
from planner.agents.warm_start import fill, warm_start
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from rdl.work_graph import END, START

_LOG = logging.getLogger(__name__)

#: Maximum bytes for prices and plans; above it the greedy plan is the result.
MOST_MEMORY = 4 << 30

#: Bytes per column of one vertex: caps, and three scratch lines shared by a request's vertices.
_CELL = 8
#: Bytes of one row slot in three plans.
_SLOT = 72
#: Number of profile-sized arrays of the bound's two starts and the search.
_COPIES = 13

#: Fraction of the time, and minimum seconds, for the greedy start: thousands of requests need half
#: a minute for all of its runs, most small sets some milliseconds.
_START_SHARE = 0.25
_START_S = 1.0

#: Seconds above which loops must have been compiled, not loaded: that minute does not count against
#: the time limit.
_LOADING_S = 2.0

#: Filling and the report take about as long as `_SCORES` scorings of a whole plan, a check of a
#: plan as long as `_SCORES_A_CHECK`; the search leaves time for its last check.
_SCORES = 5
_SCORES_A_CHECK = 4

_ADVICE = "the greedy plan stands; plan fewer requests, shorter windows or longer steps"

#: Maximum fraction of the time for one evaluation of the bound, which cannot be interrupted; if it
#: takes more, only prices of buckets of steps are tried.
_EVALUATION_SHARE = 0.1

#: Fraction of the time, and maximum seconds, reserved for reducing falls after the search for
#: value.
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
    """Why the search ended, with a sentence for the report."""

    ending: Ending = Ending.LIMIT
    detail: str = "the limit came before the proof"


#: Up to this many requests a solve ends only with a proof, not with a gap.
_FEW = 10


@dataclass(frozen=True, slots=True)
class ExactAgent(SolverAgent):
    """The exact planner as an agent.

    Attributes
    ----------
    gap
        Ends when (bound - value) / bound is at most this; with ten requests or fewer it continues
        until the plan is proven optimal.
    start
        Name of the greedy agent for the warm start.
    default_time_s
        Limit if the caller gives neither time nor work.
    most_memory
        Bytes; sets that are predicted to need more get only the greedy plan.
    most_fine
        Up to this many requests single steps are priced; with more only buckets of steps, which
        takes some seconds of the second core and then leaves it free. None: no limit.
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
            If a bound is below the value of a checked plan: a bug that must not be hidden.
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
        # Keep current allocations in place: low churn has priority.
        if must_keep is None or incumbent.source != self.start:
            best = polish(requests, best, view, _polish_stop(budget, limits))
        results = fill(requests, best, view)
        return results, self._report(incumbent, results, end, limits)

    def _memory_refusal(self, requests: list[Request], view: PlanView) -> str:
        """Return why these requests need too much memory; empty if they do not."""
        needed, gib = predicted_bytes(requests, view), 2.0**30
        if needed <= self.most_memory:
            return ""
        takes = f"{needed / gib:.1f} GiB, more than the {self.most_memory / gib:.1f} GiB"
        return f"prices and plans would take about {takes} they may: {_ADVICE}"

    def _allowed_s(self, limits: Limits) -> float:
        """Return the seconds of the whole solve; infinite if work is the limit."""
        if limits.work is not None:
            return math.inf
        return self.default_time_s if limits.time_s is None else limits.time_s

    def _start_limits(self, limits: Limits) -> Limits:
        """Return the limits of the greedy start; its first run always completes."""
        if limits.work is not None:
            return Limits(seed=limits.seed, stop=limits.stop)
        longest = max(_START_S, _START_SHARE * self._allowed_s(limits))
        return Limits(longest, seed=limits.seed, stop=limits.stop)

    def _gap(self, limits: Limits, count: int) -> float:
        """Return the gap that ends a solve: for few requests 0 unless a gap is given."""
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
        """Search within the budget; an error does not lose the incumbent."""
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
        """Build and solve the problem; return why nothing was left to try, or an empty string."""
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
        # A bound above a proven plan is only rounding; with value 0 it would show as the full gap.
        bound = value if end.ending is Ending.PROVEN else max(incumbent.bound, value)
        return SolverReport(outcome.value, value, bound, incumbent.source, end.detail, end.ending)


def _polish_stop(budget: Budget, limits: Limits) -> Callable[[], bool]:
    """Return a function that returns whether the time for reducing falls is over.

    Even if the search ended early, that time is at most a second or the reserved part.
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
    """Estimate the bytes for prices and plans of these requests."""
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


#: The agents of these names.
EXACT = ExactAgent()
HYBRID = ExactAgent(name="hybrid", most_fine=1000)
