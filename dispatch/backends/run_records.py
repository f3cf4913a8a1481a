"""Database records of executors and their runs, with states and errors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


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
