"""Slots that have not begun change machine so that a new request finds some.

Slots that have not begun are not bound to a machine. If a request finds no machine, the
slots from its start on are assigned to machines again together with it, each to its own machine if
that is still free. If bundles have one shape, or fill a machine, this loses nothing (interval
colouring); otherwise the new request is placed first, or all slots are placed in order of their
start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, bundles_per_machine, groups_with
from planner.machines.board import MachineBoard
from planner.plan.draft import Draft
from planner.plan.records.reservation_records import Relocated
from planner.plan.slots import LeaseOf, occurrence_pieces
from planner.plan.state import PlanState
from planner.plan.table import StandingSlots
from planner.reservations.holding import with_slots
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.slots import NOWHERE, MachineRule, Slots, no_slots, sort_slots
from planner.reservations.state import State
from rdl.expressions import atom_at
from rdl.resources import Resources
from rdl.text.parser import parse

I64 = NDArray[np.int64]

#: Most machines, most reservations that are looked through, and most slots that are laid again.
_MACHINES: Final = 4096
_RESERVATIONS: Final = 5000
_SLOTS: Final = 4096

#: Most bundles that are coloured, and kinds of bundles that were ever placed: where these are the
#: same nothing else counts.
_COLOURED: Final = 2**22
_KINDS: Final = 256

#: Most other times at which a request is tried, and how many machines may be looked at for that.
_ROUNDS: Final = 64
_LOOKS: Final = 64

#: Most bundles and machines among which one is put out for another, how often, on one machine, in
#: how many other orders all of them come, and the least part of its size that one counts there.
_EJECTED: Final = 512
_EJECTING: Final = 64
_EJECTIONS: Final = 2048
_ORDERS: Final = 8
_NOISE: Final = 0.4

#: Number of the first new reservation of a batch, above those of the table.
_ADDED: Final = 2**40

#: Why bundles that have not begun change machine.
_MADE_WAY: Final = "gave way to a new request"

_STANDING: Final = (State.ACCEPTED, State.ACTIVE)


@dataclass(slots=True)
class MakingWay:
    """The reservations of a Plan whose slots may give way to new ones, in one batch.

    Attributes
    ----------
    draft
        Free capacity of the machines; the found slots are taken from it.
    moved
        Number -> the slots of each atom that a reservation then has.
    added
        The slots of new reservations of the batch.
    """

    plan: PlanState
    draft: Draft
    moved: dict[int, tuple[Slots, ...]] = field(default_factory=dict)
    added: list[Holding] = field(default_factory=list)

    def place(self, holding: Holding) -> Holding | None:
        """Take slots for all rows of a holding and return it with them; or None, with nothing
        changed."""
        if any(one.rule.binds for one in holding.atoms):
            return None
        count = len(self.plan.table) + len(self.added)
        is_small = count <= _RESERVATIONS and self.draft.room.machines <= _MACHINES
        found = self._colour(holding, is_small=is_small)
        if found is None and is_small:
            found = self._lay_again(holding) or self._eject(holding)
        return found

    @property
    def rounds(self) -> int:
        """Limit of other times to try for one request on one machine; smaller on more machines."""
        return min(_ROUNDS, _LOOKS // max(1, self.draft.room.machines))

    def records(self) -> list[Relocated]:
        """Return the outcome of those that gave way."""
        id_of = self.plan.table.id_of
        return [Relocated(id_of(one), slots, _MADE_WAY) for one, slots in self.moved.items()]

    def _colour(self, holding: Holding, *, is_small: bool) -> Holding | None:
        """Do as `place` where bundles are of one shape, or fill a machine."""
        units = self._units(holding, is_small=is_small)
        if units is None:
            return None
        standing = self._standing(holding.begin)
        # What ends there may continue as a slot that begins there.
        here = (standing.slots[:, 1] >= holding.begin) & (standing.slots[:, 3] != NOWHERE)
        here &= units[standing.slots[:, 3]] > 0
        held = _part_of(standing, here)
        kinds = [held.kinds[kind] for kind in np.unique(held.kind).tolist()]
        bundles = {one.bundle for one in holding.atoms} | {bundle for bundle, _, _ in kinds}
        both = units_of(self.plan.cluster, self._groups(units), bundles)
        if both is None or int(held.slots[:, 2].sum()) > _COLOURED:
            return None
        fresh, atom_of = _wanted_by(holding)
        groups = set(self._groups(units))
        goes = [
            groups <= (_groups_for(self.plan.cluster, [kind[:2]]) or set()) for kind in held.kinds
        ]
        movable = self._may_move(held) & np.array(goes, dtype=bool)[held.kind]
        movable &= _is_whole_stay(held)
        movable &= held.slots[:, 0] >= holding.begin
        laid = colour_slots(
            np.concatenate([held.slots, fresh]),
            np.concatenate([held.number << 20 | held.atom, 2**62 + np.arange(len(fresh))]),
            np.concatenate([~movable, np.zeros(len(fresh)) > 0]),
            self.draft.room.outages,
            units,
        )
        if laid is None:
            return None
        slots, source = laid
        return self._take(holding, atom_of, held, slots, source)

    def _groups(self, units: I64) -> list[int]:
        """Return the machine groups that have units."""
        counts = [group.count for group in self.plan.cluster.machines]
        first = np.cumsum([0, *counts])
        return [i for i, count in enumerate(counts) if count and units[first[i]] > 0]

    def _units(self, holding: Holding, *, is_small: bool) -> I64 | None:
        """Return how many bundles of a holding fit on each machine, 0 if its rules exclude it.

        None if that is not known, or, unless the Plan `is_small`, where something else was ever
        placed.
        """
        cluster, table = self.plan.cluster, self.plan.table
        groups = _groups_for(cluster, [(one.bundle, one.label) for one in holding.atoms])
        own = {one.bundle for one in holding.atoms}
        units = None if groups is None else units_of(cluster, sorted(groups), own)
        if groups is None or units is None or not units.any():
            return None
        kinds = () if is_small else table.kinds
        if len(kinds) > _KINDS:
            return None
        for bundle, _, _ in kinds:  # one by one, for most often the first tells
            if bundle not in own and units_of(cluster, sorted(groups), own | {bundle}) is None:
                return None
        return units

    def _standing(self, begin: int) -> StandingSlots:
        """Return the slots of all that holds machines after a step, as the batch leaves them."""
        table = self.plan.table
        owners = np.unique(table.slots_after(begin)[1])
        whole = table.standing_slots(owners[~np.isin(owners, list(self.moved))])
        kinds = list(whole.kinds)
        parts = [whole[:4]]
        others = [(number, table.holding(number), held) for number, held in self.moved.items()]
        for place, one in enumerate(self.added):
            if one.finish > begin:
                held = tuple(no_slots() if atom.slots is None else atom.slots for atom in one.atoms)
                others.append((_ADDED + place, one, held))
        known: dict[tuple[Resources, str | None, MachineRule], int] = {}
        for number, one, held in others:
            for index, (atom, slots) in enumerate(zip(one.atoms, held, strict=True)):
                kind = known.setdefault((atom.bundle, atom.label, atom.rule), len(kinds))
                if kind == len(kinds):
                    kinds.append((atom.bundle, atom.label, atom.rule))
                every = np.ones(len(slots), dtype=np.int64)
                parts.append((number * every, index * every, kind * every, slots))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return StandingSlots(columns[0], columns[1], columns[2], columns[3], kinds)

    def _eject(self, holding: Holding) -> Holding | None:
        """Do as `place` on a few machines: a bundle puts others out, which go elsewhere."""
        machines, now = self.draft.room.machines, self.plan.now
        if machines > _EJECTING:
            return None
        standing = self._standing(now)
        here = (standing.slots[:, 1] > now) & (standing.slots[:, 3] != NOWHERE)
        held = _part_of(standing, here)
        fresh, atom_of = _wanted_by(holding)
        both = np.concatenate([held.slots, fresh])
        source = np.repeat(np.arange(len(both)), both[:, 2])
        if not len(held.slots) or len(source) > _EJECTED:
            return None
        alone = both[source]
        alone[:, 2] = 1
        may_move = self._may_move(held) & _is_whole_stay(standing)[here]
        movable = np.append(may_move, np.ones(len(fresh), dtype=bool))
        kind = np.append(held.kind, len(held.kinds) + atom_of)[source]
        kinds = [one[:2] for one in held.kinds] + [(one.bundle, one.label) for one in holding.atoms]
        for turn in range(min(_ORDERS, _LOOKS // machines) + 1):
            found = self._ejected(alone, kind, movable[source], kinds, turn)
            if found is not None:
                break
        else:
            return None
        return self._take(holding, atom_of, held, found, source)

    def _ejected(
        self,
        slots: Slots,
        kind: I64,
        movable: NDArray[np.bool_],
        kinds: Sequence[tuple[Resources, str | None]],
        turn: int,
    ) -> Slots | None:
        """Return single bundles with machines; or None.

        Turn 0 adds those without a machine to all present slots; later turns also place all that
        may move again, largest first, and from turn 2 on with varied sizes.
        """
        machines, now = self.draft.room.machines, self.plan.now
        stays = (slots[:, 3] != NOWHERE) & (~movable | (turn == 0))
        share = np.array([bundle.dominant_share(self.draft.nominal) for bundle, _ in kinds])
        size = share[kind] * (slots[:, 1] - slots[:, 0])
        size *= np.random.default_rng(turn).uniform(_NOISE if turn > 1 else 1, 1, len(size))
        come = np.flatnonzero(~stays)
        come = come[np.argsort(-size[come], kind="stable")]
        board = MachineBoard(self.plan.cluster, (now, int(slots[:, 1].max())), 1, kinds)
        board.stand(slots[stays], kind[stays], movable[stays], len(come))
        number = np.append(np.flatnonzero(stays), come)
        found = slots.copy()
        for one in come.tolist():
            piece = (int(slots[one, 0]), int(slots[one, 1]), 1)
            put, _ = board.insert(piece, int(kind[one]), None, _EJECTIONS // machines)
            if not put:
                return None
            found[number[list(put)], 3] = list(put.values())
        return found

    def _may_move(self, held: StandingSlots) -> NDArray[np.bool_]:
        """Return which slots have not begun and may be on another machine."""
        table = self.plan.table
        goes = [not rule.binds for _, _, rule in held.kinds]
        numbers, place = np.unique(held.number, return_inverse=True)
        stands = [
            number < _ADDED and table.state(number) in _STANDING for number in numbers.tolist()
        ]
        movable = np.array(goes, dtype=bool)[held.kind] & np.array(stands, dtype=bool)[place]
        result: NDArray[np.bool_] = movable & (held.slots[:, 0] >= self.plan.now)
        return result

    def _take(
        self, holding: Holding, atom_of: I64, held: StandingSlots, slots: Slots, source: I64
    ) -> Holding | None:
        """Take the found slots, and record the reservations that gave way; None, with nothing
        taken, if it is no longer free.

        Parameters
        ----------
        atom_of
            int64[m]: the atom of each piece that the new holding wants.
        slots, source
            The present machine of each bundle: the slots of `held`, followed by those pieces.
        """
        is_new = source >= len(held.slots)
        atom, own = atom_of[source[is_new] - len(held.slots)], slots[is_new]
        new = with_slots(
            holding, [sort_slots(own[atom == index]) for index in range(len(holding.atoms))]
        )
        slots, source = slots[~is_new], source[~is_new]
        draft, mark = self.draft, self.draft.savepoint()
        moves = _moves(held, slots, source)
        gone, comes = _part_of(held, moves), moves[source]
        for kind in np.unique(gone.kind).tolist():
            draft.change_slots([(gone.slots[gone.kind == kind], held.kinds[kind][0])], -1)
        parts = [(one.slots, one.bundle) for one in new.atoms]
        for kind in np.unique(gone.kind).tolist():
            chosen = comes & (held.kind[source] == kind)
            parts.append((slots[chosen], held.kinds[kind][0]))
        for part, bundle in parts:
            assert part is not None
            if not draft.room.fits(part, bundle):
                draft.roll_back(mark)
                return None
            draft.change_slots([(part, bundle)], 1)
        self._note_moved(held, slots, source)
        return new

    def _slots_of(self, number: int) -> tuple[Slots, ...]:
        """Return the slots of each atom of a reservation, as the batch leaves them."""
        if number in self.moved:
            return self.moved[number]
        atoms = self.plan.table.holding(number).atoms
        return tuple(no_slots() if one.slots is None else one.slots for one in atoms)

    def _lay_again(self, holding: Holding) -> Holding | None:
        """Do the same as `place` with all slots at the times of a holding, if there are not too
        many."""
        standing = self._movable(holding)
        if standing is None:
            return None
        used, kind_of = np.unique(standing.kind, return_inverse=True)
        kinds = [standing.kinds[number] for number in used.tolist()]
        first, new = len(kinds), []
        for index, atom in enumerate(holding.atoms):
            pieces = occurrence_pieces(atom)
            ones = np.ones((len(pieces), 1), dtype=np.int64)
            new.append(np.hstack([pieces, NOWHERE * ones, len(kinds) * ones, index * ones]))
            kinds.append((atom.bundle, atom.label, atom.rule))
        old = np.column_stack([standing.slots, kind_of, np.arange(len(standing.slots))])
        fresh = np.concatenate(new)
        both = np.concatenate([fresh, old])
        both = both[np.lexsort((-both[:, 1], both[:, 0]))]
        mark = self.draft.savepoint()
        for kind in range(first):
            self.draft.change_slots([(standing.slots[kind_of == kind], kinds[kind][0])], -1)
        for keeps in (True, False):
            laid = self.draft.lay_kinds(both[:, :5], kinds, keeps=keeps)
            if laid is not None:
                slots, source = laid
                is_new = both[source, 4] >= first
                self._note_moved(standing, slots[~is_new], both[source[~is_new], 5])
                own, place = slots[is_new], both[source[is_new], 5]
                every = range(len(holding.atoms))
                return with_slots(holding, [sort_slots(own[place == index]) for index in every])
        self.draft.roll_back(mark)
        return None

    def _movable(self, holding: Holding) -> StandingSlots | None:
        """Return the slots at the times of a holding that may move; None if they are too many."""
        now, table = self.plan.now, self.plan.table
        slots, owners = table.slots_after(max(now, holding.begin))
        here = (slots[:, 0] >= now) & (slots[:, 0] < holding.finish) & (slots[:, 3] != NOWHERE)
        numbers = [
            number
            for number in np.unique(owners[here]).tolist()
            if number not in self.moved and table.state(number) in _STANDING
        ]
        if not numbers or int(here.sum()) > _SLOTS:
            return None
        standing = table.standing_slots(np.array(numbers, dtype=np.int64))
        slots = standing.slots
        bound = np.array([rule.binds for _, _, rule in standing.kinds], dtype=bool)
        chosen = (slots[:, 0] >= now) & (slots[:, 0] < holding.finish)
        chosen &= (slots[:, 1] > holding.begin) & (slots[:, 3] != NOWHERE)
        chosen &= ~bound[standing.kind] & _is_whole_stay(standing)
        return _part_of(standing, chosen) if chosen.any() else None

    def _note_moved(self, held: StandingSlots, slots: Slots, source: I64) -> None:
        """Record the new slots of the reservations that gave way.

        Parameters
        ----------
        slots, source
            The present machines of the slots of `held`, and the slot of each.
        """
        moves = _moves(held, slots, source)
        comes = moves[source]
        slots, source = slots[comes], source[comes]
        gone, owner, atom = _part_of(held, moves), held.number[source], held.atom[source]
        for number in np.unique(gone.number).tolist():
            mine, here = gone.number == number, owner == number
            self.moved[number] = tuple(
                _swapped(own, gone.slots[mine & (gone.atom == i)], slots[here & (atom == i)])
                for i, own in enumerate(self._slots_of(number))
            )


def _wanted_by(holding: Holding) -> tuple[Slots, I64]:
    """Return the pieces of a holding as slots without machines, and the atom of each."""
    pieces = [occurrence_pieces(atom) for atom in holding.atoms]
    slots = np.concatenate([np.insert(one, 3, NOWHERE, axis=1) for one in pieces])
    return slots, np.repeat(np.arange(len(pieces)), [len(one) for one in pieces])


def _moves(held: StandingSlots, slots: Slots, source: I64) -> NDArray[np.bool_]:
    """Return which slots have another machine, at least for some of their bundles."""
    moves = np.zeros(len(held.slots), dtype=bool)
    moves[source[slots[:, 3] != held.slots[source, 3]]] = True
    return moves


def _is_whole_stay(standing: StandingSlots) -> NDArray[np.bool_]:
    """Return which slots are a stay by themselves: others of their atom may continue from them."""
    from planner.machines.kernels.moving import stand_alone

    slots = standing.slots
    parts = np.stack([standing.number, standing.atom, slots[:, 3]])
    order = np.lexsort([slots[:, 0], *parts])
    new = (np.diff(parts[:, order], axis=1) != 0).any(axis=0)
    keys = np.concatenate([[0], np.cumsum(new)]).astype(np.int64)
    alone = np.zeros(len(slots), dtype=bool)
    alone[order] = stand_alone(keys, np.ascontiguousarray(slots[order], dtype=np.int64)) > 0
    return alone


def _part_of(standing: StandingSlots, chosen: NDArray[np.bool_]) -> StandingSlots:
    """Return some of the slots."""
    return StandingSlots(
        standing.number[chosen],
        standing.atom[chosen],
        standing.kind[chosen],
        standing.slots[chosen],
        standing.kinds,
    )


def _swapped(held: Slots, left: Slots, came: Slots) -> Slots:
    """Return slots of an atom without those that it leaves, and with those it comes to."""
    less = left * np.array([1, 1, -1, 1])
    found = sort_slots(np.concatenate([held, came, less]))
    return found[found[:, 2] > 0]


def lease_of_number(plan: PlanState, number: int) -> LeaseOf:
    """Return a function that reads the leases of a reservation's atoms from its expression."""

    def steps(atom: AtomAllocation) -> int:
        details = plan.table.details.get(number)
        expression = details.expression or parse(details.text)
        asked = atom_at(expression, atom.path.replace("@*", "@0"))
        return 0 if asked is None else max(1, plan.grid.ceil(asked.lease_ms))

    return steps


