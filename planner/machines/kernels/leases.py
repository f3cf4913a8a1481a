"""Place an atom lease by lease: gangs as consecutive blocks, single bundles in free runs."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    I64,
    BundleKind,
    Int,
    MachineTable,
    SearchTask,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find
from planner.machines.kernels.free_runs import runs
from planner.machines.kernels.laying import held_so_far, take_picks
from planner.machines.kernels.rectangles import least_in, next_start, rectangle
from planner.machines.kernels.standing import in_order
from planner.machines.kernels.tree import columns, take_slots
from planner.machines.kernels.using import no_use, note_use


@kernel
def _block_height(sought: SearchTask, found: Int, left: Int) -> Int:
    """Return the height of a block of one lease, with `left` bundles to place; 0 if not allowed."""
    height = min(found, left, sought.most) // sought.multiple * sought.multiple
    if 0 < left - height < sought.least:
        height = (left - sought.least) // sought.multiple * sought.multiple
    return height if height >= sought.least else 0


@kernel
def blocks(
    table: MachineTable, wanted: BundleKind, sought: SearchTask, room: I64, beside: I64, gap: Int
) -> I64:
    """Take disjoint blocks of one lease, as high as slots allow; return the slots or none.

    With a gap of one step between blocks no bundle continues into the next block.
    """
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
            stride = lease + gap
        i = next_start(room, sought.least, lease, i + way * stride, sought.early)
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _cut(picks: I64, rows: Int, height: Int) -> Int:
    """Keep the first `height` bundles of the picks; return the remaining rows."""
    for i in range(rows):
        if height <= picks[i, 1]:
            picks[i, 1] = height
            return i + 1
        height -= picks[i, 1]
    return rows


@kernel
def search_atom(
    table: MachineTable,
    wanted: BundleKind,
    sought: SearchTask,
    room: I64,
    beside: I64,
    handover: bool,
) -> I64:
    """Take slots for an atom as a rectangle, else lease by lease; return none if both fail."""
    slots = rectangle(table, wanted, sought, room, beside)
    if slots.shape[0] == 0 and handover and sought.least == 1 and sought.multiple == 1:
        slots = runs(table, wanted, sought, room, beside)
    elif slots.shape[0] == 0:
        slots = blocks(table, wanted, sought, room, beside, np.int64(0 if handover else 1))
    return in_order(slots)
