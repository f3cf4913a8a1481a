"""SlurmFollower: keeps Slurm's reservations and users' jobs in line with the Plan at every tick."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from dispatch.backends.slurm.backend import OrderOf, SlurmBackend
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import NodeRights, SlurmJob
from dispatch.backends.slurm.control.slurm import Look, Slurm
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan, foreign_spans
from dispatch.backends.slurm.reserved.held_nodes import HeldLicenses, held_spans, lasting_jobs
from dispatch.backends.slurm.reserved.reservation_keeper import (
    PlanPiece,
    ReservationKeeper,
    machineless_at,
    nodes_by_atom,
    pieces_of,
)
from dispatch.backends.slurm.reserved.user_jobs import UserJobs, WaitingJobs
from dispatch.executions.peers import PeerBook
from planner.explain import time_text
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from planner.plan.records.reservation_records import WORK_ENDED, WORK_RUNS_ON, WORK_WAITS
from planner.reservations.state import State

logger = logging.getLogger("agenda.slurm")

#: How long before its start jobs may already name a Slurm reservation, ms.
_SOON_MS: Final = 5_000

#: Pause between checks of an unchanged Plan, and of reservations that others may have changed.
_PLAN_S, _OTHERS_S = 5.0, 30.0

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


class SlurmFollower:
    """A Slurm backend together with Slurm's reservations.

    Parameters
    ----------
    slurm
        The Slurm that runs components.
    order
        Returns what a delta starts.
    tenure
        Number of the tenure in which this process leads.
    origin_ms
        The Plan's origin as Unix ms.
    peers
        Gives ports to components that start; without, no component has any.
    steady_s
        Monotonic clock.

    Attributes
    ----------
    settings
        Of that Slurm.
    backend
        Runs components in these reservations.
    seen_ms
        Time of the data in :attr:`waits`, in ms from the Plan's origin.
    notes
        Notes for owners of reservations about their jobs, as of the last :meth:`read`.
    """

    def __init__(
        self,
        slurm: Slurm,
        order: OrderOf,
        tenure: int,
        origin_ms: int,
        steady_s: Callable[[], float] = time.monotonic,
        *,
        peers: PeerBook | None = None,
        leads: Callable[[], bool] = lambda: True,
        needs_history: bool = True,
    ) -> None:
        self._slurm = slurm
        self.settings = slurm.settings
        self._origin_ms = origin_ms
        self._steady_s = steady_s
        settings = slurm.settings
        self._keeper = ReservationKeeper(slurm.commands, settings.prefix, settings.user)
        self._jobs = UserJobs(settings, slurm.commands, self._keeper)
        self.backend = SlurmBackend(
            slurm,
            order,
            peers=peers,
            tenure=tenure,
            origin_ms=origin_ms,
            rights_on=self._rights_on,
            steady_s=steady_s,
            leads=leads,
            needs_history=needs_history,
        )
        self.seen_ms = 0
        self._version = -1
        self._read_s = self._kept_s = -1e9
        self._wanted: list[PlanPiece] = []
        self._kept: list[PlanPiece] | None = None
        self._tenants: dict[str, str] = {}
        self._live: set[str] = set()
        self._given_up: set[str] = set()
        self._work_notes = WorkNotes()
        self.notes: list[Note] = []
        self._machineless: frozenset[str] = frozenset()
        #: Nodes of each atom of the reservations that heterogeneous jobs wait for.
        self._nodes_by_atom: dict[str, dict[int, frozenset[str]]] = {}
        self._failed = ""
        self._held: list[ForeignSpan] = []
        self._licenses = HeldLicenses(slurm.capabilities.licenses, origin_ms)
        self._machine_of = {node: name for name, node in settings.machines.items()}

    def read(self, plan: Plan, now_ms: int) -> None:
        """Read from the Plan what :meth:`follow` needs; the caller holds the Plan's lock."""
        look = self.backend.newest
        named = set() if look is None else self._jobs.named(look.jobs.values())
        numbers = {id_: plan.table.number_of(id_) for id_ in named}
        self._tenants = {
            id_: plan.table.scope(number)[0]
            for id_, number in numbers.items()
            if number is not None
        }
        step, finish = now_ms // plan.grid.step_ms, plan.table.meta["finish"]
        self._live = {
            id_ for id_, number in numbers.items() if number is not None and finish[number] > step
        }
        self._given_up = {
            id_
            for id_, number in numbers.items()
            if number is not None and plan.table.state(number) is State.FAILED
        }
        self._machineless = machineless_at(plan, now_ms, now_ms + _SOON_MS)
        if look is not None:
            self._held = self._held_beyond(plan, look, now_ms)
            owned = list(self._jobs.owned(look.jobs.values(), self._tenants))
            waiting = {id_ for id_, job in owned if job.leader and job.waits}
            machines = self._slurm.settings.machines
            self._nodes_by_atom = nodes_by_atom(plan, waiting, now_ms, machines)
            # An old snapshot says nothing about current jobs.
            look_ms = self.backend.newest_ms
            is_silent = self.backend.is_silent
            self.notes = (
                [] if is_silent else self._work_notes.due(plan, owned, look_ms, self._origin_ms)
            )
        at_s = self._steady_s()
        if plan.version == self._version and at_s - self._read_s < _PLAN_S:
            return
        settings = self._slurm.settings
        until_ms = now_ms + round(1000 * settings.ahead_s)
        self._wanted = pieces_of(plan, now_ms, until_ms, self._origin_ms, settings.machines)
        self._version, self._read_s = plan.version, at_s

    def follow(self, now_ms: int) -> list[str]:
        """Update Slurm to the Plan as read; return the reservations whose jobs are done.

        A failure is logged once and retried at the next tick.
        """
        now_s, at_s = self._unix_s(now_ms), self._steady_s()
        look = self.backend.newest
        if self.backend.is_silent:  # its snapshots show when it answers again
            self._kept = None
            self._jobs.forget_waits()
            return []
        try:
            if look is not None:
                self._jobs.cancel_failed(look.jobs.values(), self._tenants, self._given_up)
                self._jobs.unbind_lost(look.jobs.values(), self._live)
            if self._wanted != self._kept or at_s - self._kept_s > _OTHERS_S:
                done = self._keeper.keep(self._wanted, now_s)
                self._kept, self._kept_s = (self._wanted if done else None), at_s
            if look is None:
                return []
            self.seen_ms = self.backend.newest_ms
            ended = self._jobs.follow(
                look.jobs.values(), self._tenants, now_s, self._machineless,
                self._unix_s(self.seen_ms), self._nodes_by_atom,
            )  # fmt: skip
        except SlurmError as error:
            if str(error) != self._failed:
                logger.warning("reservations in Slurm wait: %s", error)
            if isinstance(error, SlurmAwayError):
                self.backend.note_silence(error)
            self._failed, self._kept = str(error), None
            self._jobs.forget_waits()
            return []
        self._failed = ""
        return [id_ for id_ in ended if id_ not in self._given_up]

    @property
    def waits(self) -> dict[str, WaitingJobs]:
        """Users' waiting jobs by reservation; none while Slurm is silent."""
        return {} if self.backend.is_silent else self._jobs.waits

    def _held_beyond(self, plan: Plan, look: Look, now_ms: int) -> list[ForeignSpan]:
        """Return machines and licences that others hold beyond their allocations in the Plan."""
        running = [job for job in look.jobs.values() if job.holds_nodes]
        jobs = [job for job in running if not self.backend.is_component(job)]
        found = self._slurm.capabilities
        now_s = self._unix_s(now_ms)
        lasting = lasting_jobs(
            jobs, found.yielding, self._machine_of, now_s, self._origin_ms, found.exempt_s
        )
        # Jobs with a pooled promise are counted in the totals, wherever they run.
        placed = (job for job in lasting if job.reservation not in self._machineless)
        licenses = self._licenses.spans(plan, jobs, self._keeper.foreign or (), now_ms)
        return [*held_spans(plan, placed, now_ms), *licenses]

    @property
    def foreign_spans(self) -> tuple[ForeignSpan, ...] | None:
        """Machines and licences that others have reserved or hold; times in ms from the origin.

        Reservations are at most half a minute old while Slurm answers, jobs are from the last
        snapshot; None before both were read.
        """
        if self._keeper.foreign is None or self.backend.newest is None:
            return None
        found = foreign_spans(self._keeper.foreign, self._slurm.settings.prefix, self._machine_of)
        reserved = [
            one._replace(start=self.plan_ms(one.start), end=self.plan_ms(one.end)) for one in found
        ]
        return (*reserved, *self._held)

    def plan_ms(self, unix_s: int) -> int:
        """Return a Unix time as ms from the Plan's origin."""
        return 1000 * unix_s - self._origin_ms

    def _rights_on(self, node: str, reservation: str | None, at_ms: int) -> NodeRights:
        soon_s = self._unix_s(at_ms + _SOON_MS)
        rights = self._keeper.rights_on(node, reservation, self._unix_s(at_ms), soon_s)
        return replace(rights, own=rights.own or reservation in self._machineless)

    def _unix_s(self, plan_ms: int) -> int:
        return (plan_ms + self._origin_ms) // 1000


# A note is added to the history of the reservation, and so appears in events, webhooks and pages. A
# note that the history already has is not repeated, even by a new leader.


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
