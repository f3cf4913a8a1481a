"""Kernels of a Plan's ledger: check whether rows are free, take them, release them.

The capacity that one bundle takes is one flat array, the *terms* of a demand: three counts (rows
of the profile, averages, segments of machines), then (row, amount) pairs, then (average, amount,
window) triples, then the most bundles that machines hold in each segment. A call passes seven
arrays instead of sixteen, because passing one takes 0.1 microseconds, as much as reading it.

Loops run over slices from 0 on: numba then knows that no index is negative, and LLVM vectorizes
them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

import planner.capacity.block_index
import planner.capacity.block_index_kernels
from planner.capacity.block_index_kernels import I64, Int, index_again, index_moved, least_of
from planner.kernel_cache import KernelFamily

_kernel = KernelFamily(
    planner.capacity.block_index,
    planner.capacity.block_index_kernels,
    nogil=True,
    error_model="numpy",
).kernel

# Cells of a demand's terms; the docstring of the module describes the rest.
ROW_COUNT: Final = 0
AVERAGE_COUNT: Final = 1
SEGMENT_COUNT: Final = 2
TERMS_FIRST: Final = 3

_FEW: Final = 2  # rows that are counted one by one


@_kernel
def _add(row: I64, low: I64, t0: int, t1: int, amount: int) -> None:
    """Add `amount` to `row[t0:t1]`, not empty, and update its block minima."""
    part = row[t0:t1]
    for i in range(part.shape[0]):
        part[i] += amount
    if low.shape[0] > 0:
        index_moved(row, low, t0, t1, amount)


@_kernel
def _add_slope(row: I64, low: I64, t0: int, t1: int, value: int, slope: int) -> None:
    """Add `value`, `value + slope`, ... to `row[t0:t1]`, which may be empty."""
    if t0 >= t1:
        return
    part = row[t0:t1]
    for i in range(part.shape[0]):
        part[i] += value + slope * i
    if low.shape[0] > 0:
        index_again(row, low, t0, t1)


@_kernel
def _count(row: I64, low: I64, offset: int, window: int, t0: int, t1: int, amount: int) -> None:
    """Add amount x |[tau, tau + window) and [t0, t1)| to the slack of every window start tau.

    `row` has starts from -offset on. With later starts the overlap first rises, then stays, then
    falls.
    """
    columns = row.shape[0]
    starts, full = t0 - window + 1 + offset, min(t0, t1 - window) + offset
    falls, ends = max(t0, t1 - window) + offset, t1 + offset
    first = max(starts, 0)
    rise = min(full, columns)
    _add_slope(row, low, first, rise, amount * (first - starts + 1), amount)
    first, last = max(full, 0), min(falls, columns)
    if first < last:
        _add(row, low, first, last, amount * min(window, t1 - t0))
    first = max(falls, 0)
    _add_slope(row, low, first, min(ends, columns), amount * (ends - first), -amount)


@_kernel
def all_free(
    free: I64, low: I64, slack: I64, slack_low: I64, terms: I64, places: I64, rows: I64, begin: I64
) -> bool:
    """Return whether consecutive rows are all free, averages included.

    Row i takes the terms at `terms[places[i]:]`; `begin` is the step of column 0, and the index of
    that step among window starts. Sufficient, not necessary: False if rows overlap, or if all the
    rows in one window would exceed an average.
    """
    first, offset = begin[0], begin[1]
    before = first
    horizon = first + free.shape[1]
    for r in range(rows.shape[0]):
        start, stop, held, at = rows[r, 0], rows[r, 1], rows[r, 2], places[r]
        if start < before or stop > horizon:
            return False
        before = stop
        pairs, triples = terms[at + ROW_COUNT], terms[at + AVERAGE_COUNT]
        fit = at + TERMS_FIRST + 2 * pairs + 3 * triples
        for i in range(fit, fit + terms[at + SEGMENT_COUNT]):
            if held > terms[i]:
                return False
        for i in range(pairs):
            row, amount = terms[at + TERMS_FIRST + 2 * i], terms[at + TERMS_FIRST + 2 * i + 1]
            if least_of(free[row], low[row], start - first, stop - first) < held * amount:
                return False
    for r in range(rows.shape[0]):
        at = places[r]
        triple = at + TERMS_FIRST + 2 * terms[at + ROW_COUNT]
        for _ in range(terms[at + AVERAGE_COUNT]):
            number, window = terms[triple], terms[triple + 2]
            asked = _counted(terms, places, rows, r, number)
            if asked > 0:
                tau = max(rows[0, 0] - first - window + 1 + offset, 0)
                if least_of(slack[number], slack_low[number], tau, before - first + offset) < asked:
                    return False
            triple += 3
    return True


@_kernel
def room_over(free: I64, terms: I64, breaks: I64, first: int, low: int, high: int) -> I64:
    """Return int64[high - low]: free bundles in rows and on machines at each step.

    `first` is the step of column 0, `breaks` are the steps at which the number of machines changes.
    """
    pairs, segments = terms[ROW_COUNT], terms[SEGMENT_COUNT]
    fit = TERMS_FIRST + 2 * pairs + 3 * terms[AVERAGE_COUNT]
    out = np.empty(high - low, dtype=np.int64)
    s = 0
    for t in range(low, high):
        while s + 1 < segments and breaks[s + 1] <= t:
            s += 1
        out[t - low] = terms[fit + s]
    for i in range(pairs):
        row, amount = terms[TERMS_FIRST + 2 * i], terms[TERMS_FIRST + 2 * i + 1]
        left = free[row, low - first : high - first]
        for t in range(left.shape[0]):
            if left[t] < out[t] * amount:
                out[t] = max(left[t], 0) // amount
    return out


@_kernel
def _counted(terms: I64, places: I64, rows: I64, r: int, number: int) -> Int:
    """Return all that rows count against an average, 0 if a row before `r` counts against it."""
    asked = np.int64(0)
    known: Int = np.int64(-1)
    for k in range(rows.shape[0]):
        at = places[k]
        triple = at + TERMS_FIRST + 2 * terms[at + ROW_COUNT]
        for _ in range(terms[at + AVERAGE_COUNT]):
            if terms[triple] == number:
                if known < 0:
                    known = k
                    if known < r:
                        return np.int64(0)
                asked += (rows[k, 1] - rows[k, 0]) * rows[k, 2] * terms[triple + 1]
            triple += 3
    return asked


@_kernel
def _alike(places: I64, rows: I64, r: int) -> Int:
    """Return the end of the run of consecutive rows from `r` on with the same terms."""
    end = r + 1
    while end < rows.shape[0] and places[end] == places[r] and rows[end, 0] >= rows[end - 1, 1]:
        end += 1
    return end


@_kernel
def _area(rows: I64) -> I64:
    """Return int64[steps + 1]: cumulative bundle-steps of rows before each step, from the first."""
    first = rows[0, 0]
    area = np.zeros(rows[-1, 1] - first + 1, dtype=np.int64)
    for r in range(rows.shape[0]):
        for t in range(rows[r, 0] - first, rows[r, 1] - first):
            area[t + 1] = rows[r, 2]
    for t in range(1, area.shape[0]):
        area[t] += area[t - 1]
    return area


@_kernel
def _count_area(row: I64, low: I64, begin: int, window: int, area: I64, amount: int) -> None:
    """Count many rows together, as `_count` does for one; the first is at index `begin` of `row`.

    The use of a window is a difference of two areas, for any number of rows.
    """
    steps = area.shape[0] - 1
    first, last = max(begin - window + 1, 0), min(begin + steps, row.shape[0])
    for at in range(first, last):
        used = area[min(at + window - begin, steps)] - area[max(at - begin, 0)]
        row[at] += amount * used
    if low.shape[0] > 0 and first < last:
        index_again(row, low, first, last)


@_kernel
def move(
    free: I64,
    low: I64,
    slack: I64,
    slack_low: I64,
    terms: I64,
    places: I64,
    rows: I64,
    begin: I64,
    sign: int,
) -> None:
    """Take rows (sign 1) or release them (-1); the parts outside the columns are cut off.

    Arguments as in :func:`all_free`.
    """
    first, offset = begin[0], begin[1]
    together = 0  # earlier rows are counted already
    for r in range(rows.shape[0]):
        t0, t1, at = rows[r, 0] - first, rows[r, 1] - first, places[r]
        held = -sign * rows[r, 2]
        low_end, high_end = max(t0, 0), min(t1, free.shape[1])
        pair = at + TERMS_FIRST
        for _ in range(terms[at + ROW_COUNT]):
            if low_end < high_end:
                row = terms[pair]
                _add(free[row], low[row], low_end, high_end, held * terms[pair + 1])
            pair += 2
        if r < together or terms[at + AVERAGE_COUNT] == 0:
            continue
        together = _alike(places, rows, r)
        area = _area(rows[r:together]) if together - r > _FEW else rows[:0, 0]
        for _ in range(terms[at + AVERAGE_COUNT]):
            number, window, unit = terms[pair], terms[pair + 2], -sign * terms[pair + 1]
            line, line_low = slack[number], slack_low[number]
            if together - r > _FEW:
                _count_area(line, line_low, offset + t0, window, area, unit)
            else:
                for k in range(r, together):
                    start, stop = rows[k, 0] - first, rows[k, 1] - first
                    _count(line, line_low, offset, window, start, stop, unit * rows[k, 2])
            pair += 3
