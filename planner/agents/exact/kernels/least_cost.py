"""G: the least that a vertex, and what is spent before it, costs by each column."""

from __future__ import annotations

import numpy as np

from planner.agents.exact.kernels.arrays import F64, Int
from planner.agents.exact.kernels.compiled import compiled, inlined
from planner.agents.exact.kernels.flows import bends, bound_by_flow, most_at
from planner.agents.exact.kernels.pricing_space import IN, Q, Space
from planner.agents.exact.problem import (
    V_BLOCKED,
    V_CHILD,
    V_CHILDREN,
    V_DEMAND,
    V_END,
    V_INFLOW,
    V_KIND,
    V_LAST,
    V_LEASE,
    V_MOST,
    V_MULTIPLE,
    V_PRED,
    V_PREDS,
    V_RUN,
    V_SHIFT,
    V_SHIFTS,
    V_SHORTEST,
    V_SOUND,
    V_START,
    V_SUCCS,
    V_WORK,
    Forest,
)
from rdl.work_graph import ALL, ANY, ATOM, EVERY


@inlined
def write_spent(f: Forest, s: Space, v: int) -> None:
    """Write what is spent before `v` could start at each column of its window."""
    row = f.vertices[v]
    n = row[V_END] - row[V_START]
    out = s.line[IN]
    for i in range(n + 1):
        out[i] = 0.0
    top = row[V_INFLOW]
    if top < 0:
        return
    first = f.vertices[top, V_PRED]
    for e in range(first, first + f.vertices[top, V_PREDS]):
        u = f.preds[e, 0]
        part = f.inflow[v] * f.flow[u]
        width = f.vertices[u, V_END] - f.vertices[u, V_START]
        move = row[V_START] - f.preds[e, 1] - f.vertices[u, V_START]
        base = s.cell[u]
        for i in range(n + 1):
            at = min(i + move, width)
            out[i] += part * s.cost[base + at] if at >= 0 else np.inf


@inlined
def write_prices(f: Forest, s: Space, v: int) -> None:
    """Write prefix sums of the price of one multiple of an atom, all occurrences together."""
    row = f.vertices[v]
    n = row[V_END] - row[V_START]
    out, prefix = s.line[Q], s.prefix[row[V_DEMAND]]
    for i in range(n + 1):
        out[i] = 0.0
    last = prefix.shape[0] - 1
    for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
        begin = row[V_START] + f.shifts[k]
        for i in range(n + 1):
            out[i] += row[V_MULTIPLE] * prefix[min(begin + i, last)]


@inlined
def _run(f: Forest, s: Space, v: int) -> None:
    """G of an atom that must be one block: exact."""
    row = f.vertices[v]
    n, length, base = row[V_END] - row[V_START], row[V_RUN], s.cell[v]
    spent, q = s.line[IN], s.line[Q]
    best = np.inf
    free_from = 0  # no column from here on is too low
    for i in range(n + 1):
        if i > 0 and row[V_BLOCKED] >= 0 and most_at(f, row, i - 1) < row[V_MOST]:
            free_from = i
        begin = i - length
        if begin >= free_from:
            best = min(best, spent[begin] + row[V_MOST] * (q[i] - q[begin]))
        s.cost[base + i] = best


@inlined
def _least_mean(spent: F64, q: F64, i: int, shortest: int, longest: int, work: float) -> float:
    """Return the least of spent + work x mean price over blocks that end at column `i`."""
    best = np.inf
    for length in range(shortest, longest + 1):
        cost = spent[i - length] + (q[i] - q[i - length]) * (work / length)
        best = min(best, cost)
    return float(best)


@inlined
def _leases(f: Forest, s: Space, v: int) -> None:
    """G of a malleable atom by leases: one of them costs no more than the mean of all.

    Every lease of 2 l or more splits into leases of l to 2 l - 1, so no others need a look.
    """
    row = f.vertices[v]
    n, lease, base = row[V_END] - row[V_START], row[V_LEASE], s.cell[v]
    spent, q = s.line[IN], s.line[Q]
    best = np.inf
    free_from = 0
    for i in range(n + 1):
        if i > 0 and row[V_BLOCKED] >= 0 and most_at(f, row, i - 1) == 0:
            free_from = i
        longest = min(2 * lease - 1, i - free_from)
        if longest >= lease:
            best = min(best, _least_mean(spent, q, i, lease, longest, float(row[V_WORK])))
        s.lease[base + i] = best
        s.cost[base + i] = best if i >= row[V_SHORTEST] else np.inf


@inlined
def child_at(f: Forest, s: Space, v: int, i: int, child: int) -> Int:
    """Return the cell of `child` for column `i` of group `v`, or -1 before its window."""
    row = f.vertices[v]
    at = row[V_START] + i - f.vertices[child, V_START]
    if row[V_KIND] == EVERY:
        at -= row[V_LAST]
    at = min(at, f.vertices[child, V_END] - f.vertices[child, V_START])
    return s.cell[child] + at if at >= 0 else -1


@inlined
def _group(f: Forest, s: Space, v: int) -> None:
    """G of a group: the sum of what nothing follows, the least option, the moved child."""
    row = f.vertices[v]
    base = s.cell[v]
    for i in range(row[V_END] - row[V_START] + 1):
        total = np.inf if row[V_KIND] == ANY else 0.0
        for k in range(row[V_CHILD], row[V_CHILD] + row[V_CHILDREN]):
            child = f.children[k]
            if row[V_KIND] == ALL and f.vertices[child, V_SUCCS] > 0:
                continue
            at = child_at(f, s, v, i, child)
            cost = float(s.cost[at]) if at >= 0 else np.inf
            total = min(total, cost) if row[V_KIND] == ANY else total + cost
        s.cost[base + i] = total


@compiled
def forward(f: Forest, s: Space, r: int) -> None:
    """Compute G of every vertex of a request."""
    for k in range(f.first[r], f.first[r + 1]):
        v = f.program[k]
        row = f.vertices[v]
        if row[V_SOUND] == 0:
            for i in range(max(0, row[V_END] - row[V_START]) + 1):
                s.cost[s.cell[v] + i] = np.inf
        elif row[V_KIND] == ATOM:
            write_spent(f, s, v)
            write_prices(f, s, v)
            if row[V_RUN] > 0:
                _run(f, s, v)
            else:
                _leases(f, s, v)
                if bends(row):
                    bound_by_flow(f, s, v)
        else:
            _group(f, s, v)
