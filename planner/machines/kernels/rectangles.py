"""Place an atom as one rectangle: lowest heights first, starts that the pool allows, best fit."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from planner.machines.kernels.arrays import I64, BundleKind, Int, MachineTable, SearchTask
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find, forget_picks
from planner.machines.kernels.laying import take_picks
from planner.machines.kernels.tree import columns
from planner.machines.kernels.using import no_use, note_use

#: Steps of the pool that are read together.
CHUNK: Final = 32


class Corner(NamedTuple):
    """A rectangle: first step, length, height, and number of bundles that start a step later."""

    start: Int
    length: Int
    height: Int
    late: Int


@kernel
def _up(value: Int, unit: Int) -> Int:
    return (value + unit - 1) // unit * unit


@kernel
def lowest_height(sought: SearchTask, beyond: Int) -> Corner:
    """Return the lowest rectangle higher than `beyond`, without a start; height 0 if none."""
    span = sought.hi - sought.lo
    height = max(sought.least, beyond + 1)
    if span > 0:
        height = max(height, (sought.work + span - 1) // span)
    height = _up(height, sought.multiple)
    while height <= sought.most and span > 0:
        length = (sought.work + height - 1) // height
        late = height * length - sought.work
        if length < sought.lease:
            break
        whole = late == 0 or (
            late % sought.multiple == 0 and length > sought.lease and height - late >= sought.least
        )
        if whole and length <= span:
            return Corner(np.int64(sought.lo), length, height, late)
        height += sought.multiple
    return Corner(np.int64(0), np.int64(0), np.int64(0), np.int64(0))


@kernel
def first_below(room: I64, height: Int, start: Int, end: Int) -> Int:
    """Return the first index of [start, end) with less than `height`, or `end`."""
    while start + CHUNK <= end and least_in(room, start, start + CHUNK) >= height:
        start += CHUNK
    while start < end and room[start] >= height:
        start += 1
    return start


@kernel
def last_below(room: I64, height: Int, start: Int, end: Int) -> Int:
    """Return the last index of [start, end) with less than `height`, or `start - 1`."""
    while start + CHUNK <= end and least_in(room, end - CHUNK, end) >= height:
        end -= CHUNK
    while start < end and room[end - 1] >= height:
        end -= 1
    return end - 1


@kernel
def least_in(room: I64, start: Int, end: Int) -> Int:
    """Return the minimum over [start, end), not empty."""
    part = room[start:end]
    least = part[0]
    for i in range(part.shape[0]):
        least = min(least, part[i])
    return least


@kernel
def next_start(room: I64, height: Int, length: Int, at: Int, early: Int) -> Int:
    """Return the first start from `at` on, later ones if `early`, that the pool allows; or -1."""
    last = room.shape[0] - length
    while 0 <= at <= last:
        if early:
            below = last_below(room, height, at, at + length)
            if below < at:
                return at
            at = below + 1
        else:
            below = first_below(room, height, at, at + length)
            if below == at + length:
                return at
            at = below - length
    return -1


@kernel
def starts_of(sought: SearchTask, length: Int, span: Int) -> tuple[Int, Int]:
    """Return the first start to try, and the stride: tries are spread over all starts."""
    stride = max(1, (span - length) // sought.tries)
    return (0, stride) if sought.early else (span - length, -stride)


@kernel
def rectangle(
    table: MachineTable, wanted: BundleKind, sought: SearchTask, room: I64, beside: I64
) -> I64:
    """Take the best rectangle found within the tries; return its slots, or none."""
    machines = table.lane_of.shape[0]
    picks = np.empty((min(machines, sought.most), 2), dtype=np.int64)
    best = np.empty_like(picks)
    use = no_use(table, wanted)
    best_rows, best_score, tried, fitted = 0, 0.0, 0, 0
    chosen = lowest_height(sought, 0)
    corner = chosen
    while corner.height > 0 and tried < sought.tries and best_rows == 0:
        length = corner.length
        i, way = starts_of(sought, length, room.shape[0])
        i = next_start(room, corner.height, length, i, sought.early)
        while i >= 0 and tried < sought.tries and fitted < sought.best_of:
            tried += 1
            start = sought.lo + i
            a, b = columns(table.ring, start, start + length)
            if wanted.spread > 0:
                note_use(table, wanted, beside, beside.shape[0], start, start + length, use)
            rows, found, score = find(table, wanted, use, a, b, corner.height, picks)
            if wanted.spread > 0:
                forget_picks(table, wanted, use, picks, rows)
            if found >= corner.height:
                fitted += 1
                if best_rows == 0 or score < best_score:
                    best_rows, best_score = rows, score
                    best[:rows] = picks[:rows]
                    chosen = Corner(start, corner.length, corner.height, corner.late)
            i = next_start(room, corner.height, length, i + way, sought.early)
        corner = lowest_height(sought, corner.height + max(0, corner.height // 8 - 1))
    return _take_rectangle(table, wanted, chosen, best, best_rows)


@kernel
def _take_rectangle(
    table: MachineTable, wanted: BundleKind, corner: Corner, picks: I64, rows: Int
) -> I64:
    """Take a rectangle on the picked machines and return its slots."""
    slots = np.empty((2 * rows, 4), dtype=np.int64)
    late = np.empty((rows, 2), dtype=np.int64)
    left, late_rows = corner.late, 0
    for i in range(rows):
        moved = min(left, picks[i, 1])
        if moved > 0:
            late[late_rows, 0], late[late_rows, 1] = picks[i, 0], moved
            late_rows += 1
            picks[i, 1] -= moved
            left -= moved
    kept = 0
    for i in range(rows):
        if picks[i, 1] > 0:
            picks[kept, 0], picks[kept, 1] = picks[i, 0], picks[i, 1]
            kept += 1
    start, end = corner.start, corner.start + corner.length
    at = take_picks(table, wanted, picks, kept, (start, end), slots, 0)
    at = take_picks(table, wanted, late, late_rows, (start + 1, end), slots, at)
    return slots[:at]


@kernel
def most_slots(
    table: MachineTable, wanted: BundleKind, sought: SearchTask, room: I64, beside: I64
) -> tuple[Int, Int]:
    """Return (start, bundles) at which most bundles of the lowest rectangle find a slot."""
    corner = lowest_height(sought, 0)
    if corner.height == 0:
        return np.int64(sought.lo), np.int64(0)
    picks = np.empty((table.lane_of.shape[0], 2), dtype=np.int64)
    use = no_use(table, wanted)
    length = corner.length
    i, way = starts_of(sought, length, room.shape[0])
    at, most = np.int64(sought.lo), np.int64(-1)
    i = next_start(room, corner.height, length, i, sought.early)
    while i >= 0:
        start = sought.lo + i
        a, b = columns(table.ring, start, start + length)
        if wanted.spread > 0:
            note_use(table, wanted, beside, beside.shape[0], start, start + length, use)
        _, found, _ = find(table, wanted, use, a, b, corner.height, picks)
        if found > most:
            at, most = start, found
        i = next_start(room, corner.height, length, i + way, sought.early)
    return at, max(most, np.int64(0))
