"""Rigid requests as a constraint programme: optional intervals on cumulative resources (CP-SAT).

For sets in which every atom is one block; prices leave a gap there that CP-SAT often closes
(docs/exact.md, CP-SAT).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from planner.agents.exact.incumbent import ProofAnswer
from planner.agents.exact.problem import (
    V_END,
    V_KIND,
    V_PARENT,
    V_RUN,
    V_SOUND,
    V_START,
    PlanningProblem,
)
from planner.agents.exact.proof.cp_model import SCALE, RigidModel
from planner.placement import PlacementResult
from rdl.work_graph import ATOM

_POLL_S = 0.05

#: Starts up to which a set is small: its bound begins to fall at once.
MOST_STARTS = 12_000

#: Which of its searches proves sets of several requests. It asks for all of them at once, learns
#: which cannot all be there and relaxes those: bounds fall from the top, where others wait for
#: their trees to close (docs/exact-trials.md).
_PROVER = "core"


@dataclass(frozen=True, slots=True)
class CpLimits:
    """When CP-SAT stops.

    Attributes
    ----------
    time_s
        Wall-clock seconds, the building of the model included; or CP-SAT's own deterministic
        seconds where `repeats`.
    repeats
        One worker and no clock: equal calls give equal answers.
    workers
        For a single request, whether it can be placed at all; several are the work of one.
    stop
        Asked every 50 ms.
    report
        Called with every better answer on the way, by the thread that called.
    """

    time_s: float
    seed: int = 0
    repeats: bool = False
    workers: int = 2
    stop: Callable[[], bool] = field(default=lambda: False)
    report: Callable[[ProofAnswer], None] = field(default=lambda answer: None)


def is_rigid(problem: PlanningProblem) -> bool:
    """Return whether every atom is one block and CP-SAT's model says all that the request says."""
    forest = problem.forest
    vertices = forest.vertices
    atoms = vertices[:, V_KIND] == ATOM
    if (vertices[atoms & (vertices[:, V_SOUND] == 1), V_RUN] == 0).any():
        return False
    for before, _, largest, after in forest.preds.tolist():
        if largest >= 0 and not (atoms[before] and atoms[after]):
            return False
    weighed = np.flatnonzero(forest.loss)
    parents = vertices[weighed, V_PARENT]
    return bool((vertices[parents, V_PARENT] < 0).all())  # options of a root only


def count_starts(problem: PlanningProblem) -> int:
    """Return how many starts all atoms have together."""
    vertices = problem.forest.vertices
    atoms = vertices[(vertices[:, V_KIND] == ATOM) & (vertices[:, V_SOUND] == 1)]
    return int((atoms[:, V_END] - atoms[:, V_START] - atoms[:, V_RUN] + 1).sum())


def solve_rigid(
    problem: PlanningProblem,
    hint: Sequence[PlacementResult],
    limits: CpLimits,
    aside: Collection[int] = (),
) -> ProofAnswer:
    """Solve a rigid problem (`is_rigid`) as far as the limits allow.

    Parameters
    ----------
    hint
        A plan to start from, one result a request.
    aside
        Requests that the bound counts as accepted though they hold nothing, so that it is one for
        all plans still; plans found leave them out. None that may not be lost.
    """
    from ortools.sat.python import cp_model

    until = time.monotonic() + limits.time_s
    rigid = RigidModel(problem, cp_model, aside)
    rigid.add_hint(hint)
    limits = replace(limits, time_s=until - time.monotonic())
    return solve_model(rigid, limits, () if rigid.single else (_PROVER,))


def solve_model(rigid: RigidModel, limits: CpLimits, searches: Sequence[str] = ()) -> ProofAnswer:
    """Solve a model of blocks as far as the limits allow.

    Parameters
    ----------
    searches
        Which of CP-SAT's searches it has; none: the one that it takes by itself.
    """
    from ortools.sat.python import cp_model

    problem = rigid.problem
    solver = cp_model.CpSolver()
    _set_limits(solver.parameters, limits, single=rigid.single)
    solver.parameters.subsolvers.extend(searches)
    status = _SolveThread(rigid, solver, cp_model, limits).status()
    if status == cp_model.INFEASIBLE:  # what must be there cannot be
        if problem.forest.keep.any():
            return ProofAnswer(None, -math.inf)
        return ProofAnswer([None] * len(problem.requests), 0.0)
    bound = problem.total
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ProofAnswer(None, bound)
    if not rigid.single:
        bound = rigid.value_bound(solver.best_objective_bound)
    return ProofAnswer(rigid.placements(solver), bound)


def _set_limits(parameters: Any, limits: CpLimits, *, single: bool) -> None:
    parameters.random_seed = limits.seed
    parameters.num_workers = limits.workers if single and not limits.repeats else 1
    if limits.repeats:
        parameters.max_deterministic_time = limits.time_s
    else:
        parameters.max_time_in_seconds = max(0.01, limits.time_s)


class _SolveThread:
    """One solve in a thread of its own, so that a stop is heard within a moment."""

    def __init__(self, rigid: RigidModel, solver: Any, cp_model: Any, limits: CpLimits) -> None:
        self._rigid, self._solver, self._limits = rigid, solver, limits
        self._cp = cp_model
        self._plan: list[PlacementResult | None] | None = None
        self._bound = float(SCALE)
        self._last_report: tuple[object, float] = (None, self._bound)

    def status(self) -> Any:
        """Return how the solve ended; tell what it finds on the way."""
        watch = self

        class Watch(self._cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
            def on_solution_callback(self) -> None:
                watch._plan = watch._rigid.placements(self)

        if not self._rigid.single:
            self._solver.best_bound_callback = self._lower
        with ThreadPoolExecutor(1, thread_name_prefix="cp-sat") as pool:
            answer = pool.submit(self._solver.solve, self._rigid.model, Watch())
            try:
                while not answer.done():
                    if self._limits.stop():
                        self._solver.stop_search()
                    time.sleep(_POLL_S if answer.running() else 0.0)
                    self._report()
            finally:
                self._solver.stop_search()
            return answer.result()

    def _lower(self, bound: float) -> None:
        self._bound = min(self._bound, bound)

    def _report(self) -> None:
        now = (self._plan, self._bound)
        if now[0] is not self._last_report[0] or now[1] < self._last_report[1]:
            self._last_report = now
            self._limits.report(ProofAnswer(now[0], self._rigid.value_bound(now[1])))
