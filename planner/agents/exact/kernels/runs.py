"""Convert a plan to runs of single bundles, move the runs, and convert them back.

A malleable atom with `x` bundles in a column is a set of runs of one bundle each: the bundle
acquired first is released first. So the atom keeps its lease exactly if every run is at least a
lease long (docs/rdl.md)."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels import F64, I64, U64, Int, compiled, inlined
from planner.agents.exact.kernels.search_state import (
    ACTIVE,
    BEST,
    FAR,
    FROM,
    KEPT,
    TO,
    SearchState,
    draw,
    draw_below,
)
from planner.agents.exact.problem import Forest, FreeRoom
from planner.kernel_cache import borrowed
from rdl.work_graph import ATOM, EVERY

# Columns of `RunSet.atom`.
A_VERTEX: Final = 0
A_BEGIN: Final = 1  # its own window [A_BEGIN, A_END), in which its runs move
A_END: Final = 2
A_FIRST: Final = 3  # column before which it must have started, because of a maximum gap; or -1
A_LAST: Final = 4  # column that it must reach, because of a maximum gap; or -1
A_UNIT: Final = 5  # multiples per run: all of them if the height is fixed
A_LEASE: Final = 6  # minimum columns of a run: its whole length if the shape is fixed
A_COLUMNS: Final = 7

# Columns of `RunSet.run`.
R_ATOM: Final = 0
R_BEGIN: Final = 1
R_END: Final = 2
R_COLUMNS: Final = 3


class RunSet(NamedTuple):
    """Runs of the bundles of a plan.

    Attributes
    ----------
    atom
        int64[atom, A_COLUMNS]: the active atoms of accepted requests.
    run
        int64[run, R_COLUMNS]: the runs of an atom are contiguous. Each is at least a lease long,
        and together they do the atom's work.
    first
        int64[atom + 1]: first run of each atom.
    cell
        int64[atom + 1]: first cell of each atom's whole window in `held` and `most`.
    held, most
        int64[cell]: number of the atom's runs in a column, and its maximum.
    free
        int64[row, column]: capacity left by the runs; negative values are overload.
    scale
        float64[row]: 1 / the mean amount of a demand.
    over
        int64[1]: cells of `free` below 0.
    random
        uint64[1].
    """

    atom: I64
    run: I64
    first: I64
    cell: I64
    held: I64
    most: I64
    free: I64
    scale: F64
    over: I64
    random: U64


#: Cells of the result of `count_runs`.
ATOMS: Final = 0
RUNS: Final = 1
CELLS: Final = 2


@inlined
def run_unit(row: I64) -> Int:
    """Return the multiples of an atom per run."""
    fixed = row[pb.V_RUN] > 0 or row[pb.V_LEAST] == row[pb.V_MOST]
    return row[pb.V_MOST] if fixed else np.int64(1)


@inlined
def cell_cost(over: float) -> float:
    """Return the cost of an overload of this many mean demands in one column."""
    return over * over + 0.5 * over if over > 0.0 else 0.0


@inlined
def change_use(
    f: Forest, room: FreeRoom, runs: RunSet, row: I64, begin: int, end: int, amount: int
) -> float:
    """Add `amount` bundles to an atom's use in [begin, end); return the change of the cost."""
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
    """Return int64[3]: numbers of atoms, runs and cells for the kept plan of a search."""
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
    """Write the kept plan of a search as runs, and the free capacity."""
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
    """Write the runs of one atom; return their end index."""
    i: Int = runs.first[k]  # first run that is not yet closed
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
    """Write an atom's maximum number of runs in each column: by its height and by fit caps."""
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
    """Return the total cost of overload; 0 if the plan fits the capacity."""
    runs = borrowed(runs)
    total = 0.0
    for row in range(runs.free.shape[0]):
        for c in range(runs.free.shape[1]):
            if runs.free[row, c] < 0:
                total += cell_cost(-runs.free[row, c] * runs.scale[row])
    return total


@compiled
def draw_windows(f: Forest, s: SearchState, runs: RunSet) -> None:
    """Assign a window to each atom: divide the time between ordered atoms at random.

    Any move of runs inside the windows keeps every order and every gap. For a maximum gap, the atom
    before it must still reach its current end column, and the atom after it must still start by its
    current start column. One atom on each side is enough: a group ends no earlier than any of its
    atoms, and starts no later.
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
    """Write the active vertices and their spans of columns to the scratch of a search."""
    for v in range(len(f.vertices)):
        s.vertex[ACTIVE, v] = 0
        s.vertex[FROM, v], s.vertex[TO, v] = FAR, -FAR
    for k in range(len(runs.atom)):
        v = runs.atom[k, A_VERTEX]
        place[v] = k
        for i in range(runs.first[k], runs.first[k + 1]):
            s.vertex[FROM, v] = min(s.vertex[FROM, v], runs.run[i, R_BEGIN])
            s.vertex[TO, v] = max(s.vertex[TO, v], runs.run[i, R_END])
    for v in range(len(f.vertices)):  # a vertex follows its descendants
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
    """Return the atom below a vertex that starts first, or ends last."""
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
    """Write the runs back as the kept plan of their search.

    A request is dropped if one of its atoms has more pieces than the search has slots.
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


