"""Compiled loops of the Lagrangian bound (docs/exact.md, The bound).

At prices pi >= 0 the bound is the worth of all that is free plus, for each request, what its best
placement is worth more than it costs. The best placement is bounded by one dynamic programme over
G_v(t): the least that vertex v, and what is spent before it, can cost when all of it is done by
column t. Every relaxation made here only lowers G, so the bound holds at any prices.

The way back through the programme is not stored: it is found again where it is needed, which is
for the requests that pay and a few columns of each of their atoms.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.exact.problem import (
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
    Room,
)
from planner.kernels import _borrowed
from rdl.work_graph import ALL, ANY, ATOM, EVERY

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
Int: TypeAlias = Any

OPTIONS: Final[dict[str, Any]] = {"cache": True, "nogil": True, "error_model": "numpy"}

#: Parts of a window in which the flow of a malleable atom may begin and end.
CELLS: Final = 6

# Rows of `Space.line`.
_IN = 0  # what has been spent before, by start
_Q = 1  # prefix sums of the atom's price
_HP = 2  # heap of the dearest steps taken: price, amount, column
_HA = 3
_HC = 4
LINES: Final = 5


class Space(NamedTuple):
    """Scratch of one thread.

    Attributes
    ----------
    cell
        int64[vertex]: first cell of the vertex in the arrays below; requests share them.
    cost
        float64[cell]: G.
    lease
        float64[cell]: what G of a malleable atom would be by leases alone.
    asked
        float64[cell]: weight with which G of a column is part of the optimum.
    line
        float64[LINES, columns + 1].
    prefix
        float64[demand, columns + 1]: prefix sums of a bundle's price.
    use
        float64[row, columns + 1]: changes of use, as shares of a row.
    gains
        float64[request]: what each request adds to the bound; below 0 only where it must be kept.
    """

    cell: I64
    cost: F64
    lease: F64
    asked: F64
    line: F64
    prefix: F64
    use: F64
    gains: F64


@njit(**OPTIONS)
def borrow_forest(f: Forest) -> Forest:
    """Return the forest without owners of its arrays (see `planner.kernels`): calls cost less."""
    return Forest(
        _borrowed(f.vertices), _borrowed(f.first), _borrowed(f.children), _borrowed(f.shifts),
        _borrowed(f.preds), _borrowed(f.program), _borrowed(f.caps), _borrowed(f.inflow),
        _borrowed(f.flow), _borrowed(f.worth), _borrowed(f.prefer), _borrowed(f.value),
        _borrowed(f.succs), _borrowed(f.keep),
    )  # fmt: skip


@njit(**OPTIONS)
def borrow_room(r: Room) -> Room:
    """Return the room without owners of its arrays."""
    return Room(
        _borrowed(r.free), _borrowed(r.demand_first), _borrowed(r.demand_rows),
        _borrowed(r.demand_amounts), _borrowed(r.fit), _borrowed(r.scale),
        _borrowed(r.capacity), _borrowed(r.shares),
    )  # fmt: skip


@njit(**OPTIONS)
def _borrow_space(s: Space) -> Space:
    return Space(
        _borrowed(s.cell), _borrowed(s.cost), _borrowed(s.lease), _borrowed(s.asked),
        _borrowed(s.line), _borrowed(s.prefix), _borrowed(s.use), _borrowed(s.gains),
    )  # fmt: skip


@njit(**OPTIONS)
def _spent(f: Forest, s: Space, v: int) -> None:
    """Write what is spent before `v` could start at each column of its window."""
    row = f.vertices[v]
    n = row[V_END] - row[V_START]
    out = s.line[_IN]
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


@njit(**OPTIONS)
def _prices(f: Forest, s: Space, v: int) -> None:
    """Write prefix sums of the price of one multiple of an atom, all occurrences together."""
    row = f.vertices[v]
    n = row[V_END] - row[V_START]
    out, prefix = s.line[_Q], s.prefix[row[V_DEMAND]]
    for i in range(n + 1):
        out[i] = 0.0
    last = prefix.shape[0] - 1
    for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
        begin = row[V_START] + f.shifts[k]
        for i in range(n + 1):
            out[i] += row[V_MULTIPLE] * prefix[min(begin + i, last)]


@njit(**OPTIONS)
def _cap(f: Forest, row: I64, i: int) -> Int:
    if row[V_BLOCKED] < 0:
        return row[V_MOST]
    return f.caps[row[V_BLOCKED] + i]


@njit(**OPTIONS)
def _run(f: Forest, s: Space, v: int) -> None:
    """G of an atom that must be one block: exact."""
    row = f.vertices[v]
    n, length, base = row[V_END] - row[V_START], row[V_RUN], s.cell[v]
    spent, q = s.line[_IN], s.line[_Q]
    best = np.inf
    free_from = 0  # no column from here on is too low
    for i in range(n + 1):
        if i > 0 and row[V_BLOCKED] >= 0 and _cap(f, row, i - 1) < row[V_MOST]:
            free_from = i
        begin = i - length
        if begin >= free_from:
            best = min(best, spent[begin] + row[V_MOST] * (q[i] - q[begin]))
        s.cost[base + i] = best


@njit(**OPTIONS)
def _least_mean(spent: F64, q: F64, i: int, shortest: int, longest: int, work: float) -> float:
    """Return the least of spent + work x mean price over blocks that end at column `i`."""
    best = np.inf
    for length in range(shortest, longest + 1):
        cost = spent[i - length] + (q[i] - q[i - length]) * (work / length)
        best = min(best, cost)
    return float(best)


@njit(**OPTIONS)
def _leases(f: Forest, s: Space, v: int) -> None:
    """G of a malleable atom by leases: one of them costs no more than the mean of all.

    Every lease of 2 l or more splits into leases of l to 2 l - 1, so no others need a look.
    """
    row = f.vertices[v]
    n, lease, base = row[V_END] - row[V_START], row[V_LEASE], s.cell[v]
    spent, q = s.line[_IN], s.line[_Q]
    best = np.inf
    free_from = 0
    for i in range(n + 1):
        if i > 0 and row[V_BLOCKED] >= 0 and _cap(f, row, i - 1) == 0:
            free_from = i
        longest = min(2 * lease - 1, i - free_from)
        if longest >= lease:
            best = min(best, _least_mean(spent, q, i, lease, longest, float(row[V_WORK])))
        s.lease[base + i] = best
        s.cost[base + i] = best if i >= row[V_SHORTEST] else np.inf


@njit(**OPTIONS)
def _heap_push(s: Space, size: int, price: float, amount: float, column: int) -> None:
    hp, ha, hc = s.line[_HP], s.line[_HA], s.line[_HC]
    i = size
    while i > 0 and hp[(i - 1) // 2] < price:
        up = (i - 1) // 2
        hp[i], ha[i], hc[i] = hp[up], ha[up], hc[up]
        i = up
    hp[i], ha[i], hc[i] = price, amount, column


@njit(**OPTIONS)
def _heap_pop(s: Space, size: int) -> None:
    """Drop the dearest of `size` entries."""
    hp, ha, hc = s.line[_HP], s.line[_HA], s.line[_HC]
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


@njit(**OPTIONS)
def _flow_step(f: Forest, s: Space, row: I64, i: int, size: int, held: float, cost: float) -> Any:
    """Offer column `i` to the cheapest flow so far; return (entries, amount, cost)."""
    amount = float(_cap(f, row, i))
    if amount <= 0.0:
        return size, held, cost
    q = s.line[_Q]
    price = max(0.0, q[i + 1] - q[i])
    work = float(row[V_WORK])
    if held >= work and price >= s.line[_HP, 0]:
        return size, held, cost
    _heap_push(s, size, price, amount, i)
    size += 1
    held += amount
    cost += price * amount
    while size > 0 and held - s.line[_HA, 0] >= work:
        held -= s.line[_HA, 0]
        cost -= s.line[_HP, 0] * s.line[_HA, 0]
        _heap_pop(s, size)
        size -= 1
    return size, held, cost


@njit(**OPTIONS)
def _flow_cost(s: Space, row: I64, held: float, cost: float) -> float:
    work = float(row[V_WORK])
    if held < work:
        return np.inf
    return float(cost - (held - work) * s.line[_HP, 0])


@njit(**OPTIONS)
def _flow(f: Forest, s: Space, v: int) -> None:
    """Raise G of a malleable atom to what its height limit asks: the cheapest steps, each to h.

    Starts and ends are rounded outward to a grid of cells: what is spent is read at the far end
    of the cell of the start, the steps reach to the far end of the cell of the end.
    """
    row = f.vertices[v]
    n, base, spent = row[V_END] - row[V_START], s.cell[v], s.line[_IN]
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
        size, held, cost = 0, 0.0, 0.0
        for d in range(c, count):
            end = min((d + 1) * cell, n)
            for i in range(d * cell, end):
                size, held, cost = _flow_step(f, s, row, i, size, held, cost)
            if end - c * cell >= row[V_SHORTEST]:
                least[d] = min(least[d], before + _flow_cost(s, row, held, cost))
    best = np.inf
    for d in range(count):
        best = min(best, least[d])
        for i in range(d * cell + 1, min((d + 1) * cell, n) + 1):
            s.cost[base + i] = max(s.cost[base + i], best)


@njit(**OPTIONS)
def _bends(row: I64) -> bool:
    """Return whether the height limit may cost a malleable atom more than leases do."""
    return bool(row[V_WORK] > row[V_LEASE] * row[V_MOST] or row[V_BLOCKED] >= 0)


@njit(**OPTIONS)
def _child_at(f: Forest, s: Space, v: int, i: int, child: int) -> Int:
    """Return the cell of `child` for column `i` of group `v`, or -1 before its window."""
    row = f.vertices[v]
    at = row[V_START] + i - f.vertices[child, V_START]
    if row[V_KIND] == EVERY:
        at -= row[V_LAST]
    at = min(at, f.vertices[child, V_END] - f.vertices[child, V_START])
    return s.cell[child] + at if at >= 0 else -1


@njit(**OPTIONS)
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
            at = _child_at(f, s, v, i, child)
            cost = s.cost[at] if at >= 0 else np.inf
            total = min(total, cost) if row[V_KIND] == ANY else total + cost
        s.cost[base + i] = total


@njit(**OPTIONS)
def _forward(f: Forest, s: Space, r: int) -> None:
    """Compute G of every vertex of a request."""
    for k in range(f.first[r], f.first[r + 1]):
        v = f.program[k]
        row = f.vertices[v]
        if row[V_SOUND] == 0:
            for i in range(max(0, row[V_END] - row[V_START]) + 1):
                s.cost[s.cell[v] + i] = np.inf
        elif row[V_KIND] == ATOM:
            _spent(f, s, v)
            _prices(f, s, v)
            if row[V_RUN] > 0:
                _run(f, s, v)
            else:
                _leases(f, s, v)
                if _bends(row):
                    _flow(f, s, v)
        else:
            _group(f, s, v)


@njit(**OPTIONS)
def _use(f: Forest, room: Room, s: Space, row: I64, a: int, b: int, height: float) -> None:
    """Add `height` multiples on columns [a, b) of an atom's window, in every occurrence."""
    last = s.use.shape[1] - 1
    for j in range(room.demand_first[row[V_DEMAND]], room.demand_first[row[V_DEMAND] + 1]):
        amount = height * row[V_MULTIPLE] * room.shares[j]
        use = s.use[room.demand_rows[j]]
        for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
            begin = row[V_START] + f.shifts[k]
            use[min(begin + a, last)] += amount
            use[min(begin + b, last)] -= amount


