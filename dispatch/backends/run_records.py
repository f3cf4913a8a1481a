"""What the database knows of executors and their runs: records, states and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ExecutorState(StrEnum):
    """Whether an executor's machines can be used."""

    LIVE = "live"  # it reports in time
    LOST = "lost"  # it fell silent: what it ran counts as lost
    BACK = "back"  # it reports again, and the leader has not taken it in yet


class RunState(StrEnum):
    """Where one run stands."""

    ASSIGNED = "assigned"  # its executor is to start it
    RUNNING = "running"
    EXITED = "exited"  # it ended by itself, with code 0
    FAILED = "failed"  # it ended with another code, or could not start
    STOPPED = "stopped"  # it ended because it was not wanted any more
    LOST = "lost"  # its executor fell silent, or what watches over it was killed


#: States in which a run is on its machine.
OPEN_RUNS: Final = frozenset({RunState.ASSIGNED, RunState.RUNNING})


#: Streams of a run that are kept, and the most of each: its newest bytes.
STREAMS: Final = ("stdout", "stderr")
LOG_BYTES: Final = 1_048_576

#: Most bytes of one piece, and most pieces that are sent together.
PIECE_BYTES: Final = 65_536
MOST_PIECES: Final = 16


class UnknownExecutorError(Exception):
    """It has to register: its name is not known, or its report is an old one that came late."""


class ExecutorTakenError(Exception):
    """Another process reports under this name, or has the machine; the message says which."""


@dataclass(frozen=True, slots=True)
class ExecutorRow:
    """One executor.

    Attributes
    ----------
    id, instance
        Its name, and which process state stands behind it: an executor that lost its state is
        another one.
    machines
        Machines it runs components on.
    state
        Whether they can be used.
    renewals
        How often it has reported; while it grows the executor is alive, whatever the clocks say.
    registered_ms, lost_ms
        When, in ms from the Plan's origin; the second is None while it was not lost.
    """

    id: str
    instance: str
    machines: tuple[str, ...]
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
        Unique for ever.
    execution, component, number, machine
        Which component, which of its replicas from 0, and where.
    core
        Whether its execution needs it.
    document
        What to run, JSON.
    wanted
        Whether it is to run; False: it is to be stopped, or was.
    state, code, detail
        Where it stands; its exit code where it has one; what its executor says.
    since_ms, started_ms, ended_ms
        When it was given its machine, reported as started and as ended, ms from the origin.
    news
        Whether the leader has not taken its state in yet.
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

    @property
    def is_open(self) -> bool:
        """Whether it is on its machine, or is to be."""
        return self.state in OPEN_RUNS


@dataclass(frozen=True, slots=True)
class RunReport:
    """What an executor says of one run: `code` and `detail` where it has ended."""

    id: str
    state: RunState
    code: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes from `start` on of what a run wrote to a stream."""

    run: str
    stream: str
    start: int
    body: bytes


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What is kept of a stream of a run: bytes [start, end); earlier ones are gone."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """Whether an executor is new, and the number of the answer that its next report follows."""

    is_new: bool
    number: int


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """What an executor receives.

    Attributes
    ----------
    wanted
        All that is to run on its machines; what else it runs is to be stopped.
    settled
        Runs whose end is recorded: it may forget them.
    number
        Of this answer.
    """

    wanted: tuple[RunRow, ...]
    settled: tuple[str, ...]
    number: int
