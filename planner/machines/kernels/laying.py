"""Place pieces on machines: one machine for each bundle over the whole interval of its piece."""

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
from planner.machines.kernels.finding import find
from planner.machines.kernels.tree import columns, take_columns, take_slots
from planner.machines.kernels.using import no_use, note_use


@kernel
def held_so_far(beside: I64, more: Int) -> I64:
    """Return an array with the slots that an atom already has and space for `more`."""
    slots = np.empty((beside.shape[0] + more, 4), dtype=np.int64)
    slots[: beside.shape[0]] = beside
    return slots


@kernel
def take_picks(
    table: MachineTable,
    wanted: BundleKind,
    picks: I64,
    rows: Int,
    interval: tuple[Int, Int],
    slots: I64,
    at: Int,
) -> Int:
    """Take picks over an interval of steps, write them as slots from `at` on; return the end."""
    start, end = interval
    a, b = columns(table.ring, start, end)
    for i in range(rows):
        machine, bundles = picks[i, 0], picks[i, 1]
        take_columns(table, wanted.amounts, table.lane_of[machine], a, b, bundles)
        slots[at, START], slots[at, STOP] = start, end
        slots[at, BUNDLES], slots[at, MACHINE] = bundles, machine
        at += 1
    return at


@kernel
def lay_pieces(
    table: MachineTable, wanted: BundleKind, pieces: I64, beside: I64, whole: bool
) -> tuple[I64, I64]:
    """Place pieces in order and take them; return slots, and unplaced bundles per piece.

    If `whole` and some bundle finds no machine, the table is unchanged.
    """
    machines = table.lane_of.shape[0]
    most = np.int64(0)
    for p in range(pieces.shape[0]):
        most += min(pieces[p, BUNDLES], machines)
    before = beside.shape[0]
    slots = held_so_far(beside, most)
    picks = np.empty((machines, 2), dtype=np.int64)
    missing = np.zeros(pieces.shape[0], dtype=np.int64)
    use = no_use(table, wanted)
    at = before
    for p in range(pieces.shape[0]):
        start, end, need = pieces[p, START], pieces[p, STOP], pieces[p, BUNDLES]
        a, b = columns(table.ring, start, end)
        if wanted.spread > 0:
            note_use(table, wanted, slots, at, start, end, use)
        rows, found, _ = find(table, wanted, use, a, b, need, picks)
        missing[p] = need - found
        if whole and found < need:
            take_slots(table, wanted.amounts, slots[before:at], -1)
            return slots[:0], missing
        at = take_picks(table, wanted, picks, rows, (start, end), slots, at)
    return slots[before:at], missing
