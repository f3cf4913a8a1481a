"""Machines stored as breaks: free capacity is constant from one break to the next.

If trees over all steps would need too much memory, a machine has a list of the steps at which its
free capacity changes. A full list accepts no more slots until it is made longer: searches skip
machines whose list has no space for a start and an end.
"""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import FIRST, I32, I64, LANES, BundleKind, Int, MachineTable
from planner.machines.kernels.compiled import kernel


@kernel
def has_space(table: MachineTable, place: Int) -> bool:
    """Return whether a machine's list has space for one more slot, or two with the same end."""
    return bool(table.counts[place] + 3 <= table.breaks.shape[1])


@kernel
def break_before(table: MachineTable, place: Int, step: Int) -> Int:
    """Return a machine's last break at or before a step."""
    steps = table.breaks[place]
    low: Int = 0
    high: Int = table.counts[place] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if steps[middle] <= step:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _copy_break(table: MachineTable, place: Int, at: Int, to: Int) -> None:
    """Copy a break of a machine over another one."""
    table.breaks[place, to] = table.breaks[place, at]
    for resource in range(table.left.shape[2]):
        table.left[place, to, resource] = table.left[place, at, resource]


@kernel
def _break_at(table: MachineTable, place: Int, step: Int) -> Int:
    """Return the break of a machine at a step, adding it if there is none."""
    at = break_before(table, place, step)
    if table.breaks[place, at] == step:
        return at
    for i in range(table.counts[place], at, -1):
        _copy_break(table, place, i - 1, i)
    table.breaks[place, at + 1] = np.int32(step)
    table.counts[place] += 1
    return at + 1


@kernel
def take_between(
    table: MachineTable, amounts: I64, place: Int, a: Int, b: Int, bundles: Int
) -> None:
    """Subtract bundles from a machine over the steps [a, b), not empty; negative releases."""
    low = _break_at(table, place, a)
    high = _break_at(table, place, b)
    for i in range(low, high):
        for k in range(amounts.shape[0]):
            row = table.left[place, i]
            row[amounts[k, 0]] = np.int32(row[amounts[k, 0]] - amounts[k, 1] * bundles)


@kernel
def least_between(table: MachineTable, place: Int, resource: Int, a: Int, b: Int) -> Int:
    """Return a machine's minimum of one resource over the steps [a, b), not empty."""
    at = break_before(table, place, a)
    least = np.int64(table.left[place, at, resource])
    at += 1
    while at < table.counts[place] and table.breaks[place, at] < b:
        least = min(least, np.int64(table.left[place, at, resource]))
        at += 1
    return least


@kernel
def lanes_between(
    table: MachineTable, stripe: Int, amounts: I64, part: tuple[Int, Int], low: I32, lanes: I64
) -> Int:
    """Find the lanes of a stripe that fit a bundle over a part, like `lanes_with`."""
    a, b = part
    found = 0
    for lane in range(LANES):
        place = stripe * LANES + lane
        at, count = break_before(table, place, a), table.counts[place]
        fits = has_space(table, place)
        for k in range(amounts.shape[0]):
            low[k, lane] = table.left[place, at, amounts[k, 0]]
            fits = fits and low[k, lane] >= amounts[k, 1]
        at += 1
        while fits and at < count and table.breaks[place, at] < b:
            for k in range(amounts.shape[0]):
                low[k, lane] = min(low[k, lane], table.left[place, at, amounts[k, 0]])
                fits = fits and low[k, lane] >= amounts[k, 1]
            at += 1
        if fits:
            lanes[found] = lane
            found += 1
    return found


@kernel
def read_free(
    table: MachineTable, wanted: BundleKind, stripe: Int, part: tuple[Int, Int], free: I64
) -> None:
    """Write as bits the lanes of a stripe that fit a bundle at each step of a part."""
    a, b = part
    free[: b - a] = 0
    for lane in range(LANES):
        place = stripe * LANES + lane
        if has_space(table, place):
            mark_free(table, wanted.amounts, place, part, free, True)


@kernel
def mark_free(
    table: MachineTable,
    amounts: I64,
    place: Int,
    part: tuple[Int, Int],
    free: I64,
    whether: bool,
) -> None:
    """Set the bit of a machine at the steps of a part at which it fits a bundle.

    If `whether` is False, clear it at the steps at which it fits none. `free` starts with the part.
    """
    a, b = part
    bit = np.int64(1) << (place % LANES)
    at, count = break_before(table, place, a), table.counts[place]
    while at < count and table.breaks[place, at] < b:
        holds = True
        for k in range(amounts.shape[0]):
            holds = holds and table.left[place, at, amounts[k, 0]] >= amounts[k, 1]
        last = min(b, np.int64(table.breaks[place, at + 1])) if at + 1 < count else b
        if holds == whether:
            for step in range(max(a, np.int64(table.breaks[place, at])), last):
                free[step - a] = free[step - a] | bit if whether else free[step - a] & ~bit
        at += 1


#: The last possible step of a break, beyond every horizon.
_LAST_STEP = 2**31 - 1


@kernel
def close_between(table: MachineTable, outages: I64) -> None:
    """Set free capacity to 0 in outages: int64[k, 3] of (machine, first step, end step)."""
    for i in range(outages.shape[0]):
        place, a, b = table.lane_of[outages[i, 0]], outages[i, 1], outages[i, 2]
        a, b = max(a, np.int64(table.breaks[place, 0])), min(b, _LAST_STEP)
        if a < b:
            low = _break_at(table, place, a)
            high = _break_at(table, place, b)
            for at in range(low, high):
                for resource in range(table.left.shape[2]):
                    table.left[place, at, resource] = 0


@kernel
def join_breaks(table: MachineTable) -> None:
    """Drop past breaks, and breaks at which nothing changes."""
    first = table.ring[FIRST]
    for place in range(table.counts.shape[0]):
        begin = break_before(table, place, first)
        _copy_break(table, place, begin, 0)
        table.breaks[place, 0] = np.int32(max(first, np.int64(table.breaks[place, 0])))
        kept = np.int64(1)
        for i in range(begin + 1, table.counts[place]):
            changes = False
            for r in range(table.left.shape[2]):
                changes = changes or table.left[place, i, r] != table.left[place, kept - 1, r]
            if changes:
                _copy_break(table, place, i, kept)
                kept += 1
        table.counts[place] = kept