@njit(**OPTIONS)
def _ask_before(f: Forest, s: Space, v: int, i: int, weight: float) -> None:
    """Ask what precedes `v` to be done by column `i` of its window."""
    row = f.vertices[v]
    top = row[V_INFLOW]
    if top < 0:
        return
    first = f.vertices[top, V_PRED]
    for e in range(first, first + f.vertices[top, V_PREDS]):
        u = f.preds[e, 0]
        width = f.vertices[u, V_END] - f.vertices[u, V_START]
        at = min(row[V_START] + i - f.preds[e, 1] - f.vertices[u, V_START], width)
        s.asked[s.cell[u] + at] += weight * f.inflow[v] * f.flow[u]


@njit(**OPTIONS)
def _take_run(f: Forest, room: Room, s: Space, v: int, i: int, weight: float) -> None:
    """Count the block that makes G at column `i`."""
    row = f.vertices[v]
    base = s.cell[v]
    while i > 0 and s.cost[base + i - 1] <= s.cost[base + i]:
        i -= 1
    begin = i - row[V_RUN]
    _use(f, room, s, row, begin, i, weight * row[V_MOST])
    _ask_before(f, s, v, begin, weight)


@njit(**OPTIONS)
def _take_lease(f: Forest, room: Room, s: Space, v: int, i: int, weight: float) -> None:
    """Count the lease that makes G at column `i`, its work spread evenly over it."""
    row = f.vertices[v]
    base, lease = s.cell[v], row[V_LEASE]
    while i > 0 and s.lease[base + i - 1] <= s.lease[base + i]:
        i -= 1
    spent, q, work = s.line[_IN], s.line[_Q], float(row[V_WORK])
    best, length = np.inf, lease
    for n in range(lease, min(2 * lease - 1, i) + 1):
        if row[V_BLOCKED] >= 0 and _cap(f, row, i - n) == 0:
            break
        cost = spent[i - n] + (q[i] - q[i - n]) * (work / n)
        if cost < best:
            best, length = cost, n
    _use(f, room, s, row, i - length, i, weight * work / length)
    _ask_before(f, s, v, i - length, weight)


