"""An atom lease by lease: gangs as blocks one after the other, single bundles in free runs."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    I32,
    I64,
    LANES,
    MACHINE,
    SIZE,
    START,
    STOP,
    WIDTH,
    Int,
    Sought,
    Table,
    Wanted,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find
from planner.machines.kernels.laying import held_so_far, take_picks
from planner.machines.kernels.rectangles import first_below, least_in, next_start, rectangle
from planner.machines.kernels.tree import columns, take_columns, take_slots
from planner.machines.kernels.using import key_of, no_use, note_use

#: Steps of stripes that a search for free runs reads first; it reads twice as many in all.
RUN_STEPS: Final = 8192

#: Stripes among which the steps are shared where a window is long.
FEW_STRIPES: Final = 4


@kernel
def _block_height(sought: Sought, found: Int, left: Int) -> Int:
    """Return the height of a block of one lease, `left` bundles to go; 0 if none is allowed."""
    height = min(found, left, sought.most) // sought.multiple * sought.multiple
    if 0 < left - height < sought.least:
        height = (left - sought.least) // sought.multiple * sought.multiple
    return height if height >= sought.least else 0


@kernel
def blocks(table: Table, wanted: Wanted, sought: Sought, room: I64, beside: I64) -> I64:
    """Take disjoint blocks of one lease, as high as slots are found; return the slots or none."""
    lease, before = sought.lease, beside.shape[0]
    left = sought.work // lease
    starts = room.shape[0] - lease + 1
    if sought.work % lease != 0 or left % sought.multiple != 0 or starts < 1:
        return beside[:0]
    machines = table.lane_of.shape[0]
    most = np.int64(0)
    for _ in range(room.shape[0] // lease):
        most = min(left, most + machines)
    slots = held_so_far(beside, most)
    picks = np.empty((machines, 2), dtype=np.int64)
    use = no_use(table, wanted)
    at, tried, way = before, 0, 1 if sought.early else -1
    i = next_start(room, sought.least, lease, 0 if sought.early else starts - 1, sought.early)
    while left > 0 and i >= 0 and tried < 3 * sought.tries:
        allowed = _block_height(sought, least_in(room, i, i + lease), left)
        tried += 1
        start = sought.lo + i
        a, b = columns(table.ring, start, start + lease)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, start + lease, use)
        rows, found, _ = find(table, wanted, use, a, b, allowed, picks)
        height = _block_height(sought, found, left)
        stride = max(1, lease // 4)
        if height > 0:
            rows = _cut(picks, rows, height)
            at = take_picks(table, wanted, picks, rows, (start, start + lease), slots, at)
            left -= height
            stride = lease
        i = next_start(room, sought.least, lease, i + way * stride, sought.early)
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _cut(picks: I64, rows: Int, height: Int) -> Int:
    """Keep the first `height` bundles of the picks; return the rows left."""
    for i in range(rows):
        if height <= picks[i, 1]:
            picks[i, 1] = height
            return i + 1
        height -= picks[i, 1]
    return rows


@kernel
def _free_lanes(table: Table, wanted: Wanted, stripe: Int, column: Int, free: I32) -> None:
    """Write -1 for each lane that holds a bundle at a column, else 0."""
    rows, size = table.tree[stripe], table.ring[SIZE]
    free[:] = -1
    for k in range(wanted.amounts.shape[0]):
        row = rows[size + column % size, wanted.amounts[k, 0]]
        amount = np.int32(wanted.amounts[k, 1])
        for j in range(LANES):
            free[j] &= -np.int32(row[j] >= amount)


@kernel
def _longest_runs(
    table: Table, wanted: Wanted, lo: Int, room: I64, stripe: Int, longest: I32
) -> None:
    """Write the length in steps of the longest free run of each lane; `room` begins at step `lo`."""
    width, hi = table.ring[WIDTH], lo + room.shape[0]
    run = np.zeros(LANES, dtype=np.int32)
    free = np.empty(LANES, dtype=np.int32)
    longest[:] = 0
    for column in range(lo // width, -(-hi // width)):
        t, end = max(lo, column * width) - lo, min(hi, (column + 1) * width) - lo
        _free_lanes(table, wanted, stripe, column, free)
        while t < end:
            until = first_below(room, 1, t, end)
            steps = np.int32(until - t)
            for j in range(LANES):
                run[j] = (run[j] + steps) & free[j]
                longest[j] = max(longest[j], run[j])
            if until < end:
                run[:] = 0
            t = until + 1


@kernel
def _place_of_run(
    table: Table, wanted: Wanted, sought: Sought, room: I64, machine: Int, length: Int
) -> Int:
    """Return the first step of a free run of a machine, the last of that length unless `early`."""
    size, width, lo = table.ring[SIZE], table.ring[WIDTH], sought.lo
    rows, lane = table.tree[table.lane_of[machine] // LANES], table.lane_of[machine] % LANES
    run, found = 0, np.int64(-1)
    for t in range(room.shape[0]):
        run += 1
        if room[t] < 1:
            run = 0
        for k in range(wanted.amounts.shape[0]):
            row = size + (lo + t) // width % size
            if rows[row, wanted.amounts[k, 0], lane] < wanted.amounts[k, 1]:
                run = 0
        if run >= length and (found < 0 or not sought.early):
            found = lo + t + 1 - length
    return found


@kernel
def _best_lane(
    table: Table, wanted: Wanted, use: I64, stripe: Int, longest: I32, left: Int
) -> tuple[Int, Int]:
    """Return (length, machine) of the longest run; the shortest of those that hold all the rest."""
    best, machine = np.int64(0), np.int64(-1)
    for j in range(LANES):
        length = np.int64(longest[j])
        better = length > best if best < left else left <= length < best
        if better and (
            wanted.spread == 0
            or use[key_of(table, wanted, table.first_machine[stripe] + j)] < wanted.spread
        ):
            best, machine = length, table.first_machine[stripe] + j
    return best, machine


@kernel
def _window(sought: Sought, pool: I64, stripes: Int) -> tuple[Sought, I64]:
    """Return the atom with as much of its window as one stripe may read, and the pool there."""
    most = RUN_STEPS // max(1, min(stripes, FEW_STRIPES))
    if pool.shape[0] <= most:
        return sought, np.minimum(pool, sought.most)
    lo = sought.lo if sought.early else sought.hi - most
    part = Sought(
        lo,
        lo + most,
        sought.least,
        sought.most,
        sought.multiple,
        sought.lease,
        sought.work,
        sought.early,
        sought.tries,
        sought.best_of,
    )
    return part, np.minimum(pool[lo - sought.lo : lo - sought.lo + most], sought.most)


@kernel
def runs(table: Table, wanted: Wanted, whole: Sought, pool: I64, beside: I64) -> I64:
    """Take the longest free runs of single machines, each a lease at least; all work or none."""
    lease, left, before = whole.lease, whole.work, beside.shape[0]
    sought, room = _window(whole, pool, wanted.order.shape[0])
    span = room.shape[0]
    stripes = min(wanted.order.shape[0], RUN_STEPS // max(1, span))
    slots = held_so_far(beside, left // lease)
    use = no_use(table, wanted)
    if wanted.spread > 0:
        note_use(table, wanted, beside, before, sought.lo, sought.hi, use)
    longest = np.zeros(LANES, dtype=np.int32)
    best = np.zeros((stripes, 2), dtype=np.int64)
    seen = np.full(stripes, -1, dtype=np.int64)
    best[:, 0] = span
    at, read = before, 0
    while left > 0 and stripes > 0 and wanted.amounts.shape[0] > 0:
        s = np.argmax(best[:, 0])
        if best[s, 0] < lease or read > 2 * RUN_STEPS:
            break
        if seen[s] < at:
            _longest_runs(table, wanted, sought.lo, room, wanted.order[s], longest)
            best[s] = _best_lane(table, wanted, use, wanted.order[s], longest, left)
            seen[s] = at
            read += span
            continue
        length, machine = min(best[s, 0], left), best[s, 1]
        if 0 < left - length < lease:
            length = left - lease
        if length < lease:
            break
        slots[at, START] = _place_of_run(table, wanted, sought, room, machine, length)
        slots[at, STOP] = slots[at, START] + length
        slots[at, BUNDLES], slots[at, MACHINE] = 1, machine
        _take_run(table, wanted, slots[at], room, sought.lo)
        if wanted.spread > 0:
            use[key_of(table, wanted, machine)] += 1
        at += 1
        left -= length
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _take_run(table: Table, wanted: Wanted, slot: I64, room: I64, lo: Int) -> None:
    a, b = columns(table.ring, slot[START], slot[STOP])
    take_columns(table, wanted.amounts, table.lane_of[slot[MACHINE]], a, b, 1)
    for t in range(slot[START] - lo, slot[STOP] - lo):
        room[t] -= 1


@kernel
def search_atom(
    table: Table, wanted: Wanted, sought: Sought, room: I64, beside: I64, handover: bool
) -> I64:
    """Take slots for an atom: as a rectangle, else lease by lease; none if neither is found."""
    slots = rectangle(table, wanted, sought, room, beside)
    if slots.shape[0] > 0 or not handover:
        return slots
    if sought.least == 1 and sought.multiple == 1:
        return runs(table, wanted, sought, room, beside)
    return blocks(table, wanted, sought, room, beside)
