"""The trees of minima: rows of 64 lanes over time, taken from lane by lane, read all at once."""

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
    WIDTH,
    Int,
    Table,
)
from planner.machines.kernels.compiled import kernel


@kernel
def columns(ring: I64, start: int, end: int) -> tuple[Int, Int]:
    """Return the columns [a, b) that the steps [start, end) touch, inside the ring."""
    a = max(start // ring[WIDTH], ring[FIRST])
    b = min(-(-end // ring[WIDTH]), ring[END])
    return a, b


@kernel
def _lift_lane(tree: I32, stripe: int, resource: int, lane: int, lo: int, hi: int) -> None:
    """Make the rows above [lo, hi) of one lane true again."""
    rows = tree[stripe]
    a, b = lo >> 1, (hi - 1) >> 1
    while a >= 1:
        for i in range(a, b + 1):
            rows[i, resource, lane] = min(
                rows[2 * i, resource, lane], rows[2 * i + 1, resource, lane]
            )
        a >>= 1
        b >>= 1


@kernel
def _take_part(tree: I32, place: int, resource: int, lo: int, hi: int, amount: int) -> None:
    """Take `amount` from the rows [lo, hi), which are leaves, of the lane at `place`."""
    stripe, lane = place // LANES, place % LANES
    rows = tree[stripe]
    for i in range(lo, hi):
        rows[i, resource, lane] = np.int32(rows[i, resource, lane] - amount)
    _lift_lane(tree, stripe, resource, lane, lo, hi)


@kernel
def take_columns(table: Table, amounts: I64, place: int, a: int, b: int, bundles: int) -> None:
    """Take bundles from one lane over the columns [a, b), not empty; fewer than 0 gives back."""
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
def take_slots(table: Table, amounts: I64, slots: I64, sign: int) -> None:
    """Take slots (sign 1) or give them back (-1); what is outside the ring is cut."""
    for i in range(slots.shape[0]):
        if slots[i, MACHINE] < 0:
            continue
        a, b = columns(table.ring, slots[i, START], slots[i, STOP])
        if a < b:
            place = table.lane_of[slots[i, MACHINE]]
            take_columns(table, amounts, place, a, b, sign * slots[i, BUNDLES])


@kernel
def _lower(rows: I32, i: int, resource: int, out: I32) -> None:
    row = rows[i, resource]
    for j in range(LANES):
        out[j] = min(out[j], row[j])


@kernel
def _minima_part(rows: I32, amounts: I64, lo: int, hi: int, out: I32) -> None:
    while lo < hi:
        if lo & 1:
            for k in range(amounts.shape[0]):
                _lower(rows, lo, amounts[k, 0], out[k])
            lo += 1
        if hi & 1:
            hi -= 1
            for k in range(amounts.shape[0]):
                _lower(rows, hi, amounts[k, 0], out[k])
        lo >>= 1
        hi >>= 1


@kernel
def minima(table: Table, amounts: I64, stripe: int, a: int, b: int, out: I32) -> None:
    """Write into `out[k, lane]` the least of each resource of a bundle over [a, b), not empty."""
    size = table.ring[SIZE]
    rows = table.tree[stripe]
    lo = size + a % size
    hi = lo + b - a
    out[: amounts.shape[0]] = np.int32(2**31 - 1)
    if hi <= 2 * size:
        _minima_part(rows, amounts, lo, hi, out)
    else:
        _minima_part(rows, amounts, lo, 2 * size, out)
        _minima_part(rows, amounts, size, hi - size, out)


@kernel
def least_of_lane(table: Table, place: int, resource: int, a: int, b: int) -> Int:
    """Return the least of one resource of one lane over [a, b), not empty."""
    size = table.ring[SIZE]
    rows = table.tree[place // LANES]
    lane = place % LANES
    least = np.int64(2**31 - 1)
    lo = size + a % size
    hi = lo + b - a
    parts = 1 if hi <= 2 * size else 2
    for part in range(parts):
        i, j = lo, hi
        if parts == 2:
            i, j = (lo, 2 * size) if part == 0 else (size, hi - size)
        while i < j:
            if i & 1:
                least = min(least, np.int64(rows[i, resource, lane]))
                i += 1
            if j & 1:
                j -= 1
                least = min(least, np.int64(rows[j, resource, lane]))
            i >>= 1
            j >>= 1
    return least


@kernel
def set_columns(table: Table, capacity: I32, outages: I64, a: int, b: int) -> None:
    """Set the columns [a, b), at most a ring, to the capacity less outages."""
    tree, ring = table.tree, table.ring
    size, stripes = ring[SIZE], tree.shape[0]
    for stripe in range(stripes):
        for column in range(a, b):
            tree[stripe, size + column % size] = capacity[stripe]
    for i in range(outages.shape[0]):
        place = table.lane_of[outages[i, 0]]
        low = max(a, outages[i, 1] // ring[WIDTH])
        for column in range(low, min(b, -(-outages[i, 2] // ring[WIDTH]))):
            tree[place // LANES, size + column % size, :, place % LANES] = 0
    lift_columns(table, a, b)


@kernel
def lift_columns(table: Table, a: int, b: int) -> None:
    """Make all rows above the columns [a, b), not empty, true again."""
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
def lift_rows(rows: I32, lo: int, hi: int) -> None:
    """Make the rows above [lo, hi) of one stripe true again."""
    a, b = lo >> 1, (hi - 1) >> 1
    while a >= 1:
        for i in range(a, b + 1):
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