@njit(**OPTIONS)
def _refill(f: Forest, s: Space, v: int, c: int, end: int) -> Any:
    """Fill the heap with the cheapest flow from cell `c` to column `end`: (entries, held, cost)."""
    row = f.vertices[v]
    cell = (row[V_END] - row[V_START] + CELLS - 1) // CELLS
    size, held, cost = 0, 0.0, 0.0
    for i in range(c * cell, end):
        size, held, cost = _flow_step(f, s, row, i, size, held, cost)
    return size, held, cost


@njit(**OPTIONS)
def _best_cells(f: Forest, s: Space, v: int, upto: int) -> Any:
    """Return (cell of the start, last column) of the flow that is least up to column `upto`."""
    row = f.vertices[v]
    n, spent = row[V_END] - row[V_START], s.line[_IN]
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
        size, held, cost = 0, 0.0, 0.0
        for d in range(c, last + 1):
            end = min((d + 1) * cell, n)
            for i in range(d * cell, end):
                size, held, cost = _flow_step(f, s, row, i, size, held, cost)
            total = before + _flow_cost(s, row, held, cost)
            if end - c * cell >= row[V_SHORTEST] and total < best:
                best, best_c, best_end = total, c, end
    return best_c, best_end


@njit(**OPTIONS)
def _take_flow(f: Forest, room: Room, s: Space, v: int, i: int, weight: float) -> None:
    """Count the cheapest steps that make G at column `i`."""
    row = f.vertices[v]
    n = row[V_END] - row[V_START]
    cell = (n + CELLS - 1) // CELLS
    c, end = _best_cells(f, s, v, i)
    size, held, _cost = _refill(f, s, v, c, end)
    over = held - row[V_WORK]
    for k in range(size):
        amount = s.line[_HA, k] - (over if k == 0 else 0.0)
        column = np.int64(s.line[_HC, k])
        _use(f, room, s, row, column, column + 1, weight * amount)
    _ask_before(f, s, v, min((c + 1) * cell, n) - 1, weight)


