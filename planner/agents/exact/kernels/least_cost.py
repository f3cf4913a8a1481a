"""G: the least that a vertex, and what is spent before it, costs by each column."""

from __future__ import annotations

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels.arrays import F64, Int
from planner.agents.exact.kernels.compiled import compiled, inlined
from planner.agents.exact.kernels.flows import bends, bound_by_flow, most_at
from planner.agents.exact.kernels.pricing_space import IN, Q, Space
from planner.agents.exact.problem import Forest
from rdl.work_graph import ALL, ANY, ATOM, EVERY


@inlined
def write_spent(f: Forest, s: Space, v: int) -> None:
    """Write what is spent before `v` could start at each column of its window."""
    row = f.vertices[v]
    n = row[pb.V_END] - row[pb.V_START]
    out = s.line[IN]
    for i in range(n + 1):
        out[i] = 0.0
    top = row[pb.V_INFLOW]
    if top < 0:
        return
    first = f.vertices[top, pb.V_PRED]
    for e in range(first, first + f.vertices[top, pb.V_PREDS]):
        u = f.preds[e, 0]
        part = f.inflow[v] * f.flow[u]
        width = f.vertices[u, pb.V_END] - f.vertices[u, pb.V_START]
        move = row[pb.V_START] - f.preds[e, 1] - f.vertices[u, pb.V_START]
        base = s.cell[u]
        for i in range(n + 1):
            at = min(i + move, width)
            out[i] += part * s.cost[base + at] if at >= 0 else np.inf


@inlined
def write_prices(f: Forest, s: Space, v: int) -> None:
    """Write prefix sums of the price of one multiple of an atom, all occurrences together."""
    row = f.vertices[v]
    n = row[pb.V_END] - row[pb.V_START]
    out, prefix = s.line[Q], s.prefix[row[pb.V_DEMAND]]
    for i in range(n + 1):
        out[i] = 0.0
    last = prefix.shape[0] - 1
    for k in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
        begin = row[pb.V_START] + f.shifts[k]
        for i in range(n + 1):
            out[i] += row[pb.V_MULTIPLE] * prefix[min(begin + i, last)]


@inlined
def _run(f: Forest, s: Space, v: int) -> None:
    """G of an atom that must be one block: exact."""
    row = f.vertices[v]
    n, length, base = row[pb.V_END] - row[pb.V_START], row[pb.V_RUN], s.cell[v]
    spent, q = s.line[IN], s.line[Q]
    best = np.inf
    free_from = 0  # no column from here on is too low
    for i in range(n + 1):
        if i > 0 and row[pb.V_BLOCKED] >= 0 and most_at(f, row, i - 1) < row[pb.V_MOST]:
            free_from = i
        begin = i - length
        if begin >= free_from:
            best = min(best, spent[begin] + row[pb.V_MOST] * (q[i] - q[begin]))
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
    n, lease, base = row[pb.V_END] - row[pb.V_START], row[pb.V_LEASE], s.cell[v]
    spent, q = s.line[IN], s.line[Q]
    best = np.inf
    free_from = 0
    for i in range(n + 1):
        if i > 0 and row[pb.V_BLOCKED] >= 0 and most_at(f, row, i - 1) == 0:
            free_from = i
        longest = min(2 * lease - 1, i - free_from)
        if longest >= lease:
            best = min(best, _least_mean(spent, q, i, lease, longest, float(row[pb.V_WORK])))
        s.lease[base + i] = best
        s.cost[base + i] = best if i >= row[pb.V_SHORTEST] else np.inf


@inlined
def child_at(f: Forest, s: Space, v: int, i: int, child: int) -> Int:
    """Return the cell of `child` for column `i` of group `v`, or -1 before its window."""
    row = f.vertices[v]
    at = row[pb.V_START] + i - f.vertices[child, pb.V_START]
    if row[pb.V_KIND] == EVERY:
        at -= row[pb.V_LAST]
    at = min(at, f.vertices[child, pb.V_END] - f.vertices[child, pb.V_START])
    return s.cell[child] + at if at >= 0 else -1


@inlined
def _group(f: Forest, s: Space, v: int) -> None:
    """G of a group: the sum of what nothing follows, the least option, the moved child."""
    row = f.vertices[v]
    base = s.cell[v]
    for i in range(row[pb.V_END] - row[pb.V_START] + 1):
        total = np.inf if row[pb.V_KIND] == ANY else 0.0
        for k in range(row[pb.V_CHILD], row[pb.V_CHILD] + row[pb.V_CHILDREN]):
            child = f.children[k]
            if row[pb.V_KIND] == ALL and f.vertices[child, pb.V_SUCCS] > 0:
                continue
            at = child_at(f, s, v, i, child)
            cost = float(s.cost[at]) if at >= 0 else np.inf
            total = min(total, cost) if row[pb.V_KIND] == ANY else total + cost
        s.cost[base + i] = total


@compiled
def forward(f: Forest, s: Space, r: int) -> None:
    """Compute G of every vertex of a request."""
    for k in range(f.first[r], f.first[r + 1]):
        v = f.program[k]
        row = f.vertices[v]
        if row[pb.V_SOUND] == 0:
            for i in range(max(0, row[pb.V_END] - row[pb.V_START]) + 1):
                s.cost[s.cell[v] + i] = np.inf
        elif row[pb.V_KIND] == ATOM:
            write_spent(f, s, v)
            write_prices(f, s, v)
            if row[pb.V_RUN] > 0:
                _run(f, s, v)
            else:
                _leases(f, s, v)
                if bends(row):
                    bound_by_flow(f, s, v)
        else:
            _group(f, s, v)
