"""Compiled loops that move runs until a plan takes no more than there is."""

from __future__ import annotations

from typing import Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels.arrays import F64, I64, Int
from planner.agents.exact.kernels.search_state import draw, draw_below
from planner.agents.exact.overload.kernels.compiled import compiled, inlined
from planner.agents.exact.overload.kernels.layout import change_use
from planner.agents.exact.overload.kernels.run_set import (
    A_BEGIN,
    A_END,
    A_FIRST,
    A_LAST,
    A_LEASE,
    A_UNIT,
    A_VERTEX,
    R_ATOM,
    R_BEGIN,
    R_END,
    RunSet,
)
from planner.agents.exact.problem import Forest, FreeRoom
from planner.kernel_cache import borrowed

_SHIFT_SHARE: Final = 0.34  # moves that shift one run; others lengthen one by what another loses
_FAR_SHARE: Final = 0.25  # moves of up to `_FAR_COLUMNS`
_FAR_COLUMNS: Final = 128
_MIDDLE_SHARE: Final = 0.35
_MIDDLE_COLUMNS: Final = 16
_NEAR_COLUMNS: Final = 3

_AIM_SHARE: Final = 0.5  # moves for which a run is looked for that adds to some overload
_LOOKS: Final = 48  # runs looked at for one that does
_LIST_MOVES: Final = 500  # moves between two lists of where there is overload
_LIST_CELLS: Final = 4096


@inlined
def _mark(runs: RunSet, cells: int, begin: int, end: int, sign: int) -> None:
    """Count a run in, or out (sign -1); `cells` is where column 0 would stand."""
    for c in range(cells + begin, cells + end):
        runs.held[c] += sign


@inlined
def _exceeds(runs: RunSet, cells: int, begin: int, end: int) -> bool:
    """Return whether a column holds more runs than it may."""
    over = False
    for c in range(cells + begin, cells + end):
        over = over or runs.held[c] > runs.most[c]
    return over


@inlined
def _is_low(runs: RunSet, cells: int, begin: int, end: int, least: int) -> bool:
    """Return whether a column holds something, but less than the least height."""
    low = False
    for c in range(cells + begin, cells + end):
        low = low or 0 < runs.held[c] < least
    return low


@compiled
def _shift(
    f: Forest, room: FreeRoom, runs: RunSet, row: I64, old: I64, new: I64, amount: int
) -> float:
    """Move a run from [old) to [new); only columns that differ are read."""
    a, e, b, g = old[0], old[1], new[0], new[1]
    change = change_use(f, room, runs, row, a, min(e, b), -amount)
    change += change_use(f, room, runs, row, max(a, g), e, -amount)
    change += change_use(f, room, runs, row, b, min(g, a), amount)
    return change + change_use(f, room, runs, row, max(b, e), g, amount)


@inlined
def _columns(runs: RunSet) -> Int:
    """Return by how many columns a move changes a run."""
    kind = draw(runs)
    most = _NEAR_COLUMNS
    if kind < _FAR_SHARE:
        most = _FAR_COLUMNS
    elif kind < _FAR_SHARE + _MIDDLE_SHARE:
        most = _MIDDLE_COLUMNS
    return 1 + draw_below(runs, most)


@inlined
def _propose_shift(runs: RunSet, i: int, new: I64) -> bool:
    """Write where a run goes that keeps its length; False where it does not move."""
    run = runs.run[i]
    atom = runs.atom[run[R_ATOM]]
    columns = _columns(runs)
    if draw(runs) < 0.5:
        columns = -columns
    columns = min(max(columns, atom[A_BEGIN] - run[R_BEGIN]), atom[A_END] - run[R_END])
    new[0, 0], new[0, 1] = run[R_BEGIN] + columns, run[R_END] + columns
    return bool(columns != 0)


