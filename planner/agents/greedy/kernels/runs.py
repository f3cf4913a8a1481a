"""Shapes as runs of equal heights, which most atoms are, found without reading columns."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Ints, Profile
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.free import least_free_of, segment_of
from planner.agents.greedy.kernels.rectangle import corners
from planner.agents.greedy.kernels.scratch import FAR, RUN_FROM, RUN_HEIGHT, RUN_TO


@kernel
def _add_run(buf: I64, runs: int, first: int, end: int, height: int) -> Int:
    """Append a run to the left of the others, unless it is empty; return the number of runs."""
    if first >= end:
        return runs
    if runs > 0 and buf[RUN_FROM, runs - 1] == end and buf[RUN_HEIGHT, runs - 1] == height:
        buf[RUN_FROM, runs - 1] = first
        return runs
    buf[RUN_FROM, runs], buf[RUN_TO, runs], buf[RUN_HEIGHT, runs] = first, end, height
    return runs + 1


@kernel
def block_runs(atom: AtomToPlace, buf: I64, height: int, end: int) -> Ints:
    """List `draw`'s block of the whole work as runs: (first column, number of runs)."""
    length, cut_left, cut_right = corners(atom, atom.work, height)
    upper = max(height - atom.least, 1)
    lower = max(min(upper, atom.least), 1)
    first, u = end - length, end
    runs = _add_run(buf, 0, u - cut_right // lower, u, height - lower)
    u -= cut_right // lower
    if cut_right % lower > 0:
        runs = _add_run(buf, runs, u - 1, u, height - cut_right % lower)
        u -= 1
    rest = 1 if cut_left % upper > 0 else 0
    whole = first + cut_left // upper
    runs = _add_run(buf, runs, whole + rest, u, height)
    runs = _add_run(buf, runs, whole, whole + rest, height - cut_left % upper)
    runs = _add_run(buf, runs, first, whole, height - upper)
    return int(first), runs


@kernel
def draw_runs(x: I64, buf: I64, runs: int, first: int, last: int) -> None:
    """Write listed runs into `x` on [first, last)."""
    for u in range(first, last):
        x[u] = 0
    for i in range(runs):
        for u in range(buf[RUN_FROM, i], buf[RUN_TO, i]):
            x[u] = buf[RUN_HEIGHT, i]


@kernel
def _least_held(p: Profile, atom: AtomToPlace, a: int, b: int) -> Int:
    """Return how many multiples of a non-recurring atom fit everywhere in [a, b)."""
    t0, t1 = (p.span[1] - b, p.span[1] - a) if atom.early else (a, b)
    held = np.int64(FAR)
    for seg in range(segment_of(p.segments, t0), p.segments.shape[0] - 1):
        if p.segments[seg] < t1 or seg + 2 == p.segments.shape[0]:
            held = min(held, p.fit[atom.demand, seg])
    for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
        amount = p.demand_amounts[d]
        least = least_free_of(p, p.demand_rows[d], t0, t1)
        if least < held * amount:
            held = max(least, np.int64(0)) // amount
    return held // atom.multiple


@kernel
def plain_stack(p: Profile, atom: AtomToPlace, buf: I64) -> Ints:
    """List the shape of `stack_blocks` and `lengthen` at ample capacity: (first, end, runs).

    Leases at the maximum height, then a lower one, then the remainder of less than a lease: on top
    of the lower one if higher ones follow it, else to the left of all. No runs if that does not
    fit.
    """
    lease, most, runs = atom.lease, atom.most, 0
    left: Int = atom.work
    end: Int = atom.hi
    while left >= most * lease and end - lease >= atom.lo:
        if _least_held(p, atom, end - lease, end) < most:
            return atom.hi, atom.hi, 0
        runs = _add_run(buf, runs, end - lease, end, most)
        left -= most * lease
        end -= lease
    base: Int = np.int64(0)
    top: Int = np.int64(most)
    begin = end
    if left >= atom.least * lease:
        base, begin = left // lease, end - lease
        left -= base * lease
        if begin < atom.lo:
            return atom.hi, atom.hi, 0
        if end == atom.hi:
            if _least_held(p, atom, begin, end) < base:
                return atom.hi, atom.hi, 0
            runs = _add_run(buf, runs, begin, end, base)
            base, top, end = np.int64(0), base, begin
    elif end == atom.hi:
        return atom.hi, atom.hi, 0
    raised, rest = left // (top - base), left % (top - base)
    middle = end - raised - (1 if rest > 0 else 0)
    begin = min(begin, middle)
    if begin < atom.lo or (rest > 0 and base + rest < atom.least):
        return atom.hi, atom.hi, 0
    if begin < end and _least_held(p, atom, begin, end) < (top if left > 0 else base):
        return atom.hi, atom.hi, 0
    runs = _add_run(buf, runs, end - raised, end, top)
    runs = _add_run(buf, runs, middle, end - raised, base + rest)
    runs = _add_run(buf, runs, begin, middle, base)
    return begin, atom.hi, runs
