"""Compiled loops that lay a plan out as runs, give each atom a window of its own, and write back.

A malleable atom that holds `x` bundles in a column is a set of runs of one bundle each: the bundle
taken first is given back first. So every run is at least a lease long exactly where the atom keeps
its lease (docs/rdl.md).
"""

from __future__ import annotations

from typing import Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels.arrays import I64, Int
from planner.agents.exact.kernels.search_state import (
    ACTIVE,
    BEST,
    FAR,
    FROM,
    KEPT,
    TO,
    SearchState,
    draw,
)
from planner.agents.exact.overload.kernels.compiled import compiled, inlined
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
from rdl.work_graph import ATOM, EVERY

#: Rows of what `count_runs` returns.
ATOMS: Final = 0
RUNS: Final = 1
CELLS: Final = 2


@inlined
def run_unit(row: I64) -> Int:
    """Return how many multiples of an atom one run is."""
    fixed = row[pb.V_RUN] > 0 or row[pb.V_LEAST] == row[pb.V_MOST]
    return row[pb.V_MOST] if fixed else np.int64(1)


@inlined
def cell_cost(over: float) -> float:
    """Return what overload of so many mean demands in one column costs."""
    return over * over + 0.5 * over if over > 0.0 else 0.0


@inlined
def change_use(
    f: Forest, room: FreeRoom, runs: RunSet, row: I64, begin: int, end: int, amount: int
) -> float:
    """Let an atom take `amount` more bundles in [begin, end); return how the cost changes."""
    change = 0.0
    d = row[pb.V_DEMAND]
    for j in range(room.demand_first[d], room.demand_first[d + 1]):
        free, scale = runs.free[room.demand_rows[j]], runs.scale[room.demand_rows[j]]
        units = amount * room.demand_amounts[j]
        for q in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
            for c in range(begin + f.shifts[q], end + f.shifts[q]):
                before = free[c]
                after = before - units
                free[c] = after
                if before < 0 or after < 0:
                    runs.over[0] += (1 if after < 0 else 0) - (1 if before < 0 else 0)
                    change += cell_cost(-after * scale) - cell_cost(-before * scale)
    return change


@compiled
def count_runs(f: Forest, s: SearchState) -> I64:
    """Return int64[3]: atoms, runs and cells that the kept plan of a search lays out to."""
    f, s = borrowed(f), borrowed(s)
    counts = np.zeros(3, dtype=np.int64)
    for v in range(len(f.vertices)):
        row = f.vertices[v]
        pieces = s.pieces[KEPT, v]
        if pieces == 0 or s.held[KEPT, row[pb.V_REQUEST]] == 0:
            continue
        counts[ATOMS] += 1
        counts[CELLS] += row[pb.V_END] - row[pb.V_START]
        unit = run_unit(row) * row[pb.V_MULTIPLE]
        before, end = np.int64(0), np.int64(-1)
        for i in range(s.first[v], s.first[v] + pieces):
            if s.rows[KEPT, i, 0] > end:
                before = np.int64(0)
            counts[RUNS] += max(np.int64(0), s.rows[KEPT, i, 2] - before) // unit
            before, end = s.rows[KEPT, i, 2], s.rows[KEPT, i, 1]
    return counts


@compiled
def lay_runs(f: Forest, room: FreeRoom, s: SearchState, runs: RunSet) -> None:
    """Write the kept plan of a search as runs; what is free is written too."""
    f, room, s, runs = borrowed(f), borrowed(room), borrowed(s), borrowed(runs)
    k: Int = np.int64(0)
    runs.free[:], runs.over[0] = room.free, 0
    for v in range(len(f.vertices)):
        row = f.vertices[v]
        if s.pieces[KEPT, v] == 0 or s.held[KEPT, row[pb.V_REQUEST]] == 0:
            continue
        atom = runs.atom[k]
        atom[A_VERTEX], atom[A_UNIT] = v, run_unit(row)
        atom[A_LEASE] = row[pb.V_RUN] if row[pb.V_RUN] > 0 else row[pb.V_LEASE]
        runs.first[k + 1] = _lay_atom(s, runs, v, k, atom[A_UNIT] * row[pb.V_MULTIPLE])
        runs.cell[k + 1] = runs.cell[k] + row[pb.V_END] - row[pb.V_START]
        _limit(f, room, runs, k)
        for i in range(runs.first[k], runs.first[k + 1]):
            begin, end = runs.run[i, R_BEGIN], runs.run[i, R_END]
            for c in range(begin, end):
                runs.held[runs.cell[k] + c - row[pb.V_START]] += 1
            change_use(f, room, runs, row, begin, end, atom[A_UNIT] * row[pb.V_MULTIPLE])
        k += 1


