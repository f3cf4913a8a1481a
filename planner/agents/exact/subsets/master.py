"""The subset of most value that no known row or core rules out (a small CP-SAT model)."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from planner.agents.exact.subsets.levels import LevelBook
from planner.agents.exact.subsets.prices import PriceRow
from planner.agents.exact.subsets.solver_group import SolverGroup

#: Units of all value, and of the right-hand side of a row.
_VALUE: Final = 10**9
_ROW: Final = 10**6

#: Part of a unit that rounding of sums may lose.
_ROUNDING: Final = 1e-3


@dataclass(slots=True)
class SubsetMaster:
    """Rows and cores of one set of requests.

    Attributes
    ----------
    must_keep
        Requests that every subset holds.
    """

    book: LevelBook
    must_keep: Collection[int]
    seed: int = 0
    solvers: SolverGroup = field(default_factory=SolverGroup)
    _model: Any = field(init=False)
    _choices: list[Any] = field(init=False)

    def __post_init__(self) -> None:
        """Take at most one level of each request, at most value."""
        from ortools.sat.python import cp_model

        self._model = cp_model.CpModel()
        self._choices = [self._model.new_bool_var("") for _ in self.book.levels]
        for request in sorted({one.request for one in self.book.levels}):
            own = [self._choices[at] for at in self._levels_of(request)]
            if request in self.must_keep:
                self._model.add_exactly_one(own)
            else:
                self._model.add_at_most_one(own)
        self._weights = [
            math.ceil(one.value / self.asked * _VALUE - _ROUNDING) for one in self.book.levels
        ]
        self._model.maximize(cp_model.LinearExpr.weighted_sum(self._choices, self._weights))

    _weights: list[int] = field(init=False)

    @property
    def asked(self) -> float:
        """Value of all requests at their best."""
        best: dict[int, float] = {}
        for one in self.book.levels:
            best[one.request] = max(best.get(one.request, 0.0), one.value)
        return sum(best.values()) or 1.0

    def _levels_of(self, request: int) -> list[int]:
        return [at for at, one in enumerate(self.book.levels) if one.request == request]

    def add_row(self, row: PriceRow) -> None:
        """Rule out what costs more than all that is free."""
        terms = []
        for taken, cost in zip(self._choices, row.costs.tolist(), strict=True):
            if math.isinf(cost) or cost > 1 + 1e-6:
                self._model.add(taken == 0)
            elif cost > 0:
                terms.append(math.floor(cost * _ROW - _ROUNDING) * taken)
        self._model.add(sum(terms) <= _ROW)

    def add_core(self, core: Sequence[int]) -> None:
        """Rule out all that holds these levels, or higher ones of the same requests."""
        terms = []
        for level in core:
            own = self.book.levels[level]
            above = [at for at in self._levels_of(own.request) if at <= level]
            terms += [self._choices[at] for at in above]
        self._model.add(sum(terms) <= len(core) - 1)

    def best(self, above: float, time_s: float) -> tuple[list[int], float] | None:
        """Return the levels of the best subset and what any subset is worth at most.

        Parameters
        ----------
        above
            Only subsets worth more count.
        time_s
            Seconds; TimeoutError when they are over, or the solvers were stopped.

        Returns
        -------
        tuple or None
            None where no subset is worth more.
        """
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self.seed
        solver.parameters.max_time_in_seconds = max(0.01, time_s)
        model = self._model.clone()
        taken = [model.get_bool_var_from_proto_index(one.index) for one in self._choices]
        least = math.floor(above / self.asked * _VALUE) + 1
        model.add(cp_model.LinearExpr.weighted_sum(taken, self._weights) >= least)
        status = self.solvers.solve(solver, model)
        if status == cp_model.INFEASIBLE:
            return None
        if status != cp_model.OPTIMAL:
            raise TimeoutError
        chosen = [at for at, one in enumerate(taken) if solver.boolean_value(one)]
        return chosen, solver.objective_value * self.asked / _VALUE
