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
    BundleKind,
    Int,
    MachineTable,
    SearchTask,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find
from planner.machines.kernels.laying import held_so_far, take_picks
from planner.machines.kernels.rectangles import least_in, next_start, rectangle
from planner.machines.kernels.tree import columns, take_columns, take_slots
from planner.machines.kernels.using import key_of, no_use, note_use

#: Steps of stripes that a search for free runs reads, and once its window more.
RUN_STEPS: Final = 5120

#: Stripes among which the steps are shared where a window is long.
FEW_STRIPES: Final = 4

#: To take a run and read its machine again costs that much less than to read a stripe.
LANE_COST: Final = 2


@kernel
def _block_height(sought: SearchTask, found: Int, left: Int) -> Int:
    """Return the height of a block of one lease, `left` bundles to go; 0 if none is allowed."""
    height = min(found, left, sought.most) // sought.multiple * sought.multiple
    if 0 < left - height < sought.least:
        height = (left - sought.least) // sought.multiple * sought.multiple
    return height if height >= sought.least else 0


@kernel
def blocks(
    table: MachineTable, wanted: BundleKind, sought: SearchTask, room: I64, beside: I64, gap: Int
) -> I64:
    """Take disjoint blocks of one lease, as high as slots are found; return the slots or none.

    With a gap of a step between blocks no bundle goes on from one to the next.
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
    """Keep the first `height` bundles of the picks; return the rows left."""
    for i in range(rows):
        if height <= picks[i, 1]:
            picks[i, 1] = height
            return i + 1
        height -= picks[i, 1]
    return rows


@kernel
def _longest_runs(
    table: MachineTable, wanted: BundleKind, lo: Int, room: I64, stripe: Int, longest: I32
) -> None:
    """Write the length in steps of the longest free run of each lane; `room` begins at `lo`."""
    rows, size, width = table.tree[stripe], table.ring[SIZE], table.ring[WIDTH]
    hi, kinds = lo + room.shape[0], wanted.amounts.shape[0]
    free = np.empty(LANES, dtype=np.bool_)
    run = np.zeros(LANES, dtype=np.int32)
    best = np.zeros(LANES, dtype=np.int32)
    place = size + lo // width % size
    for column in range(lo // width, -(-hi // width)):
        free[:] = True
        for k in range(0, kinds, 2):  # two at once, which may be the same one
            other = min(k + 1, kinds - 1)
            one, two = rows[place, wanted.amounts[k, 0]], rows[place, wanted.amounts[other, 0]]
            need, want = np.int32(wanted.amounts[k, 1]), np.int32(wanted.amounts[other, 1])
            for j in range(LANES):
                free[j] &= (one[j] >= need) & (two[j] >= want)
        place = place + 1 if place + 1 < 2 * size else size
        t, end = max(lo, column * width) - lo, min(hi, (column + 1) * width) - lo
        while t < end:
            until = t
            while until < end and room[until] >= 1:
                until += 1
            steps = np.int32(until - t)
            for j in range(LANES):
                run[j] = np.int32(run[j] + steps) if free[j] else np.int32(0)
                best[j] = run[j] if run[j] > best[j] else best[j]
            if until < end:
                run[:] = 0
            t = until + 1
    longest[:] = best


@kernel
def _runs_of_lane(
    table: MachineTable,
    wanted: BundleKind,
    sought: SearchTask,
    room: I64,
    machine: Int,
    length: Int,
) -> tuple[Int, Int]:
    """Return the longest free run of a machine, and where one of `length` begins, or -1.

    It is the last one that is long enough, or the first if `early`.
    """
    size, width, lo = table.ring[SIZE], table.ring[WIDTH], sought.lo
    rows, lane = table.tree[table.lane_of[machine] // LANES], table.lane_of[machine] % LANES
    run, longest, found = np.int64(0), np.int64(0), np.int64(-1)
    for t in range(room.shape[0]):
        run += 1
        if room[t] < 1:
            run = np.int64(0)
        for k in range(wanted.amounts.shape[0]):
            row = size + (lo + t) // width % size
            if rows[row, wanted.amounts[k, 0], lane] < wanted.amounts[k, 1]:
                run = np.int64(0)
        longest = max(longest, run)
        if run >= length and (found < 0 or not sought.early):
            found = lo + t + 1 - length
    return longest, found


@kernel
def _best_lane(
    table: MachineTable, wanted: BundleKind, use: I64, stripe: Int, longest: I32, left: Int
) -> tuple[Int, Int]:
    """Return (length, machine) of the longest run; the shortest of those that hold all the rest."""
    best: Int = np.int64(0)
    machine: Int = np.int64(-1)
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
def _window(sought: SearchTask, pool: I64, stripes: Int) -> tuple[SearchTask, I64]:
    """Return the atom with as much of its window as one stripe may read, and the pool there."""
    most = RUN_STEPS // max(1, min(stripes, FEW_STRIPES))
    if pool.shape[0] <= most:
        return sought, np.minimum(pool, sought.most)
    lo = sought.lo if sought.early else sought.hi - most
    part = SearchTask(
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
def runs(table: MachineTable, wanted: BundleKind, whole: SearchTask, pool: I64, beside: I64) -> I64:
    """Take the longest free runs of single machines, each a lease at least; all work or none."""
    lease, left, before = whole.lease, whole.work, beside.shape[0]
    sought, room = _window(whole, pool, wanted.order.shape[0])
    span = room.shape[0]
    stripes = min(wanted.order.shape[0], RUN_STEPS // max(1, span))
    if wanted.amounts.shape[0] == 0 or stripes == 0:
        return beside[:0]
    slots = held_so_far(beside, min(left // lease, 2 * RUN_STEPS + 2))
    use = no_use(table, wanted)
    if wanted.spread > 0:
        note_use(table, wanted, beside, before, sought.lo, sought.hi, use)
    longest = np.zeros((stripes, LANES), dtype=np.int32)
    best = np.full((stripes, 2), span, dtype=np.int64)
    known = np.zeros(stripes, dtype=np.bool_)
    at, read = before, np.int64(0)
    while left > 0 and read <= RUN_STEPS + span:
        s = np.argmax(best[:, 0])
        if not known[s]:
            _longest_runs(table, wanted, sought.lo, room, wanted.order[s], longest[s])
            best[s] = _best_lane(table, wanted, use, wanted.order[s], longest[s], left)
            known[s] = True
            read += span
            continue
        machine = best[s, 1]
        length = min(best[s, 0], left)
        if 0 < left - length < lease:
            length = left - lease
        if length < lease:
            break
        _, start = _runs_of_lane(table, wanted, sought, room, machine, length)
        slots[at, START], slots[at, STOP] = start, start + length
        slots[at, BUNDLES], slots[at, MACHINE] = 1, machine
        if _take_run(table, wanted, slots[at], room, sought.lo):
            known[:] = False
        if wanted.spread > 0:
            use[key_of(table, wanted, machine)] += 1
        at += 1
        left -= length
        more, _ = _runs_of_lane(table, wanted, sought, room, machine, lease)
        longest[s, table.lane_of[machine] % LANES] = more
        read += span // LANE_COST + 1
        for other in range(stripes):  # what was picked may fill their domain
            if known[other] and (other == s or wanted.spread > 0):
                best[other] = _best_lane(
                    table, wanted, use, wanted.order[other], longest[other], left
                )
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _take_run(table: MachineTable, wanted: BundleKind, slot: I64, room: I64, lo: Int) -> bool:
    """Take a slot of one bundle; return whether the pool has no more room somewhere in it."""
    a, b = columns(table.ring, slot[START], slot[STOP])
    take_columns(table, wanted.amounts, table.lane_of[slot[MACHINE]], a, b, 1)
    closed = False
    for t in range(slot[START] - lo, slot[STOP] - lo):
        room[t] -= 1
        closed = closed or room[t] < 1
    return closed


@kernel
def search_atom(
    table: MachineTable,
    wanted: BundleKind,
    sought: SearchTask,
    room: I64,
    beside: I64,
    handover: bool,
) -> I64:
    """Take slots for an atom: as a rectangle, else lease by lease; none if neither is found."""
    slots = rectangle(table, wanted, sought, room, beside)
    if slots.shape[0] > 0:
        return slots
    if handover and sought.least == 1 and sought.multiple == 1:
        return runs(table, wanted, sought, room, beside)
    return blocks(table, wanted, sought, room, beside, np.int64(0 if handover else 1))
