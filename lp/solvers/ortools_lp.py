"""GLOP (simplex) and PDLP (first order) of OR-tools: continuous models only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# Import highspy first: loaded later, it would bind to symbols of OR-tools' own copy of HiGHS.
import highspy  # noqa: F401  # isort: skip
from ortools.linear_solver.python import model_builder_helper as mb
from scipy.sparse import csr_matrix

from lp.arrays import ModelArrays, Sense
from lp.limits import ModelError, Monitor, SolveLimits, WarmStart
from lp.result import Solution, SolveStatus, StopReason

_PROVEN = {
    mb.SolveStatus.OPTIMAL: SolveStatus.OPTIMAL,
    # OR-tools also returns this if presolve only knows "one of the two".
    mb.SolveStatus.INFEASIBLE: SolveStatus.INFEASIBLE_OR_UNBOUNDED,
    mb.SolveStatus.UNBOUNDED: SolveStatus.UNBOUNDED,
}


class OrToolsBackend:
    """A continuous solver of OR-tools by name: `glop` or `pdlp`."""

    monitored = False

    def __init__(self, name: str) -> None:
        self.name = name

    def solve(
        self,
        model: ModelArrays,
        limits: SolveLimits,
        start: WarmStart,
        monitor: Monitor,
        clock: Callable[[], float],
    ) -> Solution:
        """Solve `model`; see `lp.solver.solve`. Warm starts and monitors are not supported."""
        if model.is_integer:
            raise ModelError(
                f"{self.name} solves continuous models and {model.name!r} has whole variables: "
                "use highs or pulp:CBC"
            )
        began = clock()
        helper = _build(model)
        solver = mb.ModelSolverHelper(self.name.upper())
        if math.isfinite(limits.solver_time_s):
            solver.set_time_limit_in_seconds(limits.solver_time_s)
        parameters = _parameters(self.name, limits)
        if parameters:
            solver.set_solver_specific_parameters(parameters)
        built = clock()
        solver.solve(helper)
        solved = clock()
        if solver.status() == mb.SolveStatus.INVALID_SOLVER_PARAMETERS:
            raise ModelError(f"{self.name} refuses the options {dict(limits.options)}")
        return self._read(solver, model, limits, (built - began, solved - built))

    def _read(
        self,
        solver: mb.ModelSolverHelper,
        model: ModelArrays,
        limits: SolveLimits,
        seconds: tuple[float, float],
    ) -> Solution:
        found = solver.status()
        status = _PROVEN.get(found)
        stop, message = StopReason.FINISHED, ""
        if status is None:
            stop = StopReason.TIME if math.isfinite(limits.solver_time_s) else StopReason.WORK
            message = f"{self.name}: {found.name}"
            status = SolveStatus.NO_ANSWER
            if found == mb.SolveStatus.FEASIBLE:
                status = SolveStatus.FEASIBLE
            elif found == mb.SolveStatus.ABNORMAL and self.name == "glop":
                # GLOP's presolve reports this for infeasible or unbounded models.
                status, stop = SolveStatus.INFEASIBLE_OR_UNBOUNDED, StopReason.FINISHED
            elif found not in (mb.SolveStatus.NOT_SOLVED, mb.SolveStatus.CANCELLED_BY_USER):
                status, stop = SolveStatus.FAILED, StopReason.CRASHED
        values = np.array(solver.variable_values()) if status.has_values else np.empty(0)
        optimal = status is SolveStatus.OPTIMAL
        objective = model.objective(values) if status.has_values else math.nan
        return Solution(
            status=status,
            stop=stop,
            solver=self.name,
            objective=objective,
            bound=objective if optimal else model.no_bound,
            values=values,
            row_duals=np.array(solver.dual_values()) if optimal else np.empty(0),
            reduced_costs=np.array(solver.reduced_costs()) if optimal else np.empty(0),
            build_s=seconds[0],
            solve_s=seconds[1],
            message=message,
        )


def _build(model: ModelArrays) -> mb.ModelBuilderHelper:
    helper = mb.ModelBuilderHelper()
    shape = (model.rows, model.columns)
    # The binding asks for writable arrays.
    matrix = csr_matrix((model.values.copy(), model.indices.copy(), model.starts.copy()), shape)
    vectors = (model.lower, model.upper, model.cost, model.row_lower, model.row_upper)
    arguments: list[Any] = [*(vector.copy() for vector in vectors), matrix]
    helper.fill_model_from_sparse_data(*arguments)
    helper.set_maximize(model.sense is Sense.MAXIMISE)
    helper.set_objective_offset(model.offset)
    return helper


def _parameters(name: str, limits: SolveLimits) -> str:
    """Solver parameters in protocol-buffer text form."""
    if name == "glop":
        fields = {"random_seed": limits.solver_seed, **limits.options}
        if limits.solver_iterations is not None:
            fields["max_number_of_iterations"] = limits.solver_iterations
        return " ".join(f"{key}: {value}" for key, value in fields.items())
    criteria = [
        "simple_optimality_criteria { eps_optimal_absolute: 1e-9 eps_optimal_relative: 1e-9 }"
    ]
    if limits.solver_iterations is not None:
        criteria.append(f"iteration_limit: {limits.solver_iterations}")
    threads = f"num_threads: {limits.solver_threads}" if limits.solver_threads else ""
    extra = " ".join(f"{key}: {value}" for key, value in limits.options.items())
    return f"termination_criteria {{ {' '.join(criteria)} }} {threads} {extra}".strip()
