"""Place one atom in the current plan, as early or as late as possible."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels import I64, Int, compiled, inlined
from planner.agents.exact.kernels.search_state import BEFORE, CAP, PLAN, ColumnSpan, SearchState, X
from planner.agents.exact.problem import Forest, FreeRoom

_AT_ONCE: Final = 32  # columns that are read together, as most of them have capacity


class BlockWindow(NamedTuple):
    """Columns [lo, hi) in which an atom may be placed, and whether as late as possible."""

    lo: int
    hi: int
    late: bool


class FlatBlock(NamedTuple):
    """A block of constant height: length in columns, height in multiples."""

    length: int
    height: int


class Need(NamedTuple):
    """The capacity that each column of a block needs: an atom's vertex row, and bundles."""

    row: I64
    bundles: int


@inlined
def _has_room(f: Forest, room: FreeRoom, s: SearchState, need: Need, t: int) -> bool:
    row, d = need.row, need.row[pb.V_DEMAND]
    columns = s.free.shape[1]
    for k in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
        at = t + f.shifts[k]
        if at >= columns or room.fit[d, at] < need.bundles:
            return False
        for j in range(room.demand_first[d], room.demand_first[d + 1]):
            if s.free[room.demand_rows[j], at] < need.bundles * room.demand_amounts[j]:
                return False
    return True


@inlined
def _least(values: I64) -> Int:
    least = values[0]
    for i in range(1, values.shape[0]):
        least = min(least, values[i])
    return least


@inlined
def all_have_room(f: Forest, room: FreeRoom, s: SearchState, need: Need, part: ColumnSpan) -> bool:
    """Return whether every column of a part has capacity.

    The minimum over several columns takes a few processor instructions, while checking each of them
    takes a branch.
    """
    row, d = need.row, need.row[pb.V_DEMAND]
    for k in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
        a, b = part.begin + f.shifts[k], part.end + f.shifts[k]
        if b > s.free.shape[1]:
            return False
        if row[pb.V_BLOCKED] >= 0 and _least(room.fit[d, a:b]) < need.bundles:
            return False
        for j in range(room.demand_first[d], room.demand_first[d + 1]):
            asked = need.bundles * room.demand_amounts[j]
            if _least(s.free[room.demand_rows[j], a:b]) < asked:
                return False
    return True


@inlined
def _after_last_short(
    f: Forest, room: FreeRoom, s: SearchState, need: Need, part: ColumnSpan
) -> Int:
    """Return the column after the last one of a part without capacity, or the part's start."""
    u = part.end
    while u - _AT_ONCE >= part.begin and all_have_room(
        f, room, s, need, ColumnSpan(u - _AT_ONCE, u)
    ):
        u -= _AT_ONCE
    while u > part.begin and _has_room(f, room, s, need, u - 1):
        u -= 1
    return u


@inlined
def _first_short(f: Forest, room: FreeRoom, s: SearchState, need: Need, part: ColumnSpan) -> Int:
    """Return the first column of a part that lacks capacity, or the part's end."""
    u = part.begin
    while u + _AT_ONCE <= part.end and all_have_room(f, room, s, need, ColumnSpan(u, u + _AT_ONCE)):
        u += _AT_ONCE
    while u < part.end and _has_room(f, room, s, need, u):
        u += 1
    return u


@inlined
def block_start(
    f: Forest, room: FreeRoom, s: SearchState, row: I64, span: BlockWindow, block: FlatBlock
) -> Int:
    """Return the earliest (latest) start of a block in a span, or -1; columns are read once."""
    length, need = block.length, Need(row, block.height * row[pb.V_MULTIPLE])
    if not span.late:
        t, known = span.lo, span.lo
        while t + length <= span.hi:
            u = _after_last_short(f, room, s, need, ColumnSpan(known, t + length))
            if u == known:
                return t
            known, t = t + length, u
        return -1
    t, known = span.hi - length, span.hi
    while t >= span.lo:
        u = _first_short(f, room, s, need, ColumnSpan(t, known))
        if u == known:
            return t
        known, t = t, u - length
    return -1


