"""SlotRows: the slots of one reservation, by the atom they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatch.entitlements.directive import ActiveSlot
from planner.reservations.reservation import Holding
from planner.reservations.slots import NOWHERE, Slots


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Slots of all occurrences of all atoms that hold something.

    Attributes
    ----------
    slots
        int64[k, 4] of (start, end, bundles, machine).
    atom
        int64[k]: which occurrence of an atom, counted over those that hold something.
    machines
        Names by number.
    """

    slots: Slots
    atom: NDArray[np.int64]
    machines: Sequence[str]

    def marks(self) -> NDArray[np.int64]:
        """Return the steps at which something begins or ends."""
        return self.slots[:, :2].reshape(-1)

    def at(self, step: int) -> dict[int, tuple[ActiveSlot, ...]]:
        """Return the slots that hold at a step, by atom."""
        found: dict[int, tuple[ActiveSlot, ...]] = {}
        here = np.flatnonzero((self.slots[:, 0] <= step) & (step < self.slots[:, 1]))
        for row in here.tolist():
            start, end, bundles, machine = self.slots[row].tolist()
            name = None if machine == NOWHERE else self.machines[machine]
            atom = int(self.atom[row])
            found[atom] = (*found.get(atom, ()), ActiveSlot(name, bundles, start, end))
        return found


def slots_of_atoms(holding: Holding, machines: Sequence[str]) -> SlotRows | None:
    """Return the slots of a holding, or None where it is promised totals only."""
    if all(atom.slots is None for atom in holding.atoms):
        return None
    slots: list[Slots] = []
    owner: list[NDArray[np.int64]] = []
    number = 0
    for atom in holding.atoms:
        for (_, rows), held in zip(atom.occurrences(), atom.occurrence_slots(), strict=True):
            if not len(rows):
                continue
            if held is not None and len(held):
                slots.append(held)
                owner.append(np.full(len(held), number, dtype=np.int64))
            number += 1
    whole = np.concatenate(slots) if slots else np.zeros((0, 4), dtype=np.int64)
    which = np.concatenate(owner) if owner else np.zeros(0, dtype=np.int64)
    return SlotRows(whole, which, machines)
