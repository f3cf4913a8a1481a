"""Any solver that PuLP knows, by name. PuLP builds models row by row: for checks, not for speed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pulp

from lp.arrays import ModelArrays, Sense
from lp.limits import ModelError, Monitor, SolveLimits, WarmStart
from lp.result import FloatArray, Solution, SolveStatus, StopReason

_SHORT_NAMES = {"CBC": "PULP_CBC_CMD", "GLPK": "GLPK_CMD", "SCIP": "SCIP_CMD"}
# The signs of duals differ between PuLP's solvers; these were checked.
_DUALS_KNOWN = ("PULP_CBC_CMD", "COIN_CMD")


class PulpBackend:
    """A PuLP solver: `pulp:CBC`, or `pulp:` and any name of `pulp.listSolvers()`."""

    monitored = False

    def __init__(self, solver: str) -> None:
        self.name = f"pulp:{solver}"
        self._solver = _SHORT_NAMES.get(solver, solver)
        if self._solver not in pulp.listSolvers():
            known = ", ".join(sorted(set(pulp.listSolvers())))
            raise ModelError(f"PuLP knows no solver {solver!r}; it knows {known}")
        if self._solver not in pulp.listSolvers(onlyAvailable=True):
            raise ModelError(f"PuLP knows {solver!r}, but it is not installed on this machine")

    def solve(
        self,
        model: ModelArrays,
        limits: SolveLimits,
        start: WarmStart,
        monitor: Monitor,
        clock: Callable[[], float],
    ) -> Solution:
        """Solve `model`; see `lp.solver.solve`. Monitors are not supported."""
        began = clock()
        problem, variables, sides = _build(model)
        warm = start.values is not None
        if start.values is not None:
            for variable, value in zip(variables, start.values, strict=True):
                if math.isfinite(value):
                    variable.setInitialValue(value)
        solver = self._make_solver(model, limits, warm)
        built = clock()
        try:
            problem.solve(solver)
        except pulp.PulpSolverError as error:
            return Solution(
                SolveStatus.FAILED, StopReason.CRASHED, self.name, message=f"PuLP: {error}"
            )
        solved = clock()
        seconds = built - began, solved - built
        return self._read(model, problem, (variables, sides), seconds)

    def _make_solver(self, model: ModelArrays, limits: SolveLimits, warm: bool) -> pulp.LpSolver:
        arguments: dict[str, object] = {"msg": False}
        if math.isfinite(limits.solver_time_s):
            arguments["timeLimit"] = limits.solver_time_s
        if model.is_integer:
            arguments |= {"gapRel": limits.gap_rel, "gapAbs": limits.gap_abs}
        if limits.solver_threads:
            arguments["threads"] = limits.solver_threads
        if self._solver in ("PULP_CBC_CMD", "COIN_CMD"):
            arguments["warmStart"] = warm
            arguments["options"] = [f"randomSeed {limits.solver_seed}"] if limits.seed else []
            if limits.solver_nodes is not None:
                arguments["maxNodes"] = limits.solver_nodes
        try:
            return pulp.getSolver(self._solver, **{**arguments, **limits.options})
        except TypeError as error:  # PuLP passes options as keywords of a class
            refused = ", ".join(f"{name!r} = {value!r}" for name, value in limits.options.items())
            raise ModelError(f"{self.name} refuses the options {refused}: {error}") from error

    def _read(
        self,
        model: ModelArrays,
        problem: pulp.LpProblem,
        parts: tuple[list[pulp.LpVariable], list[_Side]],
        seconds: tuple[float, float],
    ) -> Solution:
        status, stop = _status(problem)
        variables, sides = parts
        values = np.empty(0)
        if status.has_values:
            # Solvers leave out columns that appear in no row.
            values = np.array([variable.varValue or 0.0 for variable in variables])
        objective = model.objective(values) if status.has_values else math.nan
        optimal = status is SolveStatus.OPTIMAL
        dual = optimal and not model.is_integer and self._solver in _DUALS_KNOWN
        return Solution(
            status=status,
            stop=stop,
            solver=self.name,
            objective=objective,
            bound=objective if optimal else model.no_bound,
            values=values,
            row_duals=_duals(model, sides) if dual else np.empty(0),
            build_s=seconds[0],
            solve_s=seconds[1],
            message="" if optimal else pulp.LpStatus[problem.status],
        )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a row: PuLP has no two-sided rows."""

    row: int
    constraint: pulp.LpConstraint


def _build(model: ModelArrays) -> tuple[pulp.LpProblem, list[pulp.LpVariable], list[_Side]]:
    sense = pulp.LpMaximize if model.sense is Sense.MAXIMISE else pulp.LpMinimize
    problem = pulp.LpProblem("model", sense)
    variables = [
        problem.add_variable(
            f"x{column}", _finite(low), _finite(high), "Integer" if whole else "Continuous"
        )
        for column, (low, high, whole) in enumerate(
            zip(model.lower, model.upper, model.integer, strict=True)
        )
    ]
    pairs = zip(variables, model.cost.tolist(), strict=True)
    problem.setObjective(pulp.LpAffineExpression(list(pairs), constant=model.offset))
    sides = [side for row in range(model.rows) for side in _sides(model, variables, row)]
    for side in sides:
        problem.addConstraint(side.constraint)
    return problem, variables, sides


def _finite(bound: float) -> float | None:
    return float(bound) if math.isfinite(bound) else None


def _sides(model: ModelArrays, variables: list[pulp.LpVariable], row: int) -> list[_Side]:
    span = slice(model.starts[row], model.starts[row + 1])
    terms = [
        (variables[column], float(value))
        for column, value in zip(model.indices[span], model.values[span], strict=True)
    ]
    low, high = float(model.row_lower[row]), float(model.row_upper[row])
    if low == high:
        wanted = [("e", pulp.LpConstraintEQ, low)]
    else:
        wanted = [("l", pulp.LpConstraintGE, low), ("u", pulp.LpConstraintLE, high)]
    return [
        _Side(
            row,
            pulp.LpConstraint(
                pulp.LpAffineExpression(terms), sense=sense, rhs=bound, name=f"r{row}{suffix}"
            ),
        )
        for suffix, sense, bound in wanted
        if math.isfinite(bound)
    ]


def _status(problem: pulp.LpProblem) -> tuple[SolveStatus, StopReason]:
    """Translate PuLP's two status codes; only `sol_status` separates optimal from limited runs."""
    if problem.status == pulp.LpStatusInfeasible:
        return SolveStatus.INFEASIBLE, StopReason.FINISHED
    if problem.status == pulp.LpStatusUnbounded:
        return SolveStatus.UNBOUNDED, StopReason.FINISHED
    if problem.sol_status == pulp.LpSolutionOptimal and problem.status == pulp.LpStatusOptimal:
        return SolveStatus.OPTIMAL, StopReason.FINISHED
    if problem.sol_status == pulp.LpSolutionIntegerFeasible:
        return SolveStatus.FEASIBLE, StopReason.TIME
    if problem.status == pulp.LpStatusNotSolved:
        return SolveStatus.NO_ANSWER, StopReason.TIME
    return SolveStatus.FAILED, StopReason.CRASHED


def _duals(model: ModelArrays, sides: list[_Side]) -> FloatArray:
    """Row duals, shape (rows,): at most one side of a row binds. Empty if the solver gives none."""
    duals = np.zeros(model.rows)
    for side in sides:
        if side.constraint.pi is None:
            return np.empty(0)
        duals[side.row] += side.constraint.pi
    return duals
