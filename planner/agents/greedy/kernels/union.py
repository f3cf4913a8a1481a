"""Unions of overlapping windows of one lease: the shape with the latest start."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints
from planner.agents.greedy.kernels.blocks import lengthen
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.scratch import (
    HELD,
    MAY_HOLD,
    QUEUE_COLUMN,
    QUEUE_VALUE,
    SECOND,
    THIRD,
)

OVERSHOOTS: Final = 8  # windows tried after the first one whose union holds the work


@kernel
def _area_under(x: I64, a: int, b: int, height: Int) -> Int:
    """Return the area that a window [a, b) of `height` adds to `x`."""
    area = np.int64(0)
    for u in range(a, b):
        if x[u] < height:
            area += height - x[u]
    return area


@kernel
def _cut(atom: AtomToPlace, buf: I64, first: int, last: int, excess: Int) -> Int:
    """Cut `excess` from `HELD` at the left ends of runs longer than a lease; return what remains.

    Layer j is the columns with x >= j; each of its runs is a set of leases, and stays one if it is
    cut to no less than a lease. Equal layers are cut together. `SECOND` has the original shape.
    """
    x, y = buf[HELD], buf[SECOND]
    for u in range(first, last):
        y[u] = x[u]
    level = np.int64(1) << 60
    for _ in range(64):
        high = np.int64(0)  # the maximum height below `level`, and the next one below that
        low = np.int64(0)
        for u in range(first, last):
            if y[u] < level and y[u] > high:
                high = y[u]
        for u in range(first, last):
            if y[u] < high and y[u] > low:
                low = y[u]
        low = max(low, np.int64(atom.least))
        if high <= low or excess == 0:
            break
        layers = high - low
        u = first
        while u < last and excess > 0:
            if y[u] < high:
                u += 1
                continue
            end = u
            while end < last and y[end] >= high:
                end += 1
            take: Int = min(excess, layers * (end - u - atom.lease))
            excess -= take
            q = u
            while take > 0:
                x[q] -= min(take, layers)
                take -= min(take, layers)
                q += 1
            u = end
        level = high
    return excess


@kernel
def _close_union(atom: AtomToPlace, buf: I64, i: int, height: int, left: int, stop: int) -> Ints:
    """Add a last window at [i, i + lease) so that exactly `left` is added; (ok, first, end).

    Tries the maximum height that does not overshoot, lengthening for the rest; then one higher,
    cutting the ends of long runs. `HELD` in [i, stop) is unchanged if neither works.
    """
    x, z = buf[HELD], buf[THIRD]
    end = i + atom.lease
    low, high = np.int64(0), np.int64(height)
    while low < high:
        middle = (low + high + 1) // 2
        if _area_under(x, i, end, middle) <= left:
            low = middle
        else:
            high = middle - 1
    for u in range(i, stop):
        z[u] = x[u]
    for attempt in range(2):
        level = max(low + attempt, np.int64(atom.least))
        if level > height:
            break
        area = np.int64(0)
        for u in range(i, end):
            if x[u] < level:
                area += level - x[u]
                x[u] = level
        if area <= left:
            rest, first, until = lengthen(atom, buf, left - area, i, stop)
            if rest == 0:
                return True, first, until
        elif _cut(atom, buf, i, stop, area - left) == 0:
            return True, i, stop
        for u in range(i, stop):
            x[u] = z[u]
    return False, i, stop


@kernel
def union(atom: AtomToPlace, buf: I64) -> Ints:
    """Overlap windows of one lease from the right until they hold the work: (ok, first, end).

    Row `MAY_HOLD` must be filled. Allocating bundles for longer than a lease makes the latest first
    step possible (greedy.md 1.1, "compact").
    """
    c, x = buf[MAY_HOLD], buf[HELD]
    qi, qv = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    head, tail, limit, last = 0, 0, atom.hi, atom.lo
    left, tries = atom.work, 0
    before = np.int64(0)  # height of the window one column to the right, if it was added
    for i in range(atom.hi - 1, atom.lo - 1, -1):
        value = c[i]
        x[i] = 0
        if value == 0:
            head, tail, limit, before = 0, 0, i, np.int64(0)
            continue
        while tail > head and qv[tail - 1] >= value:
            tail -= 1
        qv[tail] = value
        qi[tail] = i
        tail += 1
        end = i + atom.lease
        if end > limit:
            continue
        if qi[head] >= end:
            head += 1
        height = qv[head]
        # Not higher than the window to the right: only the new column is added.
        area = height if height <= before else _area_under(x, i, end, height)
        if area >= left:
            ok, first, until = _close_union(atom, buf, i, height, left, max(last, end))
            tries += 1
            before = np.int64(0)
            if ok or tries == OVERSHOOTS:
                return ok, first, until
            continue
        for u in range(i, i + 1 if height <= before else end):
            if x[u] < height:
                x[u] = height
        left -= area
        last = max(last, end)
        before = height
    return False, atom.hi, atom.hi
