"""An atom lease by lease: gangs as blocks one after the other, single bundles in free runs."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
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
from planner.machines.kernels.rectangles import rectangle, sliding_minima
from planner.machines.kernels.tree import columns, take_columns, take_slots
from planner.machines.kernels.using import key_of, no_use, note_use

#: Rows of 64 machines that one search for free runs reads at most.
RUN_ROWS = 8192


@kernel
def _block_height(sought: Sought, found: int, left: int) -> Int:
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
    low = np.empty(room.shape[0], dtype=np.int64)
    sliding_minima(room, lease, low, np.empty(room.shape[0], dtype=np.int64))
    use = no_use(table, wanted)
    at, i, tried = before, 0, 0
    stride = max(1, lease // 4)
    while left > 0 and i < starts and tried < 3 * sought.tries:
        place = i if sought.early else starts - 1 - i
        allowed = _block_height(sought, low[place], left)
        if allowed == 0:
            i += 1
            continue
        tried += 1
        start = sought.lo + place
        a, b = columns(table.ring, start, start + lease)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, start + lease, use)
        rows, found, _ = find(table, wanted, use, a, b, allowed, picks)
        height = _block_height(sought, found, left)
        if height == 0:
            i += stride
            continue
        rows = _cut(picks, rows, height)
        at = take_picks(table, wanted, picks, rows, (start, start + lease), slots, at)
        left -= height
        i += lease
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _cut(picks: I64, rows: int, height: int) -> Int:
    """Keep the first `height` bundles of the picks; return the rows left."""
    for i in range(rows):
        if height <= picks[i, 1]:
            picks[i, 1] = height
            return i + 1
        height -= picks[i, 1]
    return rows


@kernel
def _longest_run(
    table: Table, wanted: Wanted, sought: Sought, room: I64, use: I64, stripe: int, best: I64
) -> None:
    """Write (length, machine, first step) of the longest free run in a stripe into `best`."""
    rows, ring, amounts = table.tree[stripe], table.ring, wanted.amounts
    run = np.zeros(LANES, dtype=np.int32)
    longest = np.zeros(LANES, dtype=np.int32)
    end = np.zeros(LANES, dtype=np.int32)
    fit = np.zeros(LANES, dtype=np.int32)
    column = np.int64(-1)
    for t in range(room.shape[0]):
        now = (sought.lo + t) // ring[WIDTH]
        if now != column:
            column = now
            fit[:] = 1
            for k in range(amounts.shape[0]):
                row = rows[ring[SIZE] + column % ring[SIZE], amounts[k, 0]]
                amount = np.int32(amounts[k, 1])
                for j in range(LANES):
                    fit[j] &= np.int32(row[j] >= amount)
        if room[t] < 1:
            run[:] = 0
            continue
        for j in range(LANES):
            run[j] = (run[j] + 1) * fit[j]
            better = run[j] > longest[j]
            longest[j] = run[j] if better else longest[j]
            end[j] = t + 1 if better else end[j]
    best[0] = 0
    for j in range(LANES):
        machine = table.first_machine[stripe] + j
        if longest[j] > best[0] and (
            wanted.spread == 0 or use[key_of(table, wanted, machine)] < wanted.spread
        ):
            best[0], best[1] = longest[j], machine
            best[2] = sought.lo + end[j] - longest[j]


@kernel
def runs(table: Table, wanted: Wanted, sought: Sought, pool: I64, beside: I64) -> I64:
    """Take the longest free runs of single machines, each a lease at least; all work or none."""
    lease, left, before = sought.lease, sought.work, beside.shape[0]
    stripes = min(wanted.order.shape[0], RUN_ROWS // max(1, pool.shape[0]))
    if wanted.amounts.shape[0] == 0 or stripes == 0:
        return beside[:0]
    room = np.minimum(pool, sought.most)
    slots = held_so_far(beside, left // lease)
    use = no_use(table, wanted)
    if wanted.spread > 0:
        note_use(table, wanted, beside, before, sought.lo, sought.hi, use)
    best = np.zeros((stripes, 3), dtype=np.int64)
    seen = np.full(stripes, -1, dtype=np.int64)
    at, rows_read, most_read = before, 0, RUN_ROWS + pool.shape[0]
    for s in range(stripes):
        best[s, 0] = pool.shape[0]
    while left > 0:
        s = np.argmax(best[:, 0])
        if best[s, 0] < lease or rows_read > most_read:
            break
        if seen[s] < at:
            _longest_run(table, wanted, sought, room, use, wanted.order[s], best[s])
            seen[s] = at
            rows_read += pool.shape[0]
            continue
        length = min(best[s, 0], left)
        if 0 < left - length < lease:
            length = left - lease
        if length < lease:
            break
        start = best[s, 2] if sought.early else best[s, 2] + best[s, 0] - length
        slots[at, START], slots[at, STOP] = start, start + length
        slots[at, BUNDLES], slots[at, MACHINE] = 1, best[s, 1]
        _take_run(table, wanted, slots[at], room, sought.lo)
        if wanted.spread > 0:
            use[key_of(table, wanted, best[s, 1])] += 1
        at += 1
        left -= length
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _take_run(table: Table, wanted: Wanted, slot: I64, room: I64, lo: int) -> None:
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
