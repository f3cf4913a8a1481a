"""CP-SAT on the most valuable requests first, where it would not come to an end on all of them.

A bound on some requests and the value of all others is a bound on everything: what is set aside
counts as accepted and holds nothing. Proofs take about two and a half times as long for every five
requests more of a hundred (narrow gangs), and the least valuable half is a tenth of the value, so
within a limit the first sixty or eighty give a lower bound than all (docs/exact.md, CP-SAT). Of a
thousand gangs even that part is too much: a part that has had its trial and says nothing yet ends
the proof, and another search has its core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from planner.agents.exact.incumbent import ProofAnswer
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.proof.cp_model import value_bounds
from planner.agents.exact.proof.cp_sat import MOST_STARTS, CpLimits, count_starts, solve_rigid
from planner.placement import PlacementResult

#: Value that is left out, as a part of everything, one part after the other.
ASIDE = (0.08, 0.04, 0.02, 0.01, 0.0)

#: Part of its time after which CP-SAT is judged, and the gap above which all requests are too many:
#: for a look of one second twice as wide, since bounds fall fastest at first.
TRIAL_SHARE = 0.15
WIDE_GAP = 0.03


@dataclass(slots=True)
class PartialProof:
    """One proof, of all requests or of more and more of them.

    Attributes
    ----------
    hint
        A plan to start from, one result a request.
    limits
        Of the whole; `report` gets every bound, of whichever part.
    value
        Returns the value of the incumbent; called once, when CP-SAT has had its trial on all.
    clock
        Monotonic seconds.
    parts
        How many requests were set aside in each part that has begun.
    gave_up
        Whether a part said nothing yet when it had had its trial.
    """

    problem: PlanningProblem
    hint: Sequence[PlacementResult]
    limits: CpLimits
    value: Callable[[], float]
    clock: Callable[[], float] = time.monotonic
    parts: list[int] = field(default_factory=list)
    gave_up: bool = field(init=False, default=False)
    _began: float = field(init=False)
    _is_far: bool | None = field(init=False, default=None)
    _bound: float = field(init=False, default=math.inf)
    _part_bound: float = field(init=False, default=math.inf)
    _part_began: float = field(init=False, default=0.0)

    @property
    def is_far(self) -> bool:
        """Whether CP-SAT would not come to an end on all requests, so that parts have begun."""
        return self._is_far is True

    def prove(self) -> ProofAnswer:
        """Return the answer with the least bound."""
        self._began = self.clock()
        best = self._solve((), lambda: self.limits.stop() or self._too_far())
        if not self.is_far:
            return best
        for aside in requests_aside(self.problem):
            if self.limits.stop() or self._left_s <= 0.0 or self.gave_up:
                break
            self._part_began = self.clock()
            answer = self._solve(aside, lambda: self.limits.stop() or self._says_nothing())
            self._report(answer)
            best = min(best, answer, key=lambda one: one.bound)
        return best

    @property
    def _left_s(self) -> float:
        return self.limits.time_s - (self.clock() - self._began)

    def _solve(self, aside: Sequence[int], stop: Callable[[], bool]) -> ProofAnswer:
        self.parts.append(len(aside))
        self._part_bound = self.problem.total
        limits = replace(self.limits, time_s=self._left_s, stop=stop, report=self._report)
        return solve_rigid(self.problem, self.hint, limits, aside)

    def _says_nothing(self) -> bool:
        """Return whether a part has had its trial, and counts everything as accepted still."""
        if self.clock() - self._part_began >= TRIAL_SHARE * self.limits.time_s:
            self.gave_up = self._part_bound >= self.problem.total
        return self.gave_up

    def _report(self, answer: ProofAnswer) -> None:
        self._bound = min(self._bound, answer.bound)
        self._part_bound = min(self._part_bound, answer.bound)
        self.limits.report(answer)

    def _too_far(self) -> bool:
        """Return whether its own bound was far above the best plan when CP-SAT was judged."""
        if self._is_far is not None:
            return self._is_far
        elapsed_s, look_s = self.clock() - self._began, TRIAL_SHARE * self.limits.time_s
        if elapsed_s < look_s:
            return False
        bound = min(self._bound, self.problem.total)
        # Of many starts the bound begins to fall late, and then fast.
        if bound < self.problem.total and count_starts(self.problem) > MOST_STARTS:
            look_s *= 2.0
        if elapsed_s >= look_s:
            self._is_far = (bound - self.value()) * look_s > WIDE_GAP * (look_s + 1.0) * bound
        return self.is_far


def requests_aside(problem: PlanningProblem) -> list[tuple[int, ...]]:
    """Return the requests set aside in each part: ever fewer, and none in the last.

    The least valuable of those that may be lost, as many as come to no more than a part of `ASIDE`.
    """
    worths = value_bounds(problem)
    free = np.flatnonzero(problem.forest.keep == 0)
    order = free[np.argsort(worths[free], kind="stable")]
    sums = np.cumsum(worths[order])
    counts = [int(np.searchsorted(sums, part * problem.total, side="right")) for part in ASIDE]
    counts[-1] = 0
    fewer = sorted({count for count in counts if count < len(worths)}, reverse=True)
    return [tuple(order[:count].tolist()) for count in fewer]