@inlined
def _propose_trade(runs: RunSet, i: int, j: int, new: I64) -> bool:
    """Write how one run gets shorter and another of its atom longer by as much."""
    run, other = runs.run[i], runs.run[j]
    atom = runs.atom[run[R_ATOM]]
    columns = min(_columns(runs), run[R_END] - run[R_BEGIN] - atom[A_LEASE])
    if columns <= 0 or i == j:
        return False
    new[0, 0], new[0, 1] = run[R_BEGIN], run[R_END]
    new[1, 0], new[1, 1] = other[R_BEGIN], other[R_END]
    if draw(runs) < 0.5:
        new[0, 0] += columns
    else:
        new[0, 1] -= columns
    if draw(runs) < 0.5:
        new[1, 0] -= columns
    else:
        new[1, 1] += columns
    return bool(new[1, 0] >= atom[A_BEGIN] and new[1, 1] <= atom[A_END])


@inlined
def _put(runs: RunSet, cells: int, count: int, old: I64, new: I64) -> None:
    """Count runs out where they were and in where they go; columns of both are not read."""
    for q in range(count):
        a, e, b, g = old[q, 0], old[q, 1], new[q, 0], new[q, 1]
        _mark(runs, cells, a, min(e, b), -1)
        _mark(runs, cells, max(a, g), e, -1)
        _mark(runs, cells, b, min(g, a), 1)
        _mark(runs, cells, max(b, e), g, 1)


@inlined
def _holds(f: Forest, runs: RunSet, k: int, count: int, old: I64, new: I64) -> bool:
    """Return whether an atom keeps its heights and its largest gaps; `_put` has moved its runs."""
    atom = runs.atom[k]
    row = f.vertices[atom[A_VERTEX]]
    cells = runs.cell[k] - row[pb.V_START]
    for q in range(count):
        a, e, b, g = old[q, 0], old[q, 1], new[q, 0], new[q, 1]
        if _exceeds(runs, cells, b, min(g, a)) or _exceeds(runs, cells, max(b, e), g):
            return False
    if atom[A_UNIT] == 1 and row[pb.V_LEAST] > 1:
        for q in range(count):
            low, high = min(old[q, 0], new[q, 0]), max(old[q, 1], new[q, 1])
            if _is_low(runs, cells, low, high, row[pb.V_LEAST]):
                return False
    if atom[A_FIRST] >= 0 and runs.held[cells + atom[A_FIRST]] == 0:
        return False
    return bool(atom[A_LAST] < 0 or runs.held[cells + atom[A_LAST] - 1] > 0)


@compiled
def _change_runs(
    f: Forest, room: FreeRoom, runs: RunSet, k: int, count: int, old: I64, new: I64
) -> float:
    """Move the runs of one atom on the profile; return how the cost changes."""
    row = f.vertices[runs.atom[k, A_VERTEX]]
    amount = runs.atom[k, A_UNIT] * row[pb.V_MULTIPLE]
    change = 0.0
    for q in range(count):
        change += _shift(f, room, runs, row, old[q], new[q], amount)
    return change


@inlined
def _list_over(runs: RunSet, over: I64) -> Int:
    """Write cells of `free` below 0, as many as go in; return how many."""
    count: Int = np.int64(0)
    for line in range(runs.free.shape[0]):
        for c in range(runs.free.shape[1]):
            if runs.free[line, c] < 0 and count < len(over):
                over[count, 0], over[count, 1] = line, c
                count += 1
    return count


@inlined
def _adds(f: Forest, room: FreeRoom, runs: RunSet, i: int, cell: I64) -> bool:
    """Return whether a run takes from a cell of `free`."""
    row = f.vertices[runs.atom[runs.run[i, R_ATOM], A_VERTEX]]
    d = row[pb.V_DEMAND]
    takes = False
    for j in range(room.demand_first[d], room.demand_first[d + 1]):
        takes = takes or room.demand_rows[j] == cell[0]
    covers = False
    for q in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
        at = cell[1] - f.shifts[q]
        covers = covers or runs.run[i, R_BEGIN] <= at < runs.run[i, R_END]
    return bool(takes and covers)


