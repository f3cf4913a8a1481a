"""Place single bundles in the longest free runs of machines; free lanes are stored as bits."""

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
    BundleKind,
    Int,
    MachineTable,
    SearchTask,
)
from planner.machines.kernels.breaks import has_space, mark_free, read_free
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.laying import held_so_far
from planner.machines.kernels.tree import columns, take_columns, take_slots
from planner.machines.kernels.using import key_of, no_use, note_use

#: Steps of stripes that a search for free runs reads, plus its window once.
RUN_STEPS: Final = 5120

#: Number of stripes that share the steps if the window is long.
FEW_STRIPES: Final = 4

#: Taking a run and rereading its machine is cheaper than reading a stripe by this factor.
LANE_COST: Final = 2


@kernel
def _free_lanes(rows: I32, amounts: I64, place: Int) -> Int:
    """Return as bits the lanes that fit a bundle in one row of a stripe's tree."""
    free = np.int64(-1)
    last = amounts.shape[0] - 1
    for k in range(0, last + 1, 2):  # two at a time, possibly the same one twice
        other = min(k + 1, last)
        one, two = rows[place, amounts[k, 0]], rows[place, amounts[other, 0]]
        need, want = np.int32(amounts[k, 1]), np.int32(amounts[other, 1])
        bits = np.int64(0)
        for j in range(LANES):
            bits |= np.int64((one[j] >= need) & (two[j] >= want)) << j
        free &= bits
    return free


@kernel
def _block_level(lease: Int) -> Int:
    """Return a tree level at which every run of a lease covers a whole row."""
    level = 0
    while (4 << level) - 1 <= lease:
        level += 1
    return level


@kernel
def _near_blocks(
    table: MachineTable, amounts: I64, stripe: Int, part: tuple[Int, Int], level: Int
) -> I64:
    """Return which columns of a part a run of a lease may touch: 0 means none on any lane.

    Such a run covers a whole block of the tree and ends within the next block on either side;
    blocks are cut where the ring wraps around, so all columns near that point are included.
    """
    (a, b), size, block = part, table.ring[SIZE], 1 << level
    near = np.zeros(b - a, dtype=np.int64)
    if level == 0:
        near[:] = 1
        return near
    column = a
    while column < b:
        leaf = size + column % size
        left = 2 * size - leaf
        if left <= 2 * block or leaf < size + 2 * block:
            near[max(0, column - 2 * block - a) : column + 2 * block + 1 - a] = 1
            column += 1
        elif leaf % block == 0 and column + block <= b:
            if _free_lanes(table.tree[stripe], amounts, leaf >> level) != 0:
                near[max(0, column - block - a) : column + 2 * block - a] = 1
            column += block
        else:
            column += 1
    return near


@kernel
def _read_free(
    table: MachineTable, wanted: BundleKind, sought: SearchTask, stripe: Int, free: I64
) -> None:
    """Write as bits the free lanes of a stripe at each step of the window.

    Lanes without a run of a lease may be left out.
    """
    a, b, size = sought.lo, sought.lo + free.shape[0], table.ring[SIZE]
    if table.counts.shape[0] > 0:
        read_free(table, wanted, stripe, (a, b), free)
        return
    near = _near_blocks(table, wanted.amounts, stripe, (a, b), _block_level(sought.lease))
    for column in range(a, b):
        free[column - a] = 0
        if near[column - a] != 0:
            rows = table.tree[stripe]
            free[column - a] = _free_lanes(rows, wanted.amounts, size + column % size)


@kernel
def _longest_runs(free: I64, room: I64, longest: I32) -> None:
    """Write the length in steps of the longest free run of each lane."""
    run = np.zeros(LANES, dtype=np.int32)
    longest[:] = 0
    idle = True
    for t in range(room.shape[0]):
        bits = free[t]
        if bits == 0 or room[t] < 1:
            if not idle:
                run[:] = 0
                idle = True
            continue
        idle = False
        for j in range(LANES):
            run[j] = np.int32((run[j] + 1) * ((bits >> j) & 1))
            longest[j] = run[j] if run[j] > longest[j] else longest[j]


