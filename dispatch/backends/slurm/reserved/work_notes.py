"""Notes to owners of reservations about their jobs: why one waits, overruns its slot, or failed.

A note is added to the history of the reservation, and so appears in events, webhooks and pages. A
note that the history already has is not repeated, even by a new leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from dispatch.backends.slurm.control.records import SlurmJob
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from planner.plan.records.reservation_records import WORK_ENDED, WORK_RUNS_ON, WORK_WAITS

#: How long a job may wait in its slot, or run past it, before its owner is notified, s.
_GRACE_S: Final = 10

#: Most notes per snapshot: each is a commit, and the others are due at the next snapshot.
_MOST: Final = 5

#: Reasons that only say that a job waits for its turn.
_NO_REASONS: Final = frozenset({"", "None", "BeginTime"})

#: Words for the end of a job, by its state in Slurm. A job whose node failed, or that was
#: preempted, may be requeued.
_ENDS: Final = {
    "FAILED": "failed",
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit",
    "OUT_OF_MEMORY": "ran out of memory",
    "DEADLINE": "was ended by Slurm at its deadline",
    "COMPLETED": "has ended well",
}


class WorkNotes:
    """Finds new notes in each snapshot."""

    def __init__(self) -> None:
        self._told: set[Note] = set()

    def due(
        self, plan: Plan, jobs: Iterable[tuple[str, SlurmJob]], now_ms: int, origin_ms: int
    ) -> list[Note]:
        """Return the notes that are not yet in the histories of reservations.

        Parameters
        ----------
        plan
            The Plan, which is only read.
        jobs
            Jobs of a snapshot, each with its owner's reservation.
        now_ms, origin_ms
            Time of the snapshot, in ms from the Plan's origin, and that origin in Unix ms.
        """
        notes = (_notes(plan, id_, job, now_ms, origin_ms) for id_, job in jobs)
        found = dict.fromkeys(chain.from_iterable(notes))
        self._told &= found.keys()
        fresh = [note for note in found if note not in self._told]
        due: list[Note] = []
        for note in fresh:
            number = plan.table.number_of(note.id)
            assert number is not None
            said = {(one.what, one.detail) for one in plan.table.read(number).history}
            # A normal end is reported only if the job had overrun its slot before.
            is_plain = note.what == WORK_ENDED and note.reason.endswith(_ENDS["COMPLETED"])
            ran_on = any(what == WORK_RUNS_ON for what, _ in said)
            if (note.what, note.reason) in said or (is_plain and not ran_on):
                self._told.add(note)
            else:
                due.append(note)
        return due[:_MOST]


def _notes(plan: Plan, id_: str, job: SlurmJob, now_ms: int, origin_ms: int) -> Iterator[Note]:
    number = plan.table.number_of(id_)
    if number is None:
        return
    meta = plan.table.meta[number]
    begin_ms, finish_ms = (plan.grid.ms(int(meta[name])) for name in ("begin", "finish"))
    if job.waits:
        due_ms = max(begin_ms, 1000 * job.submitted_s - origin_ms)
        is_due = due_ms + 1000 * _GRACE_S <= now_ms < finish_ms
        is_ours = job.is_held and not job.reservations  # it is bound when its slot begins
        if is_due and not is_ours and job.reason not in _NO_REASONS:
            yield Note(id_, WORK_WAITS, f"{_name(job)} waits in Slurm: {job.reason}")
    elif job.holds_nodes:
        if finish_ms + 1000 * _GRACE_S <= now_ms:
            until = _until(plan, job, origin_ms)
            yield Note(id_, WORK_RUNS_ON, f"{_name(job)} runs on in Slurm{until}")
    elif job.state in _ENDS:
        yield Note(id_, WORK_ENDED, f"{_name(job)} {_ENDS[job.state]}{_code(job)}")


def _name(job: SlurmJob) -> str:
    """Return the name of a job in a note; tasks of an array share one, so they make one note."""
    return f"a task of array {job.array}" if job.array else f"job {job.id}"


def _until(plan: Plan, job: SlurmJob, origin_ms: int) -> str:
    """Return the end of a job by its time limit, in words; empty without a limit."""
    if job.array or not job.limit_min or not job.ends_s:
        return ""
    end = plan.grid.floor(1000 * job.ends_s - origin_ms)
    return f", at most until {time_text(end, plan.grid)}"


def _code(job: SlurmJob) -> str:
    """Return how the script of a failed job ended, in words."""
    if job.state != "FAILED" or not job.status:
        return ""
    code, signal = job.status >> 8, job.status & 0x7F
    return f" by signal {signal}" if signal else f" with exit code {code}"
