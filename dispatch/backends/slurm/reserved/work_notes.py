"""What owners of reservations are notified of their jobs: why one waits, runs on, or ended badly.

A note is written into the history of the reservation, which tells it to events, webhooks and pages.
What the history says already is not written again, by whichever leader.
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

#: For so long a job may wait in its slot, or run past it, before anyone is notified, s.
_GRACE_S: Final = 10

#: Most notes of one look: each is a commit, and the others are due at the next look.
_MOST: Final = 5

#: Reasons that say no more than that a job waits for its turn.
_NO_REASONS: Final = frozenset({"", "None", "BeginTime"})

#: How a job ended that did not end well, by its state in Slurm. One whose node failed, or that was
#: preempted, may be on its way back into the queue.
_ENDS: Final = {
    "FAILED": "failed",
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit",
    "OUT_OF_MEMORY": "ran out of memory",
    "DEADLINE": "was ended by Slurm at its deadline",
    "COMPLETED": "has ended well",
}


class WorkNotes:
    """Finds what is to be reported, look by look."""

    def __init__(self) -> None:
        self._told: set[Note] = set()

    def due(
        self, plan: Plan, jobs: Iterable[tuple[str, SlurmJob]], now_ms: int, origin_ms: int
    ) -> list[Note]:
        """Return what the histories of reservations do not say yet.

        Parameters
        ----------
        plan
            Is only read.
        jobs
            What a look found, each with the reservation of its owner that it is for.
        now_ms, origin_ms
            When the look was, in ms from the Plan's origin, and that origin in Unix ms.
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
            # A job that ended in its time is notified of where it ended badly, or ran on before.
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
        is_ours = job.is_held and not job.reservations  # it is bound at its turn
        if is_due and not is_ours and job.reason not in _NO_REASONS:
            yield Note(id_, WORK_WAITS, f"{_name(job)} waits in Slurm: {job.reason}")
    elif job.holds_nodes:
        if finish_ms + 1000 * _GRACE_S <= now_ms:
            until = _until(plan, job, origin_ms)
            yield Note(id_, WORK_RUNS_ON, f"{_name(job)} runs on in Slurm{until}")
    elif job.state in _ENDS:
        yield Note(id_, WORK_ENDED, f"{_name(job)} {_ENDS[job.state]}{_code(job)}")


def _name(job: SlurmJob) -> str:
    """Return how a job is called: the tasks of an array alike, so that they are one note."""
    return f"a task of array {job.array}" if job.array else f"job {job.id}"


def _until(plan: Plan, job: SlurmJob, origin_ms: int) -> str:
    """Return until when a job may run by its time limit, in words; nothing without one."""
    if job.array or not job.limit_min or not job.ends_s:
        return ""
    end = plan.grid.floor(1000 * job.ends_s - origin_ms)
    return f", at most until {time_text(end, plan.grid)}"


def _code(job: SlurmJob) -> str:
    """Return how the script of a job that failed ended, in words."""
    if job.state != "FAILED" or not job.status:
        return ""
    code, signal = job.status >> 8, job.status & 0x7F
    return f" by signal {signal}" if signal else f" with exit code {code}"
