"""Rules of executors: how a report changes a run, and which runs an executor should have.

They are evaluated in the transaction of an executor's report (`service.store.runs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dispatch.backends.run_records import OPEN_RUNS, RunReport, RunRow, RunState


def change_of(run: RunRow, report: RunReport | None, now_ms: int) -> dict[str, Any]:
    """Return the changes to a run by a report, or by its absence."""
    if not run.is_open:
        return {}
    if report is None:
        if run.wanted and run.state is RunState.RUNNING:
            detail = "its executor does not know it any more"
            return {"state": RunState.FAILED.value, "ended_ms": now_ms, "detail": detail}
        # An executor reports all runs that it has started: it never started a missing one.
        return {} if run.wanted else {"state": RunState.STOPPED.value, "ended_ms": now_ms}
    change: dict[str, Any] = {}
    if run.started_ms is None and report.state in (RunState.RUNNING, RunState.EXITED):
        change["started_ms"] = now_ms
    if report.state in OPEN_RUNS:
        if report.state is not run.state and report.state is RunState.RUNNING:
            change["state"] = report.state.value
        return change
    counts = run.core or run.task is not None
    has_done = counts and report.state is RunState.EXITED  # it was stopped too late
    state = report.state if run.wanted or has_done else RunState.STOPPED
    end = {"state": state.value, "ended_ms": now_ms, "code": report.code, "detail": report.detail}
    return change | end


def done_before(cores: Sequence[RunRow]) -> list[RunRow]:
    """Return the assigned runs whose work is already done: all of an execution, or none.

    Runs assigned at one instant form one attempt. The work is done if the last attempt of which a
    run began had a run of every core component, and all of them exited: ends of different attempts
    do not add up. If some were started later, or only one was restarted, this is unknown, and all
    run again.

    Parameters
    ----------
    cores
        All runs of the core components of one execution, oldest first; those of tasks are not
        judged here, because one run of a component is followed by that of the next task.
    """
    if any(run.task is not None for run in cores):
        return []
    newest = {_key_of(run): run for run in cores}
    if not all(run.wanted and run.state is RunState.ASSIGNED for run in newest.values()):
        return []
    fresh = {run.id for run in newest.values()}
    begun: dict[int, dict[tuple[str, str, int], RunState]] = {}
    for run in cores:
        if run.id not in fresh:
            mine = begun.setdefault(run.since_ms, {})
            # Two runs at one instant, after the clock was set back: which is later is unknown.
            mine[_key_of(run)] = RunState.STOPPED if _key_of(run) in mine else run.state
    with_work = {run.since_ms for run in cores if run.id not in fresh and _has_begun(run)}
    last = begun[max(with_work)] if with_work else {}
    done = all(last.get(key) is RunState.EXITED for key in newest)
    return list(newest.values()) if done else []


def _has_begun(run: RunRow) -> bool:
    """Return whether a run was started; one stopped or lost before its start has done nothing."""
    return run.started_ms is not None or run.state in (RunState.EXITED, RunState.FAILED)


def handed_out(
    present: Iterable[RunRow], told: Mapping[str, RunReport], leaving: Iterable[RunRow]
) -> tuple[RunRow, ...]:
    """Return the runs that an executor should run.

    A new run waits until stopping runs have left its machine, and until the previous run of the
    same component or of the same task has ended on any machine; a core component waits for all core
    runs of its execution. So no capacity is used twice, and no component or task runs twice.
    """
    leaving = tuple(leaving)
    machines = {run.machine for run in present if not run.wanted}
    keys = {_key_of(run) for run in leaving}
    tasks = tasks_of(leaving)
    executions = {run.execution for run in leaving if run.core}

    def waits(run: RunRow) -> bool:
        if run.machine in machines or _key_of(run) in keys or (run.execution, run.task) in tasks:
            return True
        return run.core and run.execution in executions

    return tuple(run for run in present if run.wanted and (run.id in told or not waits(run)))


def tasks_of(runs: Iterable[RunRow]) -> set[tuple[str, int]]:
    """Return the executions and numbers of the tasks that runs have."""
    return {(run.execution, run.task) for run in runs if run.task is not None}


def _key_of(run: RunRow) -> tuple[str, str, int]:
    return run.execution, run.component, run.number
