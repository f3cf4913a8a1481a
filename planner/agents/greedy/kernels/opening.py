"""The atoms of a graph that may be placed next, because their successors are placed."""

from __future__ import annotations

from planner.agents.greedy.kernels.arrays import GraphSlices, Int, Scratch, Traversal
from planner.agents.greedy.kernels.codes import NO_WINDOW, PAPER
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.graph import end_bound, end_of, start_of
from planner.agents.greedy.kernels.scratch import (
    BLOCKED,
    CHILDREN_LEFT,
    CHOICE,
    DONE,
    FAILED,
    FAILED_FROM,
    FAILED_TO,
    FAILED_WHY,
    FAR,
    HEAP,
    HEAPED,
    HELD_FROM,
    HELD_TO,
    KEY1,
    KEY2,
    OPENED,
    PRED,
    STACK,
    STACKED,
    SUCC,
    TAKEN,
    TO_VISIT,
)
from rdl.work_graph import (
    ANY,
    ATOM,
    CHILD_COUNT,
    CHILD_FIRST,
    EVERY,
    KIND,
    LAST_SHIFT,
    MAX_HEIGHT,
    MIN_HEIGHT,
    PARENT,
    SATISFIABLE,
    SHORTEST,
)


@kernel
def _sooner(s: Scratch, a: int, b: int) -> bool:
    """Return whether `a` is placed before `b`: widest gang, least slack, last in the source."""
    if s.vertex[KEY1, a] != s.vertex[KEY1, b]:
        return bool(s.vertex[KEY1, a] < s.vertex[KEY1, b])
    if s.vertex[KEY2, a] != s.vertex[KEY2, b]:
        return bool(s.vertex[KEY2, a] < s.vertex[KEY2, b])
    return a > b