@njit(**OPTIONS)
def _take_atom(f: Forest, room: Room, s: Space, v: int) -> None:
    row = f.vertices[v]
    base = s.cell[v]
    ready = False
    for i in range(row[V_END] - row[V_START] + 1):
        weight = s.asked[base + i]
        if weight <= 0.0:
            continue
        s.asked[base + i] = 0.0
        if not ready:
            _spent(f, s, v)
            _prices(f, s, v)
            ready = True
        if row[V_RUN] > 0:
            _take_run(f, room, s, v, i, weight)
        elif s.cost[base + i] > s.lease[base + i]:
            _take_flow(f, room, s, v, i, weight)
        else:
            _take_lease(f, room, s, v, i, weight)


@njit(**OPTIONS)
def _pass_down(f: Forest, s: Space, v: int) -> None:
    """Hand what is asked of a group to its children."""
    row = f.vertices[v]
    base = s.cell[v]
    for i in range(row[V_END] - row[V_START] + 1):
        weight = s.asked[base + i]
        if weight <= 0.0:
            continue
        s.asked[base + i] = 0.0
        best, chosen = np.inf, -1
        for k in range(row[V_CHILD], row[V_CHILD] + row[V_CHILDREN]):
            child = f.children[k]
            if row[V_KIND] == ALL and f.vertices[child, V_SUCCS] > 0:
                continue
            at = _child_at(f, s, v, i, child)
            if row[V_KIND] != ANY:
                s.asked[at] += weight
            elif at >= 0 and s.cost[at] < best:
                best, chosen = s.cost[at], at
        if chosen >= 0:
            s.asked[chosen] += weight


@njit(**OPTIONS)
def _backward(f: Forest, room: Room, s: Space, r: int, top: int) -> None:
    """Add to the use what the optimum of a request takes; `top` is its root or root option."""
    row = f.vertices[top]
    s.asked[s.cell[top] + row[V_END] - row[V_START]] = 1.0
    for k in range(f.first[r + 1] - 1, f.first[r] - 1, -1):
        v = f.program[k]
        if f.vertices[v, V_KIND] == ATOM:
            _take_atom(f, room, s, v)
        else:
            _pass_down(f, s, v)