@inlined
def write_block(s: SearchState, row: I64, v: int, start: int, block: FlatBlock) -> None:
    """Place vertex `v` as one block at `start`; the caller subtracts the capacity."""
    first = s.first[v]
    s.rows[PLAN, first, 0], s.rows[PLAN, first, 1] = start, start + block.length
    s.rows[PLAN, first, 2] = block.height * row[pb.V_MULTIPLE]
    s.pieces[PLAN, v] = 1


_AHEAD: Final = 32  # columns read ahead beyond those of one lease
_HEIGHTS: Final = 16  # heights tried for a malleable atom that is not a sum of whole leases


class AtomForm(NamedTuple):
    """The form of a malleable atom.

    Attributes
    ----------
    low
        Try one block of the minimum height first.
    fill
        Fill all free capacity from the near end, if the minimum is one bundle.
    """

    low: bool
    fill: bool


@inlined
def take(f: Forest, room: FreeRoom, s: SearchState, v: int, sign: int) -> None:
    """Subtract the rows of an atom from the profile, or release them (sign -1)."""
    row = f.vertices[v]
    first, d = s.first[v], row[pb.V_DEMAND]
    for i in range(first, first + s.pieces[PLAN, v]):
        for k in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
            a, b = s.rows[PLAN, i, 0] + f.shifts[k], s.rows[PLAN, i, 1] + f.shifts[k]
            for j in range(room.demand_first[d], room.demand_first[d + 1]):
                amount = sign * s.rows[PLAN, i, 2] * room.demand_amounts[j]
                free = s.free[room.demand_rows[j], a:b]
                for t in range(free.shape[0]):
                    free[t] -= amount


