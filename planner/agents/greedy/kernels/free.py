"""Read free capacity, with or without a block index, and subtract from it."""

from __future__ import annotations

import numpy as np

from planner.agents.greedy.kernels.arrays import I64, AtomToPlace, Int, Profile
from planner.agents.greedy.kernels.compiled import inline, kernel
from planner.agents.greedy.kernels.scratch import MAY_HOLD, NOTES
from planner.capacity.block_index_kernels import index_moved, least_in, least_of


@kernel
def segment_of(segments: I64, t: int) -> Int:
    """Return the segment that contains column t (the last segment if t is past the end)."""
    low, high = 0, segments.shape[0] - 2
    while low < high:
        middle = (low + high + 1) // 2
        if segments[middle] <= t:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _machines(p: Profile, demand: int, out: I64, t0: int, t1: int, origin: int, sign: int) -> Int:
    """Lower `out` to the fit cap of the machines in steps [t0, t1); return the maximum cap."""
    most = np.int64(0)
    seg = segment_of(p.segments, t0)
    t = t0
    while t < t1:
        stop = t1
        if seg + 2 < p.segments.shape[0]:
            stop = min(t1, p.segments[seg + 1])
        fit = p.fit[demand, seg]
        most = max(most, fit)
        part = (
            out[origin + t : origin + stop] if sign > 0 else out[origin - stop + 1 : origin - t + 1]
        )
        for i in range(part.shape[0]):
            part[i] = min(part[i], fit)
        t = stop
        seg += 1
    return most


@inline
def least_free_of(p: Profile, row: int, t0: int, t1: int) -> Int:
    """Return the minimum free capacity in columns [t0, t1), which must not be empty."""
    free = p.free[row]
    if p.low.shape[1] == 0:
        least = least_in(free, p.span[0] + t0, p.span[0] + t1)
    else:
        least = least_of(free, p.low[row], p.span[0] + t0, p.span[0] + t1)
    return least


@inline
def subtract(p: Profile, demand: int, t0: int, t1: int, bundles: int) -> None:
    """Subtract bundles from columns [t0, t1) of every row that the demand uses."""
    for d in range(p.demand_first[demand], p.demand_first[demand + 1]):
        amount = bundles * p.demand_amounts[d]
        row = p.free[p.demand_rows[d]]
        part = row[p.span[0] + t0 : p.span[0] + t1]
        for i in range(part.shape[0]):
            part[i] -= amount
        if p.low.shape[1] > 0 and t0 < t1:
            low = p.low[p.demand_rows[d]]
            index_moved(row, low, p.span[0] + t0, p.span[0] + t1, -amount)


@kernel
def lower_to_fit(
    out: I64, free: I64, amount: int, t0: int, t1: int, origin: int, sign: int
) -> None:
    """Lower `out` to how often `amount` fits into `free` in steps [t0, t1)."""
    # A product and a correction are exact below 2^50 and several times faster than a division;
    # without a branch, and counted from 0, the loops run on whole vectors.
    part = 1.0 / amount
    source, count = free[t0:t1], t1 - t0
    if sign > 0:
        target = out[origin + t0 : origin + t1]
        for i in range(count):
            value = max(np.int64(0), min(source[i], amount * target[i]))
            held = np.int64(value * part)
            held -= held * amount > value
            held += (held + 1) * amount <= value
            target[i] = held
        return
    target = out[origin - t1 + 1 : origin - t0 + 1]
    for i in range(count):
        j = count - 1 - i
        value = max(np.int64(0), min(source[i], amount * target[j]))
        held = np.int64(value * part)
        held -= held * amount > value
        held += (held + 1) * amount <= value
        target[j] = held


@kernel
def fill(p: Profile, shifts: I64, atom: AtomToPlace, out: I64, a: int, b: int, cap: int) -> None:
    """Write into `out[a:b]` the multiples that the atom may use, 0 if its minimum does not fit.

    For an atom that recurs, the minimum over its occurrences (greedy.md 1.3).
    """
    columns = p.span[1]
    out[a:b] = cap
    for s in range(atom.shift_first, atom.shift_end):
        move = shifts[s]
        origin, sign, t0, t1 = -move, 1, a + move, b + move
        if atom.early:
            origin, sign = columns - 1 + move, -1
            t0, t1 = columns - b + move, columns - a + move
        for t in range(max(columns, t0), t1):  # an occurrence past the profile does not fit
            out[origin + sign * t] = 0
        t1 = min(t1, columns)
        if t0 >= t1:
            continue
        top = min(cap, _machines(p, atom.demand, out, t0, t1, origin, sign))
        for d in range(p.demand_first[atom.demand], p.demand_first[atom.demand + 1]):
            row, amount = p.demand_rows[d], p.demand_amounts[d]
            free, place = p.free[row], p.span[0]
            if p.low.shape[1] == 0:
                least = least_in(free, t0 + place, t1 + place)
            else:
                least = least_of(free, p.low[row], t0 + place, t1 + place)
            if least < amount * top:
                lower_to_fit(out, free, amount, t0 + place, t1 + place, origin - sign * place, sign)
    k, least, part = atom.multiple, atom.least, out[a:b]
    if k > 1:
        for i in range(part.shape[0]):
            part[i] = part[i] // k
    if least > 1:
        for i in range(part.shape[0]):
            part[i] = part[i] if part[i] >= least else 0


@kernel
def holds_work(atom: AtomToPlace, buf: I64) -> bool:
    """Return False if no allocation below `MAY_HOLD` in the window fits the work (sound bound).

    Records in `NOTES` what a refusal reports: the longest run, and the total area of runs long
    enough.
    """
    c = buf[MAY_HOLD]
    longest, begin, area = 0, atom.lo, np.int64(0)
    run = np.int64(0)
    length = 0
    for u in range(atom.lo, atom.hi):
        if c[u] > 0:
            run += c[u]
            length += 1
        elif length > 0:
            if length > longest:
                longest, begin = length, u - length
            if length >= atom.lease:
                area += run
            run = np.int64(0)
            length = 0
    if length > longest:
        longest, begin = length, atom.hi - length
    if length >= atom.lease:
        area += run
    note = buf[NOTES]
    note[0], note[1], note[2] = longest, begin, area
    return bool(area >= atom.work)
