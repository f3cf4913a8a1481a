"""SlotsAhead: when machines are needed next; what is lent goes where it may stay longest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.reservations.slots import NOWHERE, Slots

#: Steps until a slot begins on a machine where none will.
NEVER: Final = 2**40


class SlotsAhead:
    """The slots of one version of the Plan, as they stand before one step; read only.

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
        """Return the same slots before another step."""
        if step == self.step:
            return self
        return SlotsAhead(self._slots, self._owner, self.names, step, self._number_of)

    @property
    def until(self) -> NDArray[np.int64]:
        """Steps until the next slot begins on each machine, int64[machines]; `NEVER` for none.

        Slots that have begun do not count: whether they are used is for the dispatcher to say.
        """
        if self._until is None:
            found = np.full(len(self.names), NEVER, dtype=np.int64)
            later = self._slots[(self._slots[:, 0] > self.step) & (self._slots[:, 3] != NOWHERE)]
            np.minimum.at(found, later[:, 3], later[:, 0] - self.step)
            self._until = found
        return self._until

    def own(self, reservation: str) -> list[int]:
        """Return the machines of a reservation's next slots on which no other's begin before."""
        number = self._number_of(reservation)
        mine = self._slots[(self._owner == number) & (self._slots[:, 3] != NOWHERE)]
        mine = mine[mine[:, 1] > self.step]
        if number is None or not len(mine):
            return []
        waits = np.maximum(mine[:, 0] - self.step, 0)
        first = mine[waits == waits.min(), 3]
        return sorted({int(one) for one in first[self.until[first] >= waits.min()]})
