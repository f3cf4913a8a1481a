"""Whether all of a subset can be placed: one question of yes or no to CP-SAT (`whole_cp`)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from planner.agents.exact.proof.whole_cp import WholeCp
from planner.agents.exact.subsets.levels import LevelBook
from planner.agents.milp import rayon
from planner.agents.milp.rows import Floats
from planner.agents.milp.worth import preference_chain
from planner.request import Request
from planner.view import PlanView

#: What rounding of worths may lose, of a worth of 1.
_ROUNDING: Final = 1e-5
_WORTH: Final = 10**8


class Verdict(enum.Enum):
    """What is known of a subset."""

    PLACED = "placed"
    IMPOSSIBLE = "impossible"
    OPEN = "open"


@dataclass(slots=True)
class SubsetCheck:
    """The model of a whole set, asked about subsets of it.

    Attributes
    ----------
    built
        Rayon's model, to read answers with.
    """

    requests: Sequence[Request]
    view: PlanView
    book: LevelBook
    seed: int = 0
    intervals: bool = False
    built: rayon.RayonModel = field(init=False)
    parameters: dict[str, object] = field(default_factory=dict)
    spent: float = 0.0
    _whole: WholeCp = field(init=False)

    def __post_init__(self) -> None:
        """Build the model once; a subset fixes who is there."""
        self.built = rayon.build(list(self.requests), self.view)
        self._whole = WholeCp(self.built, intervals=self.intervals)
        self._whole.model.clear_objective()
        self._worths = self._final_worths()

    _worths: list[int] = field(init=False)

    def _final_worths(self) -> list[int]:
        """Return the column of what is left of each request's worth after all its choices."""
        at = self._whole.worth_start
        found = []
        for own, request in zip(self.built.columns.vertices, self.requests, strict=True):
            at += sum(2 + len(kids) for _, kids in preference_chain(own, request.graph))
            found.append(at)
            at += 1
        return found

    def place(
        self, subset: Sequence[int], work: float, time_s: float
    ) -> tuple[Verdict, Floats | None]:
        """Try to place all of a subset, and nothing else.

        Parameters
        ----------
        work
            CP-SAT's deterministic seconds.
        """
        from ortools.sat.python import cp_model

        model = self._whole.model.clone()
        domains = model.proto.variables
        least = {self.book.levels[one].request: self.book.levels[one].worth for one in subset}
        for index, own in enumerate(self.built.columns.vertices):
            there = index in least
            if there:
                _fix(domains[own[-1].overflow], 0)
                low = int((least[index] - _ROUNDING) * _WORTH)
                worth = domains[self._worths[index]].domain
                worth.clear()
                worth.extend([low, _WORTH])
            else:
                for vertex in own:
                    _fix(domains[vertex.overflow], 1)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self.seed
        solver.parameters.max_deterministic_time = work
        solver.parameters.max_time_in_seconds = max(0.01, time_s)
        for name, value in self.parameters.items():
            setattr(solver.parameters, name, value)
        status = solver.solve(model)
        self.spent = solver.response_proto.deterministic_time
        if status == cp_model.INFEASIBLE:
            return Verdict.IMPOSSIBLE, None
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Verdict.PLACED, np.array(solver.response_proto.solution, dtype=np.float64)[
                : len(self._whole.variables)
            ]
        return Verdict.OPEN, None


def _fix(variable: Any, value: int) -> None:
    domain = variable.domain
    domain.clear()
    domain.extend([value, value])
