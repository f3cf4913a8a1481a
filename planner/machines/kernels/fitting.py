"""Check whether slots fit together."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    I64,
    MACHINE,
    START,
    STOP,
    Int,
    MachineTable,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.tree import columns, least_of_lane


@kernel
def all_fit(table: MachineTable, amounts: I64, slots: I64) -> bool:
    """Return whether no machine is overcommitted once all slots are taken."""
    order = np.argsort(slots[:, MACHINE])
    i, count = 0, order.shape[0]
    while i < count:
        machine = slots[order[i], MACHINE]
        j = i + 1
        while j < count and slots[order[j], MACHINE] == machine:
            j += 1
        if machine >= 0 and not _lane_fits(table, amounts, slots, order[i:j]):
            return False
        i = j
    return True


@kernel
def _lane_fits(table: MachineTable, amounts: I64, slots: I64, chosen: I64) -> Int:
    """Return whether the chosen slots of one machine fit together."""
    place = table.lane_of[slots[chosen[0], MACHINE]]
    if chosen.shape[0] == 1:
        slot = slots[chosen[0]]
        a, b = columns(table.ring, slot[START], slot[STOP])
        return a >= b or _one_fits(table, amounts, place, (a, b), slot[BUNDLES])
    steps = np.empty(2 * chosen.shape[0], dtype=np.int64)
    change, count = np.empty_like(steps), 0
    for i in chosen:
        a, b = columns(table.ring, slots[i, START], slots[i, STOP])
        if a < b:
            steps[count], change[count] = a, slots[i, BUNDLES]
            steps[count + 1], change[count + 1] = b, -slots[i, BUNDLES]
            count += 2
    held, last = np.int64(0), np.int64(0)
    for i in np.argsort(steps[:count]):
        part = (last, steps[i])
        if held > 0 and last < steps[i] and not _one_fits(table, amounts, place, part, held):
            return False
        held += change[i]
        last = steps[i]
    return True


@kernel
def _one_fits(
    table: MachineTable, amounts: I64, place: Int, part: tuple[Int, Int], bundles: Int
) -> bool:
    """Return whether bundles fit on one lane over a non-empty range of columns."""
    for k in range(amounts.shape[0]):
        need = amounts[k, 1] * bundles
        if need > 0 and least_of_lane(table, place, amounts[k, 0], part[0], part[1]) < need:
            return False
    return True
