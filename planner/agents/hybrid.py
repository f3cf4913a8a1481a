"""`hybrid`: a solver for the hard few, greedy agents for the many (Rayon 6.3.1 left it open).

Greedy agents place all, in orders of their own choosing. Up to `together` requests `exact` goes on
from their plan with all at once. Of more, until the time is over, a refused request and its
neighbours in time are taken out, the solver places them anew in what the others
leave, and what it finds is kept if it is worth no less. A way that docs/results.md found worth less
is there to be measured: before the rounds, the solver places the hardest requests on what is free
and GREE-L the rest beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.exact import EXACT
from planner.agents.filling import filled
from planner.agents.hardness import Neighbourhoods, hardest
from planner.exact.flatten import flattened
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.solver_report import SolverOutcome, SolverReport, all_asked, is_proven
from planner.value import score_of
from planner.view import PlanView

#: Solver work of one round where work and not time is the limit.
_ROUND_WORK = 500

#: Proven gap at which a solve of the few ends, unless a caller asks for another.
_ROUND_GAP = 0.003

#: Part of the time that lowering preemption may take past it.
_GRACE = 0.1


@dataclass(slots=True)
class _Best:
    """The best plan so far and where it came from."""

    results: list[PlacementResult]
    score: tuple[float, int]
    source: str


@dataclass(frozen=True, slots=True)
class _Task:
    """What is asked, what is free, and when to end."""

    requests: Sequence[Request]
    view: PlanView
    limits: Limits
    until: float | None
    began: float


@dataclass(frozen=True, slots=True)
class HybridAgent:
    """Solver and greedy agent, each for what it is good at, behind the agents' contract.

    Attributes
    ----------
    inner
        The agent that solves: ``exact`` or ``milp``.
    start
        Greedy agent whose plan it starts from and never falls below. The first run of both
        portfolios is GREE-L, which always ends.
    few
        Requests that go to the solver in one round; a set of so many goes to it whole.
    together
        Requests up to which ``exact`` searches all of them from the plan of `start`, and proves a
        bound, in place of rounds; another solver only gets sets of `few` whole.
    first
        Requests that go to the solver before the others are placed; 0 leaves that way out.
    start_share, share
        Parts of the time that the start, and of what is then left, that the first part may take.
    round_s
        Seconds of one later round; 0 leaves them out.
    default_time_s
        Limit where a caller gives neither time nor work.
    clock
        Monotonic seconds.
    """

    name: str = "hybrid"
    inner: str = "exact"
    start: str = "portfolio-free"
    few: int = 1000
    together: int = 12_000
    first: int = 0
    start_share: float = 0.2
    share: float = 0.5
    round_s: float = 5.0
    default_time_s: float = 60.0
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> list[PlacementResult]:
        """Return the best plan found within the limits, at least that of `start`."""
        return self.solve(requests, view, limits)[0]

    def solve(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report; a set that is small enough goes to the solver whole."""
        if len(requests) <= max(self.few, self.together) and self.inner == EXACT.name:
            return replace(EXACT, start=self.start).solve(requests, view, limits)
        if len(requests) <= self.few:
            return self._whole(requests, view, limits)
        began = self.clock()
        allowed = self.default_time_s if limits.time_s is None else limits.time_s
        until = None if limits.work is not None else began + allowed
        task = _Task(requests, view, limits, until, began)
        start_s = None if until is None else allowed * self.start_share
        results = agent_named(self.start).plan(requests, view, Limits(start_s, seed=limits.seed))
        best = _Best(list(results), score_of(requests, results, view.nominal), self.start)
        bound = all_asked(requests, view.nominal)
        if not is_proven(best.score[0], bound, 0.0):
            self._few_first(task, best)
            self._rounds(task, best, bound)
        results = filled(requests, best.results, view)
        results = flattened(requests, results, view, lambda: self._past(task))
        value = score_of(requests, results, view.nominal)[0]
        return results, self._report(value, bound, best.source, limits)

    def _report(self, value: float, bound: float, source: str, limits: Limits) -> SolverReport:
        if is_proven(value, bound, bound):
            return SolverReport(SolverOutcome.OPTIMAL.value, value, bound, source)
        if limits.stop is not None and limits.stop():
            outcome, detail = SolverOutcome.STOPPED, "the best so far stands"
        else:
            outcome, detail = SolverOutcome.FEASIBLE, "the bound is all that was asked for"
        return SolverReport(outcome.value, value, bound, source, detail)

    def _whole(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> tuple[list[PlacementResult], SolverReport]:
        inner = agent_named(self.inner)
        results, report = inner.solve(requests, view, limits)  # type: ignore[attr-defined]
        return results, report

    def _few_first(self, task: _Task, best: _Best) -> None:
        """Let the solver place the hardest on what is free, and GREE-L the many beside them."""
        if self.first == 0 or self._over(task):
            return
        few = hardest(task.requests, task.view.nominal, self.first)
        answers = self._inner(task, few, task.view, self._allowed(task, self.share))
        results = [_waiting() for _ in task.requests]
        for index, answer in zip(few, answers, strict=True):
            results[index] = answer
        results = filled(task.requests, results, task.view)
        score = score_of(task.requests, results, task.view.nominal)
        if score > best.score:
            best.results, best.score, best.source = results, score, "the few first"

    def _rounds(self, task: _Task, best: _Best, bound: float) -> None:
        """Take a refused request and its neighbours out and place them anew, again and again."""
        rounds = 0 if task.limits.work is None else max(1, task.limits.work // _ROUND_WORK)
        near = Neighbourhoods(task.requests, self.few, np.random.default_rng(task.limits.seed))
        done = 0
        while self.round_s and not self._over(task) and (task.until is not None or done < rounds):
            few = near.draw(best.results)
            if not few or is_proven(best.score[0], bound, 0.0):
                return
            self._round(task, best, few)
            done += 1
            self._tell(task, done, rounds)

    def _round(self, task: _Task, best: _Best, few: list[int]) -> None:
        taken = set(few)
        kept = [
            (request, result)
            for index, (request, result) in enumerate(zip(task.requests, best.results, strict=True))
            if result.placed and index not in taken
        ]
        beside = task.view.after(kept, task.view.version)
        answers = self._inner(task, few, beside, self._allowed(task, 1.0))
        asked = [task.requests[index] for index in few]
        before = score_of(asked, [best.results[index] for index in few], task.view.nominal)
        after = score_of(asked, answers, task.view.nominal)
        if after < before:
            return
        for index, answer in zip(few, answers, strict=True):
            best.results[index] = answer
        best.score = (best.score[0] + after[0] - before[0], best.score[1] + after[1] - before[1])
        if after > before:
            best.source = f"rounds by {self.inner}"

    def _inner(
        self, task: _Task, few: list[int], view: PlanView, allowed: float | None
    ) -> list[PlacementResult]:
        agent = agent_named(self.inner)
        work = None if allowed is not None else _ROUND_WORK
        gap = _ROUND_GAP if task.limits.gap is None else task.limits.gap
        limits = Limits(allowed, work, task.limits.seed, task.limits.stop, gap=gap)
        return list(agent.plan([task.requests[index] for index in few], view, limits))

    def _allowed(self, task: _Task, share: float) -> float | None:
        """Return the seconds of one solve; None where work is the limit."""
        if task.until is None:
            return None
        left = max(0.0, task.until - self.clock())
        return left * share if share < 1.0 else min(left, self.round_s)

    def _over(self, task: _Task) -> bool:
        if task.limits.stop is not None and task.limits.stop():
            return True
        return task.until is not None and self.clock() >= task.until

    def _past(self, task: _Task) -> bool:
        """Return whether even what is quick must end: a tenth of the time more, or a stop."""
        if task.limits.stop is not None and task.limits.stop():
            return True
        if task.until is None:
            return False
        return self.clock() >= task.until + _GRACE * (task.until - task.began)

    def _tell(self, task: _Task, done: int, rounds: int) -> None:
        if task.limits.progress is None:
            return
        if task.until is None:
            task.limits.progress(done, rounds)
        else:
            whole = max(1, int(task.until - task.began))
            task.limits.progress(min(whole, int(self.clock() - task.began)), whole)


def _waiting() -> PlacementResult:
    return PlacementResult(Code.CAPACITY, "the hard few come first")


#: The agent that users name.
HYBRID = HybridAgent()
