"""A draft of a Plan: the free capacity of totals and machines while changes are tried, with
savepoints.

All tentative changes use a draft: batches of changes, offers, workloads and moves of placed
reservations take and release capacity in it. Nothing of the Plan changes: totals are copied when
a changed amount is first read; machines are written in the capacity itself and released again at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import Shortage, Taking, find_shortage
from planner.capacity.snapshot import PlanSnapshot
from planner.machines.room import MachineRoom, Unlaid, Wanted
from planner.machines.slot_atom import SlotAtom
from planner.plan.slots import (
    SlotsInForce,
    equal_rows,
    handover_step,
    is_same,
    joint_pieces,
    known_slots,
    occurrence_pieces,
    slots_in_force,
    stay_or_move,
    stays_until,
)
from planner.plan.state import PlanState
from planner.reservations.holding import leases_of, with_rules, with_slots
from planner.reservations.reservation import AtomAllocation, Holding, Rows, shared_runs
from planner.reservations.rows import subtract
from planner.reservations.slots import (
    NOWHERE,
    MachineRule,
    Slots,
    no_slots,
    pieces_of,
    sort_slots,
    split_by_rows,
    split_slots,
)
from rdl.compound import Compound
from rdl.resources import Resources
from rdl.work_graph import WorkGraph


@dataclass(frozen=True, slots=True)
class MachineShortage:
    """Bundles of an atom that machines do not hold, though totals do.

    Attributes
    ----------
    start, end, needed
        This many bundles for the steps [start, end).
    found
        Number of bundles that fit on machines.
    by_value
        (values of `within`, bundles that their machines hold), the most first; of other rules none.
    needed_in_all
        Bundles of all atoms of a `together` whose bundles are in one value; otherwise 0.
    """

    atom: AtomAllocation
    start: int
    end: int
    needed: int
    found: int
    by_value: tuple[tuple[tuple[str, ...], int], ...] = ()
    needed_in_all: int = 0


#: Most changes that are judged together with the next, instead of on a copy of the totals.
_MOST_WAITING: Final = 16

#: Most orders in which the members of a `together` are assigned to machines before it is refused.
_MOST_ORDERS: Final = 5


class _Stay(NamedTuple):
    """The slots that an occurrence of an atom keeps, and the pieces that need other machines.

    Attributes
    ----------
    slots
        Taken.
    new, lost
        int64[p, 3]: pieces that had no machine before, and those that lost it.
    """

    slots: Slots
    new: NDArray[np.int64]
    lost: NDArray[np.int64]


#: Slots taken of machines (sign 1) or released (-1).
_SlotChange: TypeAlias = tuple[Slots, Resources, int]


class Draft:
    """Free capacity of totals and machines while changes are tried.

    Parameters
    ----------
    ledger
        Totals; never written.
    room
        Returns the free capacity of machines; :meth:`close` restores it.
    now
        The present step: slots that began earlier keep their machines.
    version
        That of the views.
    """

    def __init__(
        self, ledger: FreeProfile, room: Callable[[], MachineRoom], now: int, version: int = 0
    ) -> None:
        self.now, self.version = now, version
        #: All machines of the cluster together.
        self.nominal = ledger.book.cluster.nominal
        self._ledger, self._room_of = ledger, room
        self._room: MachineRoom | None = None
        self._is_copy = False
        #: Taken, but not yet of the ledger: only if someone looks at it is the sum needed.
        self._waiting: list[list[Taking]] = []
        self._journal: list[_SlotChange | list[Taking]] = []

    @classmethod
    def of(cls, plan: PlanState) -> Draft:
        """Return a draft of a Plan, for its one writer; it is to be closed."""
        return cls(plan.ledger, lambda: plan.room, plan.now, plan.version)

    @property
    def ledger(self) -> FreeProfile:
        """Free capacity of totals, valid until the next change."""
        if self._waiting:
            if not self._is_copy:
                self._ledger, self._is_copy = self._ledger.copy(), True
            waiting, self._waiting = self._waiting, []
            self._ledger.take((one.demand, one.rows, one.sign) for part in waiting for one in part)
        return self._ledger

    @property
    def room(self) -> MachineRoom:
        """Free capacity of machines, valid until the next change."""
        if self._room is None:
            self._room = self._room_of()
        return self._room

    @property
    def first(self) -> int:
        """The earliest step at which something can be placed."""
        return max(self.now, self._ledger.first)

    def view(self) -> PlanSnapshot:
        """Return the agent's view of the totals, valid until the next change."""
        return PlanSnapshot(self.ledger, self.version)

    def savepoint(self) -> int:
        """Return where the draft is, for :meth:`roll_back`."""
        return len(self._journal)

    def roll_back(self, savepoint: int) -> None:
        """Undo all taken and released capacity since a savepoint."""
        while len(self._journal) > savepoint:
            entry = self._journal.pop()
            if isinstance(entry, tuple):
                slots, bundle, sign = entry
                self.room.take(slots, bundle, -sign)
            elif self._waiting:
                self._waiting.pop()
            else:
                self._ledger.take((one.demand, one.rows, -one.sign) for one in entry)

    def keep(self) -> None:
        """Make all changes so far final: earlier savepoints can no longer be rolled back to."""
        self._journal.clear()

    def close(self) -> None:
        """Restore the machines; the draft must not be used afterwards."""
        for entry in reversed(self._journal):
            if isinstance(entry, tuple):
                slots, bundle, sign = entry
                self.room.take(slots, bundle, -sign)
        self._journal = []

    def shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        """Return the shortage of totals for `takings`, or None."""
        if self._fits_beside_waiting(takings):
            return None
        return find_shortage(self.ledger, takings)

    def _fits_beside_waiting(self, takings: Sequence[Taking]) -> bool:
        """Return whether takings fit together with all that was taken, totals not copied yet.

        Then they also fit after it; if not, or if something was released, nothing follows.
        """
        if self._is_copy or not 0 < len(self._waiting) <= _MOST_WAITING:
            return False
        around = self._ledger.book.longest_window
        low = min((int(one.rows[:, 0].min()) for one in takings if len(one.rows)), default=0)
        high = max((int(one.rows[:, 1].max()) for one in takings if len(one.rows)), default=0)
        taken = [
            one
            for part in self._waiting
            for one in part
            if ((one.rows[:, 0] < high + around) & (one.rows[:, 1] > low - around)).any()
        ]
        return (
            all(one.sign > 0 for one in taken)
            and find_shortage(self._ledger, [*taken, *takings]) is None
        )

    def take(self, takings: list[Taking]) -> None:
        """Take from totals, or release to them, whether there is capacity or not."""
        self._waiting.append(takings)
        self._journal.append(takings)

    def restore(self, holding: Holding, takings: list[Taking]) -> bool:
        """Take a holding on its machines; False, with nothing taken, if it does not fit."""
        savepoint = self.savepoint()
        for atom in holding.atoms:
            if atom.slots is not None and not self.room.fits(atom.slots, atom.bundle):
                self.roll_back(savepoint)
                return False
            self._change(atom.slots, atom.bundle, 1)
        if self.shortage(takings) is not None:
            self.roll_back(savepoint)
            return False
        self.take(takings)
        return True

    def _record(self, slots: Slots, bundle: Resources, sign: int = 1) -> None:
        if len(slots):
            self._journal.append((slots, bundle, sign))

    def release_slots(self, holding: Holding) -> None:
        """Release the machines of a holding, for the changes after it."""
        for atom in holding.atoms:
            self._change(atom.slots, atom.bundle, -1)

    def take_slots(self, holding: Holding) -> None:
        """Take the machines that a holding names, whether there is capacity or not."""
        for atom in holding.atoms:
            self._change(atom.slots, atom.bundle, 1)

    def _change(self, slots: Slots | None, bundle: Resources, sign: int) -> None:
        if slots is not None and len(slots):
            self.room.take(slots, bundle, sign)
            self._record(slots, bundle, sign)

    def place_exactly(self, holding: Holding, graph: WorkGraph | None) -> Holding | MachineShortage:
        """Return a holding with slots for all of its rows, taken; or where none were found.

        Parameters
        ----------
        graph
            The atom of the allocation, which says after which time bundles may change machine.
            None lets every bundle stay where it is.
        """
        order = self._largest_first(holding)
        first = found = self._place_in_order(holding, graph, order)
        if graph is None or not any(isinstance(one, Compound) for one in graph.bundles):
            return found
        # Members of a `together` need their machines at the same time: the next try begins with
        # the atom that found none.
        tried = [order]
        while isinstance(found, MachineShortage):
            missed = next(i for i, atom in enumerate(holding.atoms) if atom is found.atom)
            order = [missed, *(index for index in order if index != missed)]
            if order in tried or len(tried) >= _MOST_ORDERS:
                return first
            tried.append(order)
            found = self._place_in_order(holding, graph, order)
        return found

    def _place_in_order(
        self, holding: Holding, graph: WorkGraph | None, order: Sequence[int]
    ) -> Holding | MachineShortage:
        """Take slots atom by atom, by best fit; nothing is taken if one finds none."""
        mark = self.savepoint()
        slots: dict[int, Slots] = {}
        for index in order:
            if index in slots:  # with the other members of its `together`
                continue
            found: Slots | dict[int, Slots] | MachineShortage
            if holding.atoms[index].rule.is_shared:
                found = self._lay_shared(holding.atoms, order, _new_stay)
            else:
                found = self._lay(holding.atoms[index], graph)
            if isinstance(found, MachineShortage):
                self.roll_back(mark)
                return found
            slots |= found if isinstance(found, dict) else {index: found}
        return with_slots(holding, [slots[index] for index in range(len(slots))])

    def _lay_shared(
        self,
        atoms: Sequence[AtomAllocation],
        order: Sequence[int],
        stay: Callable[[AtomAllocation, str, Rows], _Stay | MachineShortage],
        *,
        may_wait: bool = False,
    ) -> dict[int, Slots] | MachineShortage:
        """Return the slots, taken, of all atoms that are in one value with others, by place.

        Parameters
        ----------
        stay
            Takes the slots that an occurrence of an atom keeps.
        may_wait
            Whether slots that lost their machine may be `NOWHERE`.
        """
        slots: dict[int, list[Slots]] = {}
        rank = {place: number for number, place in enumerate(order)}
        for run in shared_runs(atoms):
            members = sorted(run, key=lambda one: rank[one.place])
            wanted, waits = [], may_wait
            for place, _, path, rows in members:
                atom = atoms[place]
                found = stay(atom, path, rows)
                if isinstance(found, MachineShortage):
                    return found
                slots.setdefault(place, [no_slots()]).append(found.slots)
                pieces = np.concatenate([found.new, found.lost])
                wanted.append((atom, pieces, self._beside(atom, [], found.slots)))
                waits = waits and not len(found.new)
            if not any(len(pieces) for _, pieces, _ in wanted):
                continue
            more = self.lay_joint(wanted, some=waits)
            if isinstance(more, MachineShortage):
                return more
            for member, own in zip(members, more, strict=True):
                slots[member.place].append(own)
        return {place: sort_slots(np.concatenate(parts)) for place, parts in slots.items()}

    def lay_joint(
        self,
        wanted: Sequence[tuple[AtomAllocation, NDArray[np.int64], Slots]],
        *,
        some: bool = False,
    ) -> list[Slots] | MachineShortage:
        """Return slots, taken, for atoms that are all in one value of a domain.

        Parameters
        ----------
        wanted
            Atom, pieces, and the slots that it has already.
        some
            Whether slots without a machine are `NOWHERE`; otherwise nothing is taken.
        """
        asked = [
            Wanted(pieces, atom.bundle, atom.label, atom.rule, beside)
            for atom, pieces, beside in wanted
        ]
        found = self.room.lay_joint(asked)
        missed = next((i for i, rest in enumerate(found.rests) if len(rest)), None)
        if missed is None or some:
            for (atom, _, _), slots in zip(wanted, found.slots, strict=True):
                self._record(slots, atom.bundle)
            pairs = zip(found.slots, found.rests, strict=True)
            return [np.concatenate([slots, _nowhere(rest)]) for slots, rest in pairs]
        self.room.release_joint(asked, found.slots)
        start, end, left = found.rests[missed][0].tolist()
        atom, pieces, _ = wanted[missed]
        same = (pieces[:, 0] == start) & (pieces[:, 1] == end)
        needed = int(pieces[same, 2].sum())
        by_value = tuple(sorted(found.by_value.items(), key=lambda one: (-one[1], one[0])))
        in_all = sum(int(one[:, 2].sum()) for _, one, _ in wanted)
        return MachineShortage(atom, start, end, needed, needed - left, by_value, in_all)

    def _largest_first(self, holding: Holding) -> list[int]:
        """Return the atoms by the part of the cluster that one bundle takes, largest first."""
        if len(holding.atoms) == 1:
            return [0]
        size = [atom.bundle.dominant_share(self.nominal) for atom in holding.atoms]
        return sorted(range(len(size)), key=lambda index: -size[index])

    def _lay(self, atom: AtomAllocation, graph: WorkGraph | None) -> Slots | MachineShortage:
        if len(atom.shifts) == 1:
            stands = self.room.stand(atom.all_rows(), atom.bundle, atom.label, atom.rule)
            if not isinstance(stands, Unlaid):
                self._record(stands, atom.bundle)
                return stands
            if graph is None or not atom.rule.handover:
                return self._shortage_of(atom, *stands)
            return self._lay_in_parts(
                atom, occurrence_pieces(atom), leases_of(graph)[atom.path], None
            )
        parts: list[Slots] = []
        for pieces in joint_pieces(atom):
            found = self.room.lay(pieces, atom.bundle, atom.label, atom.rule)
            if found is not None:
                self._record(found, atom.bundle)
                parts.append(found)
                continue
            if graph is None or not atom.rule.handover:
                return self._open_question(atom, pieces)
            moving = self._lay_in_parts(atom, pieces, leases_of(graph)[atom.path], None)
            if isinstance(moving, MachineShortage):
                return moving
            parts.append(moving)
        return parts[0] if len(parts) == 1 else sort_slots(np.concatenate(parts))

    def lay(
        self, atom: AtomAllocation, pieces: NDArray[np.int64], lease: int, beside: Slots
    ) -> Slots | None:
        """Return slots for pieces of an atom, taken; None, with nothing taken, if there are none.

        Parameters
        ----------
        lease
            Steps after which bundles may change machine; 0 lets them stay where they are.
        beside
            The present slots of the atom.
        """
        found = self.room.lay(pieces, atom.bundle, atom.label, atom.rule, beside)
        if found is not None:
            self._record(found, atom.bundle)
            return found
        moving = self._lay_in_parts(atom, pieces, lease, beside) if lease else None
        return None if isinstance(moving, MachineShortage) else moving

    def lay_kinds(
        self,
        pieces: NDArray[np.int64],
        kinds: Sequence[tuple[Resources, str | None, MachineRule]],
        *,
        keeps: bool,
    ) -> tuple[Slots, NDArray[np.int64]] | None:
        """Take slots for pieces of several kinds; return them with their owners, or None.

        As `planner.machines.room.MachineRoom.lay_kinds` does.
        """
        laid = self.room.lay_kinds(pieces, kinds, keeps=keeps)
        if laid is not None:
            for kind in np.unique(pieces[:, 4]).tolist():
                self._record(laid[0][pieces[laid[1], 4] == kind], kinds[kind][0])
        return laid

    def _lay_in_parts(
        self, atom: AtomAllocation, pieces: NDArray[np.int64], lease: int, beside: Slots | None
    ) -> Slots | MachineShortage:
        """Take and return slots for pieces whose bundles may change machine after a lease."""
        found = self.room.lay_in_parts(
            pieces, atom.bundle, atom.label, atom.rule, max(1, lease), beside
        )
        if isinstance(found, Unlaid):
            return self._shortage_of(atom, *found)
        self._record(found, atom.bundle)
        return found

    def _open_question(self, atom: AtomAllocation, pieces: NDArray[np.int64]) -> MachineShortage:
        """Return the first question that machines alone do not answer."""
        for start, end, bundles in pieces.tolist():
            found = self.room.count(start, end, atom.bundle, atom.rule, atom.label, bundles)
            if found < bundles:
                return self._shortage_of(atom, start, end, bundles, found)
        start, end, bundles = pieces[0].tolist()
        return self._shortage_of(atom, start, end, bundles, bundles - 1)

    def _shortage_of(
        self, atom: AtomAllocation, start: int, end: int, needed: int, found: int
    ) -> MachineShortage:
        """Return the pieces without a machine, under `within` with the number that each value
        holds."""
        by_value: tuple[tuple[tuple[str, ...], int], ...] = ()
        if atom.rule.within is not None:
            counts = self.room.count_by_value(start, end, atom.bundle, atom.rule, atom.label)
            by_value = tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
        return MachineShortage(atom, start, end, needed, found, by_value)

    def search(self, atom: SlotAtom, room: NDArray[np.int64], tries: int) -> Slots | None:
        """Return slots of one atom at times that machines have capacity at, taken; or None.

        Early ones are the first that are found, late ones the best fit of all.
        """
        found = self.room.search(atom, room, tries, 1 if atom.early else tries)
        if found is not None:
            self._record(found, atom.bundle)
        return found

    def swap(
        self,
        before: Holding,
        after: Holding,
        leases: Mapping[str, int] | None = None,
        *,
        may_wait: bool = False,
    ) -> Holding | MachineShortage:
        """Take slots and return a holding with them: started bundles keep their machines.

        The slots in `before` must have been released. Unchanged atoms keep their machines;
        started bundles of the others continue on theirs. If others use
        that machine later, the bundle continues elsewhere after a lease, if its atom allows a
        handover.

        Parameters
        ----------
        leases
            Steps of a lease by atom path (`planner.reservations.holding.leases_of`); an atom that
            is not there is handed over only where its machine was lost.
        may_wait
            Whether an unchanged holding may continue to wait for lost machines.
        """
        mark = self.savepoint()
        known = known_slots(before, after)
        atoms: dict[int, AtomAllocation] = {}
        # What stays as it is chooses first.
        order = sorted(self._largest_first(after), key=lambda i: not is_same(after.atoms[i], known))

        def again(atom: AtomAllocation, path: str, rows: Rows) -> _Stay | MachineShortage:
            return self._take_standing(atom, known.get(path), rows, 0)

        for index in order:
            if index in atoms:  # with the other members of its `together`
                continue
            atom = after.atoms[index]
            lease = (leases or {}).get(atom.path, 0)
            found: Slots | dict[int, Slots] | MachineShortage
            if atom.rule.is_shared:
                found = self._lay_shared(after.atoms, order, again, may_wait=may_wait)
            else:
                found = self._again(atom, known, lease, may_wait=may_wait)
            if isinstance(found, MachineShortage):
                self.roll_back(mark)
                return found
            new = found if isinstance(found, dict) else {index: found}
            atoms |= {i: replace(after.atoms[i], slots=slots) for i, slots in new.items()}
        return replace(after, atoms=tuple(atoms[i] for i in range(len(after.atoms))))

    def _again(
        self,
        atom: AtomAllocation,
        known: dict[str, tuple[Rows, Slots]],
        lease: int,
        *,
        may_wait: bool,
    ) -> Slots | MachineShortage:
        """Return the slots of one atom of a changed holding, taken."""
        parts = [no_slots()]
        for path, rows in atom.occurrences():
            stand = self._take_standing(atom, known.get(path), rows, lease)
            if isinstance(stand, MachineShortage):
                return stand
            kept, rest, lost = stand
            parts.append(kept)
            pieces = np.concatenate([rest, lost])
            if len(pieces):
                beside = self._beside(atom, parts, kept)
                found = self.room.lay(pieces, atom.bundle, atom.label, atom.rule, beside)
                if found is None and may_wait and not len(rest):
                    parts.append(self._lay_some(atom, pieces, beside))
                    continue
                if found is None:
                    if not lease or not atom.rule.handover:
                        return self._open_question(atom, pieces)
                    moving = self._lay_in_parts(atom, pieces, lease, beside)
                    if isinstance(moving, MachineShortage):
                        return moving
                    parts.append(moving)
                    continue
                self._record(found, atom.bundle)
                parts.append(found)
        return sort_slots(np.concatenate(parts))

    def _take_standing(
        self, atom: AtomAllocation, known: tuple[Rows, Slots] | None, rows: Rows, lease: int
    ) -> _Stay | MachineShortage:
        """Take the unchanged slots of an occurrence.

        Parameters
        ----------
        known
            Its rows and slots before.
        """
        old_rows, old = known or (rows[:0], no_slots())
        in_force, rest = SlotsInForce(old, old[:, 1]), rows[:0]
        if not equal_rows(rows, old_rows):
            in_force, rest = slots_in_force(rows, old, self.now)
        stand = self._split_standing(in_force, atom, lease)
        if isinstance(stand, MachineShortage):
            return stand
        kept, lost = stand
        self._change(kept, atom.bundle, 1)
        return _Stay(kept, rest, lost)

    def _split_standing(
        self, in_force: SlotsInForce, atom: AtomAllocation, lease: int
    ) -> tuple[Slots, NDArray[np.int64]] | MachineShortage:
        """Return the slots that can stay, and the pieces of those that cannot, from then on.

        Started slots stay until their machine is lost; past slots never change. If others
        use that machine, the bundle stays for as long as there is capacity, and is then handed
        over.
        """
        now, slots, bundle = self.now, in_force.slots, atom.bundle
        later = slots[:, 1] > now
        homeless = later & (slots[:, 3] == NOWHERE)
        if not homeless.any() and self.room.fits(split_slots(slots, now)[1], bundle):
            return sort_slots(slots), slots[:0, :3]
        stay, lost = [slots[~later]], [slots[:0, :3]]
        mark = self.savepoint()
        missed = None
        for index in np.flatnonzero(later)[np.argsort(slots[later, 0] >= now, kind="stable")]:
            slot, owned = slots[index], int(in_force.owned[index])
            until = stays_until(self.room, slot, bundle, now)
            is_lost = until < owned and self.room.is_away(int(slot[3]), until)
            if slot[0] < now < until < slot[1] and not is_lost:
                cut = handover_step(slot, until, lease if atom.rule.handover else 0, now)
                if cut is None:
                    missed = MachineShortage(atom, until, until + 1, int(slot[2]), 0)
                    break
                until = cut
            if until < slot[1]:
                lost.append(np.array([[max(until, slot[0]), slot[1], slot[2]]]))
            if until > slot[0]:
                kept = np.array([[slot[0], until, slot[2], slot[3]]])
                stay.append(kept)
                self._change(kept, bundle, 1)
        self.roll_back(mark)
        return missed or (sort_slots(np.concatenate(stay)), np.concatenate(lost))

    def slots_in_place(self, before: Holding, after: Holding) -> list[tuple[Slots, Resources]]:
        """Return the slots of `before` that stay where they are, with their bundles.

        Those that slots of `after` name, or, where it has none, those that its rows leave.
        """
        if any(atom.slots is not None for atom in after.atoms):
            parts = stay_or_move(before, after)
            return [(stays, bundle) for stays, _, bundle in parts]
        known = known_slots(before, after, every=True)
        found: list[tuple[Slots, Resources]] = []
        for atom in after.atoms:
            for path, rows in atom.occurrences():
                if path in known:
                    old_rows, old = known[path]
                    less = subtract(old_rows, rows)
                    found.append((split_by_rows(old, less)[1] if len(less) else old, atom.bundle))
        return found

    def in_force(self, before: Holding, after: Holding) -> list[tuple[Slots, Resources]]:
        """Return the slots of `before` that have begun and that rows of `after` leave in place."""
        return [
            (self._begun_of(slots), bundle) for slots, bundle in self.slots_in_place(before, after)
        ]

    def begun(self, holding: Holding) -> list[tuple[Slots, Resources]]:
        """Return the slots of a holding that have begun and continue, with their bundles."""
        return [
            (self._begun_of(atom.slots), atom.bundle)
            for atom in holding.atoms
            if atom.slots is not None
        ]

    def _begun_of(self, slots: Slots) -> Slots:
        return slots[(slots[:, 0] < self.now) & (slots[:, 1] > self.now)]

    def change_slots(self, slots: Sequence[tuple[Slots, Resources]], sign: int) -> None:
        """Take slots (sign 1) or release them (-1), whether there is capacity or not."""
        for one, bundle in slots:
            self._change(one, bundle, sign)

    def take_known(self, before: Holding, after: Holding) -> bool:
        """Take the slots of `after` once `before` is released; False if some do not fit.

        Past slots, and slots that stay on their machine, need no free capacity: their machine
        may be lost.
        """
        mark = self.savepoint()
        parts = stay_or_move(before, after)
        for stays, _, bundle in parts:
            self._change(stays, bundle, 1)
        for _, other, bundle in parts:
            if len(other) and not self.room.fits(split_slots(other, self.now)[1], bundle):
                self.roll_back(mark)
                return False
            self._change(other, bundle, 1)
        return True

    def cut(self, before: Holding, kept: Holding) -> Holding:
        """Return the kept part of a holding with its machines; additional bundles have none yet.

        The slots in `before` must have been released; the returned ones are taken. Atoms that had
        no slots have none.
        """
        known = {
            path: (rows, slots)
            for atom in before.atoms
            for (path, rows), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
        }
        ruled = with_rules(kept, before)

        def stay(atom: AtomAllocation, path: str, rows: Rows) -> _Stay:
            old_rows, old = known.get(path, (rows[:0], no_slots()))
            if old is None:
                return _Stay(no_slots(), rows[:0], rows[:0])
            less = subtract(old_rows, rows)
            stays = split_by_rows(old, less)[1] if len(less) else old
            self._change(stays, atom.bundle, 1)
            return _Stay(stays, rows[:0], pieces_of(subtract(rows, old_rows)))

        slots = self._lay_shared(ruled.atoms, range(len(ruled.atoms)), stay, may_wait=True)
        assert isinstance(slots, dict)
        for place, atom in enumerate(ruled.atoms):
            if not atom.rule.is_shared:
                slots[place] = self._cut_atom(atom, stay)
        had_none = {path for path, (_, old) in known.items() if old is None}
        return with_slots(
            ruled,
            [
                slots[place]
                if had_none.isdisjoint(path for path, _ in atom.occurrences())
                else None
                for place, atom in enumerate(ruled.atoms)
            ],
        )

    def _cut_atom(
        self, atom: AtomAllocation, stay: Callable[[AtomAllocation, str, Rows], _Stay]
    ) -> Slots:
        """Return the slots that an atom keeps of those it had, and new ones."""
        parts = [no_slots()]
        for path, rows in atom.occurrences():
            stays, _, more = stay(atom, path, rows)
            parts.append(stays)
            if len(more):
                parts.append(self._lay_some(atom, more, self._beside(atom, parts, stays)))
        return sort_slots(np.concatenate(parts))

    def _beside(self, atom: AtomAllocation, parts: Sequence[Slots], own: Slots) -> Slots:
        """Return the slots that count for an atom's rule where more of an occurrence is placed.

        Parameters
        ----------
        parts, own
            All slots of the atom so far, and those of the occurrence.
        """
        if atom.rule.within is None:
            return np.concatenate(parts)
        return own[own[:, 1] > self.now]

    def _lay_some(self, atom: AtomAllocation, pieces: NDArray[np.int64], beside: Slots) -> Slots:
        """Return slots for pieces, taken; those that find no machine are `NOWHERE`."""
        found, rest = self.room.lay_some(pieces, atom.bundle, atom.label, atom.rule, beside)
        self._record(found, atom.bundle)
        return np.concatenate([found, _nowhere(rest)])


def _new_stay(atom: AtomAllocation, _path: str, rows: Rows) -> _Stay:
    """Return the slots of an occurrence that had none before."""
    return _Stay(no_slots(), pieces_of(rows), rows[:0])


def _nowhere(pieces: NDArray[np.int64]) -> Slots:
    """Return pieces as slots without a machine."""
    return np.insert(pieces, 3, NOWHERE, axis=1)
