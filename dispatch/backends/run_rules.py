"""Rules of executors: what a report changes of a run, and which runs an executor is to have.

They are asked in the transaction in which an executor reports (`service.store.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatch.backends.run_records import OPEN_RUNS, RunReport, RunRow, RunState


def change_of(run: RunRow, report: RunReport | None, now_ms: int) -> dict[str, Any]:
    """Return what a report, or its absence, changes of a run."""
    if not run.is_open:
        return {}
    if report is None:
        if run.wanted and run.state is RunState.RUNNING:
            detail = "its executor does not know it any more"
            return {"state": RunState.FAILED.value, "ended_ms": now_ms, "detail": detail}
        # An executor reports all that it has begun: what it does not name it never started.
        return {} if run.wanted else {"state": RunState.STOPPED.value, "ended_ms": now_ms}
    change: dict[str, Any] = {}
    if run.started_ms is None and report.state in (RunState.RUNNING, RunState.EXITED):
        change["started_ms"] = now_ms
    if report.state in OPEN_RUNS:
        if report.state is not run.state and report.state is RunState.RUNNING:
            change["state"] = report.state.value
        return change
    has_done = run.core and report.state is RunState.EXITED  # it was stopped too late
    state = report.state if run.wanted or has_done else RunState.STOPPED
    end = {"state": state.value, "ended_ms": now_ms, "code": report.code, "detail": report.detail}
    return change | end


def done_before(cores: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs that are to begin though their work is done: all of an execution, or none.

    What was started at one instant is one beginning. The work is done where the last beginning of
    which something began had a run of every core component, and all of them exited: ends of two
    beginnings do not add up to one. Where some were started later than others, or one alone was
    started again, no one can tell, and all begin again.

    Parameters
    ----------
    cores
        All runs of the core components of one execution, the oldest first.
    """
    newest = {_key_of(run): run for run in cores}
    if not all(run.wanted and run.state is RunState.ASSIGNED for run in newest.values()):
        return []
    fresh = {run.id for run in newest.values()}
    begun: dict[int, dict[tuple[str, str, int], RunState]] = {}
    for run in cores:
        if run.id not in fresh:
            mine = begun.setdefault(run.since_ms, {})
            # Twice at one instant, of a clock that was set back: which was the last is not known.
            mine[_key_of(run)] = RunState.STOPPED if _key_of(run) in mine else run.state
    with_work = {run.since_ms for run in cores if run.id not in fresh and _has_begun(run)}
    last = begun[max(with_work)] if with_work else {}
    done = all(last.get(key) is RunState.EXITED for key in newest)
    return list(newest.values()) if done else []


def _has_begun(run: RunRow) -> bool:
    """Return whether a run was started; one that was stopped or lost before has done nothing."""
    return run.started_ms is not None or run.state in (RunState.EXITED, RunState.FAILED)


def handed_out(
    present: Iterable[RunRow], told: Mapping[str, RunReport], leaving: Iterable[RunRow]
) -> tuple[RunRow, ...]:
    """Return what an executor is to run.

    New runs wait until what leaves their machine has left it, and until the run before of the same
    component has ended wherever it was, of core components those of all their replicas: no capacity
    is used twice, and no component runs twice.
    """
    machines = {run.machine for run in present if not run.wanted}
    keys = {_key_of(run) for run in leaving}
    executions = {run.execution for run in leaving if run.core}

    def waits(run: RunRow) -> bool:
        if run.machine in machines or _key_of(run) in keys:
            return True
        return run.core and run.execution in executions

    return tuple(run for run in present if run.wanted and (run.id in told or not waits(run)))


def _key_of(run: RunRow) -> tuple[str, str, int]:
    return run.execution, run.component, run.number
