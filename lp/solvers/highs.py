"""HiGHS through highspy: the whole matrix in one call, callbacks for progress and stops."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path

import highspy
import numpy as np

from lp.arrays import ModelArrays, Sense
from lp.limits import ModelError, Monitor, Progress, SolveLimits, WarmStart
from lp.result import Basis, Solution, SolveStatus, StopReason

_STATUS = highspy.HighsModelStatus
_PROVEN = {
    _STATUS.kOptimal: SolveStatus.OPTIMAL,
    _STATUS.kInfeasible: SolveStatus.INFEASIBLE,
    _STATUS.kUnbounded: SolveStatus.UNBOUNDED,
    _STATUS.kUnboundedOrInfeasible: SolveStatus.INFEASIBLE_OR_UNBOUNDED,
}
_STOPPED = {
    _STATUS.kTimeLimit: StopReason.TIME,
    _STATUS.kIterationLimit: StopReason.WORK,
    _STATUS.kSolutionLimit: StopReason.WORK,
    _STATUS.kMemoryLimit: StopReason.WORK,
    _STATUS.kInterrupt: StopReason.STOPPED,
}
_BASIS_CODES = (
    highspy.HighsBasisStatus.kLower,
    highspy.HighsBasisStatus.kBasic,
    highspy.HighsBasisStatus.kUpper,
    highspy.HighsBasisStatus.kZero,
    highspy.HighsBasisStatus.kNonbasic,
)
_scheduler = threading.local()

#: Relative change of a bound that is reported.
_BOUND_STEP = 1e-4


class HighsBackend:
    """The default solver: continuous models and models with integers."""

    name = "highs"
    monitored = True

    def solve(
        self,
        model: ModelArrays,
        limits: SolveLimits,
        start: WarmStart,
        monitor: Monitor,
        clock: Callable[[], float],
    ) -> Solution:
        """Solve `model`; see `lp.solver.solve`."""
        began = clock()
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        _set_options(highs, model, limits)
        _pass_model(highs, model)
        _pass_start(highs, start)
        _subscribe(highs, monitor, clock, began)
        _match_scheduler(limits.solver_threads)
        built = clock()
        outcome = highs.run()
        solved = clock()
        if outcome == highspy.HighsStatus.kError:
            status = highs.modelStatusToString(highs.getModelStatus())
            return Solution(
                SolveStatus.FAILED,
                StopReason.CRASHED,
                self.name,
                build_s=built - began,
                solve_s=solved - built,
                message=f"HiGHS returned an error; model status {status}",
            )
        return _read(highs, model, built - began, solved - built)


#: Last line of a complete file.
_LAST_LINE = {".lp": "end", ".mps": "ENDATA"}


def write_model(model: ModelArrays, path: Path) -> None:
    """Write `model` as `.lp` or `.mps`, by the suffix of `path`, with block names.

    The file at `path` is replaced once the new one is complete.

    Raises
    ------
    lp.limits.ModelError
        If the suffix is neither, or HiGHS does not write the complete file.
    OSError
        If the file cannot be written.
    """
    if path.suffix not in _LAST_LINE:
        raise ModelError(f"{path.name}: expected a name that ends in .lp or .mps")
    part = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        part.touch()  # HiGHS crashes if it cannot open a file, and ignores a full disk
        outcome = _solver_with_names(model).writeModel(str(part))
        with part.open("rb") as written:
            written.seek(-min(part.stat().st_size, 16), os.SEEK_END)
            whole = written.read().rstrip().endswith(_LAST_LINE[path.suffix].encode())
        if outcome == highspy.HighsStatus.kError or not whole:
            raise ModelError(f"{path}: HiGHS could not write the whole model there")
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


def _solver_with_names(model: ModelArrays) -> highspy.Highs:
    """Return a solver loaded with the model, its columns and rows named after their blocks."""
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    _pass_model(highs, model)
    for blocks, name_one in (
        (model.blocks, highs.passColName),
        (model.row_blocks, highs.passRowName),
    ):
        for name, span in blocks.items():
            for index in range(span.start, span.stop):
                name_one(index, _label(name, index - span.start))
    return highs


def _label(block: str, index: int) -> str:
    return f"{block.replace(' ', '_')}({index})"


def _set_options(highs: highspy.Highs, model: ModelArrays, limits: SolveLimits) -> None:
    options: dict[str, bool | int | float | str] = {
        "time_limit": limits.solver_time_s,
        "random_seed": limits.solver_seed,
        "mip_rel_gap": limits.gap_rel,
        "mip_abs_gap": limits.gap_abs,
        "threads": limits.solver_threads,
    }
    if limits.deterministic:
        options["parallel"] = "off"
    if limits.solver_nodes is not None:
        options["mip_max_nodes"] = limits.solver_nodes
    if limits.solver_iterations is not None and not model.is_integer:
        for name in ("simplex", "ipm", "pdlp"):
            options[f"{name}_iteration_limit"] = limits.solver_iterations
    for name, value in {**options, **limits.options}.items():
        if highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
            raise ModelError(f"HiGHS refuses option {name!r} = {value!r}")


def _pass_model(highs: highspy.Highs, model: ModelArrays) -> None:
    sense = (
        highspy.ObjSense.kMaximize if model.sense is Sense.MAXIMISE else highspy.ObjSense.kMinimize
    )
    outcome = highs.passModel(
        model.columns,
        model.rows,
        int(model.values.size),
        int(highspy.MatrixFormat.kRowwise),
        int(sense),
        model.offset,
        model.cost,
        model.lower,
        model.upper,
        model.row_lower,
        model.row_upper,
        model.starts,
        model.indices,
        model.values,
        model.integer.astype(np.int32),
    )
    if outcome == highspy.HighsStatus.kError:
        raise ModelError(f"HiGHS refuses model {model.name!r}")


def _pass_start(highs: highspy.Highs, start: WarmStart) -> None:
    if start.values is not None:
        known = np.flatnonzero(np.isfinite(start.values)).astype(np.int32)
        highs.setSolution(int(known.size), known, start.values[known].astype(np.float64))
    if start.basis is not None:
        basis = highspy.HighsBasis()
        basis.col_status = [_BASIS_CODES[code] for code in start.basis.columns]
        basis.row_status = [_BASIS_CODES[code] for code in start.basis.rows]
        basis.valid = True
        # HiGHS repairs a basis of the right size; a wrong size was rejected earlier.
        highs.setBasis(basis)


def _subscribe(
    highs: highspy.Highs, monitor: Monitor, clock: Callable[[], float], began: float
) -> None:
    report, should_stop = monitor.on_progress, monitor.should_stop
    if report is not None:

        def improved(event: highspy.HighsCallbackEvent) -> None:
            found = event.data_out
            report(
                Progress(
                    elapsed_s=clock() - began,
                    objective=float(found.objective_function_value),
                    bound=float(found.mip_dual_bound),
                    values=np.array(found.mip_solution, dtype=np.float64),
                )
            )

        highs.cbMipImprovingSolution.subscribe(improved)
        highs.cbMipInterrupt.subscribe(_BoundReporter(report, clock, began).report)
    if should_stop is not None:

        def interrupt(event: highspy.HighsCallbackEvent) -> None:
            if should_stop():
                event.interrupt()

        for events in (highs.cbSimplexInterrupt, highs.cbIpmInterrupt, highs.cbMipInterrupt):
            events.subscribe(interrupt)


class _BoundReporter:
    """Reports bounds without values, each if it improves by more than rounding."""

    def __init__(
        self, report: Callable[[Progress], None], clock: Callable[[], float], began: float
    ) -> None:
        self._report, self._clock, self._began = report, clock, began
        self._reported = math.inf

    def report(self, event: highspy.HighsCallbackEvent) -> None:
        """Report the bound of an event: the best so far, for either sense of the objective."""
        found = event.data_out
        bound = float(found.mip_dual_bound)
        if not math.isfinite(bound) or abs(bound - self._reported) <= _BOUND_STEP * abs(bound):
            return
        self._reported = bound
        objective = float(found.mip_primal_bound)
        self._report(Progress(self._clock() - self._began, objective, bound))


def _match_scheduler(threads: int) -> None:
    # HiGHS keeps one worker pool per calling thread and rejects a changed thread count.
    if getattr(_scheduler, "threads", 0) != threads:
        highspy.Highs.resetGlobalScheduler(True)
        _scheduler.threads = threads


def _read(highs: highspy.Highs, model: ModelArrays, build_s: float, solve_s: float) -> Solution:
    found = highs.getModelStatus()
    info = highs.getInfo()
    stop = _STOPPED.get(found, StopReason.FINISHED)
    status = _PROVEN.get(found)
    message = ""
    if status is None:
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        status = SolveStatus.FEASIBLE if feasible else SolveStatus.NO_ANSWER
        message = highs.modelStatusToString(found)
        if found not in _STOPPED:
            status, stop = SolveStatus.FAILED, StopReason.CRASHED
    iterations = info.simplex_iteration_count + info.ipm_iteration_count + info.pdlp_iteration_count
    answer = highs.getSolution()
    values = np.array(answer.col_value) if status.has_values else np.empty(0)
    dual = status is SolveStatus.OPTIMAL and not model.is_integer
    return Solution(
        status=status,
        stop=stop,
        solver=HighsBackend.name,
        objective=model.objective(values) if status.has_values else math.nan,
        bound=_bound(info, model, status),
        values=values,
        row_duals=np.array(answer.row_dual) if dual else np.empty(0),
        reduced_costs=np.array(answer.col_dual) if dual else np.empty(0),
        basis=_read_basis(highs) if dual else None,
        iterations=int(iterations),
        nodes=max(int(info.mip_node_count), 0),
        build_s=build_s,
        solve_s=solve_s,
        message=message,
    )


def _bound(info: highspy.HighsInfo, model: ModelArrays, status: SolveStatus) -> float:
    if model.is_integer:
        return float(info.mip_dual_bound)
    if status is SolveStatus.OPTIMAL:
        return float(info.objective_function_value)
    return model.no_bound


def _read_basis(highs: highspy.Highs) -> Basis | None:
    basis = highs.getBasis()
    if not basis.valid:
        return None
    return Basis(
        columns=np.array([int(status) for status in basis.col_status], dtype=np.int8),
        rows=np.array([int(status) for status in basis.row_status], dtype=np.int8),
    )
