"""Window averages: what they leave, and shapes that keep them (greedy.md section 4)."""

from __future__ import annotations

import numpy as np

from planner.kernels.arrays import I64, Atom, Averages, Int, Ints, Profile
from planner.kernels.codes import HEADROOM_ONLY, PAPER
from planner.kernels.compiled import kernel
from planner.kernels.free import fill, index_again, index_moved, least_of
from planner.kernels.runs import draw_runs
from planner.kernels.scratch import HELD, MAY_HOLD
from planner.kernels.shapes import find_shape


@kernel
def _overlap(out: I64, offset: int, stop: int, window: int, t0: int, t1: int, amount: int) -> None:
    """Add to `out` amount x |[tau, tau + window) and [t0, t1)| for every window start tau.

    Window starts at -offset and before `stop`.
    """
    first = max(t0 - window + 1, -offset)
    full = max(-offset, min(t0, t1 - window))
    falls = max(-offset, max(t0, t1 - window))
    for tau in range(first, min(full, stop)):
        out[tau + offset] += amount * (tau + window - t0)
    whole = amount * min(window, t1 - t0)
    for tau in range(full, min(falls, stop)):
        out[tau + offset] += whole
    for tau in range(falls, min(t1, stop)):
        out[tau + offset] += amount * (t1 - tau)


@kernel
def _count_window(q: Averages, demand: int, t0: int, t1: int, bundles: int) -> None:
    """Count bundles on steps [t0, t1) against every average of a demand."""
    offset, columns = q.offset[0], q.offset[1]
    for j in range(q.first[demand], q.first[demand + 1]):
        row, window = q.slack[q.rows[j]], q.windows[q.rows[j]]
        _overlap(row, offset, columns, window, t0, t1, -bundles * q.amounts[j])
        begin, end = max(t0 - window + 1 + offset, 0), min(t1, columns) + offset
        if q.low.shape[1] > 0 and begin < end:
            low = q.low[q.rows[j]]
            full = min(max(min(t0, t1 - window) + offset, begin), end)
            falls = min(max(max(t0, t1 - window) + offset, full), end)
            if begin < full:
                index_again(row, low, begin, full)
            if full < falls:  # every window that starts here loses the same
                whole = -bundles * q.amounts[j] * min(window, t1 - t0)
                index_moved(row, low, full, falls, whole)
            if falls < end:
                index_again(row, low, falls, end)


@kernel
def average_take(q: Averages, shifts: I64, atom: Atom, t0: int, t1: int, bundles: int) -> None:
    """Count `bundles` on steps [t0, t1) of every occurrence against the averages."""
    for i in range(atom.shift_first, atom.shift_end):
        end = min(t1 + shifts[i], q.offset[1])
        if t0 + shifts[i] < end:
            _count_window(q, atom.demand, t0 + shifts[i], end, bundles)


@kernel
def _average_runs(q: Averages, shifts: I64, atom: Atom, x: I64, a: int, b: int, sign: int) -> None:
    """Count the heights `x` on columns [a, b) against the averages, or give them back."""
    columns = q.offset[1]
    u = a
    while u < b:
        begin = u
        while u < b and x[u] == x[begin]:
            u += 1
        if x[begin] > 0:
            t0, t1 = (columns - u, columns - begin) if atom.early else (begin, u)
            average_take(q, shifts, atom, t0, t1, sign * x[begin] * atom.multiple)


@kernel
def _average_cap(q: Averages, shifts: I64, atom: Atom, a: int, b: int) -> Ints:
    """Return (height that the averages allow on columns [a, b), row, window start that binds)."""
    offset, columns = q.offset[0], q.offset[1]
    t0, t1 = (columns - b, columns - a) if atom.early else (a, b)
    best, best_row, best_tau = np.int64(atom.most), -1, 0
    overlap = q.work[0]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row, window = q.rows[j], q.windows[q.rows[j]]
        unit = q.amounts[j] * atom.multiple
        for i in range(atom.shift_first, atom.shift_end):
            end = min(t1 + shifts[i], columns)
            if t0 + shifts[i] < end:
                _overlap(overlap, offset, columns, window, t0 + shifts[i], end, 1)
        low = max(t0 + shifts[atom.shift_first] - window + 1, -offset)
        high = min(t1 + shifts[atom.shift_end - 1], columns)
        for tau in range(low + offset, high + offset):
            need = overlap[tau] * unit
            overlap[tau] = 0
            if need > 0 and q.slack[row, tau] < best * need:
                best = max(np.int64(0), q.slack[row, tau]) // need
                best_row, best_tau = row, tau - offset
    return best, best_row, best_tau


