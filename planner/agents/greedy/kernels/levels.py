"""Unions under a cap or above a level of headroom: the flattest shapes."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints, Profile
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.free import fill
from planner.agents.greedy.kernels.scratch import (
    FAR,
    HELD,
    MAY_HOLD,
    QUEUE_COLUMN,
    QUEUE_VALUE,
    ROOM,
    SECOND,
)
from planner.agents.greedy.kernels.union import OVERSHOOTS, union


@kernel
def clamp(atom: AtomToPlace, buf: I64, level: Int, cap: Int) -> None:
    """Write into `MAY_HOLD` the free capacity above `level`, at most `cap`."""
    a, c = buf[ROOM, atom.lo : atom.hi], buf[MAY_HOLD, atom.lo : atom.hi]
    for i in range(c.shape[0]):
        value = min(a[i] - level, cap)
        c[i] = value if value >= atom.least else 0


@kernel
def _union_area(atom: AtomToPlace, buf: I64) -> Int:
    """Return the area of the union of all blocks of one lease under `MAY_HOLD` (its opening)."""
    c, y = buf[MAY_HOLD], buf[SECOND]
    qi, qv = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    head, tail, limit = 0, 0, atom.hi
    for i in range(atom.hi - 1, atom.lo - 1, -1):
        y[i] = 0
        if c[i] == 0:
            head, tail, limit = 0, 0, i
            continue
        while tail > head and qv[tail - 1] >= c[i]:
            tail -= 1
        qv[tail], qi[tail] = c[i], i
        tail += 1
        if i + atom.lease <= limit:
            if qi[head] >= i + atom.lease:
                head += 1
            y[i] = qv[head]
    head, tail = 0, 0
    area = np.int64(0)
    for i in range(atom.lo, atom.hi):  # the highest of the blocks that cover a column
        while tail > head and qv[tail - 1] <= y[i]:
            tail -= 1
        qv[tail], qi[tail] = y[i], i
        tail += 1
        if qi[head] <= i - atom.lease:
            head += 1
        area += qv[head]
    return area


@kernel
def _runs(atom: AtomToPlace, buf: I64) -> Int:
    """Write the runs of equal values in `ROOM` into the queue's rows; return their number.

    Lengths are in `QUEUE_COLUMN`, values in `QUEUE_VALUE`.
    """
    a, length, value = buf[ROOM], buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    count = 0
    u = atom.lo
    while u < atom.hi:
        begin = u
        while u < atom.hi and a[u] == a[begin]:
            u += 1
        length[count], value[count] = u - begin, a[begin]
        count += 1
    return count


@kernel
def _runs_hold(atom: AtomToPlace, buf: I64, count: int, level: Int, cap: Int) -> bool:
    """Return `holds_work` for the free capacity above `level`, up to `cap`, from runs."""
    length, value = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    area, run, steps = np.int64(0), np.int64(0), np.int64(0)
    for i in range(count):
        height = min(value[i] - level, cap)
        if height >= atom.least:
            run += height * length[i]
            steps += length[i]
        else:
            area += run if steps >= atom.lease else 0
            run, steps = np.int64(0), np.int64(0)
    area += run if steps >= atom.lease else 0
    return bool(area >= atom.work)


@kernel
def highest_level(atom: AtomToPlace, buf: I64) -> Ints:
    """Place at the highest level of headroom at which the work fits: (ok, first, end).

    Row `ROOM` is filled. The highest level that the sound bound admits is tried first: bisecting it
    is cheap, and the union usually fits the work there.
    """
    count = _runs(atom, buf)
    low, high = np.int64(-1), np.int64(0)
    for i in range(count):
        high = max(high, buf[QUEUE_VALUE, i] - atom.least)
    while low < high:
        middle = (low + high + 1) // 2
        if _runs_hold(atom, buf, count, middle, atom.most):
            low = middle
        else:
            high = middle - 1
    if low < 0:
        return False, atom.hi, atom.hi
    clamp(atom, buf, low, atom.most)
    ok, first, last = union(atom, buf)
    if ok:
        return True, first, last
    low, high = np.int64(-1), low
    while low < high:
        middle = (low + high + 1) // 2
        clamp(atom, buf, middle, atom.most)
        if _union_area(atom, buf) >= atom.work:
            low = middle
        else:
            high = middle - 1
    for _ in range(OVERSHOOTS):
        if low < 0:
            break
        clamp(atom, buf, low, atom.most)
        ok, first, last = union(atom, buf)
        if ok:
            return True, first, last
        low = low - 1 if low < OVERSHOOTS else low * 7 // 8
    return False, atom.hi, atom.hi


@kernel
def lowest_cap(atom: AtomToPlace, buf: I64) -> Ints:
    """Place under the lowest cap whose union fits the work: (ok, first, end).

    Row `ROOM` is filled. If no rectangle fits the work this is the flattest shape: GREE's own shape
    is as tall as allowed, and each of its bundles falls.
    """
    count = _runs(atom, buf)
    low, high = np.int64(atom.least), np.int64(atom.most)
    if not _runs_hold(atom, buf, count, 0, high):
        return False, atom.hi, atom.hi
    while low < high:
        middle = (low + high) // 2
        if _runs_hold(atom, buf, count, 0, middle):
            high = middle
        else:
            low = middle + 1
    clamp(atom, buf, 0, low)
    ok, first, last = union(atom, buf)
    if ok:
        return True, first, last
    high = np.int64(atom.most) + 1
    while low < high:
        middle = (low + high) // 2
        clamp(atom, buf, 0, middle)
        if _union_area(atom, buf) >= atom.work:
            high = middle
        else:
            low = middle + 1
    for _ in range(OVERSHOOTS):
        if low > atom.most:
            break
        clamp(atom, buf, 0, low)
        ok, first, last = union(atom, buf)
        if ok:
            return True, first, last
        low = low + 1 if low < OVERSHOOTS else low * 9 // 8
    return False, atom.hi, atom.hi


@kernel
def _falls(x: I64, first: int, last: int) -> Int:
    """Return the falls of heights `x` on [first, last), including the final fall."""
    total = x[last - 1]
    for u in range(first, last - 1):
        total += max(np.int64(0), x[u] - x[u + 1])
    return total


@kernel
def lower_than(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, height: int) -> Ints:
    """Return a union lower than a block far above the minimum height: (ok, first, end).

    The minimum height is that of the work spread over the whole window.
    """
    least: Int = max(
        np.int64(atom.least), (atom.work + atom.hi - atom.lo - 1) // (atom.hi - atom.lo)
    )
    if height * 8 <= least * 15:
        return False, atom.hi, atom.hi
    fill(p, shifts, atom, buf[ROOM], atom.lo, atom.hi, FAR)
    ok, first, last = lowest_cap(atom, buf)
    return ok and _falls(buf[HELD], first, last) < height, first, last
