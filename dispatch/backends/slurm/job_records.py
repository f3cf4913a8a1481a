"""JobRecord: one job of a component, its phase, and what follows from what Slurm says of it.

`judge` says what a look and the accounting report a job; `TRANSITIONS` is the whole table of what
that does to its record, and which events it makes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import Final

from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.executions.assignment import Key
from dispatch.executions.events import EventKind


class Phase(Enum):
    """Where a job stands, as its component sees it."""

    FORMER = "former"  # left by an earlier leader; its execution has not been resumed yet
    SENT = "sent"  # submitted; not reported as started
    UP = "up"  # reported as started
    EXITED = "exited"  # ended well; a core keeps its machine until all of its execution have
    LEFT = "left"  # stopped or lost: the last job of its component, which may have ended well
    OVER = "over"  # nothing is expected of it any more


#: Phases of a job that its component has.
STANDING: Final = frozenset({Phase.SENT, Phase.UP, Phase.EXITED})


class JobFinding(Enum):
    """What a look and the accounting say of a job that stands."""

    UNKNOWN = "unknown"  # it has ended, and nothing says yet how
    WAITING = "waiting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    LOST = "lost"


_STARTED, _EXITED, _FAILED, _LOST = (
    EventKind.STARTED,
    EventKind.EXITED,
    EventKind.FAILED,
    EventKind.LOST,
)

#: The phase and the events that follow from a finding; what is not here does not occur.
TRANSITIONS: Final[dict[tuple[Phase, JobFinding], tuple[Phase, tuple[EventKind, ...]]]] = {
    (Phase.SENT, JobFinding.UNKNOWN): (Phase.SENT, ()),
    (Phase.SENT, JobFinding.WAITING): (Phase.SENT, ()),
    (Phase.SENT, JobFinding.RUNNING): (Phase.UP, (_STARTED,)),
    (Phase.SENT, JobFinding.COMPLETED): (Phase.EXITED, (_STARTED, _EXITED)),
    (Phase.SENT, JobFinding.FAILED): (Phase.OVER, (_FAILED,)),
    (Phase.SENT, JobFinding.LOST): (Phase.LEFT, (_LOST,)),
    (Phase.UP, JobFinding.UNKNOWN): (Phase.UP, ()),
    (Phase.UP, JobFinding.RUNNING): (Phase.UP, ()),
    (Phase.UP, JobFinding.COMPLETED): (Phase.EXITED, (_EXITED,)),
    (Phase.UP, JobFinding.FAILED): (Phase.OVER, (_FAILED,)),
    (Phase.UP, JobFinding.LOST): (Phase.LEFT, (_LOST,)),
}

#: What the end of a job means for its component; what is not here is a failure.
_ENDS: Final = {
    "COMPLETED": JobFinding.COMPLETED,
    "NODE_FAIL": JobFinding.LOST,
    "BOOT_FAIL": JobFinding.LOST,
    "PREEMPTED": JobFinding.LOST,
    "REVOKED": JobFinding.LOST,
}

_WORDS: Final = {
    "CANCELLED": "cancelled in Slurm",
    "TIMEOUT": "it reached its time limit in Slurm",
    "DEADLINE": "it reached its deadline in Slurm",
    "OUT_OF_MEMORY": "it used more memory than it asked for",
    "NODE_FAIL": "its node failed",
    "BOOT_FAIL": "its node did not boot",
    "PREEMPTED": "Slurm preempted it",
}


@dataclass(slots=True, eq=False)
class JobRecord:
    """One job of a component.

    Attributes
    ----------
    key, machine, since_ms
        Its component, and where it is since when.
    job
        Its number in Slurm.
    asked_s
        When it was submitted, on the monotonic clock.
    core
        Whether its execution needs it.
    limit
        Whether it was given a time limit, for what others have reserved.
    ending
        Whether its node was being cleaned when a new leader found it: the earlier one may have
        stopped it.
    to_cancel
        Whether it is cancelled as long as Slurm lists it as open.
    to_repeat
        Of one that has exited: whether it is to be started again, unless it had ended well.
    in_doubt
        Whether it was stopped while Slurm said that it ran, and may never have begun.
    last_seen, wait_since_s
        Of the last job of a component: as slurmctld had it last, and since when it could be known
        how it ended.
    absent_since_s
        Since when slurmctld does not know it, where the accounting does not say how it ended.
    recheck_s, pause_s
        While its node is cleaned: when the accounting is asked next how it ended, and the pause
        before that.
    node_began_s, is_missing, is_gone
        Since when the slurmd ran that was last asked and had it (Unix time, 0 for none); whether
        the slurmd that was asked last had nothing of it; and whether that is sure.
    """

    key: Key
    machine: str
    since_ms: int
    job: int
    asked_s: float
    core: bool
    phase: Phase = Phase.SENT
    limit: bool = False
    ending: bool = False
    to_cancel: bool = False
    to_repeat: bool = False
    in_doubt: bool = False
    last_seen: SlurmJob | None = None
    wait_since_s: float | None = None
    absent_since_s: float | None = None
    recheck_s: float = 0.0
    pause_s: float = 0.0
    node_began_s: int = 0
    is_missing: bool = False
    is_gone: bool = False

    @property
    def stands(self) -> bool:
        """Whether its component has it."""
        return self.phase in STANDING

    @property
    def is_last(self) -> bool:
        """Whether its component is to run again, and may have done its work in it."""
        return self.phase is Phase.LEFT or self.to_repeat

    def known_until(self, heard_ms: int | None, at_ms: int) -> int:
        """Return until when it is known to have run that is away now; None: until now."""
        return at_ms if heard_ms is None else min(max(heard_ms, self.since_ms + 1), at_ms)


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of a job that stands.

    Attributes
    ----------
    job
        As a look, or the accounting, has it; None if neither knows it.
    node
        Where it was sent.
    may_be_accounted
        Of one that is not known: whether the accounting may still say how it ended.
    is_taken
        Whether other people's jobs run on its machine.
    is_overdue
        Whether Slurm has not started it for longer than the settings allow.
    waited_s
        Since when it was submitted.
    """

    job: SlurmJob | None
    node: str | None
    may_be_accounted: bool = False
    is_taken: bool = False
    is_overdue: bool = False
    waited_s: float = 0.0


