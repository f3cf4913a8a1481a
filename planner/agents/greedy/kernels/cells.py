"""The best block of a long window, searched by cells between the profile's block boundaries."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints, Profile, as_block
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.free import fill, lower_to_fit, segment_of
from planner.agents.greedy.kernels.rectangle import LOW, best_of
from planner.agents.greedy.kernels.scratch import (
    CELL,
    CELL_FROM,
    END_CELL,
    FAR,
    FIRST_CELL,
    NO_FROM,
    NO_TO,
    NOTES,
    OF_CELLS,
    QUEUE_COLUMN,
    QUEUE_VALUE,
    ROOM,
)
from planner.capacity.block_index import BLOCK
from planner.capacity.block_index_kernels import least_in

_CELLS_FROM: Final = 4 * BLOCK  # minimum number of columns for searching a window by cells


@kernel
def by_cells(p: Profile, shifts: I64, atom: AtomToPlace, lo: int, hi: int) -> bool:
    """Return whether every block in [lo, hi) covers a whole cell, and cells can be skipped."""
    if p.low.shape[1] == 0 or hi - lo < _CELLS_FROM:
        return False
    if atom.shift_end - atom.shift_first > 1 or shifts[atom.shift_first] != 0:
        return False
    most = max(1, min(atom.most, atom.work // atom.lease))
    return bool(max(atom.lease, (atom.work + most - 1) // most) > 2 * (BLOCK - 1))


@kernel
def _cells(p: Profile, atom: AtomToPlace, buf: I64, lo: int, hi: int) -> Int:
    """Cut [lo, hi) at the profile's block boundaries and write each cell's minimum free capacity.

    Returns the number of cells; their first columns are in row `CELL_FROM`, followed by the end.
    """
    cell, begins = buf[CELL], buf[CELL_FROM]
    place, columns = p.span[0], p.span[1]
    a, b = (columns - hi, columns - lo) if atom.early else (lo, hi)
    a, b = a + place, b + place
    first, count = a // BLOCK, (b + BLOCK - 1) // BLOCK - a // BLOCK
    origin, sign = (count - 1 + first, -1) if atom.early else (-first, 1)
    for block in range(first, first + count):
        at = origin + sign * block
        cell[at] = FAR
        if atom.early:
            begins[at] = columns + place - min(b, (block + 1) * BLOCK)
        else:
            begins[at] = max(a, block * BLOCK) - place
    begins[count] = hi
    for seg in range(segment_of(p.segments, a - place), p.segments.shape[0] - 1):
        begin = max(a, p.segments[seg] + place)
        end = b if seg + 2 == p.segments.shape[0] else min(b, p.segments[seg + 1] + place)
        for block in range(begin // BLOCK, (end + BLOCK - 1) // BLOCK if begin < end else 0):
            at = origin + sign * block
            cell[at] = min(cell[at], p.fit[atom.demand, seg])
    for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
        row, amount = p.demand_rows[d], p.demand_amounts[d]
        whole, until = (a + BLOCK - 1) // BLOCK, b // BLOCK
        lower_to_fit(cell, p.low[row], amount, whole, until, origin, sign)
        if a < whole * BLOCK:
            at = origin + sign * first
            least = max(least_in(p.free[row], a, min(b, whole * BLOCK)), np.int64(0))
            cell[at] = min(cell[at], least // amount)
        if until * BLOCK < b and until >= whole:
            at = origin + sign * until
            least = max(least_in(p.free[row], until * BLOCK, b), np.int64(0))
            cell[at] = min(cell[at], least // amount)
    for at in range(count):
        held = cell[at] // atom.multiple if atom.multiple > 1 else cell[at]
        cell[at] = held if held >= atom.least else 0
    return count


@kernel
def _runs_of_cells(atom: AtomToPlace, buf: I64, count: int, aim: int) -> Ints:
    """List the maximal runs of cells; return their number and the best block of whole cells.

    A run is stored with its minimum in row `OF_CELLS`. The optimal block is at least as good as the
    one returned, because the rectangle around the run contains that block.
    """
    cell, begins, note = buf[CELL], buf[CELL_FROM], buf[NOTES]
    si, sv = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    note[NO_FROM], note[NO_TO] = 0, 0
    best = (np.int64(0), np.int64(0), np.int64(-1))
    top, found = 0, 0
    for i in range(count + 1):
        value = cell[i] if i < count else np.int64(0)
        start = i
        while top > 0 and sv[top - 1] > value:
            top -= 1
            start = si[top]
            length = begins[i] - begins[start]
            best = best_of(atom, sv[top], length, begins[i], aim, best, note)
            buf[OF_CELLS, found] = sv[top]
            buf[FIRST_CELL, found], buf[END_CELL, found] = start, i
            found += 1
        if value > 0 and (top == 0 or sv[top - 1] < value):
            si[top] = start
            sv[top] = value
            top += 1
    return found, best


@kernel
def _worth_refining(atom: AtomToPlace, free: int, length: int, aim: int, best: Ints) -> bool:
    """Return whether a rectangle of at most height `free` and `length` may be as good as `best`."""
    height, _end, room = best
    ceiling = min(free, atom.most)
    if length < atom.lease or ceiling * length < atom.work or ceiling < atom.least:
        return False
    if height == 0:
        return True
    least = max(atom.least, (atom.work + length - 1) // length)
    if aim == LOW:
        return bool(least < height or (least == height and free - least >= room))
    return bool(free - least >= room)


@inline
def _refined(
    p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, run: int, count: int, aim: int, best: Ints
) -> Ints:
    """Return the best of `best` and the rectangles that cover exactly the cells of a run.

    The lower a rectangle, the further it extends into the neighbouring cells; if it covers one of
    them, it belongs to another run.
    """
    begins, a, note = buf[CELL_FROM], buf[ROOM], buf[NOTES]
    free, i, j = buf[OF_CELLS, run], buf[FIRST_CELL, run], buf[END_CELL, run]
    left, right = begins[i], begins[j]
    low, high = begins[max(i - 1, 0)], begins[min(j + 1, count)]
    fill(p, shifts, atom, a, low, left, FAR)
    fill(p, shifts, atom, a, right, high, FAR)
    while free > 0:
        while left > low and a[left - 1] >= free:
            left -= 1
        while right < high and a[right] >= free:
            right += 1
        if (i > 0 and left == low) or (j < count and right == high):
            break
        best = best_of(atom, free, right - left, right, aim, best, note)
        free = max(a[left - 1] if i > 0 else np.int64(0), a[right] if j < count else np.int64(0))
    return best


@kernel
def rectangle_by_cells(
    p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, lo: int, hi: int, aim: int
) -> Ints:
    """Return the result of `rectangle` on [lo, hi), reading only the columns that matter.

    Every rectangle that is long enough covers some cells entirely. Its height is at most the
    minimum of those cells, and it ends in the cells next to them: so only the few runs of cells
    that may contain a block as good as the best block of whole cells are searched column by column.
    """
    count = _cells(p, atom, buf, lo, hi)
    begins, sought = buf[CELL_FROM], as_block(atom, atom.work)
    found, bound = _runs_of_cells(sought, buf, count, aim)
    best = (np.int64(0), np.int64(0), np.int64(-1))
    for run in range(found):
        i, j = buf[FIRST_CELL, run], buf[END_CELL, run]
        longest = begins[min(j + 1, count)] - begins[max(i - 1, 0)]
        if _worth_refining(sought, buf[OF_CELLS, run], longest, aim, bound):
            best = _refined(p, shifts, sought, buf, run, count, aim, best)
    return best[0], best[1]
