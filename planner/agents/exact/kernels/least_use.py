"""The way back: what the placements take that make G, found again where it is needed."""

from __future__ import annotations

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels.arrays import I64
from planner.agents.exact.kernels.compiled import compiled, inlined
from planner.agents.exact.kernels.flows import best_cells, most_at, refill
from planner.agents.exact.kernels.least_cost import child_at, write_prices, write_spent
from planner.agents.exact.kernels.pricing_space import CELLS, HA, HC, IN, Q, Space
from planner.agents.exact.problem import Forest, FreeRoom
from rdl.work_graph import ALL, ANY, ATOM


@inlined
def _use(f: Forest, room: FreeRoom, s: Space, row: I64, a: int, b: int, height: float) -> None:
    """Add `height` multiples on columns [a, b) of an atom's window, in every occurrence."""
    last = s.use.shape[1] - 1
    for j in range(room.demand_first[row[pb.V_DEMAND]], room.demand_first[row[pb.V_DEMAND] + 1]):
        amount = height * row[pb.V_MULTIPLE] * room.shares[j]
        use = s.use[room.demand_rows[j]]
        for k in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
            begin = row[pb.V_START] + f.shifts[k]
            use[min(begin + a, last)] += amount
            use[min(begin + b, last)] -= amount


@inlined
def _ask_before(f: Forest, s: Space, v: int, i: int, weight: float) -> None:
    """Ask what precedes `v` to be done by column `i` of its window."""
    row = f.vertices[v]
    top = row[pb.V_INFLOW]
    if top < 0:
        return
    first = f.vertices[top, pb.V_PRED]
    for e in range(first, first + f.vertices[top, pb.V_PREDS]):
        u = f.preds[e, 0]
        width = f.vertices[u, pb.V_END] - f.vertices[u, pb.V_START]
        at = min(row[pb.V_START] + i - f.preds[e, 1] - f.vertices[u, pb.V_START], width)
        s.asked[s.cell[u] + at] += weight * f.inflow[v] * f.flow[u]


@inlined
def _take_run(f: Forest, room: FreeRoom, s: Space, v: int, i: int, weight: float) -> None:
    """Count the block that makes G at column `i`."""
    row = f.vertices[v]
    base = s.cell[v]
    while i > 0 and s.cost[base + i - 1] <= s.cost[base + i]:
        i -= 1
    begin = i - row[pb.V_RUN]
    _use(f, room, s, row, begin, i, weight * row[pb.V_MOST])
    _ask_before(f, s, v, begin, weight)


@inlined
def _take_lease(f: Forest, room: FreeRoom, s: Space, v: int, i: int, weight: float) -> None:
    """Count the lease that makes G at column `i`, its work spread evenly over it."""
    row = f.vertices[v]
    base, lease = s.cell[v], row[pb.V_LEASE]
    while i > 0 and s.lease[base + i - 1] <= s.lease[base + i]:
        i -= 1
    spent, q, work = s.line[IN], s.line[Q], float(row[pb.V_WORK])
    best, length = np.inf, lease
    for n in range(lease, min(2 * lease - 1, i) + 1):
        if row[pb.V_BLOCKED] >= 0 and most_at(f, row, i - n) == 0:
            break
        cost = spent[i - n] + (q[i] - q[i - n]) * (work / n)
        if cost < best:
            best, length = cost, n
    _use(f, room, s, row, i - length, i, weight * work / length)
    _ask_before(f, s, v, i - length, weight)


@inlined
def _take_flow(f: Forest, room: FreeRoom, s: Space, v: int, i: int, weight: float) -> None:
    """Count the cheapest steps that make G at column `i`."""
    row = f.vertices[v]
    n = row[pb.V_END] - row[pb.V_START]
    cell = (n + CELLS - 1) // CELLS
    c, end = best_cells(f, s, v, i)
    flow = refill(f, s, v, c, end)
    over = flow.held - row[pb.V_WORK]
    for k in range(flow.size):
        amount = s.line[HA, k] - (over if k == 0 else 0.0)
        column = int(s.line[HC, k])
        _use(f, room, s, row, column, column + 1, weight * amount)
    _ask_before(f, s, v, min((c + 1) * cell, n) - 1, weight)


@inlined
def _take_atom(f: Forest, room: FreeRoom, s: Space, v: int) -> None:
    row = f.vertices[v]
    base = s.cell[v]
    ready = False
    for i in range(row[pb.V_END] - row[pb.V_START] + 1):
        weight = s.asked[base + i]
        if weight <= 0.0:
            continue
        s.asked[base + i] = 0.0
        if not ready:
            write_spent(f, s, v)
            write_prices(f, s, v)
            ready = True
        if row[pb.V_RUN] > 0:
            _take_run(f, room, s, v, i, weight)
        elif s.cost[base + i] > s.lease[base + i]:
            _take_flow(f, room, s, v, i, weight)
        else:
            _take_lease(f, room, s, v, i, weight)


@inlined
def _pass_down(f: Forest, s: Space, v: int) -> None:
    """Hand what is asked of a group to its children."""
    row = f.vertices[v]
    base = s.cell[v]
    for i in range(row[pb.V_END] - row[pb.V_START] + 1):
        weight = s.asked[base + i]
        if weight <= 0.0:
            continue
        s.asked[base + i] = 0.0
        best, chosen = np.inf, -1
        for k in range(row[pb.V_CHILD], row[pb.V_CHILD] + row[pb.V_CHILDREN]):
            child = f.children[k]
            if row[pb.V_KIND] == ALL and f.vertices[child, pb.V_SUCCS] > 0:
                continue
            at = child_at(f, s, v, i, child)
            if row[pb.V_KIND] != ANY:
                s.asked[at] += weight
            elif at >= 0 and s.cost[at] < best:
                best, chosen = float(s.cost[at]), at
        if chosen >= 0:
            s.asked[chosen] += weight


@compiled
def backward(f: Forest, room: FreeRoom, s: Space, r: int, top: int) -> None:
    """Add to the use what the optimum of a request takes; `top` is its root or root option."""
    row = f.vertices[top]
    s.asked[s.cell[top] + row[pb.V_END] - row[pb.V_START]] = 1.0
    for k in range(f.first[r + 1] - 1, f.first[r] - 1, -1):
        v = f.program[k]
        if f.vertices[v, pb.V_KIND] == ATOM:
            _take_atom(f, room, s, v)
        else:
            _pass_down(f, s, v)
