"""Slots that have not begun change machine so that a new request finds some.

What has not begun belongs to no machine in particular. Where a request finds no machine, what
stands at its times is laid again beside it, each on its own machine where that is still free: by
begin, which loses nothing where bundles are of one shape (interval colouring), or the new one
first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.plan.draft import Draft
from planner.plan.records.reservation_records import Relocated
from planner.plan.slots.slot_faults import LeaseOf
from planner.plan.slots.slots_in_force import occurrence_pieces
from planner.plan.state import PlanState
from planner.plan.table.table import StandingSlots
from planner.reservations.holding import with_slots
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.slots import NOWHERE, Slots, no_slots, slots_of, sort_slots
from planner.reservations.state import State
from rdl.expressions import atom_at
from rdl.text.parser import parse

I64 = NDArray[np.int64]

#: Most machines, most reservations that are looked through, and most slots that are laid again.
_MACHINES: Final = 4096
_RESERVATIONS: Final = 5000
_SLOTS: Final = 4096

#: Why bundles that have not begun change machine.
_MADE_WAY: Final = "made way for a new request"

_STANDING: Final = (State.ACCEPTED, State.ACTIVE)


@dataclass(slots=True)
class MakingWay:
    """The reservations of a Plan whose slots may make way for new ones, in one batch.

    Attributes
    ----------
    draft
        What machines have left; it keeps what is found.
    moved
        Number -> what a reservation then holds; it moves once in a batch.
    """

    plan: PlanState
    draft: Draft
    moved: dict[int, Holding] = field(default_factory=dict)

    def place(self, holding: Holding) -> Holding | None:
        """Return a new holding with slots for all of its rows, taken; or None, nothing changed."""
        if len(self.plan.table) > _RESERVATIONS or self.draft.room.machines > _MACHINES:
            return None
        if any(one.rule.spread for one in holding.atoms):
            return None
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

    def records(self) -> list[Relocated]:
        """Return what became of those that made way."""
        found = []
        for number, holding in self.moved.items():
            slots = tuple(no_slots() if one.slots is None else one.slots for one in holding.atoms)
            found.append(Relocated(self.plan.table.id_of(number), slots, _MADE_WAY))
        return found

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
        spread = np.array([rule.spread > 0 for _, _, rule in standing.kinds], dtype=bool)
        chosen = (slots[:, 0] >= now) & (slots[:, 0] < holding.finish)
        chosen &= (slots[:, 1] > holding.begin) & (slots[:, 3] != NOWHERE)
        chosen &= ~spread[standing.kind] & _is_whole_stay(standing)
        return _part_of(standing, chosen) if chosen.any() else None

    def _note_moved(self, standing: StandingSlots, slots: Slots, source: I64) -> None:
        """Note what those hold that have other machines.

        Parameters
        ----------
        slots, source
            Where the movable slots stand now, and which of them each is of.
        """
        changed = source[slots[:, 3] != standing.slots[source, 3]]
        for number in np.unique(standing.number[changed]).tolist():
            before, mine = self.plan.table.holding(number), standing.number == number
            here = mine[source]
            atoms = []
            for index, atom in enumerate(before.atoms):
                left = standing.slots[mine & (standing.atom == index)]
                came = slots[here & (standing.atom[source] == index)]
                atoms.append(None if atom.slots is None else _swapped(atom.slots, left, came))
            self.moved[number] = with_slots(before, atoms)


def _is_whole_stay(standing: StandingSlots) -> NDArray[np.bool_]:
    """Return which slots are a stay by themselves: others of their atom may go on from them."""
    from planner.machines.kernels.moving import stand_alone

    slots = standing.slots
    parts = np.stack([standing.number, standing.atom, slots[:, 3]])
    order = np.lexsort(parts)
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
    gone = {tuple(one) for one in left.tolist()}
    stays = [one for one in held.tolist() if tuple(one) not in gone]
    return sort_slots(np.concatenate([slots_of(stays), came]))


def lease_of_number(plan: PlanState, number: int) -> LeaseOf:
    """Return what tells the leases of a reservation's atoms from its expression."""

    def steps(atom: AtomAllocation) -> int:
        details = plan.table.details.get(number)
        expression = details.expression or parse(details.text)
        asked = atom_at(expression, atom.path.replace("@*", "@0"))
        return 0 if asked is None else max(1, plan.grid.ceil(asked.lease_ms))

    return steps