@kernel
def _runs_of_lane(free: I64, room: I64, lane: Int, length: Int, early: Int) -> tuple[Int, Int]:
    """Return the longest free run of a lane, and the start of a run of `length`, or -1.

    That run is the last one that is long enough, or the first if `early`.
    """
    run, longest, found = np.int64(0), np.int64(0), np.int64(-1)
    for t in range(room.shape[0]):
        run = run + 1 if room[t] >= 1 and (free[t] >> lane) & 1 != 0 else np.int64(0)
        longest = max(longest, run)
        if run >= length and (found < 0 or not early):
            found = t + 1 - length
    return longest, found


@kernel
def _best_lane(
    table: MachineTable, wanted: BundleKind, use: I64, stripe: Int, longest: I32, left: Int
) -> tuple[Int, Int]:
    """Return (length, machine) of the longest run; the shortest one that fits all the rest."""
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
    """Return the atom with the part of its window that one stripe may read, and the pool there."""
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
    """Take the longest free runs of single machines, each at least a lease; all work or none."""
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
    free = np.empty((stripes, span), dtype=np.int64)
    longest = np.zeros((stripes, LANES), dtype=np.int32)
    best = np.full((stripes, 2), span, dtype=np.int64)
    met = np.zeros(stripes, dtype=np.bool_)
    known = np.zeros(stripes, dtype=np.bool_)
    at, read = before, np.int64(0)
    while left > 0 and read <= RUN_STEPS + span:
        s = np.argmax(best[:, 0])
        if not known[s]:
            if not met[s]:
                _read_free(table, wanted, sought, wanted.order[s], free[s])
                met[s] = True
            _longest_runs(free[s], room, longest[s])
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
        lane = table.lane_of[machine] % LANES
        _, start = _runs_of_lane(free[s], room, lane, length, sought.early)
        slots[at, START], slots[at, STOP] = sought.lo + start, sought.lo + start + length
        slots[at, BUNDLES], slots[at, MACHINE] = 1, machine
        if _take_run(table, wanted, slots[at], room, sought.lo, free[s]):
            known[:] = False
        if wanted.spread > 0:
            use[key_of(table, wanted, machine)] += 1
        at += 1
        left -= length
        more, _ = _runs_of_lane(free[s], room, lane, lease, sought.early)
        longest[s, lane] = more
        read += span // LANE_COST + 1
        for other in range(stripes):  # the pick may fill their domain
            if known[other] and (other == s or wanted.spread > 0):
                best[other] = _best_lane(
                    table, wanted, use, wanted.order[other], longest[other], left
                )
    if left > 0:
        take_slots(table, wanted.amounts, slots[before:at], -1)
        return slots[:0]
    return slots[before:at]


@kernel
def _take_run(
    table: MachineTable, wanted: BundleKind, slot: I64, room: I64, lo: Int, free: I64
) -> bool:
    """Take a slot of one bundle, and mark the steps at which its lane fits no other bundle.

    Returns whether the pool is exhausted at any step of the slot.
    """
    place = table.lane_of[slot[MACHINE]]
    a, b = columns(table.ring, slot[START], slot[STOP])
    take_columns(table, wanted.amounts, place, a, b, 1)
    if table.counts.shape[0] > 0:
        mark_free(table, wanted.amounts, place, (a, b), free[a - lo :], False)
        if not has_space(table, place):
            free[:] &= ~(np.int64(1) << (place % LANES))
    else:
        _mark_full(table, wanted.amounts, place, (a, b), free[a - lo :])
    closed = False
    for t in range(slot[START] - lo, slot[STOP] - lo):
        room[t] -= 1
        closed = closed or room[t] < 1
    return closed


@kernel
def _mark_full(
    table: MachineTable, amounts: I64, place: Int, part: tuple[Int, Int], free: I64
) -> None:
    """Clear the bit of a lane where its tree does not fit a bundle; `free` starts at a."""
    (a, b), size = part, table.ring[SIZE]
    rows, lane = table.tree[place // LANES], place % LANES
    for column in range(a, b):
        row, full = size + column % size, False
        for k in range(amounts.shape[0]):
            full = full or rows[row, amounts[k, 0], lane] < amounts[k, 1]
        if full:
            free[column - a] &= ~(np.int64(1) << lane)