@inlined
def _run_over(f: Forest, room: FreeRoom, runs: RunSet, cell: I64) -> Int:
    """Return a run that takes from a cell, or any run where none of some that are drawn does."""
    i = draw_below(runs, len(runs.run))
    for _ in range(_LOOKS):
        if _adds(f, room, runs, i, cell):
            return i
        i = draw_below(runs, len(runs.run))
    return i


@compiled
def _move(
    f: Forest, room: FreeRoom, runs: RunSet, i: int, temperature: float, old: I64, new: I64
) -> None:
    """Make one move of a run and keep it or take it back."""
    k = runs.run[i, R_ATOM]
    own = runs.first[k + 1] - runs.first[k]
    count, j = 1, i
    if own == 1 or draw(runs) < _SHIFT_SHARE:
        good = _propose_shift(runs, i, new)
    else:
        count, j = 2, runs.first[k] + draw_below(runs, own)
        good = _propose_trade(runs, i, j, new)
    if not good:
        return
    old[0, 0], old[0, 1] = runs.run[i, R_BEGIN], runs.run[i, R_END]
    old[1, 0], old[1, 1] = runs.run[j, R_BEGIN], runs.run[j, R_END]
    cells = runs.cell[k] - f.vertices[runs.atom[k, A_VERTEX], pb.V_START]
    _put(runs, cells, count, old, new)
    if _holds(f, runs, k, count, old, new):
        change = _change_runs(f, room, runs, k, count, old, new)
        if change <= 0.0 or draw(runs) < np.exp(-change / temperature):
            runs.run[i, R_BEGIN], runs.run[i, R_END] = new[0, 0], new[0, 1]
            if count == 2:
                runs.run[j, R_BEGIN], runs.run[j, R_END] = new[1, 0], new[1, 1]
            return
        _change_runs(f, room, runs, k, count, new, old)
    _put(runs, cells, count, new, old)


@compiled
def reduce_overload(
    f: Forest, room: FreeRoom, runs: RunSet, moves: int, hot: float, cold: float
) -> Int:
    """Move runs inside the windows of their atoms until nothing is over; return how many moves.

    Parameters
    ----------
    moves
        Moves at most.
    hot, cold
        Temperatures at the first and after the last move, in units of the cost.
    """
    f, room, runs = borrowed(f), borrowed(room), borrowed(runs)
    old, new = np.zeros((2, 2), dtype=np.int64), np.zeros((2, 2), dtype=np.int64)
    over = np.zeros((_LIST_CELLS, 2), dtype=np.int64)
    count: Int = np.int64(0)
    temperature = hot
    for m in range(moves):
        if runs.over[0] == 0:
            return m
        if m % _LIST_MOVES == 0:
            count = _list_over(runs, over)
            temperature = hot * (cold / hot) ** (m / moves)
        i = np.int64(-1)
        if count > 0 and draw(runs) < _AIM_SHARE:
            i = _run_over(f, room, runs, over[draw_below(runs, count)])
        else:
            i = draw_below(runs, len(runs.run))
        _move(f, room, runs, i, temperature, old, new)
    return moves


@compiled
def overload_shares(f: Forest, room: FreeRoom, runs: RunSet) -> F64:
    """Return float64[request]: how much of the overload would go with each, in mean demands."""
    f, room, runs = borrowed(f), borrowed(room), borrowed(runs)
    shares = np.zeros(len(f.value))
    for i in range(len(runs.run)):
        k = runs.run[i, R_ATOM]
        row = f.vertices[runs.atom[k, A_VERTEX]]
        d = row[pb.V_DEMAND]
        for j in range(room.demand_first[d], room.demand_first[d + 1]):
            line = room.demand_rows[j]
            units = runs.atom[k, A_UNIT] * row[pb.V_MULTIPLE] * room.demand_amounts[j]
            for q in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
                shift = f.shifts[q]
                for c in range(runs.run[i, R_BEGIN] + shift, runs.run[i, R_END] + shift):
                    over = min(-runs.free[line, c], units)
                    if over > 0:
                        shares[row[pb.V_REQUEST]] += over * runs.scale[line]
    return shares