@kernel
def _average_broken(q: Averages, shifts: I64, atom: Atom, x: I64, first: int, last: int) -> Ints:
    """Return (row, window start) of an average that heights `x` break, or (-1, 0)."""
    offset, columns = q.offset[0], q.offset[1]
    total = q.work[1]
    t0, t1 = (columns - last, columns - first) if atom.early else (first, last)
    low = t0 + shifts[atom.shift_first]
    high = min(t1 + shifts[atom.shift_end - 1], columns)
    for t in range(low, high + 1):
        total[t] = 0
    for i in range(atom.shift_first, atom.shift_end):
        for u in range(first, last):
            t = (columns - 1 - u if atom.early else u) + shifts[i]
            if t < columns:
                total[t + 1] += x[u] * atom.multiple
    for t in range(low, high):
        total[t + 1] += total[t]
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        row, window = q.rows[j], q.windows[q.rows[j]]
        for tau in range(max(low - window + 1, -offset), high):
            used = total[min(tau + window, high)] - total[max(tau, low)]
            if used > 0 and used * q.amounts[j] > q.slack[row, tau + offset]:
                return row, tau
    return -1, 0


@kernel
def average_free(q: Averages, shifts: I64, atom: Atom) -> bool:
    """Return whether no allocation in the window can break an average (the fast path)."""
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
def _average_blocks(q: Averages, shifts: I64, atom: Atom, buf: I64) -> Int:
    """Stack whole leases from the right as the averages allow; return the work left.

    Row `MAY_HOLD` is filled. What is placed is counted against the averages.
    """
    c, x = buf[MAY_HOLD], buf[HELD]
    for u in range(atom.lo, atom.hi):
        x[u] = 0
    left, end = atom.work, atom.hi
    while end - atom.lease >= atom.lo and left >= atom.least * atom.lease:
        begin = end - atom.lease
        height = left // atom.lease
        u = end - 1
        while u >= begin and c[u] - x[u] >= atom.least:
            height = min(height, c[u] - x[u])
            u -= 1
        if u >= begin:
            end = u
            continue
        cap, row, tau = _average_cap(q, shifts, atom, begin, end)
        height = min(height, cap)
        if height < atom.least:
            # Within the window that binds the overlap only shrinks once the block leaves it.
            leave = end - 1
            if not atom.early and atom.shift_end - atom.shift_first == 1:
                unit = average_unit(q, atom, row) * atom.least * atom.multiple
                slack = max(np.int64(0), q.slack[row, tau + q.offset[0]])
                leave = min(leave, tau - shifts[atom.shift_first] + slack // unit)
            end = leave
            continue
        for u in range(begin, end):
            x[u] += height
        t0 = q.offset[1] - end if atom.early else begin
        average_take(q, shifts, atom, t0, t0 + atom.lease, height * atom.multiple)
        left -= height * atom.lease
        end -= 1
    return left


@kernel
def average_unit(q: Averages, atom: Atom, row: int) -> Int:
    for j in range(q.first[atom.demand], q.first[atom.demand + 1]):
        if q.rows[j] == row:
            return q.amounts[j]
    return np.int64(1)


@kernel
def _average_raise(
    q: Averages, shifts: I64, atom: Atom, buf: I64, u: int, height: int, left: int
) -> Int:
    """Raise column u to at most `height` as the averages allow; return the work still left."""
    c, x = buf[MAY_HOLD], buf[HELD]
    add = min(min(c[u], height) - x[u], left)
    if add <= 0 or (x[u] == 0 and add < atom.least):
        return left
    cap, _row, _tau = _average_cap(q, shifts, atom, u, u + 1)
    add = min(add, cap)
    if add <= 0 or (x[u] == 0 and add < atom.least):
        return left
    x[u] += add
    t = q.offset[1] - u - 1 if atom.early else u
    average_take(q, shifts, atom, t, t + 1, add * atom.multiple)
    return left - add


@kernel
def shape_within(
    p: Profile, q: Averages, shifts: I64, atom: Atom, buf: I64, strategy: int, start: int
) -> Ints:
    """Find the atom's heights within the averages: (ok, first, end, runs, row, window).

    The strategy's own shape where it keeps the averages; else whole leases and lengthening,
    each as high as the averages allow. Row and window tell which average was in the way.
    """
    x = buf[HELD]
    ok, first, last, runs = find_shape(p, shifts, atom, buf, strategy, start)
    if not ok:
        return False, first, last, 0, -1, 0
    if runs > 0:
        draw_runs(x, buf, runs, first, last)
    row, tau = _average_broken(q, shifts, atom, x, first, last)
    if row < 0:
        return True, first, last, runs, -1, 0
    if strategy == PAPER or strategy == HEADROOM_ONLY:
        return False, first, last, 0, row, tau
    fill(p, shifts, atom, buf[MAY_HOLD], atom.lo, atom.hi, atom.most * atom.multiple)
    left = _average_blocks(q, shifts, atom, buf)
    for u in range(atom.lo + 1, atom.hi):
        if left > 0:
            left = _average_raise(q, shifts, atom, buf, u, x[u - 1], left)
    for u in range(atom.hi - 2, atom.lo - 1, -1):
        if left > 0:
            left = _average_raise(q, shifts, atom, buf, u, x[u + 1], left)
    _average_runs(q, shifts, atom, x, atom.lo, atom.hi, -1)
    return left == 0, atom.lo, atom.hi, 0, row, tau
