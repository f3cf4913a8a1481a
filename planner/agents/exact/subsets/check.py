"""Whether all of a subset can be placed: one question of yes or no to CP-SAT.

Where every atom is one block, blocks are intervals on cumulative resources (`cp_model`), and
reasoning about energy refutes most subsets at once. Other sets have Rayon's model in whole numbers
(`whole_cp`), built once: who is there, and what it is worth at least, are bounds of its variables.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from planner.agents.exact.build import build_problem
from planner.agents.exact.problem import V_KIND, V_RUN, V_SOUND, PlanningProblem
from planner.agents.exact.proof.cp_model import RigidModel
from planner.agents.exact.proof.whole_cp import WORTH_UNITS, WholeCp
from planner.agents.exact.subsets.answer import SubsetAnswer, SubsetVerdict
from planner.agents.exact.subsets.levels import LevelBook
from planner.agents.exact.subsets.solver_group import SolverGroup
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode
from planner.agents.milp.columns import lay_out
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView
from rdl.work_graph import ATOM

#: What rounding of worths may lose, of a worth of 1.
_ROUNDING: Final = 1e-5

#: Presolve is most of the time that a subset takes: what seldom pays is left out of it.
_QUICK: Final = {"cp_model_probing_level": 0, "symmetry_level": 0, "max_presolve_iterations": 1}

#: Reasoning about what must run inside an interval.
_ENERGY: Final = {
    "use_timetable_edge_finding_in_cumulative": True,
    "use_overload_checker_in_cumulative": True,
}


class SubsetCheck(Protocol):
    """Says whether the requests of a subset can be placed together at its levels."""

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        """Try to place all of a subset, and nothing else, for some seconds of the clock.

        Raises
        ------
        TimeoutError
            If its solvers were stopped before (`SolverGroup`).
        """
        ...


def check_of(
    problem: PlanningProblem, view: PlanView, book: LevelBook, seed: int, solvers: SolverGroup
) -> SubsetCheck:
    """Return the check that suits a set: intervals know blocks only, and no window averages."""
    if suits_intervals(problem, view):
        return BlockCheck(problem.requests, view, book, seed, solvers)
    return WholeCheck(problem.requests, view, book, seed, solvers)


def suits_intervals(problem: PlanningProblem, view: PlanView) -> bool:
    """Return whether intervals say all that a set asks for: blocks only, no window averages."""
    return _are_blocks(problem) and not _has_averages(problem, view)


def places_by_steps(problem: PlanningProblem, view: PlanView) -> bool:
    """Return whether a MILP of steps finds places of a set: it knows no window averages.

    Sets of blocks alone are left to intervals, which answer within a second.
    """
    return not _are_blocks(problem) and not _has_averages(problem, view)


def _are_blocks(problem: PlanningProblem) -> bool:
    vertices = problem.forest.vertices
    atoms = vertices[(vertices[:, V_KIND] == ATOM) & (vertices[:, V_SOUND] == 1)]
    return bool((atoms[:, V_RUN] > 0).all())


def _has_averages(problem: PlanningProblem, view: PlanView) -> bool:
    return any(atom.demand.averages for atom in lay_out(list(problem.requests), view).atoms)


@dataclass(slots=True)
class BlockCheck:
    """The check of sets in which every atom is one block."""

    requests: Sequence[Request]
    view: PlanView
    book: LevelBook
    seed: int = 0
    solvers: SolverGroup = field(default_factory=SolverGroup)

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        """Try to place all of a subset, and nothing else, for some seconds of the clock."""
        from ortools.sat.python import cp_model

        began = time.thread_time()
        there = [self.book.levels[level].request for level in subset]
        own = [self.requests[index] for index in there]
        rigid = RigidModel(build_problem(own, self.view, range(len(own))), cp_model)
        rigid.model.clear_objective()
        for place, level in enumerate(subset):
            for way in self.book.unreached(level):
                rigid.rule_out(place, way.choices)
        solver = _solver({**_QUICK, **_ENERGY}, self.seed, time_s)
        verdict = _verdict(self.solvers.solve(solver, rigid.model))
        if verdict is not SubsetVerdict.PLACED:
            return SubsetAnswer(verdict, time.thread_time() - began)
        results: list[PlacementResult | None] = [None] * len(self.requests)
        for index, result in zip(there, rigid.placements(solver), strict=True):
            results[index] = result
        return SubsetAnswer(verdict, time.thread_time() - began, results)


@dataclass(slots=True)
class WholeCheck:
    """The check of sets of any kind."""

    requests: Sequence[Request]
    view: PlanView
    book: LevelBook
    seed: int = 0
    solvers: SolverGroup = field(default_factory=SolverGroup)
    _built: rayon.RayonModel = field(init=False)
    _whole: WholeCp = field(init=False)
    _worths: list[int] = field(init=False)

    def __post_init__(self) -> None:
        """Build the model once."""
        self._built = rayon.build(list(self.requests), self.view)
        self._whole = WholeCp(self._built)
        self._worths = self._whole.last_worths()

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        """Try to place all of a subset, and nothing else, for some seconds of the clock."""
        began = time.thread_time()
        model = self._whole.model.clone()
        variables = model.proto.variables
        levels = [self.book.levels[level] for level in subset]
        least = {one.request: one.worth for one in levels}
        for index, own in enumerate(self._built.columns.vertices):
            if index in least:
                _bound(variables[own[-1].overflow], 0, 0)
                low = int((least[index] - _ROUNDING) * WORTH_UNITS)
                _bound(variables[self._worths[index]], max(0, low), WORTH_UNITS)
            else:
                for vertex in own:
                    _bound(variables[vertex.overflow], 1, 1)
        solver = _solver(_QUICK, self.seed, time_s)
        verdict = _verdict(self.solvers.solve(solver, model))
        if verdict is not SubsetVerdict.PLACED:
            return SubsetAnswer(verdict, time.thread_time() - began)
        count = len(self._whole.variables)
        values = np.array(list(solver.response_proto.solution)[:count], dtype=np.float64)
        found: list[PlacementResult | None] = [
            one if one.placed else None for one in decode(values, self._built)
        ]
        return SubsetAnswer(verdict, time.thread_time() - began, found)


def _solver(parameters: dict[str, int] | dict[str, bool], seed: int, time_s: float) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(0.01, time_s)
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    return solver


def _verdict(status: Any) -> SubsetVerdict:
    from ortools.sat.python import cp_model

    if status == cp_model.INFEASIBLE:
        return SubsetVerdict.IMPOSSIBLE
    placed = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return SubsetVerdict.PLACED if placed else SubsetVerdict.OPEN


def _bound(variable: Any, low: int, high: int) -> None:
    domain = variable.domain
    domain.clear()
    domain.extend([low, high])
