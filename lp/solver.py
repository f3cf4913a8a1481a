"""solve(model, limits): the common interface to all solvers."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lp.arrays import ModelArrays
from lp.limits import ModelError, Monitor, SolveLimits, WarmStart
from lp.model import LinearModel
from lp.result import Solution, SolveStatus, StopReason
from lp.watchdog import solve_watched

FEASIBILITY_TOLERANCE = 1e-6
"""Breach of a row or bound, relative to its size, up to which an unproven answer counts."""


class SolverBackend(Protocol):
    """The interface of a solver back-end.

    Attributes
    ----------
    monitored
        Whether it reports better solutions and polls for a stop during the solve.
    """

    name: str
    monitored: bool

    def solve(
        self,
        model: ModelArrays,
        limits: SolveLimits,
        start: WarmStart,
        monitor: Monitor,
        clock: Callable[[], float],
    ) -> Solution:
        """Solve the model and translate the solver's result."""
        ...


def solve(
    model: LinearModel | ModelArrays,
    limits: SolveLimits | None = None,
    *,
    solver: str = "highs",
    start: WarmStart | None = None,
    monitor: Monitor | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Solution:
    """Solve a linear model.

    Parameters
    ----------
    model
        The model, or its arrays.
    limits
        Time, work, precision, threads; `watchdog=True` solves in a child process.
    solver
        `highs`, `glop`, `pdlp`, or `pulp:` and a PuLP solver (`pulp:CBC`).
    start
        Values or basis to start from, if the solver supports it.
    monitor
        Receives better solutions (only from HiGHS); may stop the solve. A solver that cannot poll
        for a stop runs in its own process if there is a time limit, as with `watchdog`.
    clock
        Seconds, for `build_s` and `solve_s`.

    Returns
    -------
    Solution
        Infeasible, unbounded, out of time and failed are statuses, not exceptions.

    Raises
    ------
    lp.limits.ModelError
        If the solver is unknown or missing, cannot take such a model, or `start` has the wrong
        shape.
    """
    limits = limits or SolveLimits()
    start = start or WarmStart()
    monitor = monitor or Monitor()
    began = clock()
    arrays = model.assemble() if isinstance(model, LinearModel) else model
    _check_start(arrays, start)
    assembled_s = clock() - began
    backend = backend_named(solver)
    if arrays.columns == 0:
        solution = _without_columns(arrays, backend.name)
    elif limits.watchdog or _needs_watching(backend, limits, monitor):
        watched = dataclasses.replace(limits, watchdog=True)
        solution = solve_watched(arrays, watched, solver, start, monitor)
    else:
        solution = backend.solve(arrays, limits, start, monitor, clock)
    return _check_answer(solution, arrays, assembled_s)


def backend_named(solver: str) -> SolverBackend:
    """The back-end with this name; its library is imported only here.

    Raises
    ------
    lp.limits.ModelError
        If no back-end has that name.
    """
    if solver == "highs":
        from lp.solvers.highs import HighsBackend

        return HighsBackend()
    if solver in ("glop", "pdlp"):
        from lp.solvers.ortools_lp import OrToolsBackend

        return OrToolsBackend(solver)
    kind, _, name = solver.partition(":")
    if kind == "pulp" and name:
        from lp.solvers.pulp_any import PulpBackend

        return PulpBackend(name)
    raise ModelError(f"unknown solver {solver!r}: expected highs, glop, pdlp or pulp:NAME")


def export_model(model: LinearModel | ModelArrays, path: Path) -> None:
    """Write the model as `.lp` or `.mps` (by the suffix of `path`), with block names.

    Raises
    ------
    lp.limits.ModelError
        If the suffix is neither or HiGHS does not write the complete file.
    OSError
        If the file cannot be written.
    """
    from lp.solvers.highs import write_model

    write_model(model.assemble() if isinstance(model, LinearModel) else model, path)


def _needs_watching(backend: SolverBackend, limits: SolveLimits, monitor: Monitor) -> bool:
    """Return whether a stop request requires ending the solver's process."""
    return (
        not backend.monitored and monitor.should_stop is not None and math.isfinite(limits.time_s)
    )


def _check_start(model: ModelArrays, start: WarmStart) -> None:
    if start.values is not None and start.values.shape != (model.columns,):
        raise ModelError(
            f"start.values has shape {start.values.shape}: expected ({model.columns},)"
        )
    if start.basis is not None:
        shapes = start.basis.columns.shape, start.basis.rows.shape
        if shapes != ((model.columns,), (model.rows,)):
            raise ModelError(
                f"start.basis has shapes {shapes}: expected ({model.columns},), ({model.rows},)"
            )


def _without_columns(model: ModelArrays, name: str) -> Solution:
    """Solve a model without variables, on which solvers disagree: feasible if rows admit zero."""
    feasible = bool((model.row_lower <= 0).all() and (model.row_upper >= 0).all())
    if not feasible:
        return Solution(SolveStatus.INFEASIBLE, StopReason.FINISHED, name)
    return Solution(
        SolveStatus.OPTIMAL, StopReason.FINISHED, name, objective=model.offset, bound=model.offset
    )


def _check_answer(solution: Solution, model: ModelArrays, assembled_s: float) -> Solution:
    """Freeze the arrays, name the blocks, and reject unproven values that violate the model."""
    for array in (solution.values, solution.row_duals, solution.reduced_costs):
        array.flags.writeable = False
    changes: dict[str, object] = {
        "blocks": model.blocks,
        "row_blocks": model.row_blocks,
        "build_s": solution.build_s + assembled_s,
        "bound": model.no_bound if math.isnan(solution.bound) else solution.bound,
    }
    if solution.status is SolveStatus.FEASIBLE:
        violation = model.violation(solution.values)
        if violation > FEASIBILITY_TOLERANCE * _scale(model):
            changes |= {
                "status": SolveStatus.NO_ANSWER,
                "objective": math.nan,
                "values": solution.values[:0],
                "message": f"{solution.message}; last values break the model by {violation:.3g}",
            }
    return dataclasses.replace(solution, **changes)  # type: ignore[arg-type]


def _scale(model: ModelArrays) -> float:
    """Largest finite row side, at least one: the scale on which a violation is judged."""
    largest = 1.0
    for side in (model.row_lower, model.row_upper):
        finite = abs(side[abs(side) < math.inf])
        if finite.size:
            largest = max(largest, float(finite.max()))
    return largest
