"""Reservations stored as columns: arrays for a million of them, and objects only when read.

The limit of 300 bytes per reservation counts every column below, the id index (dicts of str to int,
and the id texts), rows, atoms and interned words. Expression texts, choices and notes are in
`DetailStore`, as compact bytes.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.plan.records.reservation_records import Admitted, Hold
from planner.plan.table_columns import (
    ATOM,
    LEVEL_NUMBERS,
    LEVELS,
    META,
    META_NAMES,
    NO_SLOTS,
    ROW,
    Column,
    DetailStore,
    IdIndex,
    Words,
    plain,
    plain_slots,
    ranges,
    slot_column,
    structured_slots,
    to_entries,
)
from planner.promise import PromiseLevel
from planner.request import BareHeader, RequestHeader
from planner.reservations.reservation import (
    AtomAllocation,
    Degradation,
    HistoryEntry,
    Holding,
    Reservation,
)
from planner.reservations.slots import NOWHERE, MachineRule, Slots, sort_slots
from planner.reservations.state import LIVE, NUMBERED_STATES, STATE_NUMBERS, State
from rdl.resources import Resources

#: An entry of the column of reservations, and the length of its history: a change of the allocation
#: moves its atoms, and a change of slots only adds to the history.
Stamp: TypeAlias = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Rows of all reservations with the same bundle, label and scope; unmerged."""

    tenant: str
    queue: str
    bundle: Resources
    label: str | None
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BundleSlots:
    """Slots of all reservations with the same bundle; int64[k, 4], unsorted."""

    bundle: Resources
    slots: Slots


class StandingSlots(NamedTuple):
    """Slots of some reservations, one entry per slot, by reservation and atom.

    Attributes
    ----------
    number, atom
        int64[k]: number of the reservation, and index of the atom in its holding.
    kind
        int64[k]: index in `kinds`.
    slots
        int64[k, 4].
    kinds
        (bundle, label, rule) by number.
    """

    number: NDArray[np.int64]
    atom: NDArray[np.int64]
    kind: NDArray[np.int64]
    slots: Slots
    kinds: Sequence[tuple[Resources, str | None, MachineRule]]


