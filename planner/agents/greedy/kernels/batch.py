"""Place requests one by one and write the results to the output arrays."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.agents.greedy.kernels.arrays import (
    I64,
    Averages,
    GraphSlices,
    Int,
    Output,
    PlaceOrder,
    Profile,
    Scratch,
    Tables,
    Traversal,
)
from planner.agents.greedy.kernels.codes import (
    AT_COLUMN,
    AT_ROW,
    CHOICE_COUNT,
    CHOICE_FIRST,
    COMPACT,
    FIRST_FIRST,
    GAPS,
    OUTCOME,
    PAPER,
    PENDING,
    PLACED,
    ROW_COUNT,
    ROW_FIRST,
    STRATEGY,
    VERTEX_COUNT,
    VERTEX_FIRST,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.graph import graph_of, has_largest_gap, index_edges
from planner.agents.greedy.kernels.refusals import explain
from planner.agents.greedy.kernels.scratch import (
    CHOICE,
    DONE,
    FIRM,
    PHASE,
    ROWS_FROM,
    ROWS_FULL,
    ROWS_HELD,
    ROWS_USED,
    TAKEN,
)
from planner.agents.greedy.kernels.traversal import next_options, traverse, undo
from planner.kernel_cache import borrowed
from rdl.work_graph import ANY, KIND

_RETRIES: Final = 64  # whole-request retries with other options of `any`


@inline
def _export(g: GraphSlices, run: Traversal, s: Scratch, out: Output, r: int) -> bool:
    """Append the placed atoms to the output; return False if it is too small."""
    n = g.vertices.shape[0]
    used = out.used
    if (
        used[0] + n > out.vertices.shape[0]
        or used[1] + n + 1 > out.first.shape[0]
        or used[2] + s.state[ROWS_USED] > out.rows.shape[0]
        or used[3] + n > out.choices.shape[0]
    ):
        return False
    extent = out.extents[r]
    extent[VERTEX_FIRST], extent[FIRST_FIRST] = used[0], used[1]
    extent[ROW_FIRST], extent[CHOICE_FIRST] = used[2], used[3]
    out.first[used[1]] = 0
    atoms = rows = choices = 0
    for v in range(n):
        if g.vertices[v, KIND] == ANY and s.vertex[TAKEN, v] >= 0:
            out.choices[used[3] + choices, 0] = v
            out.choices[used[3] + choices, 1] = s.vertex[TAKEN, v]
            choices += 1
        if not s.vertex[DONE, v]:
            continue
        for q in range(s.vertex[ROWS_FROM, v], s.vertex[ROWS_FROM, v] + s.vertex[ROWS_HELD, v]):
            out.rows[used[2] + rows, 0] = s.rows[q, 0] + run.base
            out.rows[used[2] + rows, 1] = s.rows[q, 1] + run.base
            out.rows[used[2] + rows, 2] = s.rows[q, 2]
            rows += 1
        out.vertices[used[0] + atoms] = v
        atoms += 1
        out.first[used[1] + atoms] = rows
    extent[VERTEX_COUNT], extent[ROW_COUNT], extent[CHOICE_COUNT] = atoms, rows, choices
    used[0] += atoms
    used[1] += atoms + 1
    used[2] += rows
    used[3] += choices
    return True


@inline
def _try_passes(
    p: Profile, q: Averages, g: GraphSlices, run: Traversal, s: Scratch, passes: I64, status: I64
) -> bool:
    """Try one choice of options with each strategy in turn; return True if placed."""
    for i in range(passes.shape[0]):
        strategy = passes[i]
        if strategy == GAPS:
            if not has_largest_gap(g):
                return False
            strategy = np.int64(COMPACT)
        now = Traversal(run.base, run.columns, run.early, strategy)
        if traverse(p, q, g, now, s):
            status[OUTCOME], status[STRATEGY] = PLACED, strategy
            return True
        stopped = s.state[ROWS_FULL]
        if status[OUTCOME] == PENDING and not stopped:
            explain(p, q, g, now, s, status)
        undo(p, q, g, now, s, 0)
        if stopped or s.state[FIRM]:
            return False
    return False


@inline
def _place_request(
    t: Tables, p: Profile, q: Averages, s: Scratch, out: Output, asked: PlaceOrder, r: int
) -> bool:
    """Place or refuse request r; if an array is too small, change nothing and return False."""
    g = graph_of(t, r)
    n = g.vertices.shape[0]
    run = Traversal(asked.base, p.span[1], asked.early, asked.passes[0])
    status = out.status[r]
    status[:] = 0
    status[AT_COLUMN], status[AT_ROW] = -1, -1
    out.extents[r, :] = 0
    if n == 0:  # best effort: nothing to reserve
        status[OUTCOME] = PLACED
        return bool(_export(g, run, s, out, r))
    index_edges(g, run, s)
    for v in range(n):
        s.vertex[CHOICE, v] = 0
    s.state[PHASE] = 1
    choices = n > 1
    for _ in range(_RETRIES):
        if _try_passes(p, q, g, run, s, asked.passes, status):
            if not _export(g, run, s, out, r):
                undo(p, q, g, run, s, 0)
                return False
            return True
        if s.state[ROWS_FULL]:
            return False
        if not choices or not next_options(g, s, asked.passes[0] == PAPER):
            return True
    return True


@kernel
def place(
    t: Tables, p: Profile, q: Averages, s: Scratch, out: Output, asked: PlaceOrder, begin: int
) -> Int:
    """Place requests `asked.order[begin:]` one by one and subtract them from `p.free`.

    Returns the position reached: less than their number if scratch or output must grow first.
    """
    t, p, q, s, out = borrowed(t), borrowed(p), borrowed(q), borrowed(s), borrowed(out)
    asked = borrowed(asked)
    for i in range(begin, asked.order.shape[0]):
        if not _place_request(t, p, q, s, out, asked, asked.order[i]):
            return i
    return asked.order.shape[0]
