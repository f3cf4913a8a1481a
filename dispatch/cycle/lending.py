"""Room that is kept for slots, and machines that are lent: those that slots need last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.machine_pool import MachinePool
from dispatch.machines.placement.strategy import PlacedJob


class KeptRoom:
    """What is kept of each machine for slots whose components do not stand there yet.

    Attributes
    ----------
    amounts
        int64[machines, resources].
    """

    def __init__(self, pool: MachinePool) -> None:
        self.amounts = np.zeros((len(pool.names), len(pool.resources)), dtype=np.int64)
        self._jobs: dict[int, PlacedJob] = {}

    def numbers(self) -> list[int]:
        """Return the machines of which something is kept."""
        return sorted(self._jobs)

    def of(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what is left of all machines beside what is kept."""
        return left - self.amounts if self._jobs else left

    def job(self, number: int) -> PlacedJob | None:
        """Return what stands for the kept room of a machine in the strategy."""
        return self._jobs.get(number)

    def set(
        self,
        number: int,
        amounts: NDArray[np.int64],
        job_of: Callable[[NDArray[np.int64]], PlacedJob],
    ) -> PlacedJob | None:
        """Keep so much of a machine; return what stands for it, or None for nothing."""
        self.amounts[number] = amounts
        self._jobs.pop(number, None)
        if not amounts.any():
            return None
        self._jobs[number] = job_of(amounts)
        return self._jobs[number]


def needed_last(fits: NDArray[np.bool_], until: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the machines that fit are needed last by slots, bool[machines].

    Times of one power of two count as equal, so that the strategy has a choice among them. Machines
    that do not fit are returned as well: they are not in the way, and to shut them would cost.

    Parameters
    ----------
    fits
        Which machines have room.
    until
        Steps until the next slot begins on each.
    """
    numbers = np.flatnonzero(fits)
    if not numbers.size:
        return ~fits
    ranks = np.frexp(until[numbers].astype(np.float64))[1]
    wanted = np.ones(len(fits), dtype=np.bool_)
    wanted[numbers] = ranks == ranks.max()
    return wanted
