"""An atom as one rectangle: heights from the lowest, starts that the pool allows, the best fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.machines.kernels.arrays import I64, Int, Sought, Table, Wanted
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find, forget_picks
from planner.machines.kernels.laying import take_picks
from planner.machines.kernels.tree import columns
from planner.machines.kernels.using import no_use, note_use


class Corner(NamedTuple):
    """A rectangle: its first step, length and height, and bundles that begin one step later."""

    start: int
    length: int
    height: int
    late: int


@kernel
def _up(value: int, unit: int) -> Int:
    return (value + unit - 1) // unit * unit


@kernel
def lowest_height(sought: Sought, beyond: int) -> Corner:
    """Return the lowest rectangle higher than `beyond`, at no start yet; height 0 if none."""
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
def sliding_minima(room: I64, length: int, out: I64, queue: I64) -> None:
    """Write into `out[i]` the least of ``room[i : i + length]``."""
    head, tail = 0, 0
    for i in range(room.shape[0]):
        while tail > head and room[queue[tail - 1]] >= room[i]:
            tail -= 1
        queue[tail] = i
        tail += 1
        if queue[head] <= i - length:
            head += 1
        if i >= length - 1:
            out[i - length + 1] = room[queue[head]]


@kernel
def next_start(low: I64, height: int, starts: int, tried: int, early: int) -> Int:
    """Return the first of the starts not yet looked at that the pool allows, or -1."""
    i = tried
    while i < starts:
        at = i if early else starts - 1 - i
        if low[at] >= height:
            return i
        i += 1
    return -1


@kernel
def rectangle(table: Table, wanted: Wanted, sought: Sought, room: I64, beside: I64) -> I64:
    """Take the best rectangle found within the tries; return its slots, or none."""
    machines = table.lane_of.shape[0]
    picks = np.empty((min(machines, sought.most), 2), dtype=np.int64)
    best = np.empty_like(picks)
    low = np.empty(room.shape[0], dtype=np.int64)
    queue = np.empty(room.shape[0], dtype=np.int64)
    use = no_use(table, wanted)
    best_rows, best_score, tried, fitted = 0, 0.0, 0, 0
    chosen = lowest_height(sought, 0)
    corner = chosen
    length = np.int64(-1)
    while corner.height > 0 and tried < sought.tries and best_rows == 0:
        if corner.length != length:
            length = corner.length
            sliding_minima(room, length, low, queue)
        starts = room.shape[0] - length + 1
        stride = max(1, (starts - 1) // sought.tries)
        i = next_start(low, corner.height, starts, 0, sought.early)
        while i >= 0 and tried < sought.tries and fitted < sought.best_of:
            tried += 1
            start = sought.lo + (i if sought.early else starts - 1 - i)
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
            i = next_start(low, corner.height, starts, i + stride, sought.early)
        corner = lowest_height(sought, corner.height + max(0, corner.height // 8 - 1))
    return _taken(table, wanted, chosen, best, best_rows)


@kernel
def _taken(table: Table, wanted: Wanted, corner: Corner, picks: I64, rows: int) -> I64:
    """Take a rectangle from the machines picked, and return its slots."""
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
    table: Table, wanted: Wanted, sought: Sought, room: I64, beside: I64
) -> tuple[Int, Int]:
    """Return (start, bundles) where most bundles of the lowest rectangle find a slot."""
    corner = lowest_height(sought, 0)
    if corner.height == 0:
        return np.int64(sought.lo), np.int64(0)
    low = np.empty(room.shape[0], dtype=np.int64)
    queue = np.empty(room.shape[0], dtype=np.int64)
    picks = np.empty((table.lane_of.shape[0], 2), dtype=np.int64)
    use = no_use(table, wanted)
    length = corner.length
    sliding_minima(room, length, low, queue)
    starts = room.shape[0] - length + 1
    stride = max(1, (starts - 1) // sought.tries)
    at, most = np.int64(sought.lo), np.int64(-1)
    i = next_start(low, corner.height, starts, 0, sought.early)
    while i >= 0:
        start = sought.lo + (i if sought.early else starts - 1 - i)
        a, b = columns(table.ring, start, start + length)
        if wanted.spread > 0:
            note_use(table, wanted, beside, beside.shape[0], start, start + length, use)
        _, found, _ = find(table, wanted, use, a, b, corner.height, picks)
        if found > most:
            at, most = start, found
        i = next_start(low, corner.height, starts, i + stride, sought.early)
    return at, max(most, np.int64(0))
