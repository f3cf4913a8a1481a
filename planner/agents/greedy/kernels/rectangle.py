"""The best block within the free capacity: the latest, the lowest or that with most headroom."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints, as_block
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.scratch import NO_FROM, NO_TO, NOTES, QUEUE_COLUMN, QUEUE_VALUE

_CORNER_TRIES: Final = 8


@kernel
def corners(atom: AtomToPlace, work: int, height: int) -> Ints:
    """Return (length, cut left, cut right) of `work` as one block, or length 0 if there is none.

    The left corner is cut by late starts of the last leases, the right one by early ends of the
    first leases (greedy.md 1.1).
    """
    least, lease = atom.least, atom.lease
    length = (work + height - 1) // height
    if length < lease:
        return 0, 0, 0
    excess = height * length - work
    if excess == 0:
        return length, 0, 0
    upper = height - least
    if upper <= 0:
        return 0, 0, 0
    cut_left = min(excess, upper * (length - lease))
    cut_right = excess - cut_left
    lower = min(upper, least)
    if cut_right > lower * (length - lease):
        return 0, 0, 0
    columns = (cut_left + upper - 1) // upper + (cut_right + lower - 1) // lower
    if columns > length:
        return 0, 0, 0
    return length, cut_left, cut_right


@kernel
def draw(atom: AtomToPlace, x: I64, work: int, height: int, end: int) -> Int:
    """Write the block of `height` that ends at `end` into `x`; return its first column."""
    length, cut_left, cut_right = corners(atom, work, height)
    upper = height - atom.least
    lower = min(upper, atom.least)
    first = end - length
    for u in range(first, end):
        x[u] = height
    u = first
    while cut_left > 0:
        cut = min(cut_left, upper)
        x[u] -= cut
        cut_left -= cut
        u += 1
    u = end - 1
    while cut_right > 0:
        cut = min(cut_right, lower)
        x[u] -= cut
        cut_right -= cut
        u -= 1
    return int(first)


@kernel
def _low_height(atom: AtomToPlace, work: int, length: int, top: int, note: I64) -> Int:
    """Return the minimum height at which `work` is one block within `length`, or 0.

    `note` caches infeasible heights, so that a search tries each of them once.
    """
    height = max(atom.least, (work + length - 1) // length)
    if note[NO_FROM] <= height < note[NO_TO]:
        height = note[NO_TO]
    begin = height
    while height <= top:
        size, _a, _b = corners(atom, work, height)
        if size > 0:
            break
        height += 1
    if height > begin:
        if note[NO_TO] != begin:
            note[NO_FROM] = begin
        note[NO_TO] = height
    return height if height <= top else 0


@kernel
def _tall_height(atom: AtomToPlace, work: int, length: int, top: int) -> Int:
    """Return the maximum height at which `work` is one block within `length`, or 0."""
    height = top
    for _ in range(_CORNER_TRIES):
        if height < atom.least or height * length < work:
            return 0
        size, _a, _b = corners(atom, work, height)
        if size > 0:
            return height
        height -= 1
    return 0


LATEST = 0
LOW = 1
ROOMY = 2


@kernel
def best_of(
    atom: AtomToPlace, free: int, length: int, end: int, aim: int, best: Ints, note: I64
) -> Ints:
    """Return the better of `best` and the block at the end of a maximal free rectangle.

    A block is (height, end, score): the score is its first column if the aim is the latest start,
    else the headroom that it leaves. Height 0 means no block. The atom is as `as_block` returns it.
    """
    height, until, score = best
    work, ceiling = atom.work, min(free, atom.most)
    if length < atom.lease or ceiling * length < work or ceiling < atom.least:
        return best
    if aim == LATEST:
        m = _tall_height(atom, work, length, ceiling)
        if m == 0:
            return best
        begin = end - (work + m - 1) // m
        if begin > score or (begin == score and (end > until or (end == until and m <= height))):
            return m, np.int64(end), np.int64(begin)
        return best
    if aim == LOW and height > 0 and height * length < work:
        return best
    if aim == ROOMY and free - atom.least < score:
        return best
    m = _low_height(atom, work, length, ceiling, note)
    room = free - m
    if m == 0:
        return best
    if height > 0 and (m != height or room != score):
        if aim == LOW:
            worse = m > height or (m == height and room < score)
        else:
            worse = room < score or (room == score and m > height)
        return best if worse else (m, np.int64(end), room)
    return (m, np.int64(end), room) if end >= until else best


@kernel
def rectangle(
    atom: AtomToPlace, free: I64, buf: I64, lo: int, hi: int, work: int, aim: int
) -> Ints:
    """Return (height, end) of the best block in [lo, hi) under `free`, height 0 if there is none.

    One pass with a stack over the maximal free rectangles: every feasible block lies in one of
    them (greedy.md 2.2). `aim`: latest start; lowest, then most headroom; most headroom, then
    lowest. Ties go to the later rectangle.
    """
    si, sv, note, sought = buf[QUEUE_COLUMN], buf[QUEUE_VALUE], buf[NOTES], as_block(atom, work)
    note[NO_FROM], note[NO_TO] = 0, 0
    best = (np.int64(0), np.int64(0), np.int64(-1))
    top = 0
    u = lo
    while u <= hi:
        value = free[u] if u < hi else np.int64(0)
        start = u
        while top > 0 and sv[top - 1] > value:
            top -= 1
            start = si[top]
            if min(sv[top], sought.most) * (u - start) >= work:
                best = best_of(sought, sv[top], u - start, u, aim, best, note)
        if value > 0 and (top == 0 or sv[top - 1] < value):
            si[top] = start
            sv[top] = value
            top += 1
        u += 1
        while u < hi and free[u] == value:
            u += 1
    return best[0], best[1]
