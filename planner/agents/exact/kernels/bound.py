"""The Lagrangian bound and the descent of its prices (docs/exact.md, The bound).

At prices pi >= 0 the bound is the worth of all free capacity plus, for each request, the worth of
its best placement minus its cost, if positive. The best placement is bounded by a dynamic program
over G_v(t): the minimum cost of vertex v and its predecessors if all of it ends by column t. Every
relaxation made here only lowers G, so the bound is valid at any prices.

The decisions of the dynamic program are not stored: they are recomputed when needed, which is only
for requests with positive gain and a few columns of each of their atoms.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels import F64, I64, Int, compiled, inlined
from planner.agents.exact.problem import Forest, FreeRoom
from planner.kernel_cache import borrowed
from rdl.work_graph import ALL, ANY, ATOM, EVERY

#: Number of parts of a window for the start and end of a malleable atom's flow.
CELLS: Final = 6

# Rows of `Space.line`.
IN: Final = 0  # cost of the predecessors, by start
Q: Final = 1  # prefix sums of the atom's price
HP: Final = 2  # heap of the chosen steps, most expensive first: price, amount, column
HA: Final = 3
HC: Final = 4
LINES: Final = 5


class Space(NamedTuple):
    """Scratch arrays of one thread.

    Attributes
    ----------
    cell
        int64[vertex]: first cell of the vertex in the arrays below, which all requests share.
    cost
        float64[cell]: G.
    lease
        float64[cell]: G of a malleable atom from leases only.
    asked
        float64[cell]: weight of each column's G in the optimum.
    line
        float64[LINES, columns + 1].
    prefix
        float64[demand, columns + 1]: prefix sums of a bundle's price.
    use
        float64[row, columns + 1]: changes of use, as shares of a row.
    gains
        float64[request]: contribution of each request to the bound; negative only if it must be
        kept.
    """

    cell: I64
    cost: F64
    lease: F64
    asked: F64
    line: F64
    prefix: F64
    use: F64
    gains: F64


@inlined
def most_at(f: Forest, row: I64, i: int) -> Int:
    """Return an atom's maximum multiples in column `i` of its window on an idle cluster."""
    if row[pb.V_BLOCKED] < 0:
        return row[pb.V_MOST]
    return f.caps[row[pb.V_BLOCKED] + i]


class Flow(NamedTuple):
    """The steps in the heap: their number, total amount and total cost."""

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
    """Drop the most expensive of `size` entries."""
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
    """Add column `i` to the cheapest flow if it improves it; return the new flow."""
    amount = float(most_at(f, row, i))
    if amount <= 0.0:
        return flow
    q = s.line[Q]
    price = max(0.0, q[i + 1] - q[i])
    work = float(row[pb.V_WORK])
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
    """Return the cost of the steps, the most expensive one only as far as the work needs it."""
    work = float(row[pb.V_WORK])
    if flow.held < work:
        return np.inf
    return float(flow.cost - (flow.held - work) * s.line[HP, 0])


@inlined
def bound_by_flow(f: Forest, s: Space, v: int) -> None:
    """Raise G of a malleable atom by its height limit: cost of the cheapest steps, each up to h.

    Starts and ends are rounded outward to a grid of cells: the cost before is read at the far end
    of the start's cell, and the steps extend to the far end of the end's cell.
    """
    row = f.vertices[v]
    n, base, spent = row[pb.V_END] - row[pb.V_START], s.cell[v], s.line[IN]
    cell = (n + CELLS - 1) // CELLS
    count = (n + cell - 1) // cell
    least = np.full(count, np.inf)
    for c in range(count):
        last_start = min((c + 1) * cell, n) - 1
        if c > 0 and not spent[0] > spent[n]:
            break  # a later start gains nothing
        if spent[last_start] == np.inf:
            continue
        before = spent[last_start] if spent[0] > spent[n] else spent[0]
        flow = Flow(0, 0.0, 0.0)
        for d in range(c, count):
            end = min((d + 1) * cell, n)
            for i in range(d * cell, end):
                flow = flow_step(f, s, row, i, flow)
            if end - c * cell >= row[pb.V_SHORTEST]:
                least[d] = min(least[d], before + _flow_cost(s, row, flow))
    best = np.inf
    for d in range(count):
        best = min(best, least[d])
        for i in range(d * cell + 1, min((d + 1) * cell, n) + 1):
            s.cost[base + i] = max(s.cost[base + i], best)