@njit(**OPTIONS)
def _gain(f: Forest, s: Space, r: int) -> Any:
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
        gain = f.value[r] * f.prefer[option] * f.worth[option] - cost
        if gain > best:
            best, top = gain, option
    return best, top


@njit(**OPTIONS)
def price_demands(room: Room, s: Space, prices: F64) -> None:
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


@njit(**OPTIONS)
def evaluate(f: Forest, room: Room, s: Space, prices: F64) -> float:
    """Return the bound at some prices; leave the use of its optimum in `s.use` (as shares).

    Parameters
    ----------
    prices
        float64[row, column], at least 0: value of all of a row's greatest capacity for one column.
    """
    return float(_evaluate(borrow_forest(f), borrow_room(room), _borrow_space(s), prices))


@njit(**OPTIONS)
def _evaluate(f: Forest, room: Room, s: Space, prices: F64) -> float:
    price_demands(room, s, prices)
    s.use[:, :] = 0.0
    total = 0.0
    rows, columns = prices.shape
    for k in range(rows):
        for t in range(columns):
            total += prices[k, t] * room.capacity[k, t]
    for r in range(f.value.shape[0]):
        _forward(f, s, r)
        gain, top = _gain(f, s, r)
        s.gains[r] = gain if f.keep[r] > 0.0 else max(0.0, gain)
        total += s.gains[r]
        if gain > 0.0 or (f.keep[r] > 0.0 and gain > -np.inf):
            _backward(f, room, s, r, top)
    for k in range(rows):
        for t in range(1, columns):
            s.use[k, t] += s.use[k, t - 1]
    return total


@njit(**OPTIONS)
def columns(
    f: Forest, room: Room, s: Space, prices: F64, bucket: int, use: F64, worth: F64
) -> float:
    """Return the bound at some prices, and what the optimum of each request takes and is worth.

    Parameters
    ----------
    bucket
        Columns over which use is summed.
    use
        float64[request, row, buckets], written: 0 for a request that does not pay.
    worth
        float64[request], written; with what keeping it counts for (`Forest.keep`).
    """
    f, room, s = borrow_forest(f), borrow_room(room), _borrow_space(s)
    price_demands(room, s, prices)
    total = 0.0
    rows, steps = prices.shape
    for k in range(rows):
        for t in range(steps):
            total += prices[k, t] * room.capacity[k, t]
    for r in range(f.value.shape[0]):
        use[r] = 0.0
        worth[r] = 0.0
        _forward(f, s, r)
        gain, top = _gain(f, s, r)
        if gain <= 0.0 and f.keep[r] <= 0.0:
            continue
        total += gain
        if gain == -np.inf:
            continue
        s.use[:, :] = 0.0
        _backward(f, room, s, r, top)
        worth[r] = f.value[r] * f.worth[top]
        if top != f.first[r + 1] - 1:
            worth[r] *= f.prefer[top]
        worth[r] += f.keep[r]
        for k in range(rows):
            held = 0.0
            for t in range(steps):
                held += s.use[k, t]
                use[r, k, t // bucket] += held
    return total


@njit(**OPTIONS)
def least_cost(f: Forest, s: Space, r: int) -> float:
    """Return the least cost of request `r` at the prices of `price_demands` (its root's G)."""
    f, s = borrow_forest(f), _borrow_space(s)
    _forward(f, s, r)
    root = f.first[r + 1] - 1
    row = f.vertices[root]
    return float(s.cost[s.cell[root] + max(0, row[V_END] - row[V_START])])


@njit(**OPTIONS)
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


# Cells of the ascent's `state`.
BEST: Final = 0  # least bound seen
STEP: Final = 1  # factor of Polyak's step
FAILURES: Final = 2  # evaluations since the bound improved
STATE: Final = 3


@njit(**OPTIONS)
def _slope(room: Room, s: Space, prices: F64, slope: F64, bucket: int) -> float:
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


@njit(**OPTIONS)
def descend(
    f: Forest, room: Room, s: Space, prices: F64, best: F64, slope: F64, state: F64,
    rounds: int, target: float, bucket: int, patience: int,
) -> Int:  # fmt: skip
    """Lower the bound by steps towards `target` (Polyak); return the number of evaluations.

    `best` holds the prices of the least bound; after `patience` failures the search goes back to
    them with half the step. Ends early when the bound has met the target.
    """
    rows, columns = prices.shape
    f, room, s = borrow_forest(f), borrow_room(room), _borrow_space(s)
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
