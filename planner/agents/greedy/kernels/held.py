"""Write a shape as rows; subtract rows from the profile or release them."""

from __future__ import annotations

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Averages, Int, Ints, Profile
from planner.agents.greedy.kernels.compiled import kernel
from planner.agents.greedy.kernels.counting import count_atom
from planner.agents.greedy.kernels.free import subtract
from planner.agents.greedy.kernels.scratch import HELD, RUN_FROM, RUN_HEIGHT, RUN_TO


@kernel
def _take(
    p: Profile, shifts: I64, atom: AtomToPlace, rows: I64, r0: int, r1: int, sign: int
) -> None:
    """Subtract (sign 1) or release (-1) rows [r0, r1) of one atom in every occurrence."""
    for s in range(atom.shift_first, atom.shift_end):
        move = shifts[s]
        for r in range(r0, r1):
            end = min(rows[r, 1] + move, p.span[1])
            subtract(p, atom.demand, rows[r, 0] + move, end, sign * rows[r, 2])


@kernel
def _emit(
    atom: AtomToPlace, x: I64, first: int, last: int, columns: int, rows: I64, count: int
) -> Int:
    """Append the heights in `x` as merged rows in ascending time; return the new count or -1."""
    step, u, stop = 1, first, last
    if atom.early:
        step, u, stop = -1, last - 1, first - 1
    while u != stop:
        height = x[u]
        begin = u
        while u != stop and x[u] == height:
            u += step
        if height == 0:
            continue
        if count == rows.shape[0]:
            return -1
        rows[count, 0] = columns - 1 - begin if atom.early else begin
        rows[count, 1] = columns - 1 - u if atom.early else u
        rows[count, 2] = height * atom.multiple
        count += 1
    return count


@kernel
def _emit_runs(atom: AtomToPlace, buf: I64, runs: int, columns: int, rows: I64, count: int) -> Int:
    """Append listed runs as rows in ascending time; return the new count or -1."""
    if count + runs > rows.shape[0]:
        return -1
    for k in range(runs):
        i = k if atom.early else runs - 1 - k
        first, end = buf[RUN_FROM, i], buf[RUN_TO, i]
        rows[count, 0] = columns - end if atom.early else first
        rows[count, 1] = columns - first if atom.early else end
        rows[count, 2] = buf[RUN_HEIGHT, i] * atom.multiple
        count += 1
    return count


@kernel
def trimmed(x: I64, first: int, last: int) -> Ints:
    """Return [first, last) without empty columns at both ends."""
    while first < last and x[first] == 0:
        first += 1
    while first < last and x[last - 1] == 0:
        last -= 1
    return first, last


@kernel
def emit_shape(
    atom: AtomToPlace,
    buf: I64,
    first: int,
    last: int,
    runs: int,
    columns: int,
    rows: I64,
    count: int,
) -> Int:
    """Append the shape of `find_shape` as rows in ascending time; return the new count or -1."""
    if runs > 0:
        return _emit_runs(atom, buf, runs, columns, rows, count)
    return _emit(atom, buf[HELD], first, last, columns, rows, count)


@kernel
def move_atom(
    p: Profile, q: Averages, shifts: I64, atom: AtomToPlace, rows: I64, r0: int, r1: int, sign: int
) -> None:
    """Subtract an atom's rows [r0, r1) (sign 1) or release them (sign -1)."""
    _take(p, shifts, atom, rows, r0, r1, sign)
    if q.first[atom.demand] < q.first[atom.demand + 1]:
        count_atom(q, shifts, atom, rows, r0, r1, sign)
