"""Trees of minima: rows of 64 lanes over time, updated lane by lane, read all lanes at a time."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    END,
    FIRST,
    I32,
    I64,
    LANES,
    MACHINE,
    SIZE,
    START,
    STOP,
    Int,
    MachineTable,
)
from planner.machines.kernels.breaks import lanes_between, least_between, take_between
from planner.machines.kernels.compiled import kernel

#: Maximum number of rows that cover a range: two per level, on either side of the ring's end.
MOST_ROWS = 256


@kernel
def columns(ring: I64, start: Int, end: Int) -> tuple[Int, Int]:
    """Return the columns [a, b) of the steps [start, end) inside the ring."""
    return max(start, ring[FIRST]), min(end, ring[END])


@kernel
def _lift_lane(tree: I32, stripe: Int, resource: Int, lane: Int, lo: Int, hi: Int) -> None:
    """Recompute the ancestors of the rows [lo, hi) of one lane."""
    rows = tree[stripe]
    a, b = lo >> 1, (hi - 1) >> 1
    while b >= 1:
        for i in range(b, max(a, 1) - 1, -1):  # children, which may be among them, first
            rows[i, resource, lane] = min(
                rows[2 * i, resource, lane], rows[2 * i + 1, resource, lane]
            )
        a >>= 1
        b >>= 1


@kernel
def _take_part(tree: I32, place: Int, resource: Int, lo: Int, hi: Int, amount: Int) -> None:
    """Subtract `amount` from the leaf rows [lo, hi) of the lane at `place`."""
    stripe, lane = place // LANES, place % LANES
    rows = tree[stripe]
    for i in range(lo, hi):
        rows[i, resource, lane] = np.int32(rows[i, resource, lane] - amount)
    _lift_lane(tree, stripe, resource, lane, lo, hi)


@kernel
def take_columns(
    table: MachineTable, amounts: I64, place: Int, a: Int, b: Int, bundles: Int
) -> None:
    """Subtract bundles from one lane over the columns [a, b), not empty; negative releases."""
    if table.counts.shape[0] > 0:
        take_between(table, amounts, place, a, b, bundles)
        return
    size = table.ring[SIZE]
    lo = size + a % size
    hi = lo + b - a
    for k in range(amounts.shape[0]):
        resource, amount = amounts[k, 0], amounts[k, 1] * bundles
        if hi <= 2 * size:
            _take_part(table.tree, place, resource, lo, hi, amount)
        else:
            _take_part(table.tree, place, resource, lo, 2 * size, amount)
            _take_part(table.tree, place, resource, size, hi - size, amount)


@kernel
def take_slots(table: MachineTable, amounts: I64, slots: I64, sign: Int) -> None:
    """Take slots (sign 1) or release them (-1); parts outside the ring are cut off."""
    for i in range(slots.shape[0]):
        if slots[i, MACHINE] < 0:
            continue
        a, b = columns(table.ring, slots[i, START], slots[i, STOP])
        if a < b:
            place = table.lane_of[slots[i, MACHINE]]
            take_columns(table, amounts, place, a, b, sign * slots[i, BUNDLES])


@kernel
def cover(ring: I64, a: Int, b: Int, found: I64) -> Int:
    """Write the rows that cover [a, b), not empty, each part's largest last; return the number."""
    size = ring[SIZE]
    lo = size + a % size
    hi = lo + b - a
    count = 0
    if hi <= 2 * size:
        return _cover_part(lo, hi, found, 0)
    count = _cover_part(lo, 2 * size, found, 0)
    return _cover_part(size, hi - size, found, count)


@kernel
def _cover_part(lo: Int, hi: Int, found: I64, count: Int) -> Int:
    while lo < hi:
        if lo & 1:
            found[count] = lo
            count += 1
            lo += 1
        if hi & 1:
            hi -= 1
            found[count] = hi
            count += 1
        lo >>= 1
        hi >>= 1
    return count


@kernel
def lanes_with(
    table: MachineTable,
    stripe: Int,
    amounts: I64,
    part: tuple[Int, Int],
    covering: I64,
    low: I32,
    lanes: I64,
) -> Int:
    """Find the lanes of a stripe that fit a bundle over a part; return their number.

    `part` are the columns [a, b), and `covering` the rows of a tree that cover them. Writes the
    lane numbers into `lanes`, and the minimum of each resource into `low[k, lane]`. Reads the
    largest rows first and stops when no lane is left.
    """
    if table.counts.shape[0] > 0:
        return lanes_between(table, stripe, amounts, part, low, lanes)
    rows = table.tree[stripe]
    fit = np.ones(LANES, dtype=np.bool_)
    last = covering.shape[0] - 1
    for i in range(last, -1, -1):
        for k in range(amounts.shape[0]):
            row, least, amount = rows[covering[i], amounts[k, 0]], low[k], np.int32(amounts[k, 1])
            if i == last:
                for j in range(LANES):
                    least[j] = row[j]
                    fit[j] &= least[j] >= amount
            else:
                for j in range(LANES):
                    least[j] = min(least[j], row[j])
                    fit[j] &= least[j] >= amount
        if not fit.any():
            return 0
    found = 0
    for j in range(LANES):
        if fit[j]:
            lanes[found] = j
            found += 1
    return found


@kernel
def least_of_lane(table: MachineTable, place: Int, resource: Int, a: Int, b: Int) -> Int:
    """Return a lane's minimum of one resource over [a, b), not empty."""
    if table.counts.shape[0] > 0:
        return least_between(table, place, resource, a, b)
    rows, lane = table.tree[place // LANES], place % LANES
    covering = np.empty(MOST_ROWS, dtype=np.int64)
    least = np.int64(2**31 - 1)
    for row in covering[: cover(table.ring, a, b, covering)]:
        least = min(least, np.int64(rows[row, resource, lane]))
    return least


@kernel
def set_columns(table: MachineTable, capacity: I32, outages: I64, a: Int, b: Int) -> None:
    """Set the columns [a, b), at most one ring, to the capacity minus outages."""
    tree, ring = table.tree, table.ring
    size, stripes = ring[SIZE], tree.shape[0]
    for stripe in range(stripes):
        for column in range(a, b):
            tree[stripe, size + column % size] = capacity[stripe]
    for i in range(outages.shape[0]):
        place = table.lane_of[outages[i, 0]]
        for column in range(max(a, outages[i, 1]), min(b, outages[i, 2])):
            tree[place // LANES, size + column % size, :, place % LANES] = 0
    lift_columns(table, a, b)


@kernel
def lift_columns(table: MachineTable, a: Int, b: Int) -> None:
    """Recompute all ancestors of the columns [a, b), not empty."""
    tree, size = table.tree, table.ring[SIZE]
    lo = size + a % size
    hi = lo + b - a
    for stripe in range(tree.shape[0]):
        if hi <= 2 * size:
            lift_rows(tree[stripe], lo, hi)
        else:
            lift_rows(tree[stripe], lo, 2 * size)
            lift_rows(tree[stripe], size, hi - size)


@kernel
def lift_rows(rows: I32, lo: Int, hi: Int) -> None:
    """Recompute the ancestors of the rows [lo, hi) of one stripe."""
    a, b = lo >> 1, (hi - 1) >> 1
    while b >= 1:
        for i in range(b, max(a, 1) - 1, -1):  # children, which may be among them, first
            for resource in range(rows.shape[1]):
                left, right, out = (
                    rows[2 * i, resource],
                    rows[2 * i + 1, resource],
                    rows[i, resource],
                )
                for j in range(LANES):
                    out[j] = min(left[j], right[j])
        a >>= 1
        b >>= 1