@inlined
def _cap_columns(
    f: Forest, room: FreeRoom, s: SearchState, row: I64, span: BlockWindow, part: ColumnSpan
) -> None:
    """Write the multiples that an atom may use, for a part of its columns from the near end.

    Parameters
    ----------
    part
        Columns counted from the near end.
    """
    lo, hi, late = span
    cap, d, k = s.line[CAP], row[pb.V_DEMAND], row[pb.V_MULTIPLE]
    columns = s.free.shape[1]
    for i in range(part.begin, part.end):
        t = hi - 1 - i if late else lo + i
        most = row[pb.V_MOST] * k
        for q in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
            at = t + f.shifts[q]
            if at >= columns:
                most = np.int64(0)
                break
            most = min(most, room.fit[d, at])
            for j in range(room.demand_first[d], room.demand_first[d + 1]):
                free, amount = s.free[room.demand_rows[j], at], room.demand_amounts[j]
                if free < most * amount:
                    most = max(np.int64(0), free // amount)
        if k > 1:
            most //= k
        cap[i] = most if most >= row[pb.V_LEAST] else 0
        s.line[X, i] = 0


@compiled
def _stack(
    f: Forest, room: FreeRoom, s: SearchState, row: I64, span: BlockWindow, top: int
) -> tuple[Int, ColumnSpan, Int]:
    """Stack whole leases up to `top` high from the near end, reading columns on demand.

    Returns
    -------
    tuple
        The remaining work, the span of columns in use, and the number of columns read.
    """
    cap, x = s.line[CAP], s.line[X]
    lease, least, left = row[pb.V_LEASE], row[pb.V_LEAST], row[pb.V_WORK]
    n = span.hi - span.lo
    i: Int = np.int64(0)
    known: Int = np.int64(0)
    begin: Int = np.int64(0)
    end: Int = np.int64(0)
    while i + lease <= n and left >= least * lease:
        if i + lease > known:
            ahead = min(n, i + lease + _AHEAD)
            _cap_columns(f, room, s, row, span, ColumnSpan(known, ahead))
            known = ahead
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
        if end == 0:
            begin = i
        end = i + lease
        i += 1
    return left, ColumnSpan(begin, end), known


@compiled
def _fill(
    f: Forest, room: FreeRoom, s: SearchState, row: I64, span: BlockWindow
) -> tuple[Int, ColumnSpan, Int]:
    """Use all free capacity from the near end on, until no work is left.

    At each column first extend the bundles whose lease is over, then start as many leases as have
    capacity to their end and can end with the extended ones. So no free range that fits a lease
    keeps an unused piece at its end.

    Returns
    -------
    tuple
        As `_stack`.
    """
    cap, x = s.line[CAP], s.line[X]
    lease, left = row[pb.V_LEASE], row[pb.V_WORK]
    n = span.hi - span.lo
    i: Int = np.int64(0)
    known: Int = np.int64(0)
    begin: Int = np.int64(0)
    end: Int = np.int64(0)
    blocked: Int = np.int64(0)  # no lease can start before this column
    before: Int = np.int64(0)  # bundles in the previous column
    while i < n and left > 0:
        if before == 0 and (left < lease or i + lease > n):
            break
        if min(n, i + lease) > known:
            ahead = min(n, i + lease + _AHEAD)
            _cap_columns(f, room, s, row, span, ColumnSpan(known, ahead))
            known = ahead
        height = cap[i] - x[i]
        more = max(np.int64(0), min(min(before - x[i], height), left))
        x[i] += more
        left -= more
        height = min(height - more, left // lease - more)
        if height > 0 and i >= blocked and i + lease <= n:
            u = i + lease - 1
            while u >= i and cap[u] > x[u]:
                height = min(height, cap[u] - x[u])
                u -= 1
            if u >= i:
                blocked = u + 1
            else:
                for u in range(i, i + lease):
                    x[u] += height
                left -= height * lease
                if end == 0:
                    begin = i
                end = max(end, i + lease)
        before = x[i]
        if before > 0:
            end = max(end, i + 1)
        i = max(i + 1, blocked) if before == 0 else i + 1
    return left, ColumnSpan(begin, end), known


@compiled
def _lengthen(
    f: Forest,
    room: FreeRoom,
    s: SearchState,
    row: I64,
    span: BlockWindow,
    left: Int,
    held: ColumnSpan,
    known: Int,
) -> tuple[Int, Int]:
    """Raise columns to their neighbours until no work is left; this shortens no lease.

    Returns
    -------
    tuple
        The remaining work, and the end of the columns in use.
    """
    cap, x, least = s.line[CAP], s.line[X], row[pb.V_LEAST]
    n = span.hi - span.lo
    begin: Int = held.begin
    end: Int = held.end
    moved = end > begin
    while left > 0 and moved:
        moved = False
        i: Int = max(np.int64(0), begin - 1)
        while i < n and i <= end:
            if i + 1 >= known and known < n:
                ahead = min(n, known + _AHEAD)
                _cap_columns(f, room, s, row, span, ColumnSpan(known, ahead))
                known = ahead
            side = x[i + 1] if i + 1 < n else np.int64(0)
            if i > 0:
                side = max(side, x[i - 1])
            height = min(min(side, cap[i]), x[i] + left)
            if height > x[i] and height >= least:
                left -= height - x[i]
                x[i] = height
                moved = True
                begin, end = min(begin, i), max(end, i + 1)
                if left == 0:
                    return left, end
            i += 1
    return left, end


@compiled
def _emit(s: SearchState, row: I64, v: int, span: BlockWindow, used: Int) -> bool:
    """Write an atom's heights as rows in ascending time; return False if there are too many.

    Parameters
    ----------
    used
        Number of columns, from the near end, that may be in use.
    """
    lo, hi, late = span
    x, n = s.line[X], hi - lo
    at, stop = s.first[v], s.first[v + 1]
    first, last = (hi - used, hi) if late else (lo, lo + used)
    height, begin = np.int64(0), first
    count = 0
    for t in range(first, last + 1):
        now = np.int64(0)
        if t < last:
            now = x[n - 1 - (t - lo)] if late else x[t - lo]
        if now == height:
            continue
        if height > 0:
            if at + count >= stop:
                return False
            s.rows[PLAN, at + count, 0], s.rows[PLAN, at + count, 1] = begin, t
            s.rows[PLAN, at + count, 2] = height * row[pb.V_MULTIPLE]
            count += 1
        height, begin = now, t
    s.pieces[PLAN, v] = count
    return True


@compiled
def _rectangle(
    f: Forest, room: FreeRoom, s: SearchState, v: int, span: BlockWindow, low: bool
) -> bool:
    """Place a malleable atom as one block, the last column lower if the work requires it.

    Heights are tried downward from the maximum, or upward from the minimum that fits the window.
    """
    row = f.vertices[v]
    width = span.hi - span.lo
    least, most, work = row[pb.V_LEAST], row[pb.V_MOST], row[pb.V_WORK]
    floor = max(least, (work + width - 1) // max(1, width))
    most = min(most, max(least, work // row[pb.V_LEASE]))
    for step in range(_HEIGHTS):
        height = floor + step * max(1, (most - floor) // _HEIGHTS) if low else most - step
        if height > most or height < floor:
            return False
        length = (work + height - 1) // height
        over = length * height - work
        if length < row[pb.V_LEASE] or length > width:
            continue
        if over > 0 and (height - over < least or length - 1 < row[pb.V_LEASE]):
            continue
        block = FlatBlock(length, height)
        start = block_start(f, room, s, row, span, block)
        if start < 0:
            continue
        write_block(s, row, v, start, block)
        if over > 0:
            first = s.first[v]
            if first + 2 > s.first[v + 1]:
                return False
            end = start + length
            s.rows[PLAN, first, 1] = end - 1
            s.rows[PLAN, first + 1, 0], s.rows[PLAN, first + 1, 1] = end - 1, end
            s.rows[PLAN, first + 1, 2] = (height - over) * row[pb.V_MULTIPLE]
            s.pieces[PLAN, v] = 2
        return True
    return False


@inlined
def stays(f: Forest, room: FreeRoom, s: SearchState, v: int, lo: Int, hi: Int) -> bool:
    """Restore an atom's rows from before the move, if they lie in [lo, hi) and are free."""
    row, first, count = f.vertices[v], s.first[v], s.pieces[BEFORE, v]
    if count == 0 or s.rows[BEFORE, first, 0] < lo or s.rows[BEFORE, first + count - 1, 1] > hi:
        return False
    for i in range(first, first + count):
        part = ColumnSpan(s.rows[BEFORE, i, 0], s.rows[BEFORE, i, 1])
        if not all_have_room(f, room, s, Need(row, s.rows[BEFORE, i, 2]), part):
            return False
    for i in range(first, first + count):
        for k in range(3):
            s.rows[PLAN, i, k] = s.rows[BEFORE, i, k]
    s.pieces[PLAN, v] = count
    return True


@inlined
def place(
    f: Forest, room: FreeRoom, s: SearchState, v: int, span: BlockWindow, form: AtomForm
) -> bool:
    """Place an atom in a span, as near to the span's near end as possible."""
    row = f.vertices[v]
    if row[pb.V_RUN] > 0:
        block = FlatBlock(row[pb.V_RUN], row[pb.V_MOST])
        start = block_start(f, room, s, row, span, block)
        if start < 0:
            return False
        write_block(s, row, v, start, block)
        return True
    if form.low and _rectangle(f, room, s, v, span, True):
        return True
    if form.fill and row[pb.V_LEAST] == 1:
        left, held, known = _fill(f, room, s, row, span)
    else:
        left, held, known = _stack(f, room, s, row, span, row[pb.V_MOST])
    used = held.end
    if left > 0:
        left, used = _lengthen(f, room, s, row, span, left, held, known)
    if left > 0:
        return bool(_rectangle(f, room, s, v, span, False))
    return bool(_emit(s, row, v, span, used))