@inlined
def _lay_atom(s: SearchState, runs: RunSet, v: int, k: int, unit: int) -> Int:
    """Write the runs of one atom; return where they end."""
    i: Int = runs.first[k]  # first run that goes on
    end: Int = runs.first[k]
    before, last = np.int64(0), np.int64(-1)
    for piece in range(s.first[v], s.first[v] + s.pieces[KEPT, v]):
        begin = s.rows[KEPT, piece, 0]
        count = s.rows[KEPT, piece, 2] // unit
        if begin > last:
            while i < end:
                runs.run[i, R_END] = last
                i += 1
            before = np.int64(0)
        for _ in range(before - count):
            runs.run[i, R_END] = begin
            i += 1
        for _ in range(count - before):
            runs.run[end, R_ATOM], runs.run[end, R_BEGIN] = k, begin
            end += 1
        before, last = count, s.rows[KEPT, piece, 1]
    while i < end:
        runs.run[i, R_END] = last
        i += 1
    return end


@inlined
def _limit(f: Forest, room: FreeRoom, runs: RunSet, k: int) -> None:
    """Write how many runs an atom may hold in each column: its height, and what machines hold."""
    row = f.vertices[runs.atom[k, A_VERTEX]]
    per_run = runs.atom[k, A_UNIT] * row[pb.V_MULTIPLE]
    for c in range(row[pb.V_START], row[pb.V_END]):
        most = row[pb.V_MOST] // runs.atom[k, A_UNIT]
        for q in range(row[pb.V_SHIFT], row[pb.V_SHIFT] + row[pb.V_SHIFTS]):
            at = c + f.shifts[q]
            held = room.fit[row[pb.V_DEMAND], at] if at < room.fit.shape[1] else np.int64(0)
            most = min(most, held // per_run)
        runs.most[runs.cell[k] + c - row[pb.V_START]] = most


@compiled
def overload_cost(runs: RunSet) -> float:
    """Return what all overload costs; 0 where the plan takes no more than there is."""
    runs = borrowed(runs)
    total = 0.0
    for row in range(runs.free.shape[0]):
        for c in range(runs.free.shape[1]):
            if runs.free[row, c] < 0:
                total += cell_cost(-runs.free[row, c] * runs.scale[row])
    return total


@compiled
def draw_windows(f: Forest, s: SearchState, runs: RunSet) -> None:
    """Give each atom a window of its own: what lies between two of them is divided at random.

    Whatever its runs do inside keeps every order and every gap. Where a gap has a largest length
    the atom that ends before it still reaches the column where it ends now, and the one that begins
    after it has begun by the column where it begins now. One atom on each side is enough: a group
    ends no earlier than any of its atoms, and begins no later.
    """
    f, s, runs = borrowed(f), borrowed(s), borrowed(runs)
    border = np.zeros(len(f.preds), dtype=np.int64)
    place = np.full(len(f.vertices), -1, dtype=np.int64)
    _note_spans(f, s, runs, place)
    for k in range(len(runs.atom)):
        runs.atom[k, A_FIRST] = runs.atom[k, A_LAST] = -1
    for e in range(len(f.preds)):
        before, least, most, after = f.preds[e]
        if s.vertex[ACTIVE, before] == 0 or s.vertex[ACTIVE, after] == 0:
            continue
        slack = s.vertex[FROM, after] - least - s.vertex[TO, before]
        border[e] = s.vertex[TO, before] + np.int64(draw(runs) * (slack + 1))
        if most >= 0:
            last = place[_edge_atom(f, s, runs, before, False)]
            first = place[_edge_atom(f, s, runs, after, True)]
            runs.atom[last, A_LAST] = s.vertex[TO, runs.atom[last, A_VERTEX]]
            runs.atom[first, A_FIRST] = s.vertex[FROM, runs.atom[first, A_VERTEX]]
    for k in range(len(runs.atom)):
        _draw_window(f, s, runs, k, border)


@inlined
def _note_spans(f: Forest, s: SearchState, runs: RunSet, place: I64) -> None:
    """Write which vertices are active, and what columns each spans, to the scratch of a search."""
    for v in range(len(f.vertices)):
        s.vertex[ACTIVE, v] = 0
        s.vertex[FROM, v], s.vertex[TO, v] = FAR, -FAR
    for k in range(len(runs.atom)):
        v = runs.atom[k, A_VERTEX]
        place[v] = k
        for i in range(runs.first[k], runs.first[k + 1]):
            s.vertex[FROM, v] = min(s.vertex[FROM, v], runs.run[i, R_BEGIN])
            s.vertex[TO, v] = max(s.vertex[TO, v], runs.run[i, R_END])
    for v in range(len(f.vertices)):  # a vertex stands after all that is below it
        if s.vertex[TO, v] < 0:
            continue
        s.vertex[ACTIVE, v] = 1
        if f.vertices[v, pb.V_KIND] == EVERY:
            s.vertex[TO, v] += f.vertices[v, pb.V_LAST]
        up = f.vertices[v, pb.V_PARENT]
        if up >= 0:
            s.vertex[FROM, up] = min(s.vertex[FROM, up], s.vertex[FROM, v])
            s.vertex[TO, up] = max(s.vertex[TO, up], s.vertex[TO, v])


@inlined
def _edge_atom(f: Forest, s: SearchState, runs: RunSet, side: int, first: bool) -> Int:
    """Return the atom below a vertex that begins first, or ends last."""
    found: Int = np.int64(-1)
    request = f.vertices[side, pb.V_REQUEST]
    for v in range(f.first[request], side + 1):
        if f.vertices[v, pb.V_KIND] != ATOM or s.vertex[ACTIVE, v] == 0:
            continue
        up: Int = v
        moved = np.int64(0)
        while up >= 0 and up != side:
            up = f.vertices[up, pb.V_PARENT]
            if up >= 0 and f.vertices[up, pb.V_KIND] == EVERY:
                moved += f.vertices[up, pb.V_LAST]
        if up != side:
            continue
        same = s.vertex[TO, v] + moved == s.vertex[TO, side]
        if first:
            same = s.vertex[FROM, v] == s.vertex[FROM, side]
        if same:
            found = v
    return found


@inlined
def _draw_window(f: Forest, s: SearchState, runs: RunSet, k: int, border: I64) -> None:
    v = runs.atom[k, A_VERTEX]
    begin, end = f.vertices[v, pb.V_START], f.vertices[v, pb.V_END]
    moved = np.int64(0)
    up: Int = v
    while up >= 0:
        first = f.vertices[up, pb.V_PRED]
        for e in range(first, first + f.vertices[up, pb.V_PREDS]):
            if s.vertex[ACTIVE, f.preds[e, 0]] == 1:
                begin = max(begin, border[e] + f.preds[e, 1])
        first = f.vertices[up, pb.V_SUCC]
        for i in range(first, first + f.vertices[up, pb.V_SUCCS]):
            e = f.succs[i]
            if s.vertex[ACTIVE, f.preds[e, 3]] == 1:
                end = min(end, border[e] - moved)
        up = f.vertices[up, pb.V_PARENT]
        if up >= 0 and f.vertices[up, pb.V_KIND] == EVERY:
            moved += f.vertices[up, pb.V_LAST]
    runs.atom[k, A_BEGIN], runs.atom[k, A_END] = begin, end


@compiled
def write_plan(f: Forest, s: SearchState, runs: RunSet) -> None:
    """Write the runs as the kept plan of the search that they were laid out from.

    A request with an atom of more pieces than the search has slots for is left out.
    """
    f, s, runs = borrowed(f), borrowed(s), borrowed(runs)
    for k in range(len(runs.atom)):
        v = runs.atom[k, A_VERTEX]
        row = f.vertices[v]
        if s.held[KEPT, row[pb.V_REQUEST]] == 0:
            continue
        if not _write_atom(s, runs, k, v, row):
            remove(f, s, row[pb.V_REQUEST])
    s.total[BEST] = 0.0
    for r in range(len(f.value)):
        s.total[BEST] += s.worth[KEPT, r]


@compiled
def remove(f: Forest, s: SearchState, r: int) -> None:
    """Refuse a request in the kept plan."""
    s.total[BEST] -= s.worth[KEPT, r]
    s.held[KEPT, r], s.worth[KEPT, r] = 0, 0.0
    for v in range(f.first[r], f.first[r + 1]):
        s.pieces[KEPT, v] = 0


@inlined
def _write_atom(s: SearchState, runs: RunSet, k: int, v: int, row: I64) -> bool:
    at: Int = s.first[v]
    height: Int = np.int64(0)
    begin: Int = row[pb.V_START]
    unit = runs.atom[k, A_UNIT] * row[pb.V_MULTIPLE]
    for c in range(row[pb.V_START], row[pb.V_END] + 1):
        now: Int = np.int64(0)
        if c < row[pb.V_END]:
            now = runs.held[runs.cell[k] + c - row[pb.V_START]] * unit
        if now == height:
            continue
        if height > 0:
            if at >= s.first[v + 1]:
                return False
            s.rows[KEPT, at, 0], s.rows[KEPT, at, 1], s.rows[KEPT, at, 2] = begin, c, height
            at += 1
        height, begin = now, c
    s.pieces[KEPT, v] = at - s.first[v]
    return True