# A machine is then a number of units of which each bundle takes one, and totals decide: in order of
# start each bundle takes any free unit. No machine is searched step by step.


def units_of(cluster: Cluster, groups: Sequence[int], bundles: Iterable[Resources]) -> I64 | None:
    """Return how many bundles each machine of the cluster holds, 0 outside the groups.

    None if that depends on the mix of bundles.
    """
    shapes = set(bundles)

    def units_on(has: Resources) -> int | None:
        counts = {bundles_per_machine(has, bundle) for bundle in shapes}
        if len(counts) > 1 or (len(shapes) > 1 and counts != {0} and not _exclude(has, shapes)):
            return None
        return counts.pop()

    units = np.zeros(len(cluster.machines), dtype=np.int64)
    for index in groups:
        count = units_on(cluster.machines[index].resources)
        if count is None:
            return None
        units[index] = count
    by_machine = np.repeat(units, [group.count for group in cluster.machines])
    for group, number, left in cluster.reduced:
        if group in groups:
            count = units_on(left)
            if count is None:
                return None
            by_machine[number] = count
    return by_machine


def _exclude(machine: Resources, bundles: Iterable[Resources]) -> bool:
    """Return whether each bundle takes more than half of the same resource of a machine."""
    return any(all(2 * one.get(name, 0) > has for one in bundles) for name, has in machine.items())


