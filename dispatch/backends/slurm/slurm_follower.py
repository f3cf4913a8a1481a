"""SlurmFollower: keeps Slurm's reservations and users' jobs in line with the Plan at every tick."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dispatch.backends.slurm.backend import OrderOf, SlurmBackend
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import NodeRights
from dispatch.backends.slurm.control.slurm import Look, Slurm
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan, foreign_spans
from dispatch.backends.slurm.reserved.held_licenses import HeldLicenses
from dispatch.backends.slurm.reserved.held_nodes import held_spans, lasting_jobs
from dispatch.backends.slurm.reserved.reservation_keeper import ReservationKeeper
from dispatch.backends.slurm.reserved.reservation_pieces import (
    PlanPiece,
    machineless_at,
    nodes_by_atom,
    pieces_of,
)
from dispatch.backends.slurm.reserved.user_jobs import UserJobs, WaitingJobs
from dispatch.backends.slurm.reserved.work_notes import WorkNotes
from dispatch.executions.peers import PeerBook
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from planner.reservations.state import State

logger = logging.getLogger("agenda.slurm")

#: How long before its start jobs may already name a Slurm reservation, ms.
_SOON_MS: Final = 5_000

#: Pause between checks of an unchanged Plan, and of reservations that others may have changed.
_PLAN_S, _OTHERS_S = 5.0, 30.0


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
