"""Place slots of many kinds of bundles again, on their previous machines if possible."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    F64,
    I64,
    MACHINE,
    START,
    STOP,
    BundleKind,
    Int,
    MachineTable,
)
from planner.machines.kernels.breaks import has_space
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import find
from planner.machines.kernels.laying import take_picks
from planner.machines.kernels.tree import columns, least_of_lane, take_columns, take_slots

#: Additional column of a piece after those of a slot: the number of its kind.
KIND: Final = 4


class PackedKinds(NamedTuple):
    """Concatenated kinds of bundles without spread rules.

    Attributes
    ----------
    amounts, weights, order
        As in `BundleKind`, for all kinds.
    first, first_stripe
        int64[kinds + 1]: first index of each kind in `amounts` and `weights`, and in `order`.
    """

    amounts: I64
    weights: F64
    order: I64
    first: I64
    first_stripe: I64


@kernel
def _kind_of(kinds: PackedKinds, number: Int) -> BundleKind:
    low, high = kinds.first[number], kinds.first[number + 1]
    order = kinds.order[kinds.first_stripe[number] : kinds.first_stripe[number + 1]]
    nothing = np.zeros(0, dtype=np.int64)
    return BundleKind(kinds.amounts[low:high], kinds.weights[low:high], order, nothing, 0)


@kernel
def _stays(table: MachineTable, wanted: BundleKind, piece: I64, a: Int, b: Int) -> bool:
    """Return whether a piece fits on its given machine."""
    if piece[MACHINE] < 0:
        return False
    place = table.lane_of[piece[MACHINE]]
    if table.counts.shape[0] > 0 and not has_space(table, place):
        return False
    for k in range(wanted.amounts.shape[0]):
        least = least_of_lane(table, place, wanted.amounts[k, 0], a, b)
        if least < wanted.amounts[k, 1] * piece[BUNDLES]:
            return False
    return True


@kernel
def lay_kinds(table: MachineTable, kinds: PackedKinds, pieces: I64, keeps: bool) -> tuple[I64, I64]:
    """Place pieces and take their slots, all or none.

    Parameters
    ----------
    pieces
        int64[p, 5]: start step, end step, bundles, the machine to try first or -1, kind.
    keeps
        If True, pieces without a machine come first, then those that can stay on their machine,
        then the others; else all come in the given order.

    Returns
    -------
    slots, source
        int64[k, 4], and the piece of each slot; empty if some bundle finds no machine.
    """
    machines, most = table.lane_of.shape[0], np.int64(0)
    for piece in pieces:
        most += min(piece[BUNDLES], machines)
    slots = np.empty((most, 4), dtype=np.int64)
    source = np.empty(most, dtype=np.int64)
    laid = np.zeros(pieces.shape[0], dtype=np.bool_)
    picks = np.empty((machines, 2), dtype=np.int64)
    use = np.zeros(0, dtype=np.int64)
    at = 0
    for turn in range(3 if keeps else 1):
        for p in range(pieces.shape[0]):
            piece = pieces[p]
            if laid[p] or (keeps and turn == 0 and piece[MACHINE] >= 0):
                continue
            wanted = _kind_of(kinds, piece[KIND])
            start, end = piece[START], piece[STOP]
            a, b = columns(table.ring, start, end)
            if a < b and _stays(table, wanted, piece, a, b):
                place = table.lane_of[piece[MACHINE]]
                take_columns(table, wanted.amounts, place, a, b, piece[BUNDLES])
                slots[at], source[at] = piece[:KIND], p
                laid[p] = True
                at += 1
                continue
            if keeps and turn == 1:
                continue
            rows, found, _ = find(table, wanted, use, a, b, piece[BUNDLES], picks)
            if found < piece[BUNDLES]:
                for i in range(at):
                    kind = _kind_of(kinds, pieces[source[i], KIND])
                    take_slots(table, kind.amounts, slots[i : i + 1], -1)
                return slots[:0], source[:0]
            source[at : at + rows] = p
            laid[p] = True
            at = take_picks(table, wanted, picks, rows, (start, end), slots, at)
    return slots[:at], source[:at]


@kernel
def stand_alone(keys: I64, slots: I64) -> I64:
    """Return 1 for each slot that is a stay on its own, 0 if it forms one with other slots.

    Parameters
    ----------
    keys
        int64[k], ascending: slots of one atom on one machine have the same key.
    slots
        int64[k, 4], sorted by start within a key.
    """
    count = slots.shape[0]
    alone = np.ones(count, dtype=np.int64)
    reach = np.empty(count, dtype=np.int64)  # maximum end so far within a key
    low = 0
    for i in range(count):
        if keys[i] != keys[low]:
            low = i
        start, stop = slots[i, START], slots[i, STOP]
        reach[i] = stop if i == low else max(stop, reach[i - 1])
        j = i - 1
        while j >= low and reach[j] >= start:
            first, last = slots[j, START], slots[j, STOP]
            if last == start or (first < start and stop < last):
                alone[i] = alone[j] = 0
            j -= 1
    return alone