def _groups_for(
    cluster: Cluster, kinds: Iterable[tuple[Resources, str | None]]
) -> frozenset[int] | None:
    """Return the machine groups that every kind of bundle may use; None if they differ."""
    found = {frozenset(groups_with(cluster, label)) for _, label in kinds}
    return found.pop() if len(found) == 1 else None


def _joined(outages: I64, begin: int) -> I64:
    """Return the outages that end after a step, merged so that none overlap on one machine."""
    later = outages[outages[:, 2] > begin]
    found: list[list[int]] = []
    for machine, start, end in later[np.lexsort((later[:, 1], later[:, 0]))].tolist():
        if found and found[-1][0] == machine and start <= found[-1][2]:
            found[-1][2] = max(found[-1][2], end)
        else:
            found.append([machine, start, end])
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def colour_slots(
    slots: I64, keys: I64, fixed: NDArray[np.bool_], outages: I64, units: I64
) -> tuple[I64, I64] | None:
    """Return the slots with machines, and the index of each one's origin; None if they do not fit.

    Parameters
    ----------
    slots
        int64[k, 4]: start step, end step, bundles, and the machine, -1 for new slots.
    keys
        int64[k]: slots of one atom have the same key.
    fixed
        bool[k]: slots that keep their machine.
    outages
        int64[m, 3]: machine, first step, end step.
    units
        int64[machines]: how many bundles each machine holds.

    Returns
    -------
    int64[n, 4] and int64[n], the index in `slots` that each slot comes from.
    """
    from planner.machines.kernels.colouring import Intervals, colour

    away = _joined(outages[units[outages[:, 0]] > 0], int(slots[:, 0].min(initial=0)))
    alone = np.column_stack([away[:, 1:], units[away[:, 0]], away[:, 0]])
    every = np.concatenate([alone, slots])
    number = np.arange(len(every)) - len(alone)
    source = np.repeat(number, every[:, 2])
    place = source + len(alone)
    source = source[np.lexsort((-every[place, 1], every[place, 0]))]
    own = every[source + len(alone)]
    is_fixed = np.concatenate([np.ones(len(alone), dtype=bool), fixed])[source + len(alone)]
    key = np.concatenate([-1 - np.arange(len(alone)), keys])[source + len(alone)]
    first_unit = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
    start, stop, machine = (np.ascontiguousarray(own[:, column]) for column in (0, 1, 3))
    unit = colour(Intervals(start, stop, machine, key, is_fixed), first_unit)
    if len(unit) < len(source):
        return None
    machine = np.searchsorted(first_unit, unit, side="right") - 1
    ones = np.ones(len(source), dtype=np.int64)
    laid = np.column_stack([start, stop, ones, machine])
    here = source >= 0
    return laid[here], source[here]