@kernel
def _push(s: Scratch, a: int) -> None:
    heap = s.vertex[HEAP]
    i = s.state[HEAPED]
    s.state[HEAPED] += 1
    while i > 0 and _sooner(s, a, heap[(i - 1) // 2]):
        heap[i] = heap[(i - 1) // 2]
        i = (i - 1) // 2
    heap[i] = a


@kernel
def pop_atom(s: Scratch) -> Int:
    """Remove the next atom to place from the heap and return it."""
    heap = s.vertex[HEAP]
    top = heap[0]
    s.state[HEAPED] -= 1
    size = s.state[HEAPED]
    last = heap[size]
    i = 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _sooner(s, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(s, heap[child], last):
            break
        heap[i] = heap[child]
        i = child
    heap[i] = last
    return int(top)


@kernel
def fail(s: Scratch, v: int, kind: int, lo: int, hi: int) -> None:
    """Record the vertex that was not placed, and why: a kind, and the columns searched."""
    s.state[FAILED] = v
    s.state[FAILED_WHY] = kind
    s.state[FAILED_FROM] = lo
    s.state[FAILED_TO] = hi


@kernel
def _choose(g: GraphSlices, run: Traversal, s: Scratch, v: int) -> bool:
    """Take the first option of `any` v, from its minimum option on, that its bounds allow."""
    bound = end_bound(g, run, s, v)
    first = g.vertices[v, CHILD_FIRST]
    for i in range(s.vertex[CHOICE, v], g.vertices[v, CHILD_COUNT]):
        option = g.children[first + i]
        end = min(bound, end_of(g, run, option))
        if g.vertices[option, SATISFIABLE] == 0:
            continue
        if end - start_of(g, run, option) >= g.vertices[option, SHORTEST]:
            s.vertex[TAKEN, v] = i
            return True
    fail(s, v, NO_WINDOW, start_of(g, run, v), bound)
    return False


@kernel
def _enqueue(g: GraphSlices, run: Traversal, s: Scratch, a: int) -> None:
    if s.vertex[DONE, a]:
        return
    gang = g.vertices[a, MIN_HEIGHT] == g.vertices[a, MAX_HEIGHT]
    if run.strategy == PAPER:
        s.vertex[KEY1, a], s.vertex[KEY2, a] = 0, 0
    elif gang:
        s.vertex[KEY1, a], s.vertex[KEY2, a] = 0, -g.vertices[a, MAX_HEIGHT]
    else:
        room = end_bound(g, run, s, a) - start_of(g, run, a)
        s.vertex[KEY1, a], s.vertex[KEY2, a] = 1, room - g.vertices[a, SHORTEST]
    _push(s, a)


@kernel
def _open(g: GraphSlices, run: Traversal, s: Scratch, root: int) -> bool:
    """Enqueue every atom below `root` whose successors are all placed."""
    todo = s.vertex[TO_VISIT]
    todo[0] = root
    size = 1
    while size > 0:
        size -= 1
        v = todo[size]
        parent = g.vertices[v, PARENT]
        if s.vertex[OPENED, v] or s.vertex[BLOCKED, v] > 0:
            continue
        if parent >= 0 and not s.vertex[OPENED, parent]:
            continue
        s.vertex[OPENED, v] = 1
        first = g.vertices[v, CHILD_FIRST]
        if g.vertices[v, KIND] == ATOM:
            _enqueue(g, run, s, v)
        elif g.vertices[v, KIND] == ANY:
            if not _choose(g, run, s, v):
                return False
            todo[size] = g.children[first + s.vertex[TAKEN, v]]
            size += 1
        else:
            for i in range(g.vertices[v, CHILD_COUNT]):
                todo[size] = g.children[first + i]
                size += 1
    return True


@kernel
def close_atom(g: GraphSlices, run: Traversal, s: Scratch, a: int) -> Int:
    """Mark atom `a` as placed and open the vertices that waited for it.

    Returns -1, the edge whose maximum gap is violated, or -2 if an `any` has no option left.
    """
    before, after = (1, 0) if run.early else (0, 1)
    v = a
    while True:
        for q in range(s.vertex[SUCC, v], s.vertex[SUCC, v + 1]):
            e = s.edge[0, q]
            longest, begin = g.edges[e, 3], s.vertex[HELD_FROM, g.edges[e, after]]
            if longest >= 0 and begin - s.vertex[HELD_TO, v] > longest:
                return int(e)
        for q in range(s.vertex[PRED, v], s.vertex[PRED, v + 1]):
            u = g.edges[s.edge[1, q], before]
            s.vertex[BLOCKED, u] -= 1
            if s.vertex[BLOCKED, u] == 0 and not _open(g, run, s, u):
                return -2
        p = g.vertices[v, PARENT]
        if p < 0:
            return -1
        last = g.vertices[p, LAST_SHIFT] if g.vertices[p, KIND] == EVERY else 0
        low = s.vertex[HELD_FROM, v] - (last if run.early else 0)
        high = s.vertex[HELD_TO, v] + (0 if run.early else last)
        s.vertex[HELD_FROM, p] = min(s.vertex[HELD_FROM, p], low)
        s.vertex[HELD_TO, p] = max(s.vertex[HELD_TO, p], high)
        s.vertex[CHILDREN_LEFT, p] -= 1
        if s.vertex[CHILDREN_LEFT, p] > 0:
            return -1
        v = p


@kernel
def restart(g: GraphSlices, run: Traversal, s: Scratch, kept: int) -> bool:
    """Set all vertices to waiting, then mark the first `kept` atoms of the stack as placed."""
    n = g.vertices.shape[0]
    for v in range(n):
        kind = g.vertices[v, KIND]
        s.vertex[CHILDREN_LEFT, v] = 1 if kind == ANY else g.vertices[v, CHILD_COUNT]
        s.vertex[BLOCKED, v] = s.vertex[SUCC, v + 1] - s.vertex[SUCC, v]
        s.vertex[OPENED, v] = 0
        s.vertex[TAKEN, v] = -1
        if not s.vertex[DONE, v]:
            s.vertex[HELD_FROM, v] = FAR
            s.vertex[HELD_TO, v] = -FAR
    s.state[HEAPED] = 0
    s.state[STACKED] = kept
    if not _open(g, run, s, n - 1):
        return False
    for i in range(kept):
        if close_atom(g, run, s, s.vertex[STACK, i]) != -1:
            return False
    return True
