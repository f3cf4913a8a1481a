"""Stacks of whole leases from the right, and their completion by lengthening."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints, Profile
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.free import fill
from planner.agents.greedy.kernels.scratch import (
    BLOCK_AT,
    HELD,
    MAY_HOLD,
    QUEUE_COLUMN,
    QUEUE_VALUE,
)

_CHUNK: Final = 64  # columns read ahead when scanning from the right


@kernel
def _sum_blocks(buf: I64, lease: int, first: Int, last: Int) -> None:
    """Write the total height of all blocks on [first, last)."""
    x, at = buf[HELD], buf[BLOCK_AT]
    height = np.int64(0)
    for u in range(last - 1, first - 1, -1):
        height += at[u + 1]
        if u + 1 + lease <= last:
            height -= at[u + 1 + lease]
        x[u] = height


@kernel
def stack_blocks(
    p: Profile, shifts: I64, atom: AtomToPlace, buf: I64, ready: int, work: int
) -> Ints:
    """Stack whole leases from the right; return (work left, first column, end column).

    `ready` is the first filled column of row `MAY_HOLD`; columns to its left are filled on demand,
    because most requests never use most of their window. One pass: a queue of minima with one
    subtracted offset, since a block lowers every entry of the queue equally.
    """
    c, at = buf[MAY_HOLD], buf[BLOCK_AT]
    qi, qv = buf[QUEUE_COLUMN], buf[QUEUE_VALUE]
    least, lease, lo, hi = atom.least, atom.lease, atom.lo, atom.hi
    left, offset, head, tail = work, np.int64(0), 0, 0
    limit, first, last = hi, hi, lo
    zeroed = max(lo, ready)
    at[zeroed : hi + 1] = 0
    i = hi - 1
    while i >= lo and left >= least * lease:
        if i < zeroed:
            zeroed = max(lo, zeroed - _CHUNK)
            at[zeroed : i + 1] = 0
            fill(p, shifts, atom, c, zeroed, i + 1, atom.most * atom.multiple)
        value = c[i]
        if value == 0:  # no block covers this column
            head, tail, offset, limit = 0, 0, np.int64(0), i
            i -= 1
            continue
        while tail > head and qv[tail - 1] - offset >= value:
            tail -= 1
        qv[tail] = value + offset
        qi[tail] = i
        tail += 1
        end = i + lease
        if end <= limit:
            if qi[head] >= end:
                head += 1
            free = qv[head] - offset
            if free >= least:
                height = min(free, left // lease)  # at least the minimum: enough work is left
                at[end] = height
                offset += height
                left -= height * lease
                first = i
                last = max(last, end)
        i -= 1
    _sum_blocks(buf, lease, first, last)
    if first >= last:
        first, last = hi, hi
    return left, first, last, zeroed


@kernel
def lengthen(atom: AtomToPlace, buf: I64, left: Int, first: int, last: int) -> Ints:
    """Raise columns of `HELD` to their neighbours until no work is left; leases only get longer.

    Row `MAY_HOLD` must be filled over the whole window. Returns (work left, first, end).
    """
    c, x = buf[MAY_HOLD], buf[HELD]
    least = atom.least
    for u in range(first + 1, atom.hi):
        if u >= last:
            x[u] = 0
        if left == 0:
            break
        add = min(min(c[u], x[u - 1]) - x[u], left)
        if add > 0 and (x[u] > 0 or add >= least):
            x[u] += add
            left -= add
            last = max(last, u + 1)
        if u >= last and x[u] == 0:
            break
    for u in range(last - 2, atom.lo - 1, -1):
        if left == 0:
            break
        if u < first:
            x[u] = 0
        add = min(min(c[u], x[u + 1]) - x[u], left)
        if add > 0 and (x[u] > 0 or add >= least):
            x[u] += add
            left -= add
            first = min(first, u)
        if u < first:
            break
    return left, first, last
