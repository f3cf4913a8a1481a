"""Components on machines: identical ones are placed by best or worst fit, compiled."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from planner.kernel_cache import KernelFamily

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

_FAMILY = KernelFamily(error_model="numpy")


class Fit(IntEnum):
    """Which of the machines that have capacity takes a component."""

    BEST = 0
    """That with the least room: what is free of each resource, as parts of a machine, summed."""

    WORST = 1
    """That with the most capacity, as Docker Swarm and Zoe spread theirs (D5.2, 3.1.2)."""


@_FAMILY.like(no_cpython_wrapper=True)
def _holds(free: Longs, machine: int, amounts: Longs) -> bool:
    for kind in range(amounts.size):  # noqa: SIM110  numba compiles no generator
        if free[machine, kind] < amounts[kind]:
            return False
    return True


@_FAMILY.like(no_cpython_wrapper=True)
def _rank(free: Longs, whole: Longs, machine: int, amounts: Longs, worst: int) -> float:
    """Return what the machine that takes the next component has least of; inf without capacity."""
    if not _holds(free, machine, amounts):
        return np.inf
    room = 0.0
    for kind in range(whole.size):
        room += free[machine, kind] / whole[kind]
    return -room if worst else room


@_FAMILY.kernel
def place_some(
    free: Longs, whole: Longs, amounts: Longs, count: int, worst: int, taken: Longs
) -> int:
    """Place identical components one after another; return how many found free capacity.

    Parameters
    ----------
    free
        int64[machine, resource]: what is free; what is placed is taken from it.
    whole
        int64[resource]: one machine.
    amounts
        int64[resource]: what a component takes.
    worst
        A `Fit`.
    taken
        int64[machine, resource]: what is placed is added to it.
    """
    ranks = np.empty(free.shape[0])
    for machine in range(ranks.size):
        ranks[machine] = _rank(free, whole, machine, amounts, worst)
    chosen = 0
    for placed in range(count):
        if worst or ranks[chosen] == np.inf or placed == 0:  # by best fit the same continues
            chosen = int(ranks.argmin())
        if ranks[chosen] == np.inf:
            return placed
        for kind in range(amounts.size):
            free[chosen, kind] -= amounts[kind]
            taken[chosen, kind] += amounts[kind]
        ranks[chosen] = _rank(free, whole, chosen, amounts, worst)
    return count


@_FAMILY.kernel
def place_all(
    free: Longs, whole: Longs, amounts: Longs, counts: Longs, worst: int, placed: Longs
) -> None:
    """Place groups of identical components in turn, each as far as there is capacity.

    Parameters
    ----------
    amounts, counts
        int64[group, resource], int64[group]: what a component of each takes, how many there are.
    placed
        int64[group]: how many found free capacity, to be filled.
    """
    nowhere = np.zeros_like(free)
    for group in range(counts.size):
        placed[group] = place_some(free, whole, amounts[group], counts[group], worst, nowhere)
