"""The state of a Plan: the result of applying commit records in order.

Only `apply` changes it; replay, other processes, tests and simulators use it as well. The state has
no store and no clock: time enters as `Advance`.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import Taking, merge_takings, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import Cluster, renumbered_machines
from planner.machines.room import MachineRoom
from planner.plan.column_reading import without
from planner.plan.records.commit_records import (
    Advanced,
    Archived,
    CommitRecord,
    Reconfigured,
    RecordedChange,
)
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    HoldAccepted,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.plan.table import ReservationTable
from planner.reservations.holding import (
    extend_shifts,
    lost_rows,
    release_rows,
    with_slots,
    without_after,
)
from planner.reservations.reservation import (
    Degradation,
    HistoryEntry,
    Holding,
    Refusal,
    Reservation,
)
from planner.reservations.slots import Slots
from planner.reservations.state import LIVE, STATE_NUMBERS, State
from rdl.time_grid import TimeGrid

_ACCEPTED = STATE_NUMBERS[State.ACCEPTED]
_ACTIVE = STATE_NUMBERS[State.ACTIVE]
_COMPLETED = STATE_NUMBERS[State.COMPLETED]


class StaleVersionError(ValueError):
    """A commit or a record refers to a version that the Plan does not have."""


class PlanState:
    """Every reservation with its allocation, every refusal, and the free capacity.

    Not thread-safe: one writer at a time. Snapshots may be read by any thread.

    Attributes
    ----------
    cluster, grid
        As of the present version.
    version
        Number of records applied.
    now
        The present step; 0 until the first `Advance`.
    """

    def __init__(self, cluster: Cluster, grid: TimeGrid) -> None:
        self.cluster = cluster
        self.grid = grid
        self.version = 0
        self.now = 0
        self.table = ReservationTable()
        self.table.machines = cluster.machine_names
        self._room: MachineRoom | None = None
        self.ledger = FreeProfile(CapacityRows(cluster), grid, 0)
        self._refusals: dict[str, Refusal] = {}
        self._live: dict[tuple[str, str], int] = {}
        self._readers: weakref.WeakSet[PlanSnapshot] = weakref.WeakSet()

    @classmethod
    def replay(cls, cluster: Cluster, grid: TimeGrid, records: Iterable[CommitRecord]) -> Self:
        """Return the Plan that `records` make, starting from an empty one."""
        plan = cls(cluster, grid)
        for record in records:
            plan.apply(record)
        return plan

    def snapshot(self) -> PlanSnapshot:
        """Return an immutable view; while it is in use, the next commit copies the profile."""
        snapshot = PlanSnapshot(self.ledger, self.version)
        self._readers.add(snapshot)
        return snapshot

    def view(self) -> PlanSnapshot:
        """Return a view without a copy, valid until the next `apply`: for a single writer."""
        return PlanSnapshot(self.ledger, self.version)

    def view_without(self, ids: Iterable[str]) -> PlanSnapshot:
        """Return a view in which the given reservations hold nothing from `now` on."""
        ledger = self.ledger.copy()
        for id_ in ids:
            number = self.table.number_of(id_)
            if number is not None:
                tenant, queue = self.table.scope(number)
                held = takings_of(self.table.holding(number), ledger, tenant, queue, -1)
                ledger.take((taking.demand, taking.rows, -1) for taking in held)
        return PlanSnapshot(ledger, self.version)

    @property
    def room(self) -> MachineRoom:
        """Capacity of every machine that slots leave free; built at first use.

        Only the Plan's single writer may read or write it.
        """
        if self._room is None:
            self._room = MachineRoom(self.cluster, self.grid, self.ledger.first)
            for held in self.table.held_slots():
                self._room.take(held.slots, held.bundle, 1)
        return self._room

    def reservation(self, id: str) -> Reservation | None:  # noqa: A002 - the field's word
        """Return a reservation, or None."""
        number = self.table.number_of(id)
        return None if number is None else self.table.read(number)

    def reservations(self) -> Iterator[Reservation]:
        """Yield all reservations in order of admission."""
        for number in range(len(self.table)):
            yield self.table.read(number)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """All refusals on record, in order."""
        return tuple(self._refusals.values())

    def refusal(self, id: str) -> Refusal | None:  # noqa: A002 - the field's word
        """Return a refusal, or None."""
        return self._refusals.get(id)

    def knows(self, id: str) -> bool:  # noqa: A002 - the field's word
        """Return whether a reservation or a refusal has an id."""
        return self.table.number_of(id) is not None or id in self._refusals

    @property
    def past_until(self) -> int:
        """Step before which allocations no longer count, not even in an average over a window."""
        return self.now - self.ledger.book.longest_window

    def live_count(self, tenant: str | None, queue: str | None) -> int:
        """Return how many reservations of a scope are accepted, active or degraded."""
        return sum(
            count
            for (one, other), count in self._live.items()
            if tenant in (None, one) and queue in (None, other)
        )

    def live_scopes(self) -> list[tuple[str, str]]:
        """Return the (tenant, queue) of reservations that are accepted, active or degraded."""
        return [scope for scope, count in self._live.items() if count]

    def copy(self) -> Self:
        """Return an equal Plan that shares no mutable state; it has no snapshots yet."""
        twin = copy.copy(self)
        twin._detach()  # noqa: SLF001 - of its own class
        return twin

    def _detach(self) -> None:
        """Replace the mutable state shared with the original by copies."""
        self.table = self.table.copy()
        self.ledger = self.ledger.copy()
        self._room = None
        self._refusals = dict(self._refusals)
        self._live = dict(self._live)
        self._readers = weakref.WeakSet()

    def apply(self, record: CommitRecord, takings: Sequence[Taking] | None = None) -> None:
        """Make the changes of a record.

        Parameters
        ----------
        record
            Of the next version.
        takings
            `Prepared.takings` of a record of admissions only; None to compute them.

        Raises
        ------
        StaleVersionError
            If it is not the record of the next version.
        """
        if record.version != self.version + 1:
            raise StaleVersionError(
                f"the plan is at version {self.version}, the record makes {record.version}"
            )
        if self._readers:
            # A snapshot still reads the old profile.
            self.ledger = self.ledger.copy()
            self._readers = weakref.WeakSet()
        admitted: list[Admitted] = []
        for change in record.changes:
            if isinstance(change, Admitted):
                admitted.append(change)
            else:
                self._admit(admitted, record)
                admitted = []
                self._apply(change, record)
        whole = len(admitted) == len(record.changes)
        self._admit(admitted, record, takings if whole else None)
        self.version = record.version

    def _apply(self, change: RecordedChange, record: CommitRecord) -> None:
        match change:
            case HoldAccepted():
                self._accept_hold(change, record)
            case Refused(refusal=refusal):
                self._refusals[refusal.id] = refusal
            case Updated():
                self._update(change, record)
            case Degraded():
                self._degrade(change, record)
            case Released():
                self._release(change, record)
            case Noted(what=what, reason=reason):
                entry = HistoryEntry(record.at_ms, record.version, what, reason)
                self.table.note(self._number(change.id), entry)
            case Relocated():
                self._relocate(change, record)
            case Ended():
                self._end(change, record)
            case Advanced():
                self._advance(change, record)
            case Archived(ids=ids):
                self._archive(ids)
            case Reconfigured(cluster=cluster):
                self._reconfigure(cluster)

    def _admit(
        self,
        changes: Sequence[Admitted],
        record: CommitRecord,
        takings: Sequence[Taking] | None = None,
    ) -> None:
        if not changes:
            return
        first = self.table.append(changes, record.at_ms, record.version)
        if takings is None:
            takings = [
                taking
                for one in changes
                for taking in takings_of(one.holding, self.ledger, one.tenant, one.queue)
            ]
        for number, change in enumerate(changes, first):
            if self._refusals:
                self._refusals.pop(change.id, None)  # was refused earlier
            scope = (change.tenant, change.queue)
            self._live[scope] = self._live.get(scope, 0) + 1
            if change.holding.begin <= self.now and self.now > 0:
                self.table.meta[number]["state"] = _ACTIVE
            if change.note:
                entry = HistoryEntry(record.at_ms, record.version, "accepted", change.note)
                self.table.note(number, entry)
            if change.hold is not None:
                self.table.holds[number] = change.hold
        self.ledger.take((group.demand, group.rows, 1) for group in merge_takings(takings))
        for change in changes:
            self._take_slots(change.holding, 1)

    def _accept_hold(self, change: HoldAccepted, record: CommitRecord) -> None:
        number = self._number(change.id)
        self.table.holds.pop(number, None)
        self.table.meta[number]["revision"] += 1
        entry = HistoryEntry(record.at_ms, record.version, "accepted", "it was held until then")
        self.table.note(number, entry)

    def _update(self, change: Updated, record: CommitRecord) -> None:
        number = self._number(change.id)
        self._take(number, self.table.holding(number), -1)
        self.table.replace(number, change.holding)
        self.table.details.put(number, change.details)
        meta = self.table.meta[number]
        meta["revision"] = change.revision
        meta["weight"], meta["priority"] = change.weight, change.priority
        meta["agent"] = self.table.agent_number(change.agent)
        self._take_new(number, change.holding)
        started = change.holding.begin <= self.now
        meta["state"] = _ACTIVE if started else _ACCEPTED
        self.table.set_promise(number, change.promise)
        self.table.degradations.pop(number, None)
        self.table.note(
            number, HistoryEntry(record.at_ms, record.version, change.cause, change.reason)
        )

    def _degrade(self, change: Degraded, record: CommitRecord) -> None:
        number = self._number(change.id)
        before = self.table.holding(number)
        self._take(number, before, -1)
        self.table.replace(number, change.holding)
        self._take_new(number, change.holding)
        self.table.meta[number]["revision"] += 1
        self.set_state(number, State.DEGRADED)
        known = self.table.degradations.get(number)
        since_ms = record.at_ms if known is None else known.since_ms
        self.table.degradations[number] = Degradation(since_ms, change.reason, change.offers)
        lost = self._lost(before, change.holding)
        entry = HistoryEntry(record.at_ms, record.version, change.cause, change.reason, lost)
        self.table.note(number, entry)

    def _lost(self, before: Holding, after: Holding) -> tuple[int, int] | None:
        """Return (start, end) in ms of the time that `before` holds and `after` does not."""
        taken = lost_rows(before, after)
        if not len(taken):
            return None
        return self.grid.ms(int(taken[:, 0].min())), self.grid.ms(int(taken[:, 1].max()))

    def _release(self, change: Released, record: CommitRecord) -> None:
        number = self._number(change.id)
        kept, given = release_rows(self.table.holding(number), change.released, self.now)
        self._take(number, given, -1)
        self.table.replace(number, kept)
        self.table.meta[number]["revision"] += 1
        entry = HistoryEntry(record.at_ms, record.version, "released", change.reason)
        self.table.note(number, entry)

    def _relocate(self, change: Relocated, record: CommitRecord) -> None:
        number = self._number(change.id)
        before = self.table.holding(number)
        self._take_slots(before, -1)
        after = with_slots(before, change.slots)
        self.table.replace(number, after)
        self._take_slots(after, 1)
        entry = HistoryEntry(record.at_ms, record.version, "relocated", change.reason)
        self.table.note(number, entry)

    def _end(self, change: Ended, record: CommitRecord) -> None:
        number = self._number(change.id)
        holding = self.table.holding(number)
        self._take(number, holding, -1)
        kept = without_after(holding, change.from_step)
        self.table.replace(number, kept)
        self._take_new(number, kept)
        meta = self.table.meta[number]
        meta["revision"] += 1
        self.set_state(number, change.state)
        degradation = self.table.degradations.pop(number, None)
        if degradation is not None and change.state is State.COMPLETED:
            # It got less than was promised, which its owner does not need any more.
            self.table.degradations[number] = replace(degradation, offers=())
        what = "closed" if change.state is State.COMPLETED else change.state.value
        lost = self._lost(holding, kept)
        entry = HistoryEntry(record.at_ms, record.version, what, change.reason, lost)
        self.table.note(number, entry)

    def _advance(self, change: Advanced, record: CommitRecord) -> None:
        first = max(change.now_step, self.ledger.first)
        if first != self.ledger.first or change.horizon != self.grid.horizon:
            self.grid = self.grid.with_horizon(change.horizon)
            self.ledger = self.ledger.roll(self.grid, first)
            if self._room is not None:
                self._room.advance(self.grid, first)
        self.now = max(self.now, change.now_step)
        laid = dict(change.laid)
        for id_, shifts in change.extended:
            self._extend(self._number(id_), shifts, laid.get(id_))
        meta = self.table.meta
        begun = (meta["state"] == _ACCEPTED) & (meta["begin"] <= self.now)
        meta["state"][begun] = _ACTIVE
        ended = np.flatnonzero((meta["state"] == _ACTIVE) & (meta["finish"] <= self.now))
        for number in ended.tolist():
            self.set_state(number, State.COMPLETED)

    def _extend(
        self,
        number: int,
        shifts: tuple[tuple[int, ...], ...],
        slots: tuple[Slots, ...] | None,
    ) -> None:
        holding = self.table.holding(number)
        later = extend_shifts(holding, shifts)
        if slots is not None:
            later = with_slots(later, slots)
        self.table.replace(number, later)
        self._take(number, holding, -1)
        self._take(number, later, 1)

    def _archive(self, ids: Sequence[str]) -> None:
        """Remove ended reservations and refusals, which have no future allocation."""
        numbers = [self._number(id_) for id_ in ids if id_ not in self._refusals]
        for id_ in ids:
            self._refusals.pop(id_, None)
        if numbers:
            # Readers that still use the old numbers keep the old table.
            self.table = without(self.table, numbers)

    def _reconfigure(self, cluster: Cluster) -> None:
        numbers = renumbered_machines(self.cluster, cluster)
        self.table.renumber_machines(numbers, cluster.machine_names)
        self._room = None
        self.cluster = cluster
        self.grid = self.grid.with_zone(cluster.zone)
        self.ledger = FreeProfile(CapacityRows(cluster), self.grid, self.ledger.first)
        self.take_all()

    def take_all(self) -> None:
        """Take all allocations from a new ledger; seconds for a million reservations."""
        for held in self.table.rows_by_taker():
            demand = self.ledger.demand(held.bundle, held.label, held.tenant, held.queue)
            self.ledger.take([(demand, held.rows, 1)])

    def _take_new(self, number: int, holding: Holding) -> None:
        self._take(number, holding, 1)

    def _take(self, number: int, holding: Holding, sign: int) -> None:
        tenant, queue = self.table.scope(number)
        takings = takings_of(holding, self.ledger, tenant, queue, sign)
        self.ledger.take((taking.demand, taking.rows, sign) for taking in takings)
        self._take_slots(holding, sign)

    def _take_slots(self, holding: Holding, sign: int) -> None:
        """Take slots from the machines; does nothing until their free capacity is built."""
        if self._room is not None:
            for atom in holding.atoms:
                if atom.slots is not None and len(atom.slots):
                    self._room.take(atom.slots, atom.bundle, sign)

    def set_state(self, number: int, state: State) -> None:
        """Set the state of a reservation; update the count of live ones."""
        before = self.table.state(number)
        self.table.meta[number]["state"] = STATE_NUMBERS[state]
        if state not in LIVE:
            self.table.holds.pop(number, None)
        more = (state in LIVE) - (before in LIVE)
        if more:
            scope = self.table.scope(number)
            self._live[scope] = self._live.get(scope, 0) + more

    def _number(self, id_: str) -> int:
        number = self.table.number_of(id_)
        if number is None:
            raise KeyError(f"no reservation {id_!r}")
        return number
