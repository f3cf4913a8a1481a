"""Memory for the jobs in the system: built, and enlarged when none of it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.state import aligned_rows

if TYPE_CHECKING:
    from bench.papers.machines.kernels.queues import Slots
    from bench.papers.machines.kernels.state import Counters

_FIRST_SIZE = 1024
_LINE = 8


def build_slots(resources: int, counters: Counters) -> Slots:
    """Return a thousand free slots, counted as free."""
    from bench.papers.machines.kernels.queues import REQUEST
    from bench.papers.machines.kernels.state import AHEAD, FREE, TURN_SIZE
    from dispatch.machines.placement.kernels.arrays import NONE

    width = -(-(REQUEST + resources) // _LINE) * _LINE
    free = np.arange(_FIRST_SIZE - 1, -1, -1, dtype=np.int32)
    counters.whole[FREE] = _FIRST_SIZE
    turn = np.zeros(TURN_SIZE, dtype=np.int64)
    turn[AHEAD] = NONE
    heap = np.zeros(_FIRST_SIZE), np.zeros(_FIRST_SIZE, dtype=np.int32)
    return _slots(aligned_rows(_FIRST_SIZE, width), free, heap, turn)


def enlarged_slots(old: Slots, counters: Counters) -> Slots:
    """Twice the slots; called when none is free."""
    from bench.papers.machines.kernels.ends import heap_all
    from bench.papers.machines.kernels.state import FREE

    heap_all(old, counters.whole)
    size, width = old.long.shape
    rows = aligned_rows(2 * size, width)
    rows[:size] = old.long
    free = np.zeros(2 * size, dtype=np.int32)
    free[:size] = np.arange(2 * size - 1, size - 1, -1)
    counters.whole[FREE] = size
    heap = grown(old.heap_time, 2 * size), grown(old.heap_slot, 2 * size)
    return _slots(rows, free, heap, old.turn)


def ends_of(slots: Slots, counters: Counters) -> NDArray[np.int32]:
    """Slots of the running jobs."""
    from bench.papers.machines.kernels.ends import heap_all
    from bench.papers.machines.kernels.state import HEAP

    heap_all(slots, counters.whole)
    return slots.heap_slot[: counters.whole[HEAP]].copy()


def requests_of(slots: Slots, which: NDArray[np.int32], resources: int) -> NDArray[np.float64]:
    """Requests of some slots, shape (n, L)."""
    from bench.papers.machines.kernels.queues import REQUEST

    return slots.real[which, REQUEST : REQUEST + resources]


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy with `size` rows; the new ones are zero."""
    new = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    new[: len(array)] = array
    return new


def _slots(
    rows: NDArray[np.int64],
    free: NDArray[np.int32],
    heap: tuple[NDArray[np.float64], NDArray[np.int32]],
    turn: NDArray[np.int64],
) -> Slots:
    from bench.papers.machines.kernels.queues import Slots
    from dispatch.machines.placement.kernels.arrays import NONE

    return Slots(
        long=rows,
        real=rows.view(np.float64),
        whole=rows.view(np.int32),
        free=free,
        heap_time=heap[0],
        heap_slot=heap[1],
        # A power of two, so that the place of a bucket is a mask away.
        later=np.full(rows.shape[0] // 4, NONE, dtype=np.int32),
        pace=np.zeros(1),
        turn=turn,
    )
