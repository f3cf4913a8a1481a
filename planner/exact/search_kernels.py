"""Compiled loops of the exact planner's search for plans: ruin and recreate under annealing.

A move takes some accepted requests out of the plan and puts them, and rejected ones nearby, back
in another order, each atom as early or as late as it can go. A worse plan is kept with a
probability that falls with the loss and the temperature. All plans respect windows, order and
gaps, heights, leases, exact work, rows of the profile and fit caps at every moment; window
averages are left to the check outside.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from planner.exact.bound_kernels import borrow_forest, borrow_room
from planner.exact.problem import (
    V_CHILD,
    V_CHILDREN,
    V_DEMAND,
    V_END,
    V_KIND,
    V_LAST,
    V_LEASE,
    V_LEAST,
    V_MOST,
    V_MULTIPLE,
    V_PARENT,
    V_PRED,
    V_PREDS,
    V_RUN,
    V_SHIFT,
    V_SHIFTS,
    V_SHORTEST,
    V_SOUND,
    V_START,
    V_SUCC,
    V_SUCCS,
    V_WORK,
    Forest,
    Room,
)
from planner.kernels import _borrowed
from rdl.work_graph import ANY, ATOM, EVERY

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Int: TypeAlias = Any

OPTIONS: Final[dict[str, Any]] = {"cache": True, "nogil": True, "error_model": "numpy"}

# Rows of `Search.vertex`.
_ACTIVE = 0  # in the options taken
_FROM = 1  # first column held below it
_TO = 2  # first column past the last
_BOUND = 3  # bound of its start (or end) raised by a largest gap
_DONE = 4
VERTEX_ROWS: Final = 5

# Rows of `Search.line`: what an atom may hold, and what it holds, counted from the near end.
_CAP = 0
_X = 1
LINES: Final = 2

# Rows of `Search.list`.
_TOUCHED = 0
_TRIED = 1
_NEAR = 2
LISTS: Final = 3

# Cells of `Search.total`.
NOW: Final = 0
BEST: Final = 1
TOTALS: Final = 2

# Copies of a plan: the first index of `rows`, `pieces`, `option` and `worth`.
PLAN: Final = 0
BEFORE: Final = 1
KEPT: Final = 2  # the best plan
PLANS: Final = 3

_FAR: Final = 1 << 40
_LEAPS: Final = 24  # times a request is begun again for a largest gap
_HEIGHTS: Final = 16  # heights tried for a malleable atom that is no sum of whole leases


class Search(NamedTuple):
    """One search: three plans (`PLAN`, `BEFORE`, `KEPT`) and scratch.

    Attributes
    ----------
    free
        int64[row, column]: what the present plan leaves.
    first
        int64[vertex + 1]: where an atom's rows may stand in `rows`.
    rows
        int64[PLANS, slot, 3]: first column, column past the last, bundles.
    pieces, option
        int64[PLANS, vertex]: rows held; option taken of an `any`.
    worth
        float64[PLANS, request]: value earned, 0 when refused (then nothing is held).
    held
        int64[PLANS, request]: whether it is accepted (something may be worth nothing).
    span
        int64[request, 2]: columns that the present plan holds for it.
    stale
        int64[request]: changed since the best plan was kept.
    density
        float64[request]: value over the least work that it asks, as shares.
    vertex, line, list, key, random, total
        Scratch, state of the random numbers, and the values of the plans.
    """

    free: I64
    first: I64
    rows: I64
    pieces: I64
    option: I64
    worth: F64
    held: I64
    span: I64
    stale: I64
    density: F64
    vertex: I64
    line: I64
    list: I64
    key: F64
    random: U64
    total: F64


@njit(**OPTIONS)
def _borrow(s: Search) -> Search:
    return Search(
        _borrowed(s.free), _borrowed(s.first), _borrowed(s.rows), _borrowed(s.pieces),
        _borrowed(s.option), _borrowed(s.worth), _borrowed(s.held), _borrowed(s.span),
        _borrowed(s.stale), _borrowed(s.density), _borrowed(s.vertex), _borrowed(s.line),
        _borrowed(s.list), _borrowed(s.key), _borrowed(s.random), _borrowed(s.total),
    )  # fmt: skip


@njit(**OPTIONS)
def _random(s: Search) -> float:
    """Return a number in [0, 1): xorshift64*, a state of its own for each search."""
    x = s.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    s.random[0] = x
    return float((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(**OPTIONS)
def _below(s: Search, n: int) -> Int:
    return min(n - 1, np.int64(_random(s) * n))


# ---- one atom -----------------------------------------------------------------------------------


@njit(**OPTIONS)
def _take(f: Forest, room: Room, s: Search, v: int, sign: int) -> None:
    """Take the rows of an atom from the profile, or give them back (sign -1)."""
    row = f.vertices[v]
    first, d = s.first[v], row[V_DEMAND]
    for i in range(first, first + s.pieces[PLAN, v]):
        for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
            a, b = s.rows[PLAN, i, 0] + f.shifts[k], s.rows[PLAN, i, 1] + f.shifts[k]
            for j in range(room.demand_first[d], room.demand_first[d + 1]):
                amount = sign * s.rows[PLAN, i, 2] * room.demand_amounts[j]
                free = s.free[room.demand_rows[j]]
                for t in range(a, b):
                    free[t] -= amount


@njit(**OPTIONS)
def _has_room(f: Forest, room: Room, s: Search, row: I64, t: int, bundles: int) -> bool:
    d = row[V_DEMAND]
    columns = s.free.shape[1]
    for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
        at = t + f.shifts[k]
        if at >= columns or room.fit[d, at] < bundles:
            return False
        for j in range(room.demand_first[d], room.demand_first[d + 1]):
            if s.free[room.demand_rows[j], at] < bundles * room.demand_amounts[j]:
                return False
    return True


@njit(**OPTIONS)
def _block_start(
    f: Forest, room: Room, s: Search, row: I64, lo: int, hi: int, length: int, height: int,
    late: bool,
) -> Int:  # fmt: skip
    """Return the earliest (latest) start of a block in [lo, hi), or -1; columns are read once."""
    bundles = height * row[V_MULTIPLE]
    if not late:
        t, known = lo, lo
        while t + length <= hi:
            u = t + length - 1
            while u >= known and _has_room(f, room, s, row, u, bundles):
                u -= 1
            if u < known:
                return t
            known, t = t + length, u + 1
        return -1
    t, known = hi - length, hi
    while t >= lo:
        u = t
        while u < known and _has_room(f, room, s, row, u, bundles):
            u += 1
        if u >= known:
            return t
        known, t = t, u - length
    return -1


@njit(**OPTIONS)
def _write_block(s: Search, row: I64, v: int, start: int, length: int, height: int) -> None:
    first = s.first[v]
    s.rows[PLAN, first, 0], s.rows[PLAN, first, 1] = start, start + length
    s.rows[PLAN, first, 2] = height * row[V_MULTIPLE]
    s.pieces[PLAN, v] = 1


@njit(**OPTIONS)
def _fill(f: Forest, room: Room, s: Search, row: I64, lo: int, hi: int, late: bool) -> None:
    """Write what an atom may hold in multiples, column by column from the near end."""
    cap, d, k = s.line[_CAP], row[V_DEMAND], row[V_MULTIPLE]
    columns = s.free.shape[1]
    for i in range(hi - lo):
        t = hi - 1 - i if late else lo + i
        most = row[V_MOST] * k
        for q in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
            at = t + f.shifts[q]
            if at >= columns:
                most = np.int64(0)
                break
            most = min(most, room.fit[d, at])
            for j in range(room.demand_first[d], room.demand_first[d + 1]):
                free, amount = s.free[room.demand_rows[j], at], room.demand_amounts[j]
                if free < most * amount:
                    most = max(np.int64(0), free // amount)
        most //= k
        cap[i] = most if most >= row[V_LEAST] else 0


@njit(**OPTIONS)
def _stack(s: Search, row: I64, n: int, top: int) -> Int:
    """Stack whole leases at most `top` high from the near end; return the work left over."""
    cap, x = s.line[_CAP], s.line[_X]
    lease, least, left = row[V_LEASE], row[V_LEAST], row[V_WORK]
    for i in range(n):
        x[i] = 0
    i = 0
    while i + lease <= n and left >= least * lease:
        height = min(top, left // lease)
        u = i + lease - 1
        while u >= i and cap[u] - x[u] >= least:
            height = min(height, cap[u] - x[u])
            u -= 1
        if u >= i:
            i = u + 1
            continue
        for u in range(i, i + lease):
            x[u] += height
        left -= height * lease
        i += 1
    return left


@njit(**OPTIONS)
def _lengthen(s: Search, row: I64, n: int, left: int) -> Int:
    """Raise columns to their neighbours until no work is left: no lease gets shorter by it."""
    cap, x, least = s.line[_CAP], s.line[_X], row[V_LEAST]
    moved = True
    while left > 0 and moved:
        moved = False
        for i in range(n):
            side = x[i + 1] if i + 1 < n else np.int64(0)
            if i > 0:
                side = max(side, x[i - 1])
            height = min(min(side, cap[i]), x[i] + left)
            if height > x[i] and height >= least:
                left -= height - x[i]
                x[i] = height
                moved = True
                if left == 0:
                    return left
    return left


@njit(**OPTIONS)
def _emit(s: Search, row: I64, v: int, lo: int, hi: int, late: bool) -> bool:
    """Write what an atom holds as rows in ascending time; False when there is no room for them."""
    x, n = s.line[_X], hi - lo
    at, stop = s.first[v], s.first[v + 1]
    height, begin = np.int64(0), lo
    count = 0
    for t in range(lo, hi + 1):
        now = np.int64(0)
        if t < hi:
            now = x[n - 1 - (t - lo)] if late else x[t - lo]
        if now == height:
            continue
        if height > 0:
            if at + count >= stop:
                return False
            s.rows[PLAN, at + count, 0], s.rows[PLAN, at + count, 1] = begin, t
            s.rows[PLAN, at + count, 2] = height * row[V_MULTIPLE]
            count += 1
        height, begin = now, t
    s.pieces[PLAN, v] = count
    return True


@njit(**OPTIONS)
def _rectangle(
    f: Forest, room: Room, s: Search, v: int, lo: int, hi: int, late: bool, low: bool
) -> bool:
    """Place a malleable atom as one block, its last column lower where the work asks for it.

    Heights are tried from the greatest down, or from the least that the window allows up.
    """
    row = f.vertices[v]
    least, most, work = row[V_LEAST], row[V_MOST], row[V_WORK]
    floor = max(least, (work + hi - lo - 1) // max(1, hi - lo))
    most = min(most, max(least, work // row[V_LEASE]))
    for step in range(_HEIGHTS):
        height = floor + step * max(1, (most - floor) // _HEIGHTS) if low else most - step
        if height > most or height < floor:
            return False
        length = (work + height - 1) // height
        over = length * height - work
        if length < row[V_LEASE] or length > hi - lo:
            continue
        if over > 0 and (height - over < least or length - 1 < row[V_LEASE]):
            continue
        start = _block_start(f, room, s, row, lo, hi, length, height, late)
        if start < 0:
            continue
        _write_block(s, row, v, start, length, height)
        if over > 0:
            first = s.first[v]
            if first + 2 > s.first[v + 1]:
                return False
            end = start + length
            s.rows[PLAN, first, 1] = end - 1
            s.rows[PLAN, first + 1, 0], s.rows[PLAN, first + 1, 1] = end - 1, end
            s.rows[PLAN, first + 1, 2] = (height - over) * row[V_MULTIPLE]
            s.pieces[PLAN, v] = 2
        return True
    return False


@njit(**OPTIONS)
def _place(
    f: Forest, room: Room, s: Search, v: int, lo: int, hi: int, late: bool, low: bool
) -> bool:
    """Give an atom rows in [lo, hi), as near to one end as they go."""
    row = f.vertices[v]
    if row[V_RUN] > 0:
        start = _block_start(f, room, s, row, lo, hi, row[V_RUN], row[V_MOST], late)
        if start < 0:
            return False
        _write_block(s, row, v, start, row[V_RUN], row[V_MOST])
        return True
    if low and _rectangle(f, room, s, v, lo, hi, late, True):
        return True
    n = hi - lo
    _fill(f, room, s, row, lo, hi, late)
    left = _stack(s, row, n, row[V_MOST])
    if left > 0 and _lengthen(s, row, n, left) > 0:
        return bool(_rectangle(f, room, s, v, lo, hi, late, False))
    return bool(_emit(s, row, v, lo, hi, late))


# ---- one request --------------------------------------------------------------------------------


@njit(**OPTIONS)
def _choose(f: Forest, s: Search, r: int, first_choice: bool) -> float:
    """Take an option of each `any` and mark what is active; return what the choice is worth."""
    worth = f.value[r]
    root = f.first[r + 1] - 1
    for v in range(root, f.first[r] - 1, -1):
        row = f.vertices[v]
        up = row[V_PARENT]
        active = up < 0 or s.vertex[_ACTIVE, up] == 1
        if active and up >= 0 and f.vertices[up, V_KIND] == ANY:
            active = f.children[f.vertices[up, V_CHILD] + s.option[PLAN, up]] == v
        s.vertex[_ACTIVE, v] = 1 if active else 0
        s.option[PLAN, v] = -1
        if not active or row[V_KIND] != ANY:
            continue
        begin = 0 if first_choice else _below(s, row[V_CHILDREN])
        for i in range(row[V_CHILDREN]):
            option = (begin + i) % row[V_CHILDREN]
            child = f.children[row[V_CHILD] + option]
            if f.vertices[child, V_SOUND] == 1:
                s.option[PLAN, v] = option
                worth *= f.prefer[child]
                break
        if s.option[PLAN, v] < 0:
            return -1.0
    return float(worth)


@njit(**OPTIONS)
def _earliest(f: Forest, s: Search, v: int) -> Int:
    """Return the column before which `v` cannot start, given what is placed before it."""
    lo = max(f.vertices[v, V_START], s.vertex[_BOUND, v])
    u = v
    while u >= 0:
        first = f.vertices[u, V_PRED]
        for e in range(first, first + f.vertices[u, V_PREDS]):
            lo = max(lo, s.vertex[_TO, f.preds[e, 0]] + f.preds[e, 1])
        u = f.vertices[u, V_PARENT]
    return lo


@njit(**OPTIONS)
def _latest(f: Forest, s: Search, v: int) -> Int:
    """Return the column by which `v` must end, given what is placed after it."""
    hi = min(f.vertices[v, V_END], s.vertex[_BOUND, v])
    moved = np.int64(0)
    u = v
    while u >= 0:
        first = f.vertices[u, V_SUCC]
        for i in range(first, first + f.vertices[u, V_SUCCS]):
            e = f.succs[i]
            hi = min(hi, s.vertex[_FROM, f.preds[e, 3]] - f.preds[e, 1] - moved)
        u = f.vertices[u, V_PARENT]
        if u >= 0 and f.vertices[u, V_KIND] == EVERY:
            moved += f.vertices[u, V_LAST]
    return hi


@njit(**OPTIONS)
def _note(f: Forest, s: Search, v: int) -> None:
    """Tell every group around an atom what columns it holds."""
    first = s.first[v]
    s.vertex[_FROM, v] = s.rows[PLAN, first, 0]
    s.vertex[_TO, v] = s.rows[PLAN, first + s.pieces[PLAN, v] - 1, 1]
    u = f.vertices[v, V_PARENT]
    below = v
    while u >= 0:
        last = f.vertices[u, V_LAST] if f.vertices[u, V_KIND] == EVERY else 0
        s.vertex[_FROM, u] = min(s.vertex[_FROM, u], s.vertex[_FROM, below])
        s.vertex[_TO, u] = max(s.vertex[_TO, u], s.vertex[_TO, below] + last)
        below = u
        u = f.vertices[u, V_PARENT]


@njit(**OPTIONS)
def _clear(f: Forest, room: Room, s: Search, r: int) -> None:
    """Give back whatever request `r` holds."""
    for v in range(f.first[r], f.first[r + 1]):
        if s.pieces[PLAN, v] > 0:
            _take(f, room, s, v, -1)
            s.pieces[PLAN, v] = 0
        s.vertex[_FROM, v] = _FAR
        s.vertex[_TO, v] = -_FAR


@njit(**OPTIONS)
def _traverse(
    f: Forest, room: Room, s: Search, r: int, late: bool, low: bool, jitter: float
) -> bool:
    """Place every active atom of a request, in time or against it."""
    begin, end = f.first[r], f.first[r + 1]
    for k in range(begin, end):
        v = f.program[end - 1 - (k - begin)] if late else f.program[k]
        if f.vertices[v, V_KIND] != ATOM or s.vertex[_ACTIVE, v] == 0:
            continue
        if late:
            lo, hi = f.vertices[v, V_START], _latest(f, s, v)
        else:
            lo, hi = _earliest(f, s, v), f.vertices[v, V_END]
        slack = hi - lo - f.vertices[v, V_SHORTEST]
        if slack < 0:
            return False
        move = np.int64(jitter * slack)
        if late:
            ok = _place(f, room, s, v, lo, hi - move, late, low)
        else:
            ok = _place(f, room, s, v, lo + move, hi, late, low)
        if not ok and (move == 0 or not _place(f, room, s, v, lo, hi, late, low)):
            s.pieces[PLAN, v] = 0
            return False
        _take(f, room, s, v, 1)
        _note(f, s, v)
    return True


@njit(**OPTIONS)
def _widen(f: Forest, s: Search, r: int, late: bool) -> Int:
    """Find a largest gap that is broken and move the bound that must give; 1 if so, 0 if none."""
    for v in range(f.first[r], f.first[r + 1]):
        first = f.vertices[v, V_PRED]
        for e in range(first, first + f.vertices[v, V_PREDS]):
            u, most = f.preds[e, 0], f.preds[e, 2]
            if most < 0 or s.vertex[_FROM, v] >= _FAR or s.vertex[_TO, u] <= -_FAR:
                continue
            over = s.vertex[_FROM, v] - s.vertex[_TO, u] - most
            if over <= 0:
                continue
            side = v if late else u
            found = -1
            for a in range(f.first[r], f.first[r + 1]):
                if s.pieces[PLAN, a] == 0:
                    continue
                up = a
                while up >= 0 and up != side:
                    up = f.vertices[up, V_PARENT]
                if up != side:
                    continue
                if found < 0 or (late and s.vertex[_FROM, a] < s.vertex[_FROM, found]):
                    found = a
                elif not late and s.vertex[_TO, a] > s.vertex[_TO, found]:
                    found = a
            if late:
                s.vertex[_BOUND, found] = s.vertex[_TO, found] - over
            else:
                s.vertex[_BOUND, found] = s.vertex[_FROM, found] + over
            return 1
    return 0


@njit(**OPTIONS)
def _insert(f: Forest, room: Room, s: Search, r: int, late: bool, low: bool, jitter: float) -> bool:
    """Place a request that holds nothing, or leave everything as it was."""
    root = f.first[r + 1] - 1
    if f.vertices[root, V_SOUND] == 0:
        return False
    worth = _choose(f, s, r, _random(s) < 0.7)
    if worth < 0.0:
        return False
    for v in range(f.first[r], root + 1):
        s.vertex[_BOUND, v] = _FAR if late else -_FAR
        s.vertex[_FROM, v] = _FAR
        s.vertex[_TO, v] = -_FAR
    for _ in range(_LEAPS):
        if not _traverse(f, room, s, r, late, low, jitter):
            break
        if _widen(f, s, r, late) == 0:
            s.worth[PLAN, r] = worth + f.keep[r]
            s.held[PLAN, r] = 1
            s.span[r, 0], s.span[r, 1] = s.vertex[_FROM, root], s.vertex[_TO, root]
            return True
        _clear(f, room, s, r)
    _clear(f, room, s, r)
    return False


# ---- moves --------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _copy(f: Forest, s: Search, r: int, source: int, target: int) -> None:
    """Copy what one plan holds for a request to another."""
    for v in range(f.first[r], f.first[r + 1]):
        s.option[target, v] = s.option[source, v]
        s.pieces[target, v] = s.pieces[source, v]
        first = s.first[v]
        for i in range(first, first + s.pieces[source, v]):
            for k in range(3):
                s.rows[target, i, k] = s.rows[source, i, k]
    s.worth[target, r] = s.worth[source, r]
    s.held[target, r] = s.held[source, r]


@njit(**OPTIONS)
def _adopt(f: Forest, room: Room, s: Search, r: int, source: int) -> None:
    """Replace what the present plan holds for a request by what another holds; nothing is held."""
    _copy(f, s, r, source, PLAN)
    low, high = np.int64(_FAR), np.int64(-_FAR)
    for v in range(f.first[r], f.first[r + 1]):
        if s.pieces[PLAN, v] > 0:
            _take(f, room, s, v, 1)
            first = s.first[v]
            last = f.shifts[f.vertices[v, V_SHIFT] + f.vertices[v, V_SHIFTS] - 1]
            low = min(low, s.rows[PLAN, first, 0])
            high = max(high, s.rows[PLAN, first + s.pieces[PLAN, v] - 1, 1] + last)
    s.span[r, 0], s.span[r, 1] = low, high


@njit(**OPTIONS)
def _drop(f: Forest, room: Room, s: Search, r: int) -> None:
    _clear(f, room, s, r)
    s.worth[PLAN, r] = 0.0
    s.held[PLAN, r] = 0


@njit(**OPTIONS)
def _ruin(f: Forest, room: Room, s: Search, a: int, b: int, most: int) -> Int:
    """Take out up to `most` accepted requests that touch columns [a, b); return how many."""
    near = s.list[_NEAR]
    count = 0
    for r in range(f.value.shape[0]):
        if s.held[PLAN, r] == 1 and s.span[r, 0] < b and s.span[r, 1] > a:
            near[count] = r
            count += 1
    taken = min(most, count)
    for i in range(taken):
        j = i + _below(s, count - i)
        near[i], near[j] = near[j], near[i]
        r = near[i]
        _copy(f, s, r, PLAN, BEFORE)
        _drop(f, room, s, r)
        s.list[_TOUCHED, i] = r
    return taken


@njit(**OPTIONS)
def _gather(f: Forest, s: Search, a: int, b: int, taken: int, most: int, chosen: int) -> Int:
    """List what is to be put back: what was taken out, and rejected requests whose window meets.

    `chosen` (or -1) is a rejected one that must be tried.
    """
    tried = s.list[_TRIED]
    for i in range(taken):
        tried[i] = s.list[_TOUCHED, i]
    count = taken
    if chosen >= 0:
        tried[count] = chosen
        count += 1
    begin = _below(s, f.value.shape[0])
    for k in range(f.value.shape[0]):
        r = (begin + k) % f.value.shape[0]
        if count - taken >= most:
            break
        if s.held[PLAN, r] == 1 or r == chosen:
            continue
        root = f.vertices[f.first[r + 1] - 1]
        if root[V_SOUND] == 0 or root[V_START] >= b or root[V_END] <= a:
            continue
        out = False
        for i in range(taken):
            out = out or s.list[_TOUCHED, i] == r
        if not out:
            tried[count] = r
            count += 1
    return count


@njit(**OPTIONS)
def _arrange(f: Forest, s: Search, count: int, chosen: int) -> None:
    """Order what is to be put back: at random, by worth, by density or by the tightest window."""
    tried, key = s.list[_TRIED], s.key
    kind = _below(s, 4)
    first = _random(s) < 0.7  # those that may not be lost before the others
    for i in range(count):
        r = tried[i]
        noise = 0.5 + _random(s)
        root = f.vertices[f.first[r + 1] - 1]
        key[i] = _random(s)
        if kind == 1:
            key[i] = -f.value[r] * noise
        elif kind == 2:
            key[i] = -s.density[r] * noise
        elif kind == 3:
            key[i] = (root[V_END] - root[V_START]) * noise
        if f.keep[r] > 0.0 and first:
            key[i] = -_FAR * noise
        if r == chosen:
            key[i] = -np.inf
    for i in range(1, count):
        r, k = tried[i], key[i]
        j = i - 1
        while j >= 0 and key[j] > k:
            tried[j + 1], key[j + 1] = tried[j], key[j]
            j -= 1
        tried[j + 1], key[j + 1] = r, k


@njit(**OPTIONS)
def _recreate(f: Forest, room: Room, s: Search, count: int, taken: int) -> Int:
    """Put back what fits; return how many requests the move has touched."""
    side = _random(s)
    low_share = 0.0 if _random(s) < 0.5 else 0.5
    jitter_share = 0.0 if _random(s) < 0.6 else 0.3
    touched = taken
    for i in range(count):
        r = s.list[_TRIED, i]
        late = side < 0.4 or (side > 0.8 and _random(s) < 0.5)
        jitter = _random(s) if _random(s) < jitter_share else 0.0
        known = False
        for k in range(taken):
            known = known or s.list[_TOUCHED, k] == r
        if not known:
            _copy(f, s, r, PLAN, BEFORE)
        if not _insert(f, room, s, r, late, _random(s) < low_share, jitter):
            continue
        s.total[NOW] += s.worth[PLAN, r]
        if not known:
            s.list[_TOUCHED, touched] = r
            touched += 1
    return touched


@njit(**OPTIONS)
def _lost(f: Forest, s: Search, taken: int) -> bool:
    """Return whether a request that may not be lost was taken out and is not back."""
    for i in range(taken):
        r = s.list[_TOUCHED, i]
        if f.keep[r] > 0.0 and s.held[PLAN, r] == 0:
            return True
    return False


@njit(**OPTIONS)
def _keep_best(f: Forest, s: Search) -> None:
    for r in range(f.value.shape[0]):
        if s.stale[r] == 1:
            _copy(f, s, r, PLAN, KEPT)
            s.stale[r] = 0
    s.total[BEST] = s.total[NOW]


@njit(**OPTIONS)
def _move(f: Forest, room: Room, s: Search, most: int, temperature: float) -> None:
    """Make one move and keep it or take it back."""
    columns, n = s.free.shape[1], f.value.shape[0]
    chosen = -1
    center = _below(s, columns)
    if _random(s) < 0.4:
        begin = _below(s, n)
        for k in range(n):
            r = (begin + k) % n
            root = f.vertices[f.first[r + 1] - 1]
            if s.held[PLAN, r] == 0 and root[V_SOUND] == 1:
                chosen = r
                center = root[V_START] + _below(s, max(1, root[V_END] - root[V_START]))
                break
    width = np.int64(_random(s) * _random(s) * 0.3 * columns)
    a, b = center - width // 2, center + width // 2 + 1
    before = s.total[NOW]
    taken = _ruin(f, room, s, a, b, 1 + _below(s, most))
    for i in range(taken):
        s.total[NOW] -= s.worth[BEFORE, s.list[_TOUCHED, i]]
    count = _gather(f, s, a, b, taken, 2 * most, chosen)
    _arrange(f, s, count, chosen if _random(s) < 0.7 else -1)
    touched = _recreate(f, room, s, count, taken)
    change = s.total[NOW] - before
    taken_worse = temperature > 0.0 and _random(s) < np.exp(min(0.0, change) / temperature)
    if change >= 0.0 or (taken_worse and not _lost(f, s, taken)):
        for i in range(touched):
            s.stale[s.list[_TOUCHED, i]] = 1
        if s.total[NOW] > s.total[BEST] + 1e-9 * abs(s.total[BEST]):
            _keep_best(f, s)
        return
    for i in range(touched):
        if s.held[PLAN, s.list[_TOUCHED, i]] == 1:
            _drop(f, room, s, s.list[_TOUCHED, i])
    for i in range(touched):
        _adopt(f, room, s, s.list[_TOUCHED, i], BEFORE)
    s.total[NOW] = before


@njit(**OPTIONS)
def improve(f: Forest, room: Room, s: Search, moves: int, most: int, temperature: float) -> None:
    """Make `moves` moves, each taking out up to `most` requests; the best plan is kept.

    Parameters
    ----------
    temperature
        Loss that is taken with a probability of 1 / e, in units of value; 0 takes none.
    """
    f, room, s = borrow_forest(f), borrow_room(room), _borrow(s)
    total = 0.0
    for r in range(f.value.shape[0]):
        total += s.worth[PLAN, r]
    s.total[NOW] = total  # sums of many changes drift
    for _ in range(moves):
        _move(f, room, s, most, temperature)


@njit(**OPTIONS)
def restore(f: Forest, room: Room, s: Search) -> None:
    """Make the best plan the present one."""
    f, room, s = borrow_forest(f), borrow_room(room), _borrow(s)
    for r in range(f.value.shape[0]):
        if s.held[PLAN, r] == 1:
            _drop(f, room, s, r)
    for r in range(f.value.shape[0]):
        _adopt(f, room, s, r, KEPT)
        s.stale[r] = 0
    s.total[NOW] = s.total[BEST]
