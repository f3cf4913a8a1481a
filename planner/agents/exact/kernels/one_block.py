"""Where a block of one height goes in the present plan: as early or as late as it can."""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.agents.exact.kernels.arrays import I64, Int
from planner.agents.exact.kernels.compiled import inlined
from planner.agents.exact.kernels.search_state import PLAN, ColumnSpan, SearchState
from planner.agents.exact.problem import (
    V_BLOCKED,
    V_DEMAND,
    V_MULTIPLE,
    V_SHIFT,
    V_SHIFTS,
    Forest,
    FreeRoom,
)

_AT_ONCE: Final = 32  # columns that are read at once where most of them have room


class BlockWindow(NamedTuple):
    """Columns [lo, hi) in which an atom may be held, and the end that it goes to."""

    lo: int
    hi: int
    late: bool


class FlatBlock(NamedTuple):
    """One height for some columns: length, and height in multiples."""

    length: int
    height: int


class Need(NamedTuple):
    """What every column of a block must have room for: an atom's vertex, and bundles."""

    row: I64
    bundles: int


@inlined
def _has_room(f: Forest, room: FreeRoom, s: SearchState, need: Need, t: int) -> bool:
    row, d = need.row, need.row[V_DEMAND]
    columns = s.free.shape[1]
    for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
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
    """Return whether every column of a part has room.

    The minimum over some columns is a few instructions of the processor, where a look at each of
    them is a branch.
    """
    row, d = need.row, need.row[V_DEMAND]
    for k in range(row[V_SHIFT], row[V_SHIFT] + row[V_SHIFTS]):
        a, b = part.begin + f.shifts[k], part.end + f.shifts[k]
        if b > s.free.shape[1]:
            return False
        if row[V_BLOCKED] >= 0 and _least(room.fit[d, a:b]) < need.bundles:
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
    """Return the column past the last one of a part that lacks room, or where the part begins."""
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
    """Return the first column of a part that lacks room, or where the part ends."""
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
    length, need = block.length, Need(row, block.height * row[V_MULTIPLE])
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
    """Hold vertex `v` as one block that begins at `start`; free room is the caller's to lower."""
    first = s.first[v]
    s.rows[PLAN, first, 0], s.rows[PLAN, first, 1] = start, start + block.length
    s.rows[PLAN, first, 2] = block.height * row[V_MULTIPLE]
    s.pieces[PLAN, v] = 1
