"""JobRecord: one job of a component, its phase, and its transitions by what Slurm reports.

`judge` derives a finding from slurmctld and the accounting; `TRANSITIONS` is the complete table of
its effect on the record, and of the events it causes.
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
    """Phase of a job for its component."""

    FORMER = "former"  # left by an earlier leader; its execution has not been resumed yet
    SENT = "sent"  # submitted; not reported as started
    UP = "up"  # reported as started
    EXITED = "exited"  # succeeded; a core keeps its machine until all of its execution have
    LEFT = "left"  # stopped or lost: the last job of its component, which may have succeeded
    OVER = "over"  # nothing is expected of it any more


#: Phases of the current job of a component.
STANDING: Final = frozenset({Phase.SENT, Phase.UP, Phase.EXITED})


class JobFinding(Enum):
    """Finding about a current job, from slurmctld and the accounting."""

    UNKNOWN = "unknown"  # it has ended, but it is not known yet how
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

#: Next phase and events of a finding; other pairs do not occur.
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

#: Finding for each end state of a job; any other state is a failure.
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
        Its component, its machine, and since when it is there.
    job
        Its job id in Slurm.
    asked_s
        When it was submitted, on the monotonic clock.
    core
        Whether its execution needs it.
    limit
        Whether it got a time limit because of reservations of others.
    ending
        Whether its node was completing it when a new leader found it: the earlier leader may have
        stopped it.
    to_cancel
        Whether to cancel it as long as Slurm lists it as open.
    to_repeat
        For an exited job: whether to start it again unless it succeeded.
    in_doubt
        Whether it was stopped while Slurm reported it as running, and may never have begun.
    last_seen, wait_since_s
        For the last job of a component: its last state in slurmctld, and since when its end could
        be known.
    absent_since_s
        Since when slurmctld does not know it, if the accounting does not say how it ended.
    recheck_s, pause_s
        While its node is completing it: when to query the accounting next for its end, and the
        pause before that.
    node_began_s, is_missing, is_gone
        Start time of the slurmd that last reported it (Unix time, 0 for none); whether the slurmd
        queried last had no trace of it; and whether that is certain.
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
        """Whether it is the current job of its component."""
        return self.phase in STANDING

    @property
    def is_last(self) -> bool:
        """Whether its component is to run again, but may have finished its work in this job."""
        return self.phase is Phase.LEFT or self.to_repeat

    def known_until(self, heard_ms: int | None, at_ms: int) -> int:
        """Return until when a lost job is known to have run: `heard_ms`, or now if that is None."""
        return at_ms if heard_ms is None else min(max(heard_ms, self.since_ms + 1), at_ms)


@dataclass(frozen=True, slots=True)
class Sight:
    """Observations of a current job.

    Attributes
    ----------
    job
        Its record in slurmctld or the accounting; None if neither knows it.
    node
        Node to which it was submitted.
    may_be_accounted
        For an unknown job: whether the accounting may still say how it ended.
    is_taken
        Whether other people's jobs run on its machine.
    is_overdue
        Whether Slurm has not started it for longer than the settings allow.
    waited_s
        Seconds since its submission.
    """

    job: SlurmJob | None
    node: str | None
    may_be_accounted: bool = False
    is_taken: bool = False
    is_overdue: bool = False
    waited_s: float = 0.0


def judge(record: JobRecord, sight: Sight) -> tuple[JobFinding, str]:
    """Return the finding about a current job, with the reason if it has ended or is lost."""
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
    """Return the finding for an ended job, and the reason of its end."""
    finding = _ENDS.get(job.state, JobFinding.FAILED)
    if finding is JobFinding.COMPLETED:
        return finding, ""
    if job.state in _WORDS:
        return finding, f"{_WORDS[job.state]} (job {job.id})"
    if os.WIFSIGNALED(job.status):
        return finding, f"ended by signal {os.WTERMSIG(job.status)} (job {job.id})"
    return finding, f"exit code {job.status >> 8} (job {job.id})"


def _lost_reason(record: JobRecord, job: SlurmJob, sight: Sight) -> str:
    """Return the reason to treat an open job as lost, or nothing."""
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
