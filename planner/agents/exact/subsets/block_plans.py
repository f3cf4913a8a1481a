"""Plans of a whole set of few requests of blocks, from CP-SAT, before its subsets are asked about.

The search and the questions about subsets leave the plan some per cent short on such sets, and a
better plan leaves fewer subsets to ask about. Reasoning about energy, which refutes subsets, is
left out: it takes time and finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.incumbent import CP_SAT, Incumbent, ProofAnswer, report_answer
from planner.agents.exact.proof.cp_model import RigidModel, WaysOfWorth
from planner.agents.exact.proof.cp_sat import CpLimits, solve_model
from planner.agents.exact.subsets.levels import LevelBook
from planner.placement import PlacementResult

#: Part of the time that is left which the look may take, and which may pass without a better plan.
_SHARE: Final = 0.1
_PATIENCE: Final = 0.04


@dataclass(slots=True)
class BlockPlans:
    """One look at all requests of a set of blocks (`check.suits_intervals`).

    Attributes
    ----------
    incumbent
        Takes every better plan and bound.
    book
        Levels of the requests: what a plan is worth is the sum of theirs.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget
    book: LevelBook
    _until: float = field(init=False, default=0.0)
    _patience_s: float = field(init=False, default=0.0)
    _found_at: float = field(init=False, default=0.0)
    _found: list[PlacementResult | None] | None = field(init=False, default=None)

    def look(self) -> None:
        """Look for plans until one is proven, none is found for a while, or the share is over."""
        budget, rigid = self.budget, self._model()
        left_s, self._found_at = budget.left_s, budget.clock()
        self._until = self._found_at + _SHARE * left_s
        self._patience_s = _PATIENCE * left_s
        # By the clock of the budget, which need not be the wall clock that CP-SAT's own limit has.
        limits = CpLimits(
            float("inf"), self.solve_input.seed, stop=self._is_over, report=self._report
        )
        report_answer(self.incumbent, self.solve_input.positions, solve_model(rigid, limits))

    def _model(self) -> RigidModel:
        """Return the model of the whole set, which begins from the plan in hand."""
        from ortools.sat.python import cp_model

        problem = self.solve_input.problem
        rigid = RigidModel(problem, cp_model)
        rigid.maximise_levels(
            [
                WaysOfWorth(
                    level.request,
                    level.value / problem.total,
                    tuple(way.choices for way in self.book.unreached(index)),
                )
                for index, level in enumerate(self.book.levels)
            ]
        )
        rigid.add_hint([self.incumbent.results[at] for at in self.solve_input.positions])
        return rigid

    def _is_over(self) -> bool:
        now = self.budget.clock()
        is_late = now >= self._until or now - self._found_at >= self._patience_s
        return is_late or self.budget.is_over(self.incumbent)

    def _report(self, answer: ProofAnswer) -> None:
        if answer.results is not self._found:
            self._found, self._found_at = answer.results, self.budget.clock()
        report_answer(self.incumbent, self.solve_input.positions, answer, CP_SAT)
