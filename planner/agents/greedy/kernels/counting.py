"""Subtract allocations from, or release them to, window averages (greedy.md section 4)."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Averages
from planner.agents.greedy.kernels.compiled import kernel
from planner.capacity.block_index_kernels import index_again, index_moved


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
def _count_row(q: Averages, demand: int, t0: int, t1: int, bundles: int) -> None:
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
            if full < falls:  # every window that starts here loses the same amount
                whole = -bundles * q.amounts[j] * min(window, t1 - t0)
                index_moved(row, low, full, falls, whole)
            if falls < end:
                index_again(row, low, falls, end)


@kernel
def _count_rows(q: Averages, demand: int, rows: I64, move: int, sign: int) -> None:
    """Count rows in ascending time, `move` steps later, against every average of a demand.

    A window's use is a difference of two prefix sums, independent of the number of rows.
    """
    offset, columns = q.offset[0], q.offset[1]
    low, high = rows[0, 0] + move, min(rows[-1, 1] + move, columns)
    held = np.zeros(max(0, high - low) + 1, dtype=np.int64)  # from `low` to before a step
    for r in range(rows.shape[0]):
        for t in range(rows[r, 0] + move - low, min(rows[r, 1] + move, columns) - low):
            held[t + 1] = rows[r, 2]
    for t in range(high - low):
        held[t + 1] += held[t]
    for j in range(q.first[demand], q.first[demand + 1]):
        row, window, amount = q.slack[q.rows[j]], q.windows[q.rows[j]], sign * q.amounts[j]
        begin = max(low - window + 1, -offset)
        for tau in range(begin, high):
            used = held[min(tau + window, high) - low] - held[max(tau - low, 0)]
            row[tau + offset] -= amount * used
        if q.low.shape[1] > 0 and begin < high:
            index_again(row, q.low[q.rows[j]], begin + offset, high + offset)


@kernel
def count_atom(
    q: Averages, shifts: I64, atom: AtomToPlace, rows: I64, r0: int, r1: int, sign: int
) -> None:
    """Count an atom's rows [r0, r1) against the averages (sign 1), or release them (sign -1)."""
    for i in range(atom.shift_first, atom.shift_end):
        move = shifts[i]
        if r1 - r0 > 2:
            _count_rows(q, atom.demand, rows[r0:r1], move, sign)
            continue
        for r in range(r0, r1):
            begin, end = rows[r, 0] + move, min(rows[r, 1] + move, q.offset[1])
            if begin < end:
                _count_row(q, atom.demand, begin, end, sign * rows[r, 2])
