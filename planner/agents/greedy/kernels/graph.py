"""The graph of one request: windows of its vertices, and their precedence."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import (
    AtomToPlace,
    GraphSlices,
    Int,
    Scratch,
    Tables,
    Traversal,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.scratch import (
    BLOCKED,
    END_CAP,
    FAR,
    HELD_FROM,
    PRED,
    SHARED_FROM,
    SUCC,
    TO_VISIT,
)
from rdl.work_graph import (
    BUNDLE,
    END,
    EVERY,
    KIND,
    LABEL,
    LAST_SHIFT,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    PARENT,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    WORK,
)


@kernel
def start_of(g: GraphSlices, run: Traversal, v: int) -> Int:
    """Return the first column of a vertex's window."""
    if run.early:
        return run.columns - (g.vertices[v, END] - run.base)
    return g.vertices[v, START] - run.base


@kernel
def end_of(g: GraphSlices, run: Traversal, v: int) -> Int:
    """Return the first column past a vertex's window."""
    if run.early:
        return run.columns - (g.vertices[v, START] - run.base)
    return g.vertices[v, END] - run.base


@kernel
def index_edges(g: GraphSlices, run: Traversal, s: Scratch) -> None:
    """List the edges by predecessor (row 0 of `edge`) and by successor (row 1)."""
    n, m = g.vertices.shape[0], g.edges.shape[0]
    for side in range(2):
        head = SUCC if side == 0 else PRED
        column = side if run.early == 0 else 1 - side
        for v in range(n + 1):
            s.vertex[head, v] = 0
        for e in range(m):
            s.vertex[head, g.edges[e, column] + 1] += 1
        for v in range(n):
            s.vertex[head, v + 1] += s.vertex[head, v]
        for v in range(n):
            s.vertex[TO_VISIT, v] = s.vertex[head, v]
        for e in range(m):
            v = g.edges[e, column]
            s.edge[side, s.vertex[TO_VISIT, v]] = e
            s.vertex[TO_VISIT, v] += 1


@kernel
def share_efforts(g: GraphSlices, run: Traversal, s: Scratch) -> None:
    """Write the effort that must precede each vertex, and the first column shared with it.

    The longest path of effort over the preceding siblings, in topological order (greedy.md 2.1):
    `effort[0]` per vertex; `SHARED_FROM` is the start of the first vertex on that path.
    """
    n = g.vertices.shape[0]
    counts, todo = s.vertex[BLOCKED], s.vertex[TO_VISIT]
    size = 0
    for v in range(n):
        s.effort[0, v] = 0.0
        s.vertex[SHARED_FROM, v] = start_of(g, run, v)
        counts[v] = s.vertex[PRED, v + 1] - s.vertex[PRED, v]
        if counts[v] == 0:
            todo[size] = v
            size += 1
    after = 0 if run.early else 1
    while size > 0:
        size -= 1
        v = todo[size]
        path = s.effort[0, v] + g.effort[v]
        for q in range(s.vertex[SUCC, v], s.vertex[SUCC, v + 1]):
            w = g.edges[s.edge[0, q], after]
            if path > s.effort[0, w]:
                s.effort[0, w] = path
                s.vertex[SHARED_FROM, w] = s.vertex[SHARED_FROM, v]
            counts[w] -= 1
            if counts[w] == 0:
                todo[size] = w
                size += 1


@kernel
def interval_of(g: GraphSlices, s: Scratch, a: int, lo: int, hi: int) -> Int:
    """Return the start of the interval assigned to an atom within [its shared window, hi)."""
    before = 0.0
    base = lo
    v = a
    while v >= 0:
        if s.vertex[PRED, v + 1] > s.vertex[PRED, v]:
            before += s.effort[0, v]
            base = min(base, s.vertex[SHARED_FROM, v])
        v = g.vertices[v, PARENT]
    if before == 0.0:
        return lo
    own = g.effort[a]
    length = np.int64((hi - base) * own / (own + before))
    return max(lo, hi - max(length, g.vertices[a, SHORTEST]))


@kernel
def end_bound(g: GraphSlices, run: Traversal, s: Scratch, a: int) -> Int:
    """Return the column by which vertex `a` must end, given the atoms already placed."""
    after = 0 if run.early else 1
    bound, moved = np.int64(FAR), np.int64(0)
    v = a
    while True:
        own = min(end_of(g, run, v), s.vertex[END_CAP, v])
        for q in range(s.vertex[SUCC, v], s.vertex[SUCC, v + 1]):
            e = s.edge[0, q]
            own = min(own, s.vertex[HELD_FROM, g.edges[e, after]] - g.edges[e, 2])
        bound = min(bound, own - moved)
        v = g.vertices[v, PARENT]
        if v < 0:
            return min(bound, run.columns)
        if g.vertices[v, KIND] == EVERY and not run.early:
            moved += g.vertices[v, LAST_SHIFT]


@kernel
def atom_of(g: GraphSlices, run: Traversal, v: int, lo: int, hi: int) -> AtomToPlace:
    """Return the parameters for placing atom v in the window [lo, hi)."""
    row = g.vertices[v]
    k = row[MULTIPLE]
    demand = g.demand_of[row[BUNDLE] * (g.labels + 1) + row[LABEL] + 1]
    return AtomToPlace(
        (row[MIN_HEIGHT] + k - 1) // k,
        row[MAX_HEIGHT] // k,
        row[LEASE],
        row[WORK] // k,
        k,
        demand,
        row[SHIFT_FIRST],
        row[SHIFT_FIRST] + row[SHIFT_COUNT],
        run.early,
        max(0, lo),
        hi,
    )


@kernel
def is_below(g: GraphSlices, v: int, top: int) -> bool:
    """Return whether v is `top` or a descendant of it: parents have larger numbers."""
    while v >= 0 and v < top:
        v = g.vertices[v, PARENT]
    return v == top


@inline
def graph_of(t: Tables, r: int) -> GraphSlices:
    """Return request r's slices of the tables."""
    return GraphSlices(
        t.vertices[t.vertex_first[r] : t.vertex_first[r + 1]],
        t.children[t.child_first[r] : t.child_first[r + 1]],
        t.edges[t.edge_first[r] : t.edge_first[r + 1]],
        t.shifts[t.shift_first[r] : t.shift_first[r + 1]],
        t.effort[t.effort_first[r] : t.effort_first[r + 1]],
        t.demand_of[t.demand_first[r] : t.demand_first[r + 1]],
        t.labels[r],
    )


@kernel
def has_largest_gap(g: GraphSlices) -> bool:
    """Return whether any edge has a maximum gap."""
    for e in range(g.edges.shape[0]):
        if g.edges[e, 3] >= 0:
            return True
    return False