_SHIFT_SHARE: Final = 0.34  # moves that shift one run; others lengthen one, shorten another
_FAR_SHARE: Final = 0.25  # moves of up to `_FAR_COLUMNS`
_FAR_COLUMNS: Final = 128
_MIDDLE_SHARE: Final = 0.35
_MIDDLE_COLUMNS: Final = 16
_NEAR_COLUMNS: Final = 3

_AIM_SHARE: Final = 0.5  # moves that search for a run that adds to an overload
_LOOKS: Final = 48  # runs tried in that search
_LIST_MOVES: Final = 500  # moves between two updates of the list of overloaded cells
_LIST_CELLS: Final = 4096


@inlined
def _mark(runs: RunSet, cells: int, begin: int, end: int, sign: int) -> None:
    """Add a run to `held`, or remove it (sign -1); `cells` is the cell of column 0."""
    for c in range(cells + begin, cells + end):
        runs.held[c] += sign


@inlined
def _exceeds(runs: RunSet, cells: int, begin: int, end: int) -> bool:
    """Return whether a column has more runs than allowed."""
    over = False
    for c in range(cells + begin, cells + end):
        over = over or runs.held[c] > runs.most[c]
    return over


@inlined
def _is_low(runs: RunSet, cells: int, begin: int, end: int, least: int) -> bool:
    """Return whether a column is in use, but below the minimum height."""
    low = False
    for c in range(cells + begin, cells + end):
        low = low or 0 < runs.held[c] < least
    return low


@compiled
def _shift(
    f: Forest, room: FreeRoom, runs: RunSet, row: I64, old: I64, new: I64, amount: int
) -> float:
    """Move a run between column ranges; only the columns that differ are read."""
    a, e, b, g = old[0], old[1], new[0], new[1]
    change = change_use(f, room, runs, row, a, min(e, b), -amount)
    change += change_use(f, room, runs, row, max(a, g), e, -amount)
    change += change_use(f, room, runs, row, b, min(g, a), amount)
    return change + change_use(f, room, runs, row, max(b, e), g, amount)


@inlined
def _columns(runs: RunSet) -> Int:
    """Draw the number of columns by which a move changes a run."""
    kind = draw(runs)
    most = _NEAR_COLUMNS
    if kind < _FAR_SHARE:
        most = _FAR_COLUMNS
    elif kind < _FAR_SHARE + _MIDDLE_SHARE:
        most = _MIDDLE_COLUMNS
    return 1 + draw_below(runs, most)


@inlined
def _propose_shift(runs: RunSet, i: int, new: I64) -> bool:
    """Propose a shift of a run; return False if it does not move."""
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
    """Propose to shorten one run and lengthen another of the same atom equally."""
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
    """Move runs in `held` from old to new columns; common columns are not read."""
    for q in range(count):
        a, e, b, g = old[q, 0], old[q, 1], new[q, 0], new[q, 1]
        _mark(runs, cells, a, min(e, b), -1)
        _mark(runs, cells, max(a, g), e, -1)
        _mark(runs, cells, b, min(g, a), 1)
        _mark(runs, cells, max(b, e), g, 1)


@inlined
def _holds(f: Forest, runs: RunSet, k: int, count: int, old: I64, new: I64) -> bool:
    """Return whether an atom, after `_put`, keeps its heights and maximum gaps."""
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
    """Move the runs of one atom on the profile; return the change of the cost."""
    row = f.vertices[runs.atom[k, A_VERTEX]]
    amount = runs.atom[k, A_UNIT] * row[pb.V_MULTIPLE]
    change = 0.0
    for q in range(count):
        change += _shift(f, room, runs, row, old[q], new[q], amount)
    return change


@inlined
def _list_over(runs: RunSet, over: I64) -> Int:
    """List cells of `free` below 0, as many as fit into `over`; return their number."""
    count: Int = np.int64(0)
    for line in range(runs.free.shape[0]):
        for c in range(runs.free.shape[1]):
            if runs.free[line, c] < 0 and count < len(over):
                over[count, 0], over[count, 1] = line, c
                count += 1
    return count


@inlined
def _adds(f: Forest, room: FreeRoom, runs: RunSet, i: int, cell: I64) -> bool:
    """Return whether a run uses a cell of `free`."""
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
    """Return a run that uses a cell, or any run if none of those drawn does."""
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
    """Make one move of a run and accept or undo it."""
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
    """Move runs inside their atoms' windows until there is no overload; return the moves made.

    Parameters
    ----------
    moves
        Maximum number of moves.
    hot, cold
        Temperatures at the first move and after the last, in units of the cost.
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
