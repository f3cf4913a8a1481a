"""Slots of the Plan: those of one reservation, and when each machine is needed next.

A pooled promise is a slot without a machine, so that every reservation is a list of slots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.reservations.reservation import Holding
from planner.reservations.slots import NOWHERE, Slots

#: Steps until the next slot of a machine that has none.
NEVER: Final = 2**40

#: The machine of a bundle that has lost its promised machine: it covers nothing.
LOST: Final = ""

#: Machine number of a slot of a pooled promise.
ANYWHERE: Final = NOWHERE - 1


class ActiveSlot(NamedTuple):
    """Bundles of one atom that are allocated now.

    Attributes
    ----------
    machine
        Name of the machine; None for a pooled promise, `LOST` if the bundles lost their machine.
    bundles
        How many.
    start, end
        Steps of the slot, [start, end).
    """

    machine: str | None
    bundles: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SlotRows:
    """Slots of all occurrences of all atoms with an allocation.

    Attributes
    ----------
    slots
        int64[k, 4] of (start, end, bundles, machine).
    atom
        int64[k]: index of the occurrence, counting only occurrences with an allocation.
    machines
        Names by number.
    """

    slots: Slots
    atom: NDArray[np.int64]
    machines: Sequence[str]

    def marks(self) -> NDArray[np.int64]:
        """Return the steps at which a slot begins or ends."""
        return self.slots[:, :2].reshape(-1)

    def at(self, step: int) -> dict[int, tuple[ActiveSlot, ...]]:
        """Return the slots that are active at a step, by atom."""
        found: dict[int, tuple[ActiveSlot, ...]] = {}
        here = np.flatnonzero((self.slots[:, 0] <= step) & (step < self.slots[:, 1]))
        for row in here.tolist():
            start, end, bundles, machine = self.slots[row].tolist()
            atom = int(self.atom[row])
            slot = ActiveSlot(self._name_of(machine), bundles, start, end)
            found[atom] = (*found.get(atom, ()), slot)
        return found

    def rises(self, step: int, leads: Sequence[int]) -> list[list[ActiveSlot]]:
        """Return by atom the bundles added on each machine within the atom's lead."""
        here = self.at(step)
        found: list[list[ActiveSlot]] = [[] for _ in leads]
        for atom, lead in enumerate(leads):
            mine = self.slots[self.atom == atom]
            starts = mine[(mine[:, 0] > step) & (mine[:, 0] <= step + lead), 0]
            known = _by_machine(here.get(atom, ()))
            for start in sorted(set(starts.tolist())):
                then = self.at(start).get(atom, ())
                for machine, count in _by_machine(then).items():
                    more = count - known.get(machine, 0)
                    if machine != LOST and more > 0:
                        end = max(slot.end for slot in then if slot.machine == machine)
                        found[atom].append(ActiveSlot(machine, more, start, end))
                        known[machine] = count
        return found

    def _name_of(self, machine: int) -> str | None:
        if machine == ANYWHERE:
            return None
        return LOST if machine == NOWHERE else self.machines[machine]


def _by_machine(slots: Sequence[ActiveSlot]) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for slot in slots:
        found[slot.machine] = found.get(slot.machine, 0) + slot.bundles
    return found


def slots_of_holding(holding: Holding, machines: Sequence[str]) -> SlotRows:
    """Return the slots of a holding, occurrence by occurrence."""
    slots: list[Slots] = []
    for atom in holding.atoms:
        for (_, rows), held in zip(atom.occurrences(), atom.occurrence_slots(), strict=True):
            if len(rows):
                anywhere = np.full((len(rows), 1), ANYWHERE, dtype=np.int64)
                slots.append(np.hstack([rows, anywhere]) if held is None else held)
    owner = [np.full(len(held), number, dtype=np.int64) for number, held in enumerate(slots)]
    whole = np.concatenate(slots) if slots else np.zeros((0, 4), dtype=np.int64)
    which = np.concatenate(owner) if owner else np.zeros(0, dtype=np.int64)
    return SlotRows(whole, which, machines)


class SlotsAhead:
    """The slots of one version of the Plan seen from one step; read-only.

    Parameters
    ----------
    slots, owner
        int64[k, 4] of (start, end, bundles, machine) and the number of the reservation of each.
    names
        Machines by number.
    step
        The present step.
    number_of
        Number of a reservation, or None.
    """

    def __init__(
        self,
        slots: Slots,
        owner: NDArray[np.int64],
        names: tuple[str, ...],
        step: int,
        number_of: Callable[[str], int | None],
    ) -> None:
        self.names = names
        self.step = step
        self._slots = slots
        self._owner = owner
        self._number_of = number_of
        self._until: NDArray[np.int64] | None = None

    def at(self, step: int) -> SlotsAhead:
        """Return the same slots seen from another step."""
        if step == self.step:
            return self
        return SlotsAhead(self._slots, self._owner, self.names, step, self._number_of)

    @property
    def until(self) -> NDArray[np.int64]:
        """Steps until the next slot begins on each machine, int64[machines]; `NEVER` for none.

        Slots that have begun do not count: the dispatcher knows whether they are used.
        """
        if self._until is None:
            found = np.full(len(self.names), NEVER, dtype=np.int64)
            later = self._slots[(self._slots[:, 0] > self.step) & (self._slots[:, 3] != NOWHERE)]
            np.minimum.at(found, later[:, 3], later[:, 0] - self.step)
            self._until = found
        return self._until

    def own(self, reservation: str) -> list[int]:
        """Return the machines of a reservation's next slots where no other slot begins earlier."""
        number = self._number_of(reservation)
        mine = self._slots[(self._owner == number) & (self._slots[:, 3] != NOWHERE)]
        mine = mine[mine[:, 1] > self.step]
        if number is None or not len(mine):
            return []
        waits = np.maximum(mine[:, 0] - self.step, 0)
        first = mine[waits == waits.min(), 3]
        return sorted({int(one) for one in first[self.until[first] >= waits.min()]})
