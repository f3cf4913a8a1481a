"""The Lagrangian bound and the descent of its prices (docs/exact.md, The bound).

At prices pi >= 0 the bound is the worth of all that is free plus, for each request, what its best
placement is worth more than it costs. The best placement is bounded by one dynamic programme over
G_v(t): the least that vertex v, and what is spent before it, can cost when all of it is done by
column t. Every relaxation made here only lowers G, so the bound holds at any prices.

The way back through the programme is not stored: it is found again where it is needed, which is
for the requests that pay and a few columns of each of their atoms.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from planner.agents.exact.kernels.arrays import F64, Int
from planner.agents.exact.kernels.compiled import compiled, inlined
from planner.agents.exact.kernels.least_cost import forward
from planner.agents.exact.kernels.least_use import backward
from planner.agents.exact.kernels.pricing_space import Space
from planner.agents.exact.problem import (
    V_CHILD,
    V_CHILDREN,
    V_END,
    V_KIND,
    V_START,
    Forest,
    FreeRoom,
)
from planner.kernel_cache import borrowed
from rdl.work_graph import ANY

# Cells of `Descent.state`.
BEST: Final = 0  # least bound seen
STEP: Final = 1  # factor of Polyak's step
FAILURES: Final = 2  # evaluations since the bound improved
STATE: Final = 3


class Optima(NamedTuple):
    """What the optimum of each request takes and is worth, as `columns` writes it.

    Attributes
    ----------
    bucket
        Columns over which use is summed.
    use
        float64[request, row, buckets]: 0 for a request that does not pay.
    worth
        float64[request]; with what keeping it counts for (`Forest.keep`).
    """

    bucket: int
    use: F64
    worth: F64


class Descent(NamedTuple):
    """Prices on their way down.

    Attributes
    ----------
    prices, best
        float64[row, column]: to be tried next, and those of the least bound.
    slope
        float64[row, column]: the direction, a mixture of subgradients.
    state
        float64[STATE].
    """

    prices: F64
    best: F64
    slope: F64
    state: F64


class Steps(NamedTuple):
    """How far to descend.

    Attributes
    ----------
    rounds
        Evaluations at most.
    target
        Value that was reached: no bound can be lower.
    bucket
        Columns on which prices stay equal.
    patience
        Failures before the descent goes back to its best prices.
    """

    rounds: int
    target: float
    bucket: int
    patience: int


@inlined
def _gain(f: Forest, s: Space, r: int) -> tuple[float, Int]:
    """Return (worth less cost of the best way to place a request, root or option it takes)."""
    root = f.first[r + 1] - 1
    row = f.vertices[root]
    if row[V_KIND] != ANY:
        cost = s.cost[s.cell[root] + max(0, row[V_END] - row[V_START])]
        return f.value[r] * f.worth[root] - cost, root
    best, top = -np.inf, root
    for k in range(row[V_CHILD], row[V_CHILD] + row[V_CHILDREN]):
        option = f.children[k]
        own = f.vertices[option]
        cost = s.cost[s.cell[option] + max(0, own[V_END] - own[V_START])]
        gain = f.value[r] * (1.0 - f.loss[option]) * f.worth[option] - cost
        if gain > best:
            best, top = gain, option
    return best, top


@compiled
def price_demands(room: FreeRoom, s: Space, prices: F64) -> None:
    """Write prefix sums of the price of one bundle of every demand."""
    columns = prices.shape[1]
    for d in range(s.prefix.shape[0]):
        out = s.prefix[d]
        for t in range(columns + 1):
            out[t] = 0.0
        for j in range(room.demand_first[d], room.demand_first[d + 1]):
            row, share = prices[room.demand_rows[j]], room.shares[j]
            for t in range(columns):
                out[t + 1] += share * row[t]
        for t in range(columns):
            out[t + 1] += out[t]


@compiled
def evaluate(f: Forest, room: FreeRoom, s: Space, prices: F64) -> float:
    """Return the bound at some prices; leave the use of its optimum in `s.use` (as shares).

    Parameters
    ----------
    prices
        float64[row, column], at least 0: value of all of a row's greatest capacity for one column.
    """
    return float(_evaluate(borrowed(f), borrowed(room), borrowed(s), prices))


@compiled
def _evaluate(f: Forest, room: FreeRoom, s: Space, prices: F64) -> float:
    price_demands(room, s, prices)
    s.use[:, :] = 0.0
    total = 0.0
    rows, columns = prices.shape
    for k in range(rows):
        for t in range(columns):
            total += prices[k, t] * room.capacity[k, t]
    for r in range(f.value.shape[0]):
        forward(f, s, r)
        gain, top = _gain(f, s, r)
        s.gains[r] = gain if f.keep[r] > 0.0 else max(0.0, gain)
        total += s.gains[r]
        if gain > 0.0 or (f.keep[r] > 0.0 and gain > -np.inf):
            backward(f, room, s, r, top)
    for k in range(rows):
        for t in range(1, columns):
            s.use[k, t] += s.use[k, t - 1]
    return total


@compiled
def columns(f: Forest, room: FreeRoom, s: Space, prices: F64, optima: Optima) -> float:
    """Return the bound at some prices; write the optimum of each request to `optima`."""
    bucket, use, worth = optima
    f, room, s = borrowed(f), borrowed(room), borrowed(s)
    price_demands(room, s, prices)
    total = 0.0
    rows, steps = prices.shape
    for k in range(rows):
        for t in range(steps):
            total += prices[k, t] * room.capacity[k, t]
    for r in range(f.value.shape[0]):
        use[r] = 0.0
        worth[r] = 0.0
        forward(f, s, r)
        gain, top = _gain(f, s, r)
        if gain <= 0.0 and f.keep[r] <= 0.0:
            continue
        total += gain
        if gain == -np.inf:
            continue
        s.use[:, :] = 0.0
        backward(f, room, s, r, top)
        worth[r] = f.value[r] * f.worth[top]
        if top != f.first[r + 1] - 1:
            worth[r] *= 1.0 - f.loss[top]
        worth[r] += f.keep[r]
        for k in range(rows):
            held = 0.0
            for t in range(steps):
                held += s.use[k, t]
                use[r, k, t // bucket] += held
    return total


@compiled
def least_cost(f: Forest, s: Space, r: int) -> float:
    """Return the least cost of request `r` at the prices of `price_demands` (its root's G)."""
    f, s = borrowed(f), borrowed(s)
    forward(f, s, r)
    root = f.first[r + 1] - 1
    row = f.vertices[root]
    return float(s.cost[s.cell[root] + max(0, row[V_END] - row[V_START])])


@inlined
def _average(values: F64, bucket: int) -> None:
    """Replace each run of `bucket` columns by its mean."""
    rows, columns = values.shape
    for k in range(rows):
        for t in range(0, columns, bucket):
            end = min(t + bucket, columns)
            total = 0.0
            for u in range(t, end):
                total += values[k, u]
            for u in range(t, end):
                values[k, u] = total / (end - t)


@inlined
def _slope(room: FreeRoom, s: Space, prices: F64, slope: F64, bucket: int) -> float:
    """Mix the new subgradient into the direction; return its square where prices can move."""
    rows, columns = prices.shape
    for k in range(rows):
        for t in range(columns):
            s.use[k, t] = room.capacity[k, t] - s.use[k, t]
    if bucket > 1:
        _average(s.use[:, :columns], bucket)
    square = 0.0
    for k in range(rows):
        for t in range(columns):
            slope[k, t] = 0.6 * s.use[k, t] + 0.4 * slope[k, t]
            if prices[k, t] > 0.0 or slope[k, t] < 0.0:
                square += slope[k, t] * slope[k, t]
    return square


@compiled
def descend(f: Forest, room: FreeRoom, s: Space, descent: Descent, steps: Steps) -> Int:
    """Lower the bound by steps towards the target (Polyak); return the number of evaluations.

    After some failures the search goes back to the best prices with half the step. Ends early when
    the bound has met the target.
    """
    prices, best, slope, state = descent
    rounds, target, bucket, patience = steps
    rows, columns = prices.shape
    f, room, s = borrowed(f), borrowed(room), borrowed(s)
    for done in range(rounds):
        bound = _evaluate(f, room, s, prices)
        if bound < state[BEST]:
            if bound < state[BEST] - 1e-6 * abs(bound):
                state[FAILURES] = 0.0
            state[BEST] = bound
            best[:, :] = prices
        else:
            state[FAILURES] += 1.0
        if state[BEST] <= target:
            return done + 1
        square = _slope(room, s, prices, slope, bucket)
        if state[FAILURES] >= patience:
            state[STEP] *= 0.5
            state[FAILURES] = 0.0
            prices[:, :] = best
            slope[:, :] = 0.0
            continue
        if square <= 0.0:
            return done + 1
        step = state[STEP] * (bound - target) / square
        for k in range(rows):
            for t in range(columns):
                prices[k, t] = max(0.0, prices[k, t] - step * slope[k, t])
    return rounds
