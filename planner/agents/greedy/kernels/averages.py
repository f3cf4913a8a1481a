"""Window averages: their remaining budgets, and shapes within them (greedy.md section 4)."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import (
    I64,
    AtomToPlace,
    Averages,
    Int,
    Ints,
    Profile,
    no_taller,
)
from planner.agents.greedy.kernels.codes import (
    AT_COLUMN,
    AT_ROW,
    COMPACT,
    FREE,
    HEADROOM_ONLY,
    NEEDED,
    NO_AVERAGE,
    PAPER,
    WHY,
)
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.free import fill
from planner.agents.greedy.kernels.runs import draw_runs
from planner.agents.greedy.kernels.scratch import HELD, MAY_HOLD
from planner.agents.greedy.kernels.shapes import find_shape
from planner.agents.greedy.kernels.window_limits import UNBOUND, WindowLimits, WindowTask, too_much
from planner.agents.greedy.kernels.windowed import fit_within
from planner.capacity.block_index_kernels import least_of

#: Lower maximum heights tried: the minimum that could hold the work, then doubled each time.
_LOWER_TRIES = 3


@kernel
def average_free(q: Averages, shifts: I64, atom: AtomToPlace) -> bool:
    """Return whether no allocation in the window can violate an average (the fast path)."""
    offset, columns = q.offset[0], q.offset[1]
    t0, t1 = (columns - atom.hi, columns - atom.lo) if atom.early else (atom.lo, atom.hi)
    low = t0 + shifts[atom.shift_first]
    high = min(t1 + shifts[atom.shift_end - 1], columns)
    work = atom.work * atom.multiple * (atom.shift_end - atom.shift_first)
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row = q.rows[j]
        begin = max(low - q.windows[row] + 1, -offset) + offset
        if begin < high + offset:
            if least_of(q.slack[row], q.low[row], begin, high + offset) < work * q.amounts[j]:
                return False
    return True


@kernel
def tell_average(q: Averages, atom: AtomToPlace, row: int, tau: int, status: I64) -> None:
    """Write that an average prevents an atom's placement, in the window that starts at `tau`."""
    status[WHY], status[AT_COLUMN], status[AT_ROW] = NO_AVERAGE, tau, row
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        if q.rows[j] == row:
            status[NEEDED] = atom.work * q.amounts[j] * atom.multiple
    status[FREE] = max(np.int64(0), q.slack[row, tau + q.offset[0]])


@kernel
def _average_broken(
    q: Averages, shifts: I64, atom: AtomToPlace, x: I64, first: int, last: int
) -> Ints:
    """Return (row, window start) of an average that heights `x` violate, or (-1, 0)."""
    offset, columns = q.offset[0], q.offset[1]
    t0, t1 = (columns - last, columns - first) if atom.early else (first, last)
    low = t0 + shifts[atom.shift_first]
    high = min(t1 + shifts[atom.shift_end - 1], columns)
    total = np.zeros(max(0, high - low) + 1, dtype=np.int64)  # from `low` to before a step
    for i in range(atom.shift_first, atom.shift_end):
        for u in range(first, last):
            t = (columns - 1 - u if atom.early else u) + shifts[i]
            if t < columns:
                total[t + 1 - low] += x[u] * atom.multiple
    for t in range(high - low):
        total[t + 1] += total[t]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row, window = q.rows[j], q.windows[q.rows[j]]
        for tau in range(max(low - window + 1, -offset), high):
            used = total[min(tau + window, high) - low] - total[max(tau - low, 0)]
            if used > 0 and used * q.amounts[j] > q.slack[row, tau + offset]:
                return row, tau
    return -1, 0


@kernel
def _start_of(shifts: I64, atom: AtomToPlace, i: int, place: int, window: int, columns: int) -> Int:
    """Return the start step of an occurrence's window; `WindowLimits` defines places."""
    if atom.early:
        return columns - atom.lo - place - 1 + shifts[i]
    return atom.lo + place - window + 1 + shifts[i]


@kernel
def _most_of_one(atom: AtomToPlace, place: int, window: int) -> Int:
    """Return the maximum use of the window at a place by one occurrence."""
    n = atom.hi - atom.lo
    return min(atom.work, atom.most * (min(place + 1, n) - max(place - window + 1, 0)))


