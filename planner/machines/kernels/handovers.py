"""Place pieces in parts: a bundle that fits no machine for its whole time moves after a lease.

A bundle stays on its machine as long as possible: a piece that fits as a whole is placed as a
whole; any other piece goes to the machine that can hold it longest, then to the next one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    I64,
    START,
    STOP,
    BundleKind,
    Int,
    MachineTable,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.counting import count_over
from planner.machines.kernels.finding import count_slots, find
from planner.machines.kernels.laying import held_so_far, take_picks
from planner.machines.kernels.standing import in_order
from planner.machines.kernels.tree import columns, take_slots
from planner.machines.kernels.using import no_use, note_use

#: Maximum number of parts, not counting pieces that stay whole.
_PARTS: Final = 4096

#: Earlier steps to try for leaving if no machine accepts the bundle at the last one.
_EARLIER: Final = 8


@kernel
def _holds(
    table: MachineTable, wanted: BundleKind, use: I64, slots: I64, at: Int, start: Int, end: Int
) -> bool:
    """Return whether some machine fits one more bundle over the steps [start, end)."""
    if wanted.spread > 0:
        note_use(table, wanted, slots, at, start, end, use)
    a, b = columns(table.ring, start, end)
    return bool(count_slots(table, wanted, use, a, b, 1) > 0)


@kernel
def _leaving(
    table: MachineTable,
    wanted: BundleKind,
    use: I64,
    slots: I64,
    at: Int,
    part: I64,
    lease: Int,
) -> Int:
    """Return the last step at which a bundle may leave its first machine, or its start."""
    start, end = part[START], part[STOP]
    first, last = start + lease, end - lease
    if last < first or not _holds(table, wanted, use, slots, at, start, first):
        return start
    low, high = first, last
    while low < high:
        middle = (low + high + 1) // 2
        if _holds(table, wanted, use, slots, at, start, middle):
            low = middle
        else:
            high = middle - 1
    stride = max(1, (low - first) // _EARLIER)
    while low >= first:
        until = low + lease if end - low >= 2 * lease else end
        if _holds(table, wanted, use, slots, at, low, until):
            return low
        low -= stride
    return start


@kernel
def _shortage(table: MachineTable, wanted: BundleKind, pieces: I64, start: Int, end: Int) -> I64:
    """Return start, end, bundles of the pieces at the start, and how many the machines hold."""
    short = np.empty(4, dtype=np.int64)
    needed = np.int64(0)
    for piece in pieces:
        if piece[START] <= start < piece[STOP]:
            needed += piece[BUNDLES]
    found = count_over(table, wanted, start, end, needed)
    short[0], short[1], short[2], short[3] = start, end, needed, min(found, needed - 1)
    return short


@kernel
def _hardest_first(pieces: I64, lease: Int) -> I64:
    """Return pieces in the order of placement: those that cannot move, then the longest."""
    count = pieces.shape[0]
    low, high = pieces[:, START].min(), pieces[:, STOP].max()
    span = high - low + 1
    keys = np.empty(count, dtype=np.int64)
    for i in range(count):
        length = pieces[i, STOP] - pieces[i, START]
        movable = 1 if length >= 2 * lease else 0
        keys[i] = ((movable + 1) * span - length) * span + pieces[i, START] - low
    return pieces[np.argsort(keys)]


@kernel
def lay_in_parts(
    table: MachineTable, wanted: BundleKind, pieces: I64, beside: I64, lease: Int
) -> tuple[I64, I64]:
    """Place pieces and take their slots; bundles may change machine after a lease on one.

    Returns
    -------
    slots, short
        As `stand_rows`.
    """
    machines, before = table.lane_of.shape[0], beside.shape[0]
    short = np.empty(0, dtype=np.int64)
    if pieces.shape[0] == 0:
        return beside[:0], short
    most = np.int64(_PARTS + machines)
    for p in range(pieces.shape[0]):
        most += min(pieces[p, BUNDLES], machines)
    slots = held_so_far(beside, most)
    waiting = np.empty((pieces.shape[0] + _PARTS, 3), dtype=np.int64)
    picks = np.empty((machines, 2), dtype=np.int64)
    use = no_use(table, wanted)
    at, left = before, 0
    for piece in _hardest_first(pieces, lease):
        start, end = piece[START], piece[STOP]
        a, b = columns(table.ring, start, end)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, end, use)
        rows, found, _ = find(table, wanted, use, a, b, piece[BUNDLES], picks)
        at = take_picks(table, wanted, picks, rows, (start, end), slots, at)
        if found < piece[BUNDLES]:
            waiting[left, START], waiting[left, STOP] = start, end
            waiting[left, BUNDLES] = piece[BUNDLES] - found
            left += 1
    waiting[:left] = waiting[:left][::-1].copy()  # reversed: pieces are taken from the end
    while left > 0:
        left -= 1
        start, end, needed = waiting[left, START], waiting[left, STOP], waiting[left, BUNDLES]
        a, b = columns(table.ring, start, end)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, end, use)
        rows, found, _ = find(table, wanted, use, a, b, needed, picks)
        at = take_picks(table, wanted, picks, rows, (start, end), slots, at)
        if found == needed:
            continue
        waiting[left, BUNDLES] = needed - found
        leaves = _leaving(table, wanted, use, slots, at, waiting[left], lease)
        if leaves == start or at + machines > most + before or left + 2 > waiting.shape[0]:
            take_slots(table, wanted.amounts, slots[before:at], -1)
            until = start + lease if end - start >= 2 * lease else end
            return slots[:0], _shortage(table, wanted, pieces, start, until)
        a, b = columns(table.ring, start, leaves)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, leaves, use)
        rows, moved, _ = find(table, wanted, use, a, b, needed - found, picks)
        at = take_picks(table, wanted, picks, rows, (start, leaves), slots, at)
        if moved < needed - found:
            waiting[left, BUNDLES] = needed - found - moved
            left += 1
        waiting[left, START], waiting[left, STOP], waiting[left, BUNDLES] = leaves, end, moved
        left += 1
    return in_order(slots[before:at]), short
