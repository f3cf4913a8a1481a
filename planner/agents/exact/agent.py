"""`exact`: the most value that two cores can prove in a minute (docs/exact.md).

A greedy portfolio first; then a search for plans beside a Lagrangian bound, until they are within
the gap asked for. On rigid requests with few starts CP-SAT and a sweep over time work beside them,
on few requests of any kind a MILP of all: they prove what prices cannot. The answer is never worth
less than the start's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.agent import (
    Ending,
    Limits,
    MustKeep,
    SolveProgress,
    SolverAgent,
    SolverOutcome,
    SolverReport,
    all_asked,
    is_proven,
    no_plan_report,
)
from planner.agents import agent_named
from planner.agents.exact.bound.lagrangian import evaluation_s
from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import BoundError, Incumbent
from planner.agents.exact.parallel import solve_in_parallel
from planner.agents.exact.router import route, suits_cp_sat
from planner.agents.exact.ruin_recreate import MOST_ROWS
from planner.agents.exact.warm_up import load_loops
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
_COPIES = 12

#: Part of the time, and seconds at least, that the greedy start may take: thousands of requests
#: need half a minute for all of its runs, most small sets some milliseconds.
_STARTING = 0.25
_STARTING_S = 1.0

#: Seconds above which loops were compiled, not loaded: a minute that no limit should pay for.
_LOADING_S = 2.0

#: Filling and the report cost so many looks at a whole plan, about, and a check so many; the search
#: leaves time for its last one.
_LOOKS = 5
_CHECK = 4

_INSTEAD = "the greedy plan stands; plan fewer requests, shorter windows or longer steps"

#: Part of the time that the bound at one set of prices may take, which nothing can cut short; where
#: it takes more, only prices of buckets of steps are tried.
_EVALUATION = 0.1

#: Part of the time that is kept for lowering preemption once value is found, and most seconds.
_FLATTENING = 0.05
_FLATTENING_S = 1.0


_EXHAUSTED = "nothing is left to try before the limit: the search finds no better plan, and"

_OUTCOMES = {
    Ending.PROVEN: SolverOutcome.OPTIMAL,
    Ending.STOPPED: SolverOutcome.STOPPED,
    Ending.BROKEN: SolverOutcome.FAILED,
    Ending.TOO_LARGE: SolverOutcome.TOO_LARGE,
}


@dataclass(frozen=True, slots=True)
class _Ended:
    """Why the search ended, and a sentence on it."""

    ending: Ending = Ending.LIMIT
    detail: str = "the limit came before the proof"


@dataclass(frozen=True, slots=True)
class ExactAgent(SolverAgent):
    """The exact planner behind the agents' contract.

    Attributes
    ----------
    gap
        Ends when (bound - value) / bound is at most this.
    start
        The greedy agent it starts from.
    default_time_s
        Limit where a caller gives neither time nor work.
    most_memory
        Bytes; a set that is predicted to take more is left to the greedy plan.
    fine
        False bounds on buckets of steps only, which takes less of the second core.
    clock
        Monotonic seconds.
    """

    name: str = "exact"
    gap: float = 0.01
    start: str = "portfolio-free"
    default_time_s: float = 60.0
    most_memory: int = MOST_MEMORY
    fine: bool = True
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
        planner.agents.exact.incumbent.BoundError
            If a bound lies below a plan that was checked: a fault, never to be hidden.
        """
        began = self.clock()
        effort = self._effort(limits, began)
        starter = self._of_the_start(limits)
        greedy = warm_start(agent_named(self.start), requests, view, starter, must_keep)
        before = self.clock()
        asked_value = all_asked(requests, view.nominal)
        kept = frozenset() if must_keep is None else must_keep.requests
        race = Incumbent(requests, view, greedy, asked_value, self.start, keep=kept)
        look_s = self.clock() - before
        effort.check_s = _CHECK * look_s
        effort.keep(_LOOKS * look_s)
        if limits.news is not None:
            race.changed = _teller(limits.news, self.clock, began)
            race.changed(race)
        asked = [i for i, request in enumerate(requests) if len(request.graph.vertices)]
        ended = _Ended()
        if asked and not effort.over(race):
            ended = self._ended(race, asked, effort, limits)
        flat = race.results
        if must_keep is None or race.source != self.start:  # what stands stays: churn comes first
            flat = polish(requests, flat, view, _late(effort, limits))
        results = fill(requests, flat, view)
        return results, self._report(race, results, ended, limits)

    def _too_large(self, asked: list[Request], view: PlanView) -> str:
        """Return why prices and plans of these requests would take too much, or nothing."""
        needed, gib = predicted_bytes(asked, view), 2.0**30
        if needed <= self.most_memory:
            return ""
        takes = f"{needed / gib:.1f} GiB, more than the {self.most_memory / gib:.1f} GiB"
        return f"prices and plans would take about {takes} they may: {_INSTEAD}"

    def _allowed_s(self, limits: Limits) -> float:
        """Return the seconds of the whole solve; infinite where work is the limit."""
        if limits.work is not None:
            return math.inf
        return self.default_time_s if limits.time_s is None else limits.time_s

    def _of_the_start(self, limits: Limits) -> Limits:
        """Return the limits of the greedy start; its first run always ends."""
        if limits.work is not None:
            return Limits(seed=limits.seed, stop=limits.stop)
        longest = max(_STARTING_S, _STARTING * self._allowed_s(limits))
        return Limits(longest, seed=limits.seed, stop=limits.stop)

    def _effort(self, limits: Limits, began: float) -> Budget:
        allowed = self.default_time_s if limits.time_s is None else limits.time_s
        searching = allowed - min(_FLATTENING_S, _FLATTENING * allowed)
        until = None if limits.work is not None else began + searching

        def tell() -> None:
            if limits.progress is not None and until is not None:
                limits.progress(int(self.clock() - began), max(1, int(allowed)))

        stop = limits.stop or (lambda: False)
        gap = self.gap if limits.gap is None else limits.gap
        return Budget(until, limits.work, gap, stop, self.clock, tell)

    def _ended(self, race: Incumbent, asked: list[int], effort: Budget, limits: Limits) -> _Ended:
        """Search; a fault in it costs what it would have found, never the plan in hand."""
        too_large = self._too_large([race.requests[i] for i in asked], race.view)
        if too_large:
            return _Ended(Ending.TOO_LARGE, too_large)
        try:
            exhausted = self._pursue(race, asked, effort, limits)
        except BoundError:
            raise
        except Exception as error:  # noqa: BLE001 - the best checked plan must outlive any fault
            _LOG.error("the search of %s broke", self.name, exc_info=True)
            why = f"{type(error).__name__}: {error}"
            return _Ended(Ending.BROKEN, f"the search broke ({why}): the best so far stands")
        if exhausted:
            return _Ended(Ending.EXHAUSTED, f"{_EXHAUSTED} {exhausted}")
        return _Ended()

    def _pursue(self, race: Incumbent, asked: list[int], effort: Budget, limits: Limits) -> str:
        """Return why nothing more was tried, where that ended it; else nothing."""
        must = [place for place, i in enumerate(asked) if i in race.keep]
        problem = build_problem([race.requests[i] for i in asked], race.view, must)
        race.lower(problem.total, "preferences")
        before = self.clock()
        load_loops(build_problem([race.requests[asked[0]]], race.view))
        spent = self.clock() - before
        if effort.until is not None and spent > _LOADING_S:
            effort.until += spent
        if not effort.over(race):
            route(race, problem, asked, effort, limits.seed)
        if effort.over(race):
            return ""
        fine = self.fine and evaluation_s(problem) <= _EVALUATION * self._allowed_s(limits)
        prove = suits_cp_sat(problem)
        return solve_in_parallel(race, SolveInput(problem, asked, limits.seed, prove, fine), effort)

    def _report(
        self, race: Incumbent, results: list[PlacementResult], ended: _Ended, limits: Limits
    ) -> SolverReport:
        value = score_of(race.requests, results, race.view.nominal)[0]
        if not race.whole:
            return no_plan_report(race.bound, race.source, ended.ending)
        if is_proven(value, race.bound, race.asked):
            ended = _Ended(Ending.PROVEN, "")
        elif ended.ending is not Ending.LIMIT:
            pass
        elif limits.stop is not None and limits.stop():
            ended = _Ended(Ending.STOPPED, "the best so far stands")
        elif race.gap <= (self.gap if limits.gap is None else limits.gap):
            ended = _Ended(Ending.GAP, "the gap asked for is proven")
        outcome = _OUTCOMES.get(ended.ending, SolverOutcome.FEASIBLE)
        bound = max(race.bound, value)
        return SolverReport(outcome.value, value, bound, race.source, ended.detail, ended.ending)


def _late(effort: Budget, limits: Limits) -> Callable[[], bool]:
    """Return what says, from now on, whether no time is left to flatten the plan.

    A search that ended early leaves no more time than one that took all of it, or a second.
    """
    if effort.until is None:
        return effort.stop
    part = _FLATTENING_S if limits.time_s is None else _FLATTENING * limits.time_s
    until = effort.until + min(_FLATTENING_S, part)
    until = min(until, effort.clock() + max(_FLATTENING_S, part))
    return lambda: effort.stop() or effort.clock() >= until


def _teller(
    news: Callable[[SolveProgress], None], clock: Callable[[], float], began: float
) -> Callable[[Incumbent], None]:
    def tell(race: Incumbent) -> None:
        news(SolveProgress(clock() - began, race.value, race.bound, race.source, race.proof))

    return tell


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


#: The agent that users name.
EXACT = ExactAgent()