@inlined
def bends(row: I64) -> bool:
    """Return whether the height limit may raise a malleable atom's cost above that of leases."""
    return bool(row[pb.V_WORK] > row[pb.V_LEASE] * row[pb.V_MOST] or row[pb.V_BLOCKED] >= 0)


@inlined
def refill(f: Forest, s: Space, v: int, c: int, end: int) -> Flow:
    """Fill the heap with the cheapest flow from cell `c` to column `end`."""
    row = f.vertices[v]
    cell = (row[pb.V_END] - row[pb.V_START] + CELLS - 1) // CELLS
    flow = Flow(0, 0.0, 0.0)
    for i in range(c * cell, end):
        flow = flow_step(f, s, row, i, flow)
    return flow


@inlined
def best_cells(f: Forest, s: Space, v: int, upto: int) -> tuple[Int, Int]:
    """Return (cell of the start, end column) of the cheapest flow up to column `upto`."""
    row = f.vertices[v]
    n, spent = row[pb.V_END] - row[pb.V_START], s.line[IN]
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
            if end - c * cell >= row[pb.V_SHORTEST] and total < best:
                best, best_c, best_end = total, c, end
    return best_c, best_end


@inlined
def write_spent(f: Forest, s: Space, v: int) -> None:
    """Write the cost of the predecessors of `v` for each start column of its window."""
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
    """Write prefix sums of the price of one multiple of an atom, summed over occurrences."""
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
    """Compute G of an atom that must be one block, exactly."""
    row = f.vertices[v]
    n, length, base = row[pb.V_END] - row[pb.V_START], row[pb.V_RUN], s.cell[v]
    spent, q = s.line[IN], s.line[Q]
    best = np.inf
    free_from = 0  # all columns from here on are high enough
    for i in range(n + 1):
        if i > 0 and row[pb.V_BLOCKED] >= 0 and most_at(f, row, i - 1) < row[pb.V_MOST]:
            free_from = i
        begin = i - length
        if begin >= free_from:
            best = min(best, spent[begin] + row[pb.V_MOST] * (q[i] - q[begin]))
        s.cost[base + i] = best


@inlined
def _least_mean(spent: F64, q: F64, i: int, shortest: int, longest: int, work: float) -> float:
    """Return the minimum of spent + work x mean price over blocks that end at column `i`."""
    best = np.inf
    for length in range(shortest, longest + 1):
        cost = spent[i - length] + (q[i] - q[i - length]) * (work / length)
        best = min(best, cost)
    return float(best)


@inlined
def _leases(f: Forest, s: Space, v: int) -> None:
    """Compute G of a malleable atom from leases: one of them costs at most the mean of all.

    Every lease of 2 l or more splits into leases of l to 2 l - 1, so only those are considered.
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
    """Compute G of a group: sum of children without successors, cheapest option, shifted child."""
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
    """Add the weight to the predecessors of `v`, which must end by column `i` of its window."""
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
    """Add the use of the block that attains G at column `i`."""
    row = f.vertices[v]
    base = s.cell[v]
    while i > 0 and s.cost[base + i - 1] <= s.cost[base + i]:
        i -= 1
    begin = i - row[pb.V_RUN]
    _use(f, room, s, row, begin, i, weight * row[pb.V_MOST])
    _ask_before(f, s, v, begin, weight)


@inlined
def _take_lease(f: Forest, room: FreeRoom, s: Space, v: int, i: int, weight: float) -> None:
    """Add the use of the lease that attains G at column `i`, its work spread evenly."""
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
    """Add the use of the cheapest steps that attain G at column `i`."""
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
    """Pass the weights of a group to its children."""
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
    """Add the use of a request's optimum; `top` is its root or root option."""
    row = f.vertices[top]
    s.asked[s.cell[top] + row[pb.V_END] - row[pb.V_START]] = 1.0
    for k in range(f.first[r + 1] - 1, f.first[r] - 1, -1):
        v = f.program[k]
        if f.vertices[v, pb.V_KIND] == ATOM:
            _take_atom(f, room, s, v)
        else:
            _pass_down(f, s, v)


