"""Database records of executors and their runs, and the rules by which reports change them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class ExecutorState(StrEnum):
    """Whether an executor's machines can be used."""

    LIVE = "live"  # it reports in time
    LOST = "lost"  # it stopped reporting: its runs count as lost
    BACK = "back"  # it reports again, but the leader has not accepted it yet


class RunState(StrEnum):
    """State of a run."""

    ASSIGNED = "assigned"  # its executor is to start it
    RUNNING = "running"
    EXITED = "exited"  # it ended on its own, with code 0
    FAILED = "failed"  # it ended with another code, or could not start
    STOPPED = "stopped"  # it ended because it was no longer wanted
    LOST = "lost"  # its executor stopped reporting, or its supervisor was killed


#: States in which a run is on its machine.
OPEN_RUNS: Final = frozenset({RunState.ASSIGNED, RunState.RUNNING})


#: Streams of a run that are stored, and the size limit of each: the newest bytes are kept.
STREAMS: Final = ("stdout", "stderr")
LOG_BYTES: Final = 1_048_576

#: Most bytes of one piece, and most pieces in one message.
PIECE_BYTES: Final = 65_536
MOST_PIECES: Final = 16


class UnknownExecutorError(Exception):
    """The executor must register: its name is unknown, or its report is out of date."""


class ExecutorTakenError(Exception):
    """Another process uses this name or machine; the message says which."""


@dataclass(frozen=True, slots=True)
class ExecutorRow:
    """One executor.

    Attributes
    ----------
    id, instance
        Its name, and the id of its state: an executor that lost its state is another instance.
    machines
        Machines it runs components on.
    address
        Name or address of its host, under which components on other hosts reach those that run
        here.
    engine
        The container engine of its host, podman or docker; empty if there is none.
    state
        Whether they can be used.
    renewals
        Number of reports; the executor is alive while it grows, independently of clocks.
    registered_ms, lost_ms
        Times in ms from the Plan's origin; `lost_ms` is None if it was not lost.
    """

    id: str
    instance: str
    machines: tuple[str, ...]
    address: str
    engine: str
    state: ExecutorState
    renewals: int
    registered_ms: int
    lost_ms: int | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One start of one component.

    Attributes
    ----------
    id
        Unique id, never reused.
    execution, component, number, machine
        Its component, the replica's index from 0, and its machine.
    core
        Whether its execution needs it.
    document
        The order, JSON.
    wanted
        Whether it should run; False if it is to be stopped or was stopped.
    state, code, detail
        Its state, its exit code if any, and a message of its executor.
    since_ms, started_ms, ended_ms
        Times at which it was assigned, reported as started and as ended, ms from the origin.
    news
        Whether the leader has not read its state yet.
    ports
        Its ports on its host, separated by spaces.
    task
        The task that it runs, of an execution that has tasks.
    """

    id: str
    execution: str
    component: str
    number: int
    machine: str
    core: bool
    document: bytes
    since_ms: int
    wanted: bool = True
    state: RunState = RunState.ASSIGNED
    code: int | None = None
    detail: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None
    news: bool = False
    ports: str = ""
    task: int | None = None

    @property
    def port_numbers(self) -> tuple[int, ...]:
        """Its ports on its host."""
        return tuple(map(int, self.ports.split()))

    @property
    def is_open(self) -> bool:
        """Whether it is on its machine or assigned to it."""
        return self.state in OPEN_RUNS


@dataclass(frozen=True, slots=True)
class RunReport:
    """An executor's report of one run: `code` and `detail` if it has ended."""

    id: str
    state: RunState
    code: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a run's output stream from offset `start`."""

    run: str
    stream: str
    start: int
    body: bytes


@dataclass(frozen=True, slots=True)
class LogExtent:
    """Stored range of a run's output stream: bytes [start, end); earlier ones are deleted."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """Whether an executor is new, and the number of the answer that its next report follows."""

    is_new: bool
    number: int


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """Answer to an executor's report.

    Attributes
    ----------
    wanted
        All runs that should be on its machines; it stops any others.
    settled
        Runs whose end is recorded; the executor may forget them.
    number
        Number of this answer.
    """

    wanted: tuple[RunRow, ...]
    settled: tuple[str, ...]
    number: int


# They are evaluated in the transaction of an executor's report (`service.store.runs`).


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