class ReservationTable:
    """All reservations of a Plan, by number in order of admission.

    Attributes
    ----------
    machines
        Names of the machines, by the numbers that slots use.
    holds
        Holds in force, by number of the reservation.
    admitted
        Count of all reservations ever admitted, removed ones included: the next ordinal.
    earlier_tenants
        Tenants at the last removal, in order of first appearance, as numbers of their names.
    """

    def __init__(self) -> None:
        self.details = DetailStore()
        self._meta = Column(META)
        self._atoms = Column(ATOM)
        self._rows = Column(ROW)
        self._slots = slot_column()
        self.machines: Sequence[str] = ()
        self.admitted = 0
        self.earlier_tenants: tuple[int, ...] = ()
        self._numbers = IdIndex()
        self._ids: list[str] = []
        self._names: Words[str] = Words()
        self._paths: Words[tuple[str, tuple[int, ...]]] = Words()
        self._kinds: Words[tuple[Resources, str | None, MachineRule]] = Words()
        self._shifts: Words[tuple[int, ...]] = Words()
        self._released: dict[int, NDArray[np.int64]] = {}
        self._history: dict[int, list[HistoryEntry]] = {}
        self.degradations: dict[int, Degradation] = {}
        self.holds: dict[int, Hold] = {}
        self._idle_rows = 0
        self._idle_slots = 0

    def copy(self) -> ReservationTable:
        """Return an equal table that shares no mutable state."""
        twin = copy.copy(self)
        twin._detach()  # noqa: SLF001 - of its own class
        return twin

    def _detach(self) -> None:
        """Replace the mutable state shared with the original by copies."""
        self.details = self.details.copy()
        self._meta, self._atoms, self._rows, self._slots = (
            column.copy() for column in (self._meta, self._atoms, self._rows, self._slots)
        )
        self._numbers, self._ids = self._numbers.copy(), list(self._ids)
        self._names, self._paths = self._names.copy(), self._paths.copy()
        self._kinds, self._shifts = self._kinds.copy(), self._shifts.copy()
        self._released = dict(self._released)
        self._history = {number: list(entries) for number, entries in self._history.items()}
        self.degradations = dict(self.degradations)
        self.holds = dict(self.holds)

    def __len__(self) -> int:
        return len(self._ids)

    def number_at(self, ordinal: int) -> int:
        """Return the number of the first reservation with this ordinal or a later one."""
        return int(np.searchsorted(self._meta.data["ordinal"], ordinal))

    def ordinal(self, number: int) -> int:
        """Return how many reservations were admitted earlier; removals do not change it."""
        there = number < len(self)
        return int(self._meta.data[number]["ordinal"]) if there else self.admitted

    def ended_before(self, step: int, at_ms: int) -> NDArray[np.int64]:
        """Return the reservations that have ended and not changed since.

        Parameters
        ----------
        step
            They hold nothing from this step on.
        at_ms
            All of their history is before it.
        """
        meta = self._meta.data
        live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
        old = np.flatnonzero(~live & (meta["finish"] <= step) & (meta["at"] < at_ms))
        history = self._history
        touched = [n for n in old.tolist() if n in history and history[n][-1].at_ms >= at_ms]
        return np.setdiff1d(old, touched, assume_unique=True)

    def number_of(self, id: str) -> int | None:  # noqa: A002 - the field's word
        """Return the number of a reservation, or None."""
        return self._numbers.get(id)

    @property
    def meta(self) -> NDArray[Any]:
        """The structured column of reservations; only the Plan writes it."""
        return self._meta.data

    def append(self, admitted: Sequence[Admitted], at_ms: int, version: int) -> int:
        """Append new reservations; return the number of the first."""
        number = len(self._ids)
        atom = self._append_atoms([one.holding for one in admitted])
        accepted = STATE_NUMBERS[State.ACCEPTED]
        metas = []
        for offset, one in enumerate(admitted):
            holding = one.holding
            metas.append(
                (
                    one.submitted_ms,
                    at_ms,
                    one.weight,
                    version,
                    self._names.number(one.tenant),
                    one.priority,
                    1,
                    holding.begin,
                    holding.finish,
                    holding.endless,
                    atom,
                    len(holding.atoms),
                    self._names.number(one.queue),
                    self._names.number(one.agent),
                    self.admitted + offset,
                    accepted,
                    LEVEL_NUMBERS[one.promise],
                )
            )
            atom += len(holding.atoms)
            self._numbers.put(one.id, number + offset)
            self._ids.append(one.id)
            self.details.put(number + offset, one.details)
        self._meta.append(metas, len(metas))
        self.admitted += len(metas)
        return number

    def _append_atoms(self, holdings: Sequence[Holding]) -> int:
        """Append the atoms and rows of holdings; return the index of the first atom."""
        first = self._atoms.count
        row = self._rows.count
        slot = self._slots.count
        atoms: list[tuple[int, int, int, int, int, int, int]] = []
        rows: list[NDArray[np.int64]] = []
        slots: list[Slots] = []
        for holding in holdings:
            for atom in holding.atoms:
                if atom.released is not None and len(atom.released):
                    self._released[first + len(atoms)] = atom.released
                path = self._paths.number((atom.path, atom.inner))
                kind = self._kinds.number((atom.bundle, atom.label, atom.rule))
                shifts = self._shifts.number(atom.shifts)
                count = len(atom.rows)
                held = (NO_SLOTS, 0) if atom.slots is None else (slot, len(atom.slots))
                atoms.append((row, count, path, kind, shifts, *held))
                rows.append(atom.rows)
                row += count
                if atom.slots is not None:
                    slots.append(atom.slots)
                    slot += len(atom.slots)
        if atoms:
            self._atoms.append(atoms, len(atoms))
            joined = rows[0] if len(rows) == 1 else np.concatenate(rows)
            plain = len(joined) == 1  # one tuple is written faster than three columns
            self._rows.append(
                [tuple(joined[0].tolist())] if plain else to_entries(joined), len(joined)
            )
        if slots:
            held_slots = slots[0] if len(slots) == 1 else np.concatenate(slots)
            if len(held_slots) == 1:
                self._slots.append([tuple(held_slots[0].tolist())])
            elif len(held_slots):
                self._slots.append(structured_slots(held_slots), len(held_slots))
        return first

    def rows_by_taker(self) -> Iterator[HeldRows]:
        """Yield all rows, grouped by scope, bundle and label."""
        meta, atoms = self._meta.data, self._atoms.data
        counts = meta["atoms"].astype(np.int64)
        owner = np.repeat(np.arange(len(meta)), counts)
        index = ranges(meta["atom"].astype(np.int64), counts)
        key = np.stack(
            [
                meta["tenant"][owner],
                meta["queue"][owner],
                atoms["kind"][index],
                atoms["shifts"][index],
            ],
            axis=1,
        )
        kinds, group = np.unique(key, axis=0, return_inverse=True)
        order = np.argsort(group.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(group.reshape(-1), minlength=len(kinds)))
        for number, (tenant, queue, kind, shifts) in enumerate(kinds.tolist()):
            chosen = index[order[(ends[number - 1] if number else 0) : ends[number]]]
            rows = self._rows_of(chosen)
            bundle, label, _ = self._kinds.values[kind]
            moved = AtomAllocation("", bundle, label, rows, self._shifts.values[shifts])
            names = self._names.values
            yield HeldRows(names[tenant], names[queue], bundle, label, moved.all_rows())

    def tallest_rows(
        self, numbers: NDArray[np.int64]
    ) -> Iterator[tuple[Resources, str | None, int]]:
        """Yield (bundle, label, most bundles in one row) of some reservations."""
        meta, atoms, rows = self._meta.data[numbers], self._atoms.data, self._rows.data
        index = ranges(meta["atom"].astype(np.int64), meta["atoms"].astype(np.int64))
        counts = atoms["rows"][index].astype(np.int64)
        heights = rows["bundles"][ranges(atoms["row"][index].astype(np.int64), counts)]
        kinds = np.repeat(atoms["kind"][index], counts)
        tallest = np.zeros(int(kinds.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(tallest, kinds, heights)
        for kind in np.flatnonzero(tallest).tolist():
            bundle, label, _ = self._kinds.values[kind]
            yield bundle, label, int(tallest[kind])

    def held_slots(self) -> Iterator[BundleSlots]:
        """Yield the slots of all reservations, grouped by bundle."""
        meta, atoms = self._meta.data, self._atoms.data
        index = ranges(meta["atom"].astype(np.int64), meta["atoms"].astype(np.int64))
        index = index[atoms["slots"][index] > 0]
        kinds = atoms["kind"][index]
        for kind in np.unique(kinds).tolist():
            chosen = atoms[index[kinds == kind]]
            first, count = chosen["slot"].astype(np.int64), chosen["slots"].astype(np.int64)
            yield BundleSlots(
                self._kinds.values[kind][0], plain_slots(self._slots.data[ranges(first, count)])
            )

    def slots_after(self, step: int) -> tuple[Slots, NDArray[np.int64]]:
        """Return the slots that end after a step, unsorted, and their reservations.

        Both are copies.
        """
        if self._slots.count <= 1:  # the first entry means no slot
            return plain_slots(self._slots.data[:0]), np.zeros(0, dtype=np.int64)
        meta = self._meta.data
        placed = meta["promise"] == LEVEL_NUMBERS[PromiseLevel.PLACED]
        numbers = np.flatnonzero(placed & (meta["finish"] > step))
        counts = meta["atoms"][numbers].astype(np.int64)
        atoms = self._atoms.data[ranges(meta["atom"][numbers].astype(np.int64), counts)]
        many = atoms["slots"].astype(np.int64)
        slots = plain_slots(self._slots.data[ranges(atoms["slot"].astype(np.int64), many)])
        owner = np.repeat(np.repeat(numbers, counts), many)
        later = slots[:, 1] > step
        return slots[later], owner[later]

    @property
    def kinds(self) -> Sequence[tuple[Resources, str | None, MachineRule]]:
        """(bundle, label, rule) of every atom ever placed."""
        return self._kinds.values

    def standing_slots(self, numbers: NDArray[np.int64]) -> StandingSlots:
        """Return the slots of some reservations, with the reservation of each."""
        meta, atoms = self._meta.data, self._atoms.data
        counts = meta["atoms"][numbers].astype(np.int64)
        index = ranges(meta["atom"][numbers].astype(np.int64), counts)
        place = index - np.repeat(meta["atom"][numbers].astype(np.int64), counts)
        held = atoms["slots"][index].astype(np.int64)
        return StandingSlots(
            np.repeat(np.repeat(numbers, counts), held),
            np.repeat(place, held),
            np.repeat(atoms["kind"][index].astype(np.int64), held),
            plain_slots(self._slots.data[ranges(atoms["slot"][index].astype(np.int64), held)]),
            self._kinds.values,
        )

    def renumber_machines(self, numbers: NDArray[np.int64], machines: Sequence[str]) -> None:
        """Renumber the machines of all slots for another description of the cluster.

        Parameters
        ----------
        numbers
            int64[old machines]: new number of each, or `NOWHERE`.
        machines
            Names by the new numbers.
        """
        known = self._slots.data["machine"]
        there = known != NOWHERE
        kept = numbers[known[there]]
        in_order = bool((np.diff(numbers[numbers != NOWHERE]) > 0).all())
        known[there] = kept
        self.machines = machines
        if not in_order or bool((kept == NOWHERE).any()):
            self._sort_slots()

    def _sort_slots(self) -> None:
        """Sort the slots of every atom again, and merge identical ones."""
        atoms = self._atoms.data
        several = np.flatnonzero(atoms["slots"] > 1)
        counts = atoms["slots"][several].astype(np.int64)
        slots = self._slots.data[ranges(atoms["slot"][several].astype(np.int64), counts)]
        owner = np.repeat(several, counts)
        order = np.lexsort((slots["machine"], slots["end"], slots["start"], owner))
        spans = slots[["start", "end", "machine"]]
        alike = (spans[order][1:] == spans[order][:-1]) & (owner[1:] == owner[:-1])
        moved = owner[order != np.arange(len(order))]
        for index in np.union1d(moved, owner[1:][alike]).tolist():
            first, count = int(atoms[index]["slot"]), int(atoms[index]["slots"])
            ordered = sort_slots(plain_slots(self._slots.data[first : first + count]))
            self._slots.data[first : first + len(ordered)] = structured_slots(ordered)
            atoms["slots"][index] = len(ordered)
            self._idle_slots += count - len(ordered)

    def select(
        self,
        numbers: range,
        tenant: str | None = None,
        queue: str | None = None,
        state: State | None = None,
    ) -> NDArray[np.int64]:
        """Return those of `numbers` with this tenant, queue and state; None matches any.

        No index is needed: a hundred thousand entries are compared in less than a millisecond.
        """
        meta = self._meta.data[numbers.start : numbers.stop]
        fits = np.ones(len(meta), dtype=np.bool_)
        for column, name in (("tenant", tenant), ("queue", queue)):
            if name is not None:
                # -1 matches nothing: an unknown name has no reservation
                found = self._names.find(name)
                fits &= meta[column] == (-1 if found is None else found)
        if state is not None:
            fits &= meta["state"] == STATE_NUMBERS[state]
        return np.flatnonzero(fits) + numbers.start

    def holding_between(
        self, numbers: NDArray[np.int64], start: int, end: int
    ) -> NDArray[np.int64]:
        """Return those of `numbers` with an allocation in the steps [start, end)."""
        meta = self._meta.data
        near = numbers[(meta["begin"][numbers] < end) & (meta["finish"][numbers] > start)]
        counts = meta["atoms"][near].astype(np.int64)
        owner = np.repeat(np.arange(len(near)), counts)
        atoms = self._atoms.data[ranges(meta["atom"][near].astype(np.int64), counts)]
        row_counts = atoms["rows"].astype(np.int64)
        rows = self._rows.data[ranges(atoms["row"].astype(np.int64), row_counts)]
        owner = np.repeat(owner, row_counts)
        shifts = np.repeat(atoms["shifts"], row_counts)
        holds = np.zeros(len(near), dtype=np.bool_)
        for number in np.unique(shifts).tolist():
            chosen = shifts == number
            shift = np.array(self._shifts.values[number], dtype=np.int64)
            begins = rows["start"][chosen][:, None] + shift
            ends = rows["end"][chosen][:, None] + shift
            holds[owner[chosen][((begins < end) & (ends > start)).any(axis=1)]] = True
        return near[holds]

    def _rows_of(self, atoms: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of many atoms, concatenated."""
        chosen = self._atoms.data[atoms]
        first, count = chosen["row"].astype(np.int64), chosen["rows"].astype(np.int64)
        return plain(self._rows.data[ranges(first, count)])

    def replace(self, number: int, holding: Holding) -> None:
        """Replace the holding of a reservation; the old rows stay until the next compaction."""
        meta = self._meta.data[number]
        for index in range(int(meta["atom"]), int(meta["atom"]) + int(meta["atoms"])):
            self._idle_rows += int(self._atoms.data[index]["rows"])
            self._idle_slots += int(self._atoms.data[index]["slots"])
            self._released.pop(index, None)
        first = self._append_atoms([holding])
        meta = self._meta.data[number]
        meta["atom"], meta["atoms"] = first, len(holding.atoms)
        meta["begin"], meta["finish"] = holding.begin, holding.finish
        meta["endless"] = holding.endless
        idle = (self._idle_rows, self._rows.count), (self._idle_slots, self._slots.count)
        if any(some > 4096 and 2 * some > count for some, count in idle):
            self._compact()

    def _compact(self) -> None:
        """Rewrite atoms and rows without the idle ones."""
        holdings = [self.holding(number) for number in range(len(self))]
        self._atoms, self._rows, self._slots = Column(ATOM), Column(ROW), slot_column()
        self._released, self._idle_rows, self._idle_slots = {}, 0, 0
        for number, holding in enumerate(holdings):
            self._meta.data[number]["atom"] = self._append_atoms([holding])

    def stamps(self, numbers: NDArray[np.int64]) -> list[Stamp]:
        """Return a stamp per reservation that differs if anything of it has changed."""
        size, entries = META.itemsize, self._meta.data[numbers].tobytes()
        history = self._history
        return [
            (entries[place * size : (place + 1) * size], len(history.get(number, ())))
            for place, number in enumerate(numbers.tolist())
        ]

    def note(self, number: int, entry: HistoryEntry) -> None:
        """Add to the history of a reservation."""
        self._history.setdefault(number, []).append(entry)

    def holding(self, number: int) -> Holding:
        """Return the holding of a reservation."""
        meta = self._entry(number)
        first = meta["atom"]
        atoms = tuple(self._atom(index) for index in range(first, first + meta["atoms"]))
        return Holding(atoms, meta["begin"], meta["finish"], meta["endless"])

    def _entry(self, number: int) -> dict[str, Any]:
        """Return an entry as plain numbers: several times faster than field by field."""
        return dict(zip(META_NAMES, self._meta.data[number].item(), strict=True))

    def _atom(self, index: int) -> AtomAllocation:
        row, count, path, kind, shifts, slot, held = self._atoms.data[index].tolist()
        rows = plain(self._rows.data[row : row + count])
        rows.flags.writeable = False
        slots = None
        if slot != NO_SLOTS:
            slots = plain_slots(self._slots.data[slot : slot + held])
            slots.flags.writeable = False
        bundle, label, rule = self._kinds.values[kind]
        released = self._released.get(index)
        name, inner = self._paths.values[path]
        moved = self._shifts.values[shifts]
        return AtomAllocation(name, bundle, label, rows, moved, released, inner, rule, slots)

    def promise(self, number: int) -> PromiseLevel:
        """Return the promise level of a reservation."""
        return LEVELS[int(self._meta.data[number]["promise"])]

    def set_promise(self, number: int, level: PromiseLevel) -> None:
        """Set the promise level of a reservation."""
        self._meta.data[number]["promise"] = LEVEL_NUMBERS[level]

    def live_by_level(self) -> dict[PromiseLevel, int]:
        """Return the number of live reservations by promise level."""
        meta = self._meta.data
        live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
        counts = np.bincount(meta["promise"][live], minlength=len(LEVELS)).tolist()
        return dict(zip(LEVELS, counts, strict=True))

    def counts_by_tenant(self) -> dict[tuple[str, State], int]:
        """Return the number of reservations by tenant and state."""
        meta, states = self._meta.data, tuple(State)
        keys = meta["tenant"].astype(np.int64) * len(states) + meta["state"]
        counts = np.bincount(keys)
        names = self._names.values
        return {
            (names[key // len(states)], states[key % len(states)]): int(counts[key])
            for key in np.flatnonzero(counts).tolist()
        }

    def numbers_of(self, level: PromiseLevel) -> NDArray[np.int64]:
        """Return the reservations with a promise level."""
        return np.flatnonzero(self._meta.data["promise"] == LEVEL_NUMBERS[level])

    def scope(self, number: int) -> tuple[str, str]:
        """Return (tenant, queue)."""
        meta = self._meta.data[number]
        return self._names.values[meta["tenant"]], self._names.values[meta["queue"]]

    def state(self, number: int) -> State:
        """Return the state of a reservation."""
        return NUMBERED_STATES[int(self._meta.data[number]["state"])]

    def header(self, number: int) -> RequestHeader:
        """Return the header of a reservation: owner, submission time and value."""
        meta = self._entry(number)
        bare = self._header(number, meta)
        return RequestHeader(**bare, promise=LEVELS[meta["promise"]])

    def _header(self, number: int, meta: Mapping[str, Any]) -> BareHeader:
        names = self._names.values
        return BareHeader(
            id=self._ids[number],
            tenant=names[meta["tenant"]],
            queue=names[meta["queue"]],
            submitted_ms=meta["submitted"],
            weight=meta["weight"],
            priority=meta["priority"],
        )

    def read(self, number: int) -> Reservation:
        """Return a reservation as an object."""
        meta, names = self._entry(number), self._names.values
        details = self.details.get(number)
        admitted = HistoryEntry(meta["at"], meta["version"], "admitted")
        return Reservation(
            **self._header(number, meta),
            state=NUMBERED_STATES[meta["state"]],
            revision=meta["revision"],
            agent=names[meta["agent"]],
            expression=details.text,
            choices=details.choices,
            notes=details.notes,
            atoms=self.holding(number).atoms,
            history=(admitted, *self._history.get(number, ())),
            degradation=self.degradations.get(number),
            promise=LEVELS[meta["promise"]],
            machines=self.machines,
            written=details.written,
        )

    def agent_number(self, name: str) -> int:
        """Return the number of an agent's name."""
        return self._names.number(name)

    def is_by_agent(self, name: str) -> NDArray[np.bool_]:
        """Return bool[reservations]: whether an agent made the current placement."""
        found = self._names.find(name)
        mine: NDArray[np.bool_] = self._meta.data["agent"] == (-1 if found is None else found)
        return mine

    def agents(self) -> list[str]:
        """Return the names of the agents that placed reservations, sorted."""
        return sorted(self._names.values[int(one)] for one in np.unique(self.meta["agent"]))

    def agent_of(self, number: int) -> str:
        """Return the name of the agent that placed a reservation."""
        return str(self._names.values[int(self.meta[number]["agent"])])

    def ids(self) -> Iterator[str]:
        """Yield all ids in order of admission."""
        return iter(self._ids)

    def id_of(self, number: int) -> str:
        """Return the id of a reservation."""
        return self._ids[number]

    def nbytes(self) -> int:
        """Return the bytes of everything but details; see the docstring of the module."""
        columns = self._meta.nbytes() + self._atoms.nbytes() + self._rows.nbytes()
        columns += self._slots.nbytes()
        words = self._names.nbytes() + self._paths.nbytes() + self._shifts.nbytes()
        index = self._numbers.nbytes() + sys.getsizeof(self._ids)
        return columns + words + self._kinds.nbytes() + index
