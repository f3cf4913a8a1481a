"""The cheapest steps, each to its height limit, that do a malleable atom's work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.agents.exact.kernels.arrays import I64, Int
from planner.agents.exact.kernels.compiled import inlined
from planner.agents.exact.kernels.pricing_space import CELLS, HA, HC, HP, IN, Q, Space
from planner.agents.exact.problem import (
    V_BLOCKED,
    V_END,
    V_LEASE,
    V_MOST,
    V_SHORTEST,
    V_START,
    V_WORK,
    Forest,
)


@inlined
def most_at(f: Forest, row: I64, i: int) -> Int:
    """Return the multiples that an atom may hold in column `i` of its window, idle cluster."""
    if row[V_BLOCKED] < 0:
        return row[V_MOST]
    return f.caps[row[V_BLOCKED] + i]


class Flow(NamedTuple):
    """The steps in the heap: how many, the amount that they hold, and what it costs."""

    size: int
    held: float
    cost: float


@inlined
def _heap_push(s: Space, size: int, price: float, amount: float, column: int) -> None:
    hp, ha, hc = s.line[HP], s.line[HA], s.line[HC]
    i = size
    while i > 0 and hp[(i - 1) // 2] < price:
        up = (i - 1) // 2
        hp[i], ha[i], hc[i] = hp[up], ha[up], hc[up]
        i = up
    hp[i], ha[i], hc[i] = price, amount, column


@inlined
def _heap_pop(s: Space, size: int) -> None:
    """Drop the dearest of `size` entries."""
    hp, ha, hc = s.line[HP], s.line[HA], s.line[HC]
    last = size - 1
    price, amount, column = hp[last], ha[last], hc[last]
    i = 0
    while 2 * i + 1 < last:
        child = 2 * i + 1
        if child + 1 < last and hp[child + 1] > hp[child]:
            child += 1
        if hp[child] <= price:
            break
        hp[i], ha[i], hc[i] = hp[child], ha[child], hc[child]
        i = child
    hp[i], ha[i], hc[i] = price, amount, column


@inlined
def flow_step(f: Forest, s: Space, row: I64, i: int, flow: Flow) -> Flow:
    """Offer column `i` to the cheapest flow so far; return what it is then."""
    amount = float(most_at(f, row, i))
    if amount <= 0.0:
        return flow
    q = s.line[Q]
    price = max(0.0, q[i + 1] - q[i])
    work = float(row[V_WORK])
    if flow.held >= work and price >= s.line[HP, 0]:
        return flow
    _heap_push(s, flow.size, price, amount, i)
    size = flow.size + 1
    held = flow.held + amount
    cost = flow.cost + price * amount
    while size > 0 and held - s.line[HA, 0] >= work:
        held -= s.line[HA, 0]
        cost -= s.line[HP, 0] * s.line[HA, 0]
        _heap_pop(s, size)
        size -= 1
    return Flow(size, held, cost)


@inlined
def _flow_cost(s: Space, row: I64, flow: Flow) -> float:
    """Return what the steps cost, the dearest only as far as the work needs it."""
    work = float(row[V_WORK])
    if flow.held < work:
        return np.inf
    return float(flow.cost - (flow.held - work) * s.line[HP, 0])


@inlined
def bound_by_flow(f: Forest, s: Space, v: int) -> None:
    """Raise G of a malleable atom to what its height limit asks: the cheapest steps, each to h.

    Starts and ends are rounded outward to a grid of cells: what is spent is read at the far end
    of the cell of the start, the steps reach to the far end of the cell of the end.
    """
    row = f.vertices[v]
    n, base, spent = row[V_END] - row[V_START], s.cell[v], s.line[IN]
    cell = (n + CELLS - 1) // CELLS
    count = (n + cell - 1) // cell
    least = np.full(count, np.inf)
    for c in range(count):
        last_start = min((c + 1) * cell, n) - 1
        if c > 0 and not spent[0] > spent[n]:
            break  # nothing is gained by a later start
        if spent[last_start] == np.inf:
            continue
        before = spent[last_start] if spent[0] > spent[n] else spent[0]
        flow = Flow(0, 0.0, 0.0)
        for d in range(c, count):
            end = min((d + 1) * cell, n)
            for i in range(d * cell, end):
                flow = flow_step(f, s, row, i, flow)
            if end - c * cell >= row[V_SHORTEST]:
                least[d] = min(least[d], before + _flow_cost(s, row, flow))
    best = np.inf
    for d in range(count):
        best = min(best, least[d])
        for i in range(d * cell + 1, min((d + 1) * cell, n) + 1):
            s.cost[base + i] = max(s.cost[base + i], best)


@inlined
def bends(row: I64) -> bool:
    """Return whether the height limit may cost a malleable atom more than leases do."""
    return bool(row[V_WORK] > row[V_LEASE] * row[V_MOST] or row[V_BLOCKED] >= 0)


@inlined
def refill(f: Forest, s: Space, v: int, c: int, end: int) -> Flow:
    """Fill the heap with the cheapest flow from cell `c` to column `end`."""
    row = f.vertices[v]
    cell = (row[V_END] - row[V_START] + CELLS - 1) // CELLS
    flow = Flow(0, 0.0, 0.0)
    for i in range(c * cell, end):
        flow = flow_step(f, s, row, i, flow)
    return flow


@inlined
def best_cells(f: Forest, s: Space, v: int, upto: int) -> tuple[Int, Int]:
    """Return (cell of the start, last column) of the flow that is least up to column `upto`."""
    row = f.vertices[v]
    n, spent = row[V_END] - row[V_START], s.line[IN]
    cell = (n + CELLS - 1) // CELLS
    last = (max(upto, 1) - 1) // cell
    best, best_c, best_end = np.inf, 0, n
    for c in range(last + 1):
        start = min((c + 1) * cell, n) - 1
        if c > 0 and not spent[0] > spent[n]:
            break
        if spent[start] == np.inf:
            continue
        before = spent[start] if spent[0] > spent[n] else spent[0]
        flow = Flow(0, 0.0, 0.0)
        for d in range(c, last + 1):
            end = min((d + 1) * cell, n)
            for i in range(d * cell, end):
                flow = flow_step(f, s, row, i, flow)
            total = before + _flow_cost(s, row, flow)
            if end - c * cell >= row[V_SHORTEST] and total < best:
                best, best_c, best_end = total, c, end
    return best_c, best_end
