"""Plans of a whole set of few requests of blocks, from CP-SAT, before its subsets are asked about.

The search and the questions about subsets leave the plan some per cent short on such sets, and a
better plan leaves fewer subsets to ask about. Reasoning about energy, which refutes subsets, is
left out: it takes time and finds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.incumbent import Incumbent, ProofAnswer, report_answer
from planner.agents.exact.proof.cp_model import RigidModel, WaysOfWorth
from planner.agents.exact.proof.cp_sat import CpLimits, solve_model
from planner.agents.exact.subsets.levels import LevelBook
from planner.placement import PlacementResult

#: Part of the time that is left which all solves may take, and which one may go on in without a
#: better plan; the next one has other random numbers.
_SHARE: Final = 0.35
_PATIENCE: Final = 0.08

#: Solves in turn that leave the plan as it is before there is no other.
_VAIN: Final = 2


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
    _is_cut: bool = field(init=False, default=False)
    _found: list[PlacementResult | None] | None = field(init=False, default=None)

    def look(self) -> None:
        """Look for plans until one is proven, none is found for a while, or the share is over."""
        budget, began_s = self.budget, self.budget.left_s
        self._until = budget.clock() + _SHARE * began_s
        self._patience_s = _PATIENCE * began_s
        vain, seed = 0, self.solve_input.seed
        while vain < _VAIN and not self._is_late():
            value = self.incumbent.value
            if self._ends_itself(seed):
                return
            vain = 0 if self.incumbent.value > value else vain + 1
            seed += 1

    def _ends_itself(self, seed: int) -> bool:
        """Solve the set from the plan in hand; return whether nobody had to end it."""
        self._found_at, self._is_cut = self.budget.clock(), False
        # By the clock of the budget, which need not be the wall clock that CP-SAT's own limit has.
        limits = CpLimits(math.inf, seed, stop=self._must_end, report=self._report)
        answer = solve_model(self._model(), limits)
        report_answer(self.incumbent, self.solve_input.positions, answer)
        return not self._is_cut

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

    def _is_late(self) -> bool:
        return self.budget.clock() >= self._until or self.budget.is_over(self.incumbent)

    def _must_end(self) -> bool:
        self.budget.report_progress()
        waited_s = self.budget.clock() - self._found_at
        self._is_cut |= waited_s >= self._patience_s or self._is_late()
        return self._is_cut

    def _report(self, answer: ProofAnswer) -> None:
        if answer.results is not self._found:
            self._found, self._found_at = answer.results, self.budget.clock()
        report_answer(self.incumbent, self.solve_input.positions, answer)
