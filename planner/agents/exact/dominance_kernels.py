"""Compiled loop of the time sweep over single blocks (docs/exact.md, The sweep).

A label is what a partial plan leaves for the future: who has started, who still runs and until
when, what it is worth. Labels move from one release to the next; in between they stop where one of
their own blocks ends or capacity rises, because a block of a plan in which nothing can move to an
earlier start begins at its release, at such an end or at such a rise.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.agents.exact.kernels.arrays import F64, I64, U64, Int
from planner.agents.exact.kernels.compiled import compiled

I32: TypeAlias = NDArray[np.int32]

#: Blocks that may run at once; a label that would need more ends the sweep without a proof.
RUNNING: Final = 12

#: Labels in the air between two releases of one label: starts and waits not yet followed.
DEPTH: Final = 4096


class Blocks(NamedTuple):
    """Requests by their release, what is free, and what prices say.

    Attributes
    ----------
    release, length
        int64[request], release not falling.
    fits
        int64[request, column - release]: 1 where it may start on the idle cluster.
    need
        int64[row, request].
    worth
        float64[request].
    free
        int64[row, column].
    edges
        int64: columns at which what is free changes, rising.
    cost
        float64[request, column + 1]: price of holding it from column 0 to a column.
    gain
        float64[request, column - release]: most it can be worth more than it costs from there on.
    rest
        float64[request + 1]: gains of all requests from this one on, at their releases.
    room
        float64[column + 1]: worth of all that is free from a column on.
    """

    release: I64
    length: I64
    fits: I64
    need: I64
    worth: F64
    free: I64
    edges: I64
    cost: F64
    gain: F64
    rest: F64
    room: F64


class Labels(NamedTuple):
    """Partial plans at one column.

    Attributes
    ----------
    open
        uint64[label]: requests that may still start, one bit each.
    value, bound
        float64[label]: worth of what has started; most that it can come to.
    running
        int64[label]: how many run.
    end, who
        int64[label, RUNNING]: until when, and which.
    begun
        int32[label, request]: start and 1, or 0.
    """

    open: U64
    value: F64
    bound: F64
    running: I64
    end: I64
    who: I64
    begun: I32


@compiled
def _bit(j: int) -> Any:
    return np.uint64(1) << np.uint64(j)


@compiled
def _fits(b: Blocks, s: Labels, a: int, t: int, j: int) -> bool:
    """Return whether `j` fits from column `t` beside what runs in label `a`.

    What runs only gets less, so a look at the start and wherever capacity changes is enough.
    """
    if b.fits[j, t - b.release[j]] == 0:
        return False
    k = np.searchsorted(b.edges, t + 1)
    u = t
    while u < t + b.length[j]:
        for row in range(b.need.shape[0]):
            held = b.need[row, j]
            for i in range(s.running[a]):
                if s.end[a, i] > u:
                    held += b.need[row, s.who[a, i]]
            if held > b.free[row, u]:
                return False
        if k >= b.edges.shape[0]:
            break
        u = b.edges[k]
        k += 1
    return True


@compiled
def _put(s: Labels, a: int, target: Labels, c: int) -> None:
    """Copy label `a` to place `c` of `target`."""
    target.open[c] = s.open[a]
    target.value[c] = s.value[a]
    target.bound[c] = s.bound[a]
    target.running[c] = s.running[a]
    for i in range(s.running[a]):
        target.end[c, i] = s.end[a, i]
        target.who[c, i] = s.who[a, i]
    for j in range(s.begun.shape[1]):
        target.begun[c, j] = s.begun[a, j]


@compiled
def _wait(b: Blocks, s: Labels, a: int, t: int, until: int, known: int) -> Int:
    """Move label `a` to the next column at which anything can start; return it."""
    u = until
    for i in range(s.running[a]):
        if s.end[a, i] > t:
            u = min(u, s.end[a, i])
    k = np.searchsorted(b.edges, t + 1)
    while k < b.edges.shape[0] and b.edges[k] < u:
        u = b.edges[k]
    kept = 0
    for i in range(s.running[a]):
        if s.end[a, i] > u:
            s.end[a, kept] = s.end[a, i]
            s.who[a, kept] = s.who[a, i]
            kept += 1
    s.running[a] = kept
    bound = s.value[a] + b.room[u] + b.rest[known]
    for i in range(kept):
        j = s.who[a, i]
        bound -= b.cost[j, s.end[a, i]] - b.cost[j, u]
    for j in range(known):
        if s.open[a] & _bit(j):
            late = u - b.release[j]
            if late >= b.gain.shape[1] or b.gain[j, late] < 0.0:
                s.open[a] &= ~_bit(j)
            else:
                bound += b.gain[j, late]
    s.bound[a] = bound
    return u


@compiled
def _follow(
    b: Blocks, air: Labels, at: I64, first: I64, until: int, known: int, beat: float,
    ahead: Labels, found: int,
) -> Int:  # fmt: skip
    """Follow the label in place 0 of `air` to column `until`; return labels so far, -1 if full."""
    top = 1
    while top > 0:
        top -= 1
        t, begin = at[top], first[top]
        # Each start is a label of its own, above the one that starts nothing more here.
        base = top
        for j in range(begin, known):
            if not air.open[base] & _bit(j) or t < b.release[j]:
                continue
            if t - b.release[j] >= b.fits.shape[1] or not _fits(b, air, base, t, j):
                continue
            top += 1
            if top >= DEPTH or air.running[base] >= RUNNING:
                return -1
            _put(air, base, air, top)
            air.open[top] &= ~_bit(j)
            air.value[top] += b.worth[j]
            air.end[top, air.running[top]] = t + b.length[j]
            air.who[top, air.running[top]] = j
            air.running[top] += 1
            air.begun[top, j] = t + 1
            at[top], first[top] = t, j + 1
        # The one that waits goes to the top, so that its place stays in use.
        u = _wait(b, air, base, t, until, known)
        keep = air.bound[base] > beat
        if keep and u == until:
            if found >= ahead.value.shape[0]:
                return -1
            _put(air, base, ahead, found)
            found += 1
            keep = False
        if keep:
            at[base], first[base] = u, 0
            top += 1
        elif top > base:
            _put(air, top, air, base)
            at[base], first[base] = at[top], first[top]
    return found


@compiled
def advance(
    b: Blocks, labels: Labels, count: int, air: Labels, at: I64, first: I64, known: int,
    released: int, until: int, beat: float, ahead: Labels,
) -> Int:  # fmt: skip
    """Move all labels to column `until`; return how many there are then, or -1 if too many.

    Parameters
    ----------
    known, released
        Requests released before this column, and at it: `known` of them stand open already.
    beat
        Labels that cannot come to more are left.
    """
    found = 0
    for a in range(count):
        if labels.bound[a] <= beat:
            continue
        _put(labels, a, air, 0)
        for j in range(known, released):
            air.open[0] |= _bit(j)
        at[0], first[0] = b.release[released - 1], 0
        found = _follow(b, air, at, first, until, released, beat, ahead, found)
        if found < 0:
            return -1
    return found


@compiled
def _no_more(b: Blocks, s: Labels, x: int, y: int, t: int) -> bool:
    """Return whether label `x` holds nowhere more than label `y` from column `t` on."""
    for row in range(b.need.shape[0]):
        for i in range(-1, s.running[y]):
            u = t if i < 0 else s.end[y, i]
            more = np.int64(0)
            for k in range(s.running[x]):
                if s.end[x, k] > u:
                    more += b.need[row, s.who[x, k]]
            for k in range(s.running[y]):
                if s.end[y, k] > u:
                    more -= b.need[row, s.who[y, k]]
            if more > 0:
                return False
    return True


@compiled
def prune(b: Blocks, s: Labels, count: int, t: int, kept: Labels) -> Int:
    """Copy to `kept` the labels that no other of the same open requests is as good as."""
    order = np.argsort(-s.value[:count], kind="mergesort")
    order = order[np.argsort(s.open[:count][order], kind="mergesort")]
    found = 0
    group = 0  # first label in `kept` with the same open requests
    for k in range(count):
        y = order[k]
        if k > 0 and s.open[order[k - 1]] != s.open[y]:
            group = found
        _put(s, y, kept, found)
        beaten = False
        for x in range(group, found):
            if _no_more(b, kept, x, found, t):
                beaten = True
                break
        if not beaten:
            found += 1
    return found
