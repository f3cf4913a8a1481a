"""Place one atom under window averages: whole leases, then lengthening, one pass each.

Columns, heights and limits are those of `planner.agents.greedy.kernels.window_limits`. Let R(u) be
the work allocated from column u on. A window uses R(v) - R(v + W), so a pass from right to left
needs only R for the columns already decided, and a queue of minima for the windows that could bind.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, Int, Ints
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.window_limits import (
    UNBOUND,
    WindowLimits,
    WindowQueues,
    WindowTask,
    push,
    queues_of,
)

#: Up to this many cells leases may end at any column; beyond, only at multiples of a part of a
#: lease.
_CELLS: Final = 1 << 22
_PARTS: Final = 16


# ---- whole leases -------------------------------------------------------------------------------


@kernel
def _decide(
    limits: WindowLimits, queues: WindowQueues, held: I64, x: I64, u: int, lease: int
) -> None:
    """Mark column `u` as decided: further leases end at or before `u`.

    A window that contains such a lease entirely starts in [u - W, u - lease].
    """
    held[u] = held[u + 1] + x[u]
    for j in range(limits.windows.shape[0]):
        window = limits.windows[j]
        if u > 0 and window >= lease:
            place = u - 1  # of the window that ends at u
            push(queues, j, place, limits.room[j, place] + limits.units[j] * held[u])
            last = u - lease + window - 1
            while queues.place[j, queues.head[j]] > last:
                queues.head[j] += 1


@kernel
def _first_windows(limits: WindowLimits, queues: WindowQueues, n: int, lease: int) -> None:
    """Queue the windows that entirely contain a lease at the right end."""
    for j in range(limits.windows.shape[0]):
        window = limits.windows[j]
        for place in range(n - lease + window - 1, n - 2, -1):
            push(queues, j, place, limits.room[j, place])


@kernel
def _around(
    limits: WindowLimits, queues: WindowQueues, task: WindowTask, end: int, left_over: int
) -> Ints:
    """Return (height, leave) allowed by windows that entirely contain the lease before `end`.

    The height is at most what the remaining work fills. If it is below the minimum, no lease ends
    in (leave, end].
    """
    best, leave = np.int64(left_over // task.lease), np.int64(end)
    placed = task.work - left_over
    for j in range(limits.windows.shape[0]):
        if queues.head[j] < queues.tail[j] and limits.windows[j] >= task.lease:
            at, unit = queues.head[j], limits.units[j]
            left = queues.value[j, at] - unit * placed
            if left < best * (unit * task.lease):
                best = left // (unit * task.lease)
                if best < task.least:
                    start = queues.place[j, at] - limits.windows[j] + 1
                    leave = min(leave, start + left // (unit * task.least))
    return best, leave


@kernel
def _across(
    limits: WindowLimits,
    j: int,
    held: I64,
    task: WindowTask,
    end: int,
    best: int,
    span: tuple[int, int],
) -> Ints:
    """Return (height, leave) allowed by windows at places `span` with a part of the lease.

    `held` is the work allocated from each column of the lease on; `best` is the height known so
    far.
    """
    room, window, unit = limits.room[j], limits.windows[j], limits.units[j]
    n = held.shape[0] - 1
    begin = end - task.lease
    leave = np.int64(end)
    for place in range(span[0], span[1]):
        start = place - window + 1
        stop = place + 1
        first, last = max(start, begin), min(stop, end)
        left = room[place] - unit * (held[first] - held[min(stop, n)])
        need = unit * (last - first)
        if left < best * need:
            best = left // need
        if left < task.least * need:
            leave = min(leave, start + left // (unit * task.least))
    return best, leave


@kernel
def _partly(limits: WindowLimits, held: I64, task: WindowTask, end: int, best: int) -> Ints:
    """Return (height, leave) allowed by windows that contain a part of the lease before `end`."""
    begin, leave = end - task.lease, np.int64(end)
    n = held.shape[0] - 1
    for j in range(limits.windows.shape[0]):
        window = limits.windows[j]
        first, last = begin, min(end + window - 1, n + window - 1)
        if window >= task.lease:  # the queue has the windows that contain all of it
            best, far = _across(limits, j, held, task, end, best, (first, end - 1))
            leave = min(leave, far)
            first = begin + window
        best, far = _across(limits, j, held, task, end, best, (first, last))
        leave = min(leave, far)
    return best, leave


@kernel
def _spare(c: I64, x: I64, begin: int, end: int, least: int) -> Ints:
    """Return (free height on all of [begin, end), last column with less than the minimum free)."""
    best = np.int64(UNBOUND)
    for u in range(end - 1, begin - 1, -1):
        room = c[u] - x[u]
        if room < least:
            return 0, u
        best = min(best, room)
    return best, -1


@inline
def _stack(limits: WindowLimits, c: I64, x: I64, held: I64, task: WindowTask) -> Int:
    """Stack whole leases from the right, each as high as allowed; return the remaining work.

    As in GREE, a lease ends at the latest column with capacity for the minimum height, and the next
    lease ends before that. All windows are checked exactly: those that contain the whole lease by
    their queue, those that contain a part of it one by one, over the columns of two leases.
    """
    n, lease = c.shape[0], task.lease
    queues = queues_of(limits)
    _first_windows(limits, queues, n, lease)
    end, left, cells = n, task.work, 0
    while end >= lease and left >= task.least * lease:
        begin, leave = end - lease, end
        step = 1 if cells < _CELLS else max(1, lease // _PARTS)
        most, leave = _around(limits, queues, task, end, left)
        if most >= task.least:
            cells += 4 * lease
            height, short = _spare(c, x, begin, end, task.least)
            if short >= 0:
                leave = short
            else:
                for u in range(end - 1, begin - 1, -1):
                    held[u] = held[u + 1] + x[u]
                most, leave = _partly(limits, held, task, end, most)
                height = min(height, most)
                if height >= task.least:
                    for u in range(begin, end):
                        x[u] += height
                    left -= height * lease
        leave = max(min(leave, end - step), 0)
        while end > leave:
            end -= 1
            _decide(limits, queues, held, x, end, lease)
    return left


# ---- lengthening --------------------------------------------------------------------------------


@kernel
def _used(limits: WindowLimits, x: I64, held: I64) -> WindowLimits:
    """Return the limits minus the use of heights `x`."""
    n = x.shape[0]
    held[n] = 0
    for u in range(n - 1, -1, -1):
        held[u] = held[u + 1] + x[u]
    room = limits.room.copy()
    for j in range(limits.windows.shape[0]):
        window, unit, row = limits.windows[j], limits.units[j], room[j]
        for place in range(n + window - 1):
            first, stop = max(place - window + 1, 0), min(place + 1, n)
            row[place] -= unit * (held[first] - held[stop])
    return WindowLimits(limits.windows, limits.units, room)


@kernel
def _lengthen(limits: WindowLimits, c: I64, x: I64, task: WindowTask, left: int, step: int) -> Int:
    """Raise columns to their left (step 1) or right neighbour (-1); return the remaining work.

    An addition at a column lowers all windows of the queue equally: one number serves all of them.
    """
    n = c.shape[0]
    may, has = c[::step], x[::step]
    queues = queues_of(limits)
    added = np.int64(0)
    for u in range(n):
        if left == 0:
            break
        add: Int = min(min(may[u], has[u - 1]) - has[u], left) if u > 0 else np.int64(0)
        for j in range(limits.windows.shape[0]):
            window, unit = limits.windows[j], limits.units[j]
            for at in range(0 if u == 0 else u + window - 1, u + window):
                place = at if step > 0 else n + window - 2 - at
                push(queues, j, at, limits.room[j, place] + unit * added)
            while queues.place[j, queues.head[j]] < u:
                queues.head[j] += 1
            add = min(add, (queues.value[j, queues.head[j]] - unit * added) // unit)
        if add > 0 and (has[u] > 0 or add >= task.least):
            has[u] += add
            left -= add
            added += add
    return left


@kernel
def fit_within(limits: WindowLimits, c: I64, x: I64, task: WindowTask) -> Int:
    """Fill heights `x` of an atom up to `c` within the limits; return the remaining work.

    Whole leases from the right, then each column as high as its neighbours (greedy.md 1.1, 4).

    Parameters
    ----------
    c
        int64[n]: allowed height at a column: 0, or at least the minimum.
    x
        int64[n]: output.

    Notes
    -----
    Time O(n + W), plus O(lease) for each lease placed; their number is bounded.
    """
    x[:] = 0
    held = np.zeros(c.shape[0] + 1, dtype=np.int64)
    left = _stack(limits, c, x, held, task)
    for step in (1, -1):
        if left > 0:
            left = _lengthen(_used(limits, x, held), c, x, task, left, step)
    return left
