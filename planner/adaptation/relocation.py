"""Other machines for slots that lost theirs, at the same times: no row changes.

Lost slots get new machines by best fit, in order of priority and then of
size. If some find no machine, slots that have not begun give way
(`planner.machines.board`). Started slots stay on their machine until it is lost; the rest may
continue elsewhere, since the work is lost anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.adaptation.lost_slots import lost_slots
from planner.cluster.cluster import Cluster, renumbered_machines
from planner.machines.board import MachineBoard
from planner.machines.room import MachineRoom, Wanted
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Relocate, Update
from planner.plan.slots import stays_until
from planner.plan.table import StandingSlots
from planner.plan.table_columns import LEVEL_NUMBERS
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, StartingMachines
from planner.reservations.holding import with_slots
from planner.reservations.reservation import Holding, Rows, shared_runs
from planner.reservations.slots import NOWHERE, MachineRule, Slots, slots_of, sort_slots
from planner.reservations.state import LIVE, STATE_NUMBERS, State
from rdl.resources import Resources

#: Slots that give way in one relocation, and for one piece, at most.
EJECTIONS: Final = 2000
_EJECTIONS_OF_PIECE: Final = 50

#: Bundles that are tried with ejections at most; each takes a place on the board.
_MOST_TRIED: Final = 4096


@dataclass(frozen=True, slots=True)
class Relocation:
    """The outcome of slots when machines go.

    Attributes
    ----------
    held
        Number of a reservation -> its holding with new slots; all others keep theirs.
    unplaced
        Reservations with slots that found no machine; these are `NOWHERE`.
    """

    held: Mapping[int, Holding] = field(default_factory=dict)
    unplaced: frozenset[int] = frozenset()

    def changes(self, plan: Plan, reason: str = "") -> tuple[Relocate, ...]:
        """Return the changes for one joint commit."""
        return tuple(
            relocate_change(plan, number, holding, reason) for number, holding in self.held.items()
        )


def relocate_change(plan: Plan, number: int, holding: Holding, reason: str = "") -> Relocate:
    """Return the change that gives a reservation the slots of a holding."""
    slots = [atom.slots for atom in holding.atoms if atom.slots is not None]
    revision = int(plan.table.meta[number]["revision"])
    return Relocate(plan.table.id_of(number), revision, tuple(slots), reason)


def has_lost_slots(plan: Plan) -> bool:
    """Return whether some slot has no machine, or one without free capacity for it."""
    held = slots_on(plan)
    return bool(len(held.slots)) and bool(len(lost_slots(held, plan.cluster, plan.grid, plan.now)))


def has_cut_slots(plan: Plan) -> bool:
    """Return whether a bundle is to leave a machine on which it could stay."""
    held = slots_on(plan)
    return any(
        may_rejoin(plan.cluster, held, plan.room, before, after)
        for before, after in cut_slots(plan, held)
    )


def cut_slots(plan: Plan, held: StandingSlots) -> Iterator[tuple[int, int]]:
    """Yield the places of two slots of equally many bundles of an atom that follow each other.

    The bundles continue, inside a row of the allocation, on another machine.
    """
    slots = held.slots
    named = np.flatnonzero((slots[:, 3] != NOWHERE) & (slots[:, 1] > plan.now))
    atoms = held.number[named] * (held.atom.max(initial=0) + 1) + held.atom[named]
    owner = np.unique(atoms, return_inverse=True)[1].reshape(-1).astype(np.int64) << 32
    ends, starts = owner + slots[named, 1], owner + slots[named, 0]
    by_end, by_start = np.argsort(ends, kind="stable"), np.argsort(starts, kind="stable")
    keys = np.intersect1d(ends, starts)
    first = np.searchsorted(ends[by_end], keys), np.searchsorted(starts[by_start], keys)
    last = (
        np.searchsorted(ends[by_end], keys, side="right"),
        np.searchsorted(starts[by_start], keys, side="right"),
    )
    rows = _Rows(plan)
    for index in range(len(keys)):
        leaving = named[by_end[first[0][index] : last[0][index]]].tolist()
        coming = named[by_start[first[1][index] : last[1][index]]].tolist()
        for before, after in product(leaving, coming):
            same = slots[before, 2] == slots[after, 2] and slots[before, 3] != slots[after, 3]
            whose = int(held.number[after]), int(held.atom[after])
            if same and rows.are_cut_at(*whose, int(slots[after, 0])):
                yield before, after


def _column(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, dtype=np.int64)


class _Rows:
    """The rows of atoms, for asking whether a step is inside one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[tuple[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def are_cut_at(self, number: int, atom: int, step: int) -> bool:
        """Return whether a step is inside a row of an atom, neither its start nor its end."""
        known = self._known.get((number, atom))
        if known is None:
            held = self._plan.table.holding(number).atoms[atom]
            shifts = np.array(held.shifts, dtype=np.int64)[:, None]
            starts, ends = (np.sort((held.rows[:, i] + shifts).ravel()) for i in (0, 1))
            known = self._known[number, atom] = starts, ends
        begun = np.searchsorted(known[0], step)
        return bool(begun > np.searchsorted(known[1], step, side="right"))


def may_rejoin(
    cluster: Cluster, held: StandingSlots, room: MachineRoom, before: int, after: int
) -> bool:
    """Return whether the bundles of a slot could stay on the machine of the one before it."""
    bundle, _, rule = held.kinds[int(held.kind[after])]
    start, end, bundles, _ = held.slots[after].tolist()
    machine = int(held.slots[before, 3])
    if not room.fits(slots_of([start, end, bundles, machine]), bundle):
        return False
    if rule.within is not None:
        values = _domains(cluster, MachineRule(domain=rule.within))
        if values[machine] != values[int(held.slots[after, 3])]:
            return False
    if not rule.spread:
        return True
    domains = _domains(cluster, rule)
    mine = (held.number == held.number[after]) & (held.atom == held.atom[after])
    mine &= (held.slots[:, 0] < end) & (held.slots[:, 1] > start) & (held.slots[:, 3] != NOWHERE)
    mine[after] = False
    near = held.slots[mine]
    there = near[domains[near[:, 3]] == domains[machine], 2].sum()
    return bool(there + bundles <= rule.spread)


def slots_on(plan: Plan, cluster: Cluster | None = None) -> StandingSlots:
    """Return the slots of all that is promised machines.

    Parameters
    ----------
    cluster
        The cluster that numbers the machines; by default the Plan's.
    """
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    placed = meta["promise"] == LEVEL_NUMBERS[PromiseLevel.PLACED]
    numbers = np.flatnonzero(live & placed & (meta["finish"] > plan.now))
    held = plan.table.standing_slots(numbers)
    if cluster is None or cluster.machine_names == plan.cluster.machine_names:
        return held
    new = np.append(renumbered_machines(plan.cluster, cluster), NOWHERE)
    held.slots[:, 3] = new[held.slots[:, 3]]
    return held


def room_with(held: StandingSlots, plan: Plan) -> MachineRoom:
    """Return the capacity that slots leave on the machines of a Plan."""
    room = MachineRoom(plan.cluster, plan.grid, plan.ledger.first)
    for kind in np.unique(held.kind).tolist():
        room.take(held.slots[held.kind == kind], held.kinds[kind][0], 1)
    return room


class Piece(NamedTuple):
    """Bundles of an atom that look for a machine."""

    number: int
    atom: int
    kind: int
    start: int
    end: int
    bundles: int


class Relocator:
    """One relocation on one capacity.

    Parameters
    ----------
    plan
        It is read only.
    held
        `slots_on` it.
    room
        The remaining free capacity, updated in place.
    """

    def __init__(self, plan: Plan, held: StandingSlots, room: MachineRoom) -> None:
        self.plan, self.cluster, self.held, self.room = plan, plan.cluster, held, room
        #: int64[k, 4], and int64[k] where they are kept: as they are now.
        self._slots = held.slots.copy()
        self._gone = np.zeros(len(held.slots), dtype=bool)
        #: New slots by (number, atom), and what found none.
        self._new: dict[tuple[int, int], list[list[int]]] = {}
        self._nowhere: dict[tuple[int, int], list[list[int]]] = {}
        self._kinds: dict[tuple[int, int], int] = {}
        self._shares: dict[int, float] = {}

    def run(self, budget: int = EJECTIONS) -> Relocation:
        """Return the new slots; `budget` is how many others may be moved for them."""
        lost = lost_slots(self.held, self.cluster, self.plan.grid, self.plan.now)
        if len(lost):
            self._place(self._lift(lost), budget)
        joined = self._rejoin()
        return self._relocation() if len(lost) or joined else Relocation()

    def _rejoin(self) -> bool:
        """Let bundles stay where they are that need not leave their machine any more.

        Returns
        -------
        bool
            Whether there are any.
        """
        places, new = self.slots_in_place(), list(self.new_slots())
        joint = StandingSlots(
            np.concatenate([self.held.number[places], _column(key[0] for _, key, _ in new)]),
            np.concatenate([self.held.atom[places], _column(key[1] for _, key, _ in new)]),
            np.concatenate([self.held.kind[places], _column(kind for kind, _, _ in new)]),
            np.concatenate([self._slots[places], slots_of([slot for _, _, slot in new])]),
            self.held.kinds,
        )
        joined = False
        for before, after in cut_slots(self.plan, joint):
            if not may_rejoin(self.cluster, joint, self.room, before, after):
                continue
            bundle, machine = joint.kinds[int(joint.kind[after])][0], int(joint.slots[before, 3])
            self.room.take(joint.slots[after].reshape(1, 4), bundle, -1)
            joint.slots[after, 3] = machine
            self.room.take(joint.slots[after].reshape(1, 4), bundle, 1)
            if after < len(places):
                self._slots[places[after], 3] = machine
            else:
                new[after - len(places)][2][3] = machine
            joined = True
        return joined

    def _place(self, pieces: Iterable[Piece], budget: int) -> None:
        """Find slots for pieces, the largest first; then with others giving way."""
        missed: list[Piece] = []
        bound: dict[tuple[int, str], list[Piece]] = {}
        pieces = sorted(pieces, key=self._order)
        for piece in pieces:
            if self.held.kinds[piece.kind][2].within is not None:
                bound.setdefault(self._run_of(piece), []).append(piece)
        for piece in pieces:
            bundle, label, rule = self.held.kinds[piece.kind]
            if rule.within is not None:
                self._place_in_one_value(bound.pop(self._run_of(piece), []))
                continue
            asked = np.array([[piece.start, piece.end, piece.bundles]], dtype=np.int64)
            beside = self._of_atom(piece.number, piece.atom) if rule.spread else None
            found, rest = self.room.lay_some(asked, bundle, label, rule, beside)
            self._note(self._new, piece, found.tolist())
            missed += [piece._replace(bundles=count) for count in rest[:, 2].tolist()]
        if missed:
            self._eject(missed, budget)

    def _occurrence_of(self, piece: Piece) -> tuple[str, Rows]:
        """Return the path and the rows of the occurrence of an atom that a piece is of."""
        occurrences = list(self.plan.table.holding(piece.number).atoms[piece.atom].occurrences())
        for path, rows in occurrences:
            if int(rows[0, 0]) <= piece.start and piece.end <= int(rows[-1, 1]):
                return path, rows
        return occurrences[0]

    def _run_of(self, piece: Piece) -> tuple[int, str]:
        """Return the reservation and the path of an atom or `together` within one value."""
        path = self._occurrence_of(piece)[0]
        is_shared = self.held.kinds[piece.kind][2].is_shared
        return piece.number, path.rpartition(".")[0] if is_shared else path

    def _place_in_one_value(self, pieces: Sequence[Piece]) -> None:
        """Find slots for the lost pieces of a run whose bundles are in one value.

        They stay in the value of the others, or, if nothing of it runs, all of it moves to
        another. Others do not give way for it.
        """
        if not pieces:
            return
        run = self._members(pieces)
        stays = [self._slots_beside(one) for one in run]
        wanted = []
        for one, places in zip(run, stays, strict=True):
            lost = [[p.start, p.end, p.bundles] for p in pieces if p.atom == one.atom]
            asked = np.array(lost, dtype=np.int64).reshape(-1, 3)
            wanted.append(Wanted(asked, *self.held.kinds[one.kind], self._slots[places]))
        found = self.room.lay_joint(wanted)
        begun = any(bool((one.beside[:, 0] < self.plan.now).any()) for one in wanted)
        if any(map(len, found.rests)) and any(map(len, stays)) and not begun:
            self.room.release_joint(wanted, found.slots)
            self.room.release_joint(wanted, [one.beside for one in wanted])
            whole = [
                one._replace(
                    pieces=np.concatenate([one.pieces, one.beside[:, :3]]), beside=one.beside[:0]
                )
                for one in wanted
            ]
            moved = self.room.lay_joint(whole)
            if not any(map(len, moved.rests)):
                self._gone[np.concatenate(stays)] = True
                found = moved
            else:
                self.room.release_joint(whole, moved.slots)
                for asked_for, slots in zip(wanted, found.slots, strict=True):
                    self.room.take(asked_for.beside, asked_for.bundle, 1)
                    self.room.take(slots, asked_for.bundle, 1)
        for one, slots, rest in zip(run, found.slots, found.rests, strict=True):
            if len(slots):
                self._note(self._new, one, slots.tolist())
            if len(rest):
                self._note(self._nowhere, one, np.insert(rest, 3, NOWHERE, axis=1).tolist())

    def _members(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return a piece of each atom of a run, atoms without losses last."""
        found: dict[int, Piece] = {}
        for one in pieces:
            found.setdefault(one.atom, one)
        first = pieces[0]
        if self.held.kinds[first.kind][2].is_shared:
            path = self._run_of(first)[1]
            for run in shared_runs(self.plan.table.holding(first.number).atoms):
                for place, _, member, rows in run:
                    if member.rpartition(".")[0] == path and place not in found:
                        kinds = self.held.kind[list(self._indices(first.number, place))]
                        if len(kinds):
                            span = int(rows[0, 0]), int(rows[-1, 1])
                            found[place] = Piece(first.number, place, int(kinds[0]), *span, 0)
        return list(found.values())

    def _slots_beside(self, piece: Piece) -> NDArray[np.int64]:
        """Return the places of slots in force of the occurrence of a piece that have machines."""
        rows = self._occurrence_of(piece)[1]
        known = np.array(self._indices(piece.number, piece.atom), dtype=np.int64)
        slots = self._slots[known]
        chosen = ~self._gone[known] & (slots[:, 3] != NOWHERE) & (slots[:, 1] > self.plan.now)
        chosen &= (slots[:, 0] >= rows[0, 0]) & (slots[:, 1] <= rows[-1, 1])
        places: NDArray[np.int64] = known[chosen]
        return places

    def _note(
        self, where: dict[tuple[int, int], list[list[int]]], piece: Piece, slots: list[list[int]]
    ) -> None:
        self._kinds[piece.number, piece.atom] = piece.kind
        where.setdefault((piece.number, piece.atom), []).extend(slots)

    def _lift(self, lost: NDArray[np.int64]) -> list[Piece]:
        """Release lost slots, put back those that can stay, and return the rest as pieces."""
        held, room, now = self.held, self.room, self.plan.now
        for kind in np.unique(held.kind[lost]).tolist():
            room.take(held.slots[lost[held.kind[lost] == kind]], held.kinds[kind][0], -1)
        # What has begun stays if anything can.
        order = np.lexsort((lost, held.slots[lost, 0] >= now))
        pieces: dict[tuple[int, int, int, int, int], int] = {}
        for index in lost[order].tolist():
            slot, kind = held.slots[index], int(held.kind[index])
            until = stays_until(room, slot, held.kinds[kind][0], now)
            start, end, bundles, machine = slot.tolist()
            self._slots[index, 1] = until
            self._gone[index] = until <= start
            if until > start:
                room.take(slots_of([start, until, bundles, machine]), held.kinds[kind][0], 1)
            if until < end:
                whose = int(held.number[index]), int(held.atom[index])
                key = (*whose, kind, max(start, until), end)
                pieces[key] = pieces.get(key, 0) + bundles
        return [Piece(*key, bundles) for key, bundles in pieces.items()]

    def _order(self, piece: Piece) -> tuple[int, bool, float, int, int, int]:
        """Return the key of a piece: priority, what is degraded after the others, the largest."""
        share = self._shares.get(piece.kind)
        if share is None:
            bundle = self.held.kinds[piece.kind][0]
            share = self._shares[piece.kind] = bundle.dominant_share(self.cluster.nominal)
        meta = self.plan.table.meta[piece.number]
        size = share * (piece.end - piece.start)
        waits = bool(meta["state"] == STATE_NUMBERS[State.DEGRADED])
        return -int(meta["priority"]), waits, -size, piece.number, piece.atom, piece.start

    def _indices(self, number: int, atom: int) -> range:
        """Return the places of an atom's slots, which are contiguous."""
        low, high = np.searchsorted(self.held.number, [number, number + 1])
        inside = np.searchsorted(self.held.atom[low:high], [atom, atom + 1])
        return range(int(low + inside[0]), int(low + inside[1]))

    def _of_atom(self, number: int, atom: int) -> Slots:
        """Return the slots that an atom has now, those without a machine left out."""
        known = np.array(self._indices(number, atom), dtype=np.int64)
        stays = self._slots[known[~self._gone[known]]] if len(known) else self._slots[:0]
        return np.concatenate([stays, slots_of(self._new.get((number, atom), []))])

    def _eject(self, missed: list[Piece], budget: int) -> None:
        """Find machines for pieces by moving slots that have not begun."""
        ejection = _Ejection(self, missed)
        for piece in missed:
            left = piece.bundles
            while left and budget > 0 and ejection.may_try:
                moved = ejection.insert(piece, min(budget, _EJECTIONS_OF_PIECE))
                budget -= moved
                if not ejection.found:
                    break
                left -= 1
            if left:
                self._note(self._nowhere, piece, [[piece.start, piece.end, left, NOWHERE]])
        ejection.close()

    def new_slots(self) -> Iterator[tuple[int, tuple[int, int], list[int]]]:
        """Yield (kind, atom as (number, place), slot) of every new slot."""
        for key, slots in self._new.items():
            for slot in slots:
                yield self._kinds[key], key, slot

    def slots_in_place(self) -> NDArray[np.int64]:
        """Return the places of slots that still stand, in `slots`."""
        return np.flatnonzero(~self._gone & (self._slots[:, 1] > self.plan.now))

    @property
    def slots(self) -> Slots:
        """int64[k, 4]: the current slots."""
        return self._slots

    def _relocation(self) -> Relocation:
        changed = np.flatnonzero((self._slots != self.held.slots).any(axis=1) | self._gone)
        touched = {(int(self.held.number[i]), int(self.held.atom[i])) for i in changed.tolist()}
        touched |= self._new.keys() | self._nowhere.keys()
        by_number: dict[int, dict[int, Slots]] = {}
        for number, atom in sorted(touched):
            parts = [self._of_atom(number, atom), slots_of(self._nowhere.get((number, atom), []))]
            by_number.setdefault(number, {})[atom] = sort_slots(np.concatenate(parts))
        held: dict[int, Holding] = {}
        for number, atoms in by_number.items():
            before = self.plan.table.holding(number)
            slots = [atoms.get(i, one.slots) for i, one in enumerate(before.atoms)]
            if not _same(slots, [one.slots for one in before.atoms]):
                held[number] = with_slots(before, slots)
        return Relocation(held, frozenset(number for number, _ in self._nowhere))


def _same(slots: Iterable[Slots | None], others: Iterable[Slots | None]) -> bool:
    pairs = zip(slots, others, strict=True)
    return all(
        (one is None and other is None)
        or (one is not None and other is not None and np.array_equal(one, other))
        for one, other in pairs
    )


class _Ejection:
    """The board of one relocation: the present slots, and those to be moved."""

    def __init__(self, relocator: Relocator, missed: list[Piece]) -> None:
        self._of = relocator
        plan, held = relocator.plan, relocator.held
        self.found = False
        places = relocator.slots_in_place()
        new = list(relocator.new_slots())
        #: (kind, atom, slot as a list) or (place in `slots`) by number on the board.
        self._new = new
        self._places = places
        slots = np.concatenate([relocator.slots[places], slots_of([slot for _, _, slot in new])])
        kinds = np.concatenate(
            [held.kind[places], np.array([kind for kind, _, _ in new], dtype=np.int64)]
        ).astype(np.int64)
        used = np.unique(np.append(kinds, [piece.kind for piece in missed]))
        self._kind_number = {kind: number for number, kind in enumerate(used.tolist())}
        self._board = MachineBoard(
            relocator.cluster,
            (plan.now, max(int(slots[:, 1].max(initial=plan.now)), *(p.end for p in missed))),
            relocator.room.dense_width,
            [held.kinds[kind][:2] for kind in used.tolist()],
        )
        free = np.array([not held.kinds[kind][2].binds for kind in used.tolist()], dtype=bool)
        number = np.searchsorted(used, kinds)
        movable = (slots[:, 0] >= plan.now) & (slots[:, 3] != NOWHERE) & free[number]
        waiting = min(_MOST_TRIED, sum(piece.bundles for piece in missed))
        self._board.stand(slots, number, movable, waiting)
        self._left = waiting
        self._inserted: list[tuple[Piece, int]] = []
        self._machine: dict[int, int] = {}

    @property
    def may_try(self) -> bool:
        """Whether the board has capacity for one more."""
        return self._left > 0

    def insert(self, piece: Piece, budget: int) -> int:
        """Find one bundle a machine; return how many slots were moved to find out."""
        rule: MachineRule = self._of.held.kinds[piece.kind][2]
        own = self._rule_mask(piece) if rule.spread else None
        one = (piece.start, piece.end, 1)
        moves, count = self._board.insert(one, self._kind_number[piece.kind], own, budget)
        self.found = bool(moves)
        if moves:
            number = len(self._places) + len(self._new) + len(self._inserted)
            self._inserted.append((piece, number))
            self._machine |= moves
            self._left -= 1
        return count

    def _rule_mask(self, piece: Piece) -> NDArray[np.bool_]:
        """Return bool[machine]: whether the rule of an atom allows one more bundle there."""
        _, label, rule = self._of.held.kinds[piece.kind]
        allowed = self._board.with_label(label)
        domains = _domains(self._of.cluster, rule)
        mine = self._of._of_atom(piece.number, piece.atom)  # noqa: SLF001 - of the same file
        more = [
            [one.start, one.end, 1, self._machine[number]]
            for one, number in self._inserted
            if (one.number, one.atom) == (piece.number, piece.atom)
        ]
        near = np.concatenate([mine, slots_of(more)])
        near = near[(near[:, 0] < piece.end) & (near[:, 1] > piece.start) & (near[:, 3] >= 0)]
        use = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.int64)
        if (
            rule.domain is not None
        ):  # only asked of a rule with a spread: a machine of no value of the domain holds none
            allowed &= domains >= len(domains)
        # Those that stand one after the other count as if at once: never too few.
        np.add.at(use, domains[near[:, 3]], near[:, 2])
        return allowed & (use[domains] < rule.spread)

    def close(self) -> None:
        """Write moved and inserted slots back, and update the capacity."""
        of, held = self._of, self._of.held
        for number, machine in sorted(self._machine.items()):
            if number < len(self._places):
                index = int(self._places[number])
                bundle, slot = held.kinds[int(held.kind[index])][0], of.slots[index].copy()
                of.slots[index, 3] = machine
            elif number < len(self._places) + len(self._new):
                kind, _, entry = self._new[number - len(self._places)]
                bundle, slot = held.kinds[kind][0], slots_of(entry)[0]
                entry[3] = machine
            else:
                continue
            self._move(bundle, slot, machine)
        for piece, number in self._inserted:
            slot = slots_of([piece.start, piece.end, 1, self._machine[number]])
            of._note(of._new, piece, slot.tolist())  # noqa: SLF001 - of the same file
            of.room.take(slot, held.kinds[piece.kind][0], 1)

    def _move(self, bundle: Resources, slot: NDArray[np.int64], machine: int) -> None:
        moved = slot.copy()
        moved[3] = machine
        self._of.room.take(slot.reshape(1, 4), bundle, -1)
        self._of.room.take(moved.reshape(1, 4), bundle, 1)


def _domains(cluster: Cluster, rule: MachineRule) -> NDArray[np.int64]:
    """Return int64[machine]: the value by which the rule counts bundles."""
    found: list[int] = []
    known: dict[str, int] = {}
    total = sum(group.count for group in cluster.machines)
    for group in cluster.machines:
        value = dict(group.domains).get(rule.domain or "")
        if value is None:
            found += range(len(found), len(found) + group.count)
        else:
            found += [known.setdefault(value, total + len(known))] * group.count
    return np.array(found, dtype=np.int64)


def relocate(plan: Plan, budget: int = EJECTIONS) -> Relocation:
    """Return other machines for all slots of a Plan that lost theirs.

    Parameters
    ----------
    budget
        Limit of the slots of other reservations that may be moved for them.
    """
    held = slots_on(plan)
    if not len(held.slots):
        return Relocation()
    room = room_with(held, plan)
    return Relocator(plan, held, room).run(budget)


def promises_machines(plan: Plan) -> bool:
    """Return whether any live reservation is promised machines."""
    meta = plan.table.meta
    placed = meta["promise"] == LEVEL_NUMBERS[PromiseLevel.PLACED]
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    return bool((placed & live).any())


def work_relocated(before: Holding, after: Holding, now: int, nominal: Resources) -> float:
    """Return the work from `now` on that is on another machine, in steps of the cluster."""
    total = 0.0
    for old, new in zip(before.atoms, after.atoms, strict=True):
        if new.slots is not None:
            known = set() if old.slots is None else {tuple(one) for one in old.slots.tolist()}
            steps = sum(
                (end - max(start, now)) * bundles
                for start, end, bundles, machine in new.slots.tolist()
                if end > now and (start, end, bundles, machine) not in known
            )
            total += steps * new.bundle.dominant_share(nominal)
    return total


def starting_machines(plan: Plan, waiting: Iterable[Commitment]) -> StartingMachines | None:
    """Return machines for drafts of a Plan; None if none are promised.

    None too where slots have lost theirs: those are for the adapter.

    Parameters
    ----------
    waiting
        Refused requests that may come in are among them.
    """
    newcomers = frozenset(
        one.number
        for one in waiting
        if one.number < 0
        and one.request is not None
        and (one.request.promise or plan.cluster.promise) is PromiseLevel.PLACED
    )
    held = slots_on(plan)
    if not (newcomers or len(held.slots)) or has_lost_slots(plan):
        return None
    return StartingMachines(room_with(held, plan), newcomers)


def without_slots(changes: Sequence[Change]) -> list[Change]:
    """Return the same moves and admissions, for the Plan to find their machines."""
    return [replace(one, slots=None) if isinstance(one, Admit | Update) else one for one in changes]


def relocations(draft: DraftPlan, changes: Iterable[Change]) -> Iterator[Relocate]:
    """Yield commitments that only change machines, to free capacity for others.

    Parameters
    ----------
    changes
        All other changes to the draft, which set the new machines of what they change.
    """
    plan = draft.plan
    changed = {plan.table.number_of(getattr(one, "id", "")) for one in changes}
    for number in sorted(draft.held):
        if number < 0 or number in changed or number in draft.lifted:
            continue
        before, after = plan.table.holding(number), draft.held_by(number)
        if [one.path for one in before.atoms] != [one.path for one in after.atoms]:
            continue  # it came back with its occurrences divided otherwise: slots are by atom
        same = _same((one.slots for one in before.atoms), (one.slots for one in after.atoms))
        if draft.places(number) and not same:
            yield relocate_change(plan, number, after, "it frees capacity for others")
