"""A check of subsets that only finds: a MILP of the steps, in a process of its own.

Where prices leave little room, CP-SAT seldom finds the place of a dozen malleable requests, and
dives of a MILP do. Heights need not be whole at first: who begins and ends when is what is hard to
find, and whole heights are asked for once that is known; where there are none, another answer is
looked for. What HiGHS says to be impossible rests on its tolerances, so it is left open here.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lp.arrays import ModelArrays
from lp.limits import Monitor, SolveLimits
from lp.result import FloatArray
from lp.solver import solve
from planner.agents.exact.problem import I64, V_MOST, V_MULTIPLE, V_RUN, PlanningProblem
from planner.agents.exact.proof.placements import placement_of
from planner.agents.exact.subsets.answer import SubsetAnswer, SubsetVerdict
from planner.agents.exact.subsets.levels import LevelBook
from planner.agents.exact.subsets.solver_group import SolverGroup
from planner.agents.exact.subsets.step_model import StepModel
from planner.agents.milp.codec import height_rows
from planner.placement import PlacementResult


@dataclass(slots=True)
class StepCheck:
    """Finds the places of subsets of one set.

    Attributes
    ----------
    seed
        Of the solver's last question; each has another.
    """

    problem: PlanningProblem
    book: LevelBook
    seed: int = 0
    solvers: SolverGroup = field(default_factory=SolverGroup)
    _steps: StepModel = field(init=False)
    _arrays: ModelArrays = field(init=False)

    def __post_init__(self) -> None:
        """Build the model once."""
        self._steps = StepModel(self.problem, self.book)
        self._arrays = self._steps.model().assemble()

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        """Try to place all of a subset, and nothing else, for some seconds of the clock."""
        until = time.monotonic() + time_s
        model, values = self._limited_to(subset), None
        while values is None and time.monotonic() < until and not self.solvers.is_over:
            broken = self._solve(model, until)
            if broken is None:
                break
            values = broken
            if self._is_broken(broken):
                values = self._solve(self._whole_at(subset, broken), until)
        spent_s = time.monotonic() - until + time_s
        if values is None:
            return SubsetAnswer(SubsetVerdict.OPEN, spent_s)
        there = {self.book.levels[level].request for level in subset}
        results = [
            self._placement(request, values) if request in there else None
            for request in range(len(self.problem.requests))
        ]
        return SubsetAnswer(SubsetVerdict.PLACED, spent_s, results)

    def _limited_to(self, subset: Sequence[int]) -> ModelArrays:
        """Return the model in which the levels of a subset are there, and no others."""
        lower, upper = self._arrays.lower.copy(), self._arrays.upper.copy()
        own = slice(self._steps.levels, self._steps.levels + len(self.book.levels))
        upper[own] = 0.0
        lower[own][list(subset)] = upper[own][list(subset)] = 1.0
        return dataclasses.replace(self._arrays, lower=lower, upper=upper)

    def _whole_at(self, subset: Sequence[int], values: FloatArray) -> ModelArrays:
        """Return the model of whole heights in which all begin and end as in an answer."""
        model = self._limited_to(subset)
        fixed = model.integer
        lower, upper, whole = model.lower.copy(), model.upper.copy(), model.integer.copy()
        lower[fixed] = upper[fixed] = np.rint(values[fixed])
        for _, column, count in self._steps.heights.values():
            whole[column : column + count] = True
        return dataclasses.replace(model, lower=lower, upper=upper, integer=whole)

    def _is_broken(self, values: FloatArray) -> bool:
        """Return whether a height of an answer is no whole number."""
        own = [np.arange(at, at + count) for _, at, count in self._steps.heights.values()]
        heights = values[np.concatenate([np.empty(0, dtype=np.int64), *own])]
        return bool((np.abs(heights - np.rint(heights)) > 1e-6).any())

    def _solve(self, model: ModelArrays, until: float) -> FloatArray | None:
        """Return an answer, or None where there is none in the time or the solvers must stop.

        Each has other random numbers: an answer whose heights cannot be made whole has others
        beside it that can.
        """
        left_s = until - time.monotonic()
        if left_s <= 0 or self.solvers.is_over:
            return None
        self.seed += 1
        limits = SolveLimits(time_s=left_s, threads=1, seed=self.seed, watchdog=True)
        monitor = Monitor(should_stop=lambda: self.solvers.is_over)
        answer = solve(model, limits, monitor=monitor)
        return answer.values if answer.status.has_values else None

    def _placement(self, request: int, values: FloatArray) -> PlacementResult:
        steps = self._steps

        def is_there(vertex: int) -> bool:
            return bool(values[steps.present[vertex]] > 0.5)

        def rows_of(vertex: int) -> I64:
            row = self.problem.forest.vertices[vertex]
            if vertex in steps.starts:
                starts, first = steps.starts[vertex]
                start = starts[int(values[first : first + len(starts)].argmax())]
                heights = np.full(int(row[V_RUN]), int(row[V_MOST]))
            else:
                start, first, count = steps.heights[vertex]
                heights = np.rint(values[first : first + count]).astype(np.int64)
            return height_rows(heights * int(row[V_MULTIPLE]), start + self.problem.base)

        return placement_of(self.problem, request, is_there, rows_of)
