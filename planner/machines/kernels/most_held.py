"""The maximum number of bundles that fit at each step, each on one machine for a lease."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    I32,
    I64,
    LANES,
    SIZE,
    BundleKind,
    Int,
    MachineTable,
)
from planner.machines.kernels.breaks import break_before
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.tree import columns


@kernel
def _counts(table: MachineTable, wanted: BundleKind, stripe: Int, a: Int, counts: I32) -> bool:
    """Write how many bundles each lane fits from column `a` on; return whether any lane does."""
    if table.counts.shape[0] > 0:
        return _counts_between(table, wanted, stripe, a, counts)
    size, tree = table.ring[SIZE], table.tree[stripe]
    most = wanted.spread if wanted.spread > 0 else 2**30
    some = False
    for i in range(counts.shape[0]):
        row, out = tree[size + (a + i) % size], counts[i]
        out[:] = most
        for k in range(wanted.amounts.shape[0]):
            left, amount = row[wanted.amounts[k, 0]], np.int32(wanted.amounts[k, 1])
            for j in range(LANES):
                held = left[j] // amount if left[j] >= amount else np.int32(0)
                out[j] = min(out[j], held)
        some = some or out.any()
    return some


@kernel
def _counts_between(
    table: MachineTable, wanted: BundleKind, stripe: Int, a: Int, counts: I32
) -> bool:
    """Like `_counts`, for machines with breaks."""
    most = wanted.spread if wanted.spread > 0 else 2**30
    for lane in range(LANES):
        place = stripe * LANES + lane
        at, count = break_before(table, place, a), table.counts[place]
        for i in range(counts.shape[0]):
            while at + 1 < count and table.breaks[place, at + 1] <= a + i:
                at += 1
            held = np.int64(most)
            for k in range(wanted.amounts.shape[0]):
                left = max(0, np.int64(table.left[place, at, wanted.amounts[k, 0]]))
                held = min(held, left // wanted.amounts[k, 1])
            counts[i, lane] = np.int32(held)
    return bool(counts.any())


@kernel
def _opened(counts: I32, length: Int) -> None:
    """Lower counts to the values that last for `length` consecutive columns."""
    span = counts.shape[0]
    covered = 1
    while covered < length:
        move = min(covered, length - covered)
        for i in range(span):
            for j in range(LANES):
                after = counts[i + move, j] if i + move < span else np.int32(0)
                counts[i, j] = min(counts[i, j], after)
        covered += move
    covered = 1
    while covered < length:
        move = min(covered, length - covered)
        for i in range(span - 1, move - 1, -1):
            for j in range(LANES):
                counts[i, j] = max(counts[i, j], counts[i - move, j])
        covered += move


@kernel
def most_held(
    table: MachineTable, wanted: BundleKind, start: Int, end: Int, lease: Int, held: I64
) -> None:
    """Write the maximum bundles at each step of [start, end), each on a machine for a lease.

    This is an upper limit: a bundle is on one machine for at least a lease within [start, end).
    """
    held[:] = 0
    a, b = columns(table.ring, start, end)
    if a >= b or wanted.amounts.shape[0] == 0:
        return
    counts = np.empty((b - a, LANES), dtype=np.int32)
    sums = np.zeros(b - a, dtype=np.int64)
    for stripe in wanted.order:
        if _counts(table, wanted, stripe, a, counts):
            if lease > 1:
                _opened(counts, lease)
            for i in range(b - a):
                sums[i] += counts[i].sum()
    held[a - start : b - start] = sums