# Cells of `Descent.state`.
BEST: Final = 0  # lowest bound so far
STEP: Final = 1  # factor of Polyak's step
FAILURES: Final = 2  # evaluations since the bound improved
STATE: Final = 3


class Optima(NamedTuple):
    """Use and worth of each request's optimum, written by `columns`.

    Attributes
    ----------
    bucket
        Columns over which use is summed.
    use
        float64[request, row, buckets]: 0 for a request without gain.
    worth
        float64[request]; including the bonus of `Forest.keep`.
    """

    bucket: int
    use: F64
    worth: F64


class Descent(NamedTuple):
    """State of a descent of prices.

    Attributes
    ----------
    prices, best
        float64[row, column]: prices to try next, and prices of the lowest bound.
    slope
        float64[row, column]: the direction, a weighted mean of subgradients.
    state
        float64[STATE].
    """

    prices: F64
    best: F64
    slope: F64
    state: F64


class Steps(NamedTuple):
    """Limits of a descent.

    Attributes
    ----------
    rounds
        Maximum number of evaluations.
    target
        Value of a known plan: no bound can be lower.
    bucket
        Number of columns with equal prices.
    patience
        Failures before the descent returns to its best prices.
    """

    rounds: int
    target: float
    bucket: int
    patience: int


@inlined
def _gain(f: Forest, s: Space, r: int) -> tuple[float, Int]:
    """Return (worth minus cost of a request's best placement, its root or root option)."""
    root = f.first[r + 1] - 1
    row = f.vertices[root]
    if row[pb.V_KIND] != ANY:
        cost = s.cost[s.cell[root] + max(0, row[pb.V_END] - row[pb.V_START])]
        return f.value[r] * f.worth[root] - cost, root
    best, top = -np.inf, root
    for k in range(row[pb.V_CHILD], row[pb.V_CHILD] + row[pb.V_CHILDREN]):
        option = f.children[k]
        own = f.vertices[option]
        cost = s.cost[s.cell[option] + max(0, own[pb.V_END] - own[pb.V_START])]
        gain = f.value[r] * (1.0 - f.loss[option]) * f.worth[option] - cost
        if gain > best:
            best, top = gain, option
    return best, top


@compiled
def _price_all(room: FreeRoom, s: Space, prices: F64) -> float:
    """Write prefix sums of every demand's bundle price; return the worth of the free capacity."""
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
    total = 0.0
    for k in range(prices.shape[0]):
        for t in range(columns):
            total += prices[k, t] * room.capacity[k, t]
    return total


@compiled
def evaluate(f: Forest, room: FreeRoom, s: Space, prices: F64) -> float:
    """Return the bound at the prices; write the use of its optimum to `s.use` (as shares).

    Parameters
    ----------
    prices
        float64[row, column], at least 0: value of a row's maximum capacity for one column.
    """
    return float(_evaluate(borrowed(f), borrowed(room), borrowed(s), prices))


@compiled
def _evaluate(f: Forest, room: FreeRoom, s: Space, prices: F64) -> float:
    total = _price_all(room, s, prices)
    s.use[:, :] = 0.0
    for r in range(f.value.shape[0]):
        forward(f, s, r)
        gain, top = _gain(f, s, r)
        s.gains[r] = gain if f.keep[r] > 0.0 else max(0.0, gain)
        total += s.gains[r]
        if gain > 0.0 or (f.keep[r] > 0.0 and gain > -np.inf):
            backward(f, room, s, r, top)
    for k in range(prices.shape[0]):
        for t in range(1, prices.shape[1]):
            s.use[k, t] += s.use[k, t - 1]
    return total


@compiled
def columns(f: Forest, room: FreeRoom, s: Space, prices: F64, optima: Optima) -> float:
    """Return the bound at the prices; write the optimum of each request to `optima`."""
    bucket, use, worth = optima
    f, room, s = borrowed(f), borrowed(room), borrowed(s)
    total = _price_all(room, s, prices)
    rows, steps = prices.shape
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
    """Mix the new subgradient into the direction; return its squared norm where prices can move."""
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

    After `patience` failures the descent returns to the best prices with half the step. It ends
    early when the bound meets the target.
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