def judge(record: JobRecord, sight: Sight) -> tuple[JobFinding, str]:
    """Return what a sight says of a job that stands, and why where it has ended or is lost."""
    job = sight.job
    if job is None:
        if sight.may_be_accounted:
            return JobFinding.UNKNOWN, ""
        return JobFinding.LOST, f"Slurm knows no job {record.job} any more"
    if not job.is_open:
        return _end_of(record, job)
    if job.is_ending:
        return JobFinding.UNKNOWN, ""
    why = _lost_reason(record, job, sight)
    if why:
        return JobFinding.LOST, why
    return (JobFinding.RUNNING if job.is_up else JobFinding.WAITING), ""


def _end_of(record: JobRecord, job: SlurmJob) -> tuple[JobFinding, str]:
    finding, detail = end_of(job)
    if record.limit and job.state == "TIMEOUT":
        finding = JobFinding.LOST  # its node was to be another's: no fault of the component
    if record.ending and job.state == "CANCELLED":
        finding = JobFinding.LOST
    return finding, detail


def end_of(job: SlurmJob) -> tuple[JobFinding, str]:
    """Return what the end of a job means for its component, and why it ended."""
    finding = _ENDS.get(job.state, JobFinding.FAILED)
    if finding is JobFinding.COMPLETED:
        return finding, ""
    if job.state in _WORDS:
        return finding, f"{_WORDS[job.state]} (job {job.id})"
    if os.WIFSIGNALED(job.status):
        return finding, f"ended by signal {os.WTERMSIG(job.status)} (job {job.id})"
    return finding, f"exit code {job.status >> 8} (job {job.id})"


def _lost_reason(record: JobRecord, job: SlurmJob, sight: Sight) -> str:
    """Return why an open job is given up, or nothing."""
    if job.is_stranded:
        return f"its reservation in Slurm ended before it began (job {job.id})"
    if record.phase is Phase.UP and not job.is_up:
        return f"it was put back into Slurm's queue (job {job.id})"
    if job.is_up and job.nodes != (sight.node,):
        return f"it was moved to {','.join(job.nodes)} in Slurm (job {job.id})"
    if record.is_gone:
        return f"nothing of job {job.id} is left on {','.join(job.nodes)}, which began again"
    if not job.is_up and sight.is_taken:
        return f"other people's jobs run on {record.machine} (job {job.id})"
    if not job.is_up and sight.is_overdue:
        return f"Slurm did not start job {job.id} in {sight.waited_s:.0f} s: {job.reason}"
    return ""