@kernel
def _leave(q: Averages, j: int, shifts: I64, atom: AtomToPlace, out: I64) -> None:
    """Write an average's budget for each window of an atom: the minimum over occurrences.

    A window that overlaps several occurrences is charged the whole work of the others, or for a
    partly covered one the maximum use possible there. This is exact unless a window starts in one
    occurrence and ends in another.
    """
    offset, columns = q.offset[0], q.offset[1]
    slack, window = q.slack[q.rows[j]], q.windows[q.rows[j]]
    unit, n = q.amounts[j] * atom.multiple, atom.hi - atom.lo
    several = atom.shift_end - atom.shift_first > 1
    busy = np.zeros(slack.shape[0] if several else 0, dtype=np.int64)
    for i in range(atom.shift_first, atom.shift_end if several else atom.shift_first):
        for place in range(n + window - 1):
            at = _start_of(shifts, atom, i, place, window, columns) + offset
            if 0 <= at < slack.shape[0]:
                busy[at] += _most_of_one(atom, place, window)
    for i in range(atom.shift_first, atom.shift_end):
        for place in range(n + window - 1):
            at = _start_of(shifts, atom, i, place, window, columns) + offset
            if 0 <= at < slack.shape[0]:
                left = slack[at]
                if several:
                    left -= unit * (busy[at] - _most_of_one(atom, place, window))
                out[place] = min(out[place], max(left, np.int64(0)))


@kernel
def _limits_of(q: Averages, shifts: I64, atom: AtomToPlace) -> WindowLimits:
    """Return the averages of an atom as limits on its columns."""
    first = q.first[atom.demand]
    count = q.first[atom.demand + 1] - first
    windows = np.empty(count, dtype=np.int64)
    units = np.empty(count, dtype=np.int64)
    longest = np.int64(1)
    for j in range(count):
        windows[j] = q.windows[q.rows[first + j]]
        units[j] = q.amounts[first + j] * atom.multiple
        longest = max(longest, windows[j])
    room = np.full((count, atom.hi - atom.lo + longest - 1), UNBOUND, dtype=np.int64)
    for j in range(count):
        _leave(q, first + j, shifts, atom, room[j])
    return WindowLimits(windows, units, room)


@inline
def _found(
    p: Profile, q: Averages, shifts: I64, atom: AtomToPlace, buf: I64, strategy: int, start: int
) -> Ints:
    """Find and draw a strategy's shape: (ok, first, end, runs, row, window) as `shape_within`."""
    ok, first, last, runs = find_shape(p, shifts, atom, buf, strategy, start)
    if not ok:
        return False, first, last, 0, -1, 0
    if runs > 0:
        draw_runs(buf[HELD], buf, runs, first, last)
    row, tau = _average_broken(q, shifts, atom, buf[HELD], first, last)
    return row < 0, first, last, runs, row, tau


@inline
def _lower(p: Profile, q: Averages, shifts: I64, atom: AtomToPlace, buf: I64) -> Ints:
    """Find a shape no taller than necessary: (ok, first, end, runs).

    If leases are long compared with the remaining budget of a window, late and tall ones exceed it,
    while lower ones overlap in fewer windows.
    """
    n = atom.hi - atom.lo
    most = max(atom.least, (atom.work + n - 1) // n)
    for _ in range(_LOWER_TRIES):
        if most >= atom.most:
            break
        ok, first, last, runs, _row, _tau = _found(
            p, q, shifts, no_taller(atom, most), buf, COMPACT, atom.lo
        )
        if ok:
            return True, first, last, runs
        most *= 2
    return False, atom.lo, atom.hi, 0


@kernel
def shape_within(
    p: Profile, q: Averages, shifts: I64, atom: AtomToPlace, buf: I64, strategy: int, start: int
) -> Ints:
    """Find the atom's heights within the averages: (ok, first, end, runs, row, window).

    The strategy's own shape if it keeps the averages; else whole leases and lengthening, each as
    high as the averages allow; else a lower shape. On failure, row and window identify the average.
    """
    ok, first, last, runs, row, tau = _found(p, q, shifts, atom, buf, strategy, start)
    if ok or row < 0 or strategy == PAPER or strategy == HEADROOM_ONLY:
        return ok, first, last, runs, row, tau
    limits = _limits_of(q, shifts, atom)
    lo, hi = atom.lo, atom.hi
    once = atom.shift_end - atom.shift_first == 1
    if once and too_much(limits, hi - lo, atom.work):
        return False, lo, hi, 0, row, tau
    fill(p, shifts, atom, buf[MAY_HOLD], lo, hi, atom.most * atom.multiple)
    task = WindowTask(atom.least, atom.lease, atom.work)
    if fit_within(limits, buf[MAY_HOLD, lo:hi], buf[HELD, lo:hi], task) == 0:
        return True, lo, hi, 0, row, tau
    ok, first, last, runs = _lower(p, q, shifts, atom, buf)
    return ok, first, last, runs, row, tau
