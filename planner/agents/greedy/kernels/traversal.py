"""Traversal of one request: its atoms from last to first, with leaps and other options."""

from __future__ import annotations

from planner.agents.greedy.kernels.arrays import Averages, GraphSlices, Profile, Scratch, Traversal
from planner.agents.greedy.kernels.averages import average_free, shape_within
from planner.agents.greedy.kernels.codes import (
    HEADROOM,
    HEADROOM_ONLY,
    LOWEST,
    NO_AVERAGE,
    NO_GAP,
    NO_ROOM,
    NO_WINDOW,
    PAPER,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.graph import (
    atom_of,
    end_bound,
    interval_of,
    is_below,
    share_efforts,
    start_of,
)
from planner.agents.greedy.kernels.held import emit_shape, move_atom, trimmed
from planner.agents.greedy.kernels.opening import close_atom, fail, pop_atom, restart
from planner.agents.greedy.kernels.scratch import (
    AVERAGE,
    AVERAGE_FROM,
    CHOICE,
    DONE,
    END_CAP,
    FAILED,
    FAILED_WHY,
    FAR,
    FIRM,
    HEAPED,
    HELD,
    HELD_FROM,
    HELD_TO,
    LEAPS,
    PHASE,
    ROWS_FROM,
    ROWS_FULL,
    ROWS_HELD,
    ROWS_USED,
    STACK,
    STACKED,
    TAKEN,
)
from planner.agents.greedy.kernels.shapes import find_shape
from rdl.work_graph import ANY, CHILD_COUNT, KIND, PARENT, SHORTEST


@inline
def _place_atom(
    p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch, a: int
) -> bool:
    """Place one atom within its bounds and subtract its bundles from the profile."""
    lo, hi = start_of(g, run, a), end_bound(g, run, s, a)
    atom = atom_of(g, run, a, lo, hi)
    if atom.hi - atom.lo < g.vertices[a, SHORTEST]:
        fail(s, a, NO_WINDOW, atom.lo, atom.hi)
        return False
    start = atom.lo
    if (run.strategy == LOWEST or run.strategy >= HEADROOM) and g.edges.shape[0] > 0:
        start = interval_of(g, s, a, atom.lo, atom.hi)
    counted = q.first[atom.demand] < q.first[atom.demand + 1]
    if counted and not average_free(q, g.shifts, atom):
        ok, first, last, runs, row, tau = shape_within(
            p, q, g.shifts, atom, s.steps, run.strategy, start
        )
        s.state[AVERAGE], s.state[AVERAGE_FROM] = row, tau
    else:
        ok, first, last, runs = find_shape(p, g.shifts, atom, s.steps, run.strategy, start)
        s.state[AVERAGE] = -1
    if not ok:
        fail(s, a, NO_AVERAGE if s.state[AVERAGE] >= 0 else NO_ROOM, atom.lo, atom.hi)
        return False
    begin = s.state[ROWS_USED]
    if runs == 0:
        first, last = trimmed(s.steps[HELD], first, last)
    count = emit_shape(atom, s.steps, first, last, runs, run.columns, s.rows, begin)
    if count < 0:
        s.state[ROWS_FULL] = 1
        fail(s, a, NO_ROOM, atom.lo, atom.hi)
        return False
    move_atom(p, q, g.shifts, atom, s.rows, begin, count, 1)
    s.state[ROWS_USED] = count
    s.vertex[ROWS_FROM, a], s.vertex[ROWS_HELD, a] = begin, count - begin
    s.vertex[HELD_FROM, a], s.vertex[HELD_TO, a] = first, last
    s.vertex[DONE, a] = 1
    s.vertex[STACK, s.state[STACKED]] = a
    s.state[STACKED] += 1
    return True


@kernel
def undo(p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch, kept: int) -> None:
    """Release all atoms but the first `kept` of the stack."""
    for i in range(s.state[STACKED] - 1, kept - 1, -1):
        a = s.vertex[STACK, i]
        atom = atom_of(g, run, a, 0, 0)
        r0 = s.vertex[ROWS_FROM, a]
        r1 = r0 + s.vertex[ROWS_HELD, a]
        move_atom(p, q, g.shifts, atom, s.rows, r0, r1, -1)
        s.vertex[DONE, a] = 0
        s.state[ROWS_USED] = r0  # rows are appended in the order of the stack
    s.state[STACKED] = kept


@inline
def _leap(p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch, edge: int) -> bool:
    """Lower the successor whose maximum gap is violated, and undo the placements since then.

    In every solution the successor starts no later than the latest possible end of the predecessor
    plus the maximum gap (greedy.md 1.3, leapfrog).
    """
    before, after = (1, 0) if run.early else (0, 1)
    v, w = g.edges[edge, before], g.edges[edge, after]
    excess = s.vertex[HELD_FROM, w] - s.vertex[HELD_TO, v] - g.edges[edge, 3]
    found, at = -1, 0
    for i in range(s.state[STACKED]):
        a = s.vertex[STACK, i]
        if is_below(g, a, w) and (found < 0 or s.vertex[HELD_FROM, a] < s.vertex[HELD_FROM, found]):
            found, at = a, i
    s.state[LEAPS] += 1
    # The paper's rule never backtracks; a chain needs few leaps, malleable stages may need many.
    if run.strategy == PAPER or s.state[LEAPS] > 64 + 16 * g.vertices.shape[0]:
        fail(s, v, NO_GAP, s.vertex[HELD_FROM, v], s.vertex[HELD_TO, v])
        return False
    s.vertex[END_CAP, found] = s.vertex[HELD_TO, found] - excess
    undo(p, q, g, run, s, at)
    return bool(restart(g, run, s, at))


@inline
def traverse(p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch) -> bool:
    """Place every atom of a request, successors before predecessors."""
    n = g.vertices.shape[0]
    s.state[ROWS_USED], s.state[STACKED], s.state[LEAPS], s.state[ROWS_FULL] = 0, 0, 0, 0
    s.state[FIRM] = 0
    for v in range(n):
        s.vertex[END_CAP, v] = FAR
        s.vertex[DONE, v] = 0
    if g.edges.shape[0] > 0 and (run.strategy == LOWEST or run.strategy >= HEADROOM):
        share_efforts(g, run, s)
    if not restart(g, run, s, 0):
        return False
    while s.state[HEAPED] > 0:
        a = pop_atom(s)
        if not _place_atom(p, q, g, run, s, a):
            # No placement of this request interferes: no other traversal can place the atom.
            complete = run.strategy != HEADROOM_ONLY and run.strategy != PAPER
            alone = s.state[STACKED] == 0 and s.state[LEAPS] == 0
            complete = complete and s.state[FAILED_WHY] != NO_AVERAGE
            s.state[FIRM] = 1 if alone and complete and not s.state[ROWS_FULL] else 0
            return False
        broken = close_atom(g, run, s, a)
        if broken == -2 or (broken >= 0 and not _leap(p, q, g, run, s, broken)):
            return False
    return True


@kernel
def next_options(g: GraphSlices, s: Scratch, printed: bool) -> bool:
    """Move to other options of `any` after a failure; return False if none is left.

    First the innermost `any` around the failed vertex takes its next option. If none around it has
    one, all combinations follow in source order, unless the paper's rule is requested.
    """
    n = g.vertices.shape[0]
    if s.state[PHASE] == 1:  # still in phase 1
        v = s.state[FAILED]
        while v >= 0:
            if g.vertices[v, KIND] == ANY and s.vertex[TAKEN, v] >= 0:
                if s.vertex[TAKEN, v] + 1 < g.vertices[v, CHILD_COUNT]:
                    s.vertex[CHOICE, v] = s.vertex[TAKEN, v] + 1
                    for u in range(v):
                        if g.vertices[u, KIND] == ANY and is_below(g, u, v):
                            s.vertex[CHOICE, u] = 0
                    return True
            v = g.vertices[v, PARENT]
        if printed:
            return False
        s.state[PHASE] = 2
        for v in range(n):
            s.vertex[CHOICE, v] = 0
    for v in range(n):
        if g.vertices[v, KIND] == ANY:
            s.vertex[CHOICE, v] += 1
            if s.vertex[CHOICE, v] < g.vertices[v, CHILD_COUNT]:
                return True
            s.vertex[CHOICE, v] = 0
    return False
