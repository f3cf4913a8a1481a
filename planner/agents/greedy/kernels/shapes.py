"""The heights of one atom by each strategy."""

from __future__ import annotations

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Ints, Profile
from planner.agents.greedy.kernels.blocks import lengthen, stack_blocks
from planner.agents.greedy.kernels.cells import by_cells, rectangle_by_cells
from planner.agents.greedy.kernels.codes import (
    BLOCKS,
    HEADROOM,
    HEADROOM_ONLY,
    LEVEL,
    LOWEST,
    PAPER,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.free import fill, holds_work
from planner.agents.greedy.kernels.levels import clamp, highest_level, lower_than, lowest_cap
from planner.agents.greedy.kernels.rectangle import LATEST, LOW, ROOMY, draw, rectangle
from planner.agents.greedy.kernels.runs import block_runs, plain_stack
from planner.agents.greedy.kernels.scratch import FAR, HELD, MAY_HOLD, ROOM, SECOND
from planner.agents.greedy.kernels.union import union


@kernel
def _remainder_first(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64) -> Ints:
    """Place the remainder of less than a lease as a rectangle, then blocks: (ok, first, end).

    It handles a narrow right end in which leases cannot grow. On failure row `MAY_HOLD` is
    overwritten.
    """
    c, x, y = buf[MAY_HOLD], buf[HELD], buf[SECOND]
    for leases in range(1, 3):
        part = atom.work % atom.lease + leases * atom.lease
        if part > atom.work:
            break
        height, end = rectangle(atom, c, buf, atom.lo, atom.hi, part, LATEST)
        if height == 0:
            continue
        begin = draw(atom, y, part, height, end)
        for u in range(begin, end):
            c[u] -= y[u]
        left, first, last, _ready = stack_blocks(p, shifts, atom, buf, atom.lo, atom.work - part)
        if left == 0:
            first, last = _add(x, first, last, y, begin, end)
            return True, first, last
        for u in range(begin, end):
            c[u] += y[u]
    return False, atom.hi, atom.hi


@kernel
def _add(x: I64, first: int, last: int, y: I64, begin: int, end: int) -> Ints:
    """Add `y` on [begin, end) to `x` on [first, last); return the columns of the sum."""
    if first >= last:
        first, last = begin, begin
    low, high = min(first, begin), max(last, end)
    for u in range(low, first):
        x[u] = 0
    for u in range(last, high):
        x[u] = 0
    for u in range(begin, end):
        x[u] += y[u]
    return low, high


@inline
def _gree(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64) -> Ints:
    """Whole leases, then lengthen, rectangle, union, remainder first: (ok, first, end, runs)."""
    if atom.shift_end - atom.shift_first == 1 and shifts[atom.shift_first] == 0:
        first, last, runs = plain_stack(p, atom, buf)
        if runs > 0:
            return True, first, last, runs
    ok, first, last = _gree_by_columns(p, shifts, atom, buf)
    return ok, first, last, 0


@inline
def _gree_by_columns(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64) -> Ints:
    """`_gree` column by column: (ok, first, end)."""
    left, first, last, ready = stack_blocks(p, shifts, atom, buf, atom.hi, atom.work)
    if left == 0:
        return True, first, last
    if ready > atom.lo:
        fill(p, shifts, atom, buf[MAY_HOLD], atom.lo, ready, atom.most * atom.multiple)
    if first < last:
        left, first, last = lengthen(atom, buf, left, first, last)
        if left == 0:
            return True, first, last
    if not holds_work(atom, buf):
        return False, first, last
    height, end = rectangle(atom, buf[MAY_HOLD], buf, atom.lo, atom.hi, atom.work, LATEST)
    if height > 0:
        return True, draw(atom, buf[HELD], atom.work, height, end), end
    ok, first, last = union(atom, buf)
    if ok:
        return True, first, last
    return _remainder_first(p, shifts, atom, buf)


@inline
def _compact(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64) -> Ints:
    """Union or rectangle, whichever starts later, then the rest of GREE; `MAY_HOLD` is filled."""
    if not holds_work(atom, buf):
        return False, atom.hi, atom.hi
    height, end = rectangle(atom, buf[MAY_HOLD], buf, atom.lo, atom.hi, atom.work, LATEST)
    begin = end - (atom.work + height - 1) // height if height > 0 else -1
    ok, first, last = union(atom, buf)
    if ok and first >= begin:
        return True, first, last
    if height > 0:
        return True, draw(atom, buf[HELD], atom.work, height, end), end
    left, first, last, _ready = stack_blocks(p, shifts, atom, buf, atom.lo, atom.work)
    if left > 0 and first < last:
        left, first, last = lengthen(atom, buf, left, first, last)
    if left == 0:
        return True, first, last
    return _remainder_first(p, shifts, atom, buf)


@inline
def _flat(p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, aim: int, start: int) -> Ints:
    """Return (height, end) of a block in [start, hi), in twice that or in the whole window, or 0.

    On failure row `ROOM` is filled over the whole window.
    """
    a = buf[ROOM]
    ready, lo = atom.hi, start
    for attempt in range(3):
        if by_cells(p, shifts, atom, lo, atom.hi):
            height, end = rectangle_by_cells(p, shifts, atom, buf, lo, atom.hi, aim)
        else:
            fill(p, shifts, atom, a, lo, max(lo, ready), FAR)
            ready = min(lo, ready)
            height, end = rectangle(atom, a, buf, lo, atom.hi, atom.work, aim)
        if height > 0:
            return height, end
        if lo == atom.lo:
            break
        lo = max(atom.lo, atom.hi - 2 * (atom.hi - start)) if attempt == 0 else atom.lo
    fill(p, shifts, atom, a, atom.lo, max(atom.lo, ready), FAR)
    return height, end


@kernel
def find_shape(
    p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, strategy: int, start: int
) -> Ints:
    """Find the atom's heights: (ok, first column, end column, runs).

    The heights are listed as this many runs; if `runs` is 0, they are in row `HELD`.
    """
    if strategy == PAPER:
        left, first, last, _ready = stack_blocks(p, shifts, atom, buf, atom.hi, atom.work)
        return left == 0, first, last, 0
    if strategy == BLOCKS:
        return _gree(p, shifts, atom, buf)
    if strategy == LOWEST or strategy == HEADROOM or strategy == HEADROOM_ONLY:
        aim = LOW if strategy == LOWEST else ROOMY
        height, end = _flat(p, shifts, atom, buf, aim, start)
        if height > 0:
            if strategy == LOWEST and start == atom.lo:
                ok, first, last = lower_than(p, shifts, atom, buf, height)
                if ok:
                    return True, first, last, 0
            first, runs = block_runs(atom, buf, height, end)
            return True, first, end, runs
        if strategy == HEADROOM_ONLY:
            return False, atom.hi, atom.hi, 0
        if strategy == LOWEST and atom.least < atom.most:  # a gang has only the cap of GREE
            ok, first, last = lowest_cap(atom, buf)
            if ok:
                return True, first, last, 0
        clamp(atom, buf, 0, atom.most)
    elif strategy == LEVEL:
        fill(p, shifts, atom, buf[ROOM], atom.lo, atom.hi, FAR)
        ok, first, last = highest_level(atom, buf)
        if ok:
            return True, first, last, 0
        clamp(atom, buf, 0, atom.most)
    else:
        fill(p, shifts, atom, buf[MAY_HOLD], atom.lo, atom.hi, atom.most * atom.multiple)
    ok, first, last = _compact(p, shifts, atom, buf)
    return ok, first, last, 0
