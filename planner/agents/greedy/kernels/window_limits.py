"""Limits of window averages on an atom, and queues of the windows that could bind it.

An atom's window is columns 0 to n, later to the right (mirrored for early agents); heights are in
multiples. A *limit* is one average: the remaining budget of its window of length W that starts at
column v is at place v + W - 1 of its row, for v in (-W, n).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, Int
from planner.agents.greedy.kernels.compiled import kernel

#: Budget of a window that no average limits.
UNBOUND: Final = 1 << 60


class WindowLimits(NamedTuple):
    """Remaining budgets of the averages in windows that overlap an atom's window.

    Attributes
    ----------
    windows
        int64[limit]: window lengths in steps.
    units
        int64[limit]: amount that a multiple of the atom counts per step; positive.
    room
        int64[limit, n + longest window - 1]: remaining budget of each window, never negative.
    """

    windows: I64
    units: I64
    room: I64


class WindowTask(NamedTuple):
    """The work to place: minimum height, lease, work."""

    least: int
    lease: int
    work: int


class WindowQueues(NamedTuple):
    """One queue of minima per limit: places of windows and values, head and tail."""

    place: I64
    value: I64
    head: I64
    tail: I64


@kernel
def queues_of(limits: WindowLimits) -> WindowQueues:
    """Return empty queues for the limits."""
    count = limits.windows.shape[0]
    return WindowQueues(
        np.empty_like(limits.room),
        np.empty_like(limits.room),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
    )


@kernel
def push(queues: WindowQueues, j: int, place: int, value: int) -> None:
    """Append a window; drop earlier windows with no smaller budget, which can never bind again."""
    places, values = queues.place[j], queues.value[j]
    head, tail = queues.head[j], queues.tail[j]
    while tail > head and values[tail - 1] >= value:
        tail -= 1
    places[tail], values[tail] = place, value
    queues.tail[j] = tail + 1


@kernel
def too_much(limits: WindowLimits, n: int, work: int) -> bool:
    """Return whether adjacent windows leave less than the work of an atom of `n` columns.

    Tries windows aligned at the left and at the right end; True proves that there is no place.
    """
    for j in range(limits.windows.shape[0]):
        window, row = limits.windows[j], limits.room[j]
        need = work * limits.units[j]
        from_left: Int = np.int64(0)
        from_right: Int = np.int64(0)
        for place in range(window - 1, n + window - 1, window):
            from_left += min(row[place], need)
        for place in range(n - 1, -1, -window):
            from_right += min(row[place], need)
        if min(from_left, from_right) < need:
            return True
    return False
