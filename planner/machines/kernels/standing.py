"""Place the rows of one atom on machines in one call: cut into pieces, place, sort."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    I64,
    MACHINE,
    START,
    STOP,
    BundleKind,
    Int,
    MachineTable,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.counting import count_over
from planner.machines.kernels.laying import lay_pieces

#: Up to this many slots are sorted by insertion.
FEW = 16


@kernel
def in_order(slots: I64) -> I64:
    """Return slots sorted by start, end and machine."""
    count = slots.shape[0]
    if count < 2:
        return slots
    low, high, machines = slots[0, START], slots[0, STOP], np.int64(0)
    for i in range(count):
        low, high = min(low, slots[i, START]), max(high, slots[i, STOP])
        machines = max(machines, slots[i, MACHINE] + 2)
    keys, span = np.empty(count, dtype=np.int64), high - low + 1
    for i in range(count):
        step = (slots[i, START] - low) * span + slots[i, STOP] - low
        keys[i] = step * machines + slots[i, MACHINE] + 1
    if count > FEW:
        return slots[np.argsort(keys)]
    ordered = slots.copy()
    for i in range(count):
        j = i
        while j > 0 and keys[j - 1] > keys[j]:
            keys[j - 1], keys[j] = keys[j], keys[j - 1]
            for column in range(4):
                cell = ordered[j, column]
                ordered[j, column] = ordered[j - 1, column]
                ordered[j - 1, column] = cell
            j -= 1
    return ordered


@kernel
def pieces_from(rows: I64) -> I64:
    """Return int64[p, 3] sorted by start: `pieces_of` for sorted rows."""
    count = rows.shape[0]
    if count == 1:
        return rows.copy()
    pieces = np.empty((3 * count + 2, 3), dtype=np.int64)
    begun = np.empty((count, 2), dtype=np.int64)
    first = end = at = 0
    height, last = np.int64(0), np.int64(0)
    for i in range(count):
        if rows[i, START] > last and height > 0:
            first, at = _release(begun, first, height, last, pieces, at)
            height = np.int64(0)
        bundles = rows[i, BUNDLES]
        if bundles > height:
            begun[end, 0], begun[end, 1] = rows[i, START], bundles - height
            end += 1
        elif bundles < height:
            first, at = _release(begun, first, height - bundles, rows[i, START], pieces, at)
        height, last = bundles, rows[i, STOP]
    if height > 0:
        first, at = _release(begun, first, height, last, pieces, at)
    return pieces[:at]


@kernel
def _release(
    begun: I64, first: Int, bundles: Int, step: Int, pieces: I64, at: Int
) -> tuple[Int, Int]:
    """End the bundles acquired first at a step; return the state of the remaining ones."""
    while bundles > 0:
        part = min(bundles, begun[first, 1])
        same = at > 0 and pieces[at - 1, START] == begun[first, 0] and pieces[at - 1, STOP] == step
        if same:
            pieces[at - 1, BUNDLES] += part
        else:
            pieces[at, START], pieces[at, STOP] = begun[first, 0], step
            pieces[at, BUNDLES] = part
            at += 1
        bundles -= part
        begun[first, 1] -= part
        if begun[first, 1] == 0:
            first += 1
    return first, at


@kernel
def _longest_first(pieces: I64) -> I64:
    """Return pieces sorted by length, longest first, then by start."""
    count = pieces.shape[0]
    if count < 2:
        return pieces
    low, span = pieces[0, START], pieces[count - 1, STOP] - pieces[0, START] + 1
    keys = np.empty(count, dtype=np.int64)
    for i in range(count):
        length = pieces[i, STOP] - pieces[i, START]
        keys[i] = pieces[i, START] - low - length * span
    return pieces[np.argsort(keys)]


@kernel
def stand_rows(table: MachineTable, wanted: BundleKind, rows: I64) -> tuple[I64, I64]:
    """Place the rows of one atom, sorted and disjoint, and take the slots.

    Returns
    -------
    slots, short
        int64[k, 4], sorted. If some bundles find no machine, nothing is taken, and `short` is
        int64[4]: start, end and bundles of the first piece that does not fit on its own, and how
        many of its bundles fit; else `short` is empty.
    """
    short = np.empty(0, dtype=np.int64)
    pieces = pieces_from(rows)
    if pieces.shape[0] == 0:
        return np.empty((0, 4), dtype=np.int64), short
    beside = np.empty((0, 4), dtype=np.int64)
    slots, missing = lay_pieces(table, wanted, _longest_first(pieces), beside, True)
    if missing.max() == 0:
        return in_order(slots), short
    short = np.empty(4, dtype=np.int64)
    for p in range(pieces.shape[0] + 1):
        piece = pieces[p % pieces.shape[0]]  # each fits alone: first one, less a bundle
        start, end, needed = piece[START], piece[STOP], piece[BUNDLES]
        found = needed - 1
        if p < pieces.shape[0]:
            found = count_over(table, wanted, start, end, needed)
        if found < needed:
            short[0], short[1], short[2], short[3] = start, end, needed, found
            break
    return slots, short
