"""Find the best machines for bundles over one interval, or count the bundles that fit."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    F64,
    I32,
    I64,
    LANES,
    BundleKind,
    Float,
    Int,
    MachineTable,
)
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.tree import MOST_ROWS, cover, lanes_with

_TAKEN = 1e300


@kernel
def _bundles_of_lane(low: I32, amounts: I64, lane: Int, most: Int) -> Int:
    """Return how many bundles fit on one lane, up to `most`."""
    bundles = np.int64(most)
    for k in range(amounts.shape[0]):
        amount = amounts[k, 1]
        if np.int64(low[k, lane]) < bundles * amount:
            bundles = np.int64(low[k, lane]) // amount
    return bundles


@kernel
def _limit(table: MachineTable, wanted: BundleKind, use: I64, stripe: Int, lane: Int) -> Int:
    """Return how many more bundles the rule allows on one lane."""
    if wanted.spread == 0:
        return np.int64(2**62)
    domain = wanted.domains[stripe]
    if domain < 0:
        return wanted.spread - use[table.first_machine[stripe] + lane]
    return wanted.spread - use[table.lane_of.shape[0] + domain]


@kernel
def _spare(low: I32, wanted: BundleKind, lane: Int) -> Float:
    """Return the capacity that a bundle leaves on a lane, as a sum of shares."""
    spare = 0.0
    for k in range(wanted.amounts.shape[0]):
        spare += (low[k, lane] - wanted.amounts[k, 1]) * wanted.weights[k]
    return spare


@kernel
def _note_pick(
    table: MachineTable, wanted: BundleKind, use: I64, stripe: Int, lane: Int, bundles: Int
) -> None:
    if wanted.spread > 0:
        domain = wanted.domains[stripe]
        if domain < 0:
            use[table.first_machine[stripe] + lane] += bundles
        else:
            use[table.lane_of.shape[0] + domain] += bundles


@kernel
def forget_picks(table: MachineTable, wanted: BundleKind, use: I64, picks: I64, count: Int) -> None:
    """Remove the picks that `find` recorded in `use`."""
    for i in range(count):
        place = table.lane_of[picks[i, 0]]
        _note_pick(table, wanted, use, place // LANES, place % LANES, -picks[i, 1])


@kernel
def find(
    table: MachineTable, wanted: BundleKind, use: I64, a: Int, b: Int, need: Int, picks: I64
) -> tuple[Int, Int, Float]:
    """Find up to `need` bundles over the columns [a, b): stripes in order, best fit in each.

    Writes (machine, bundles) into `picks` and records them in `use`. Returns the rows written, the
    bundles found, and the sum of the capacity that they leave.
    """
    low = np.empty((wanted.amounts.shape[0], LANES), dtype=np.int32)
    lanes = np.empty(LANES, dtype=np.int64)
    spare = np.empty(LANES)
    rows, found = 0, np.int64(0)
    score: Float = 0.0
    if wanted.amounts.shape[0] == 0 or a >= b:
        return rows, found, score
    covering = np.empty(MOST_ROWS, dtype=np.int64)
    covering = covering[: cover(table.ring, a, b, covering)]
    for stripe in wanted.order:
        if found >= need:
            break
        fitting = lanes_with(table, stripe, wanted.amounts, (a, b), covering, low, lanes)
        for i in range(fitting):
            spare[i] = _spare(low, wanted, lanes[i])
        for _ in range(fitting):
            if found >= need:
                break
            best = _least(spare, fitting)
            lane = lanes[best]
            most = min(need - found, _limit(table, wanted, use, stripe, lane))
            bundles = _bundles_of_lane(low, wanted.amounts, lane, most) if most > 0 else np.int64(0)
            if bundles > 0:
                picks[rows, 0] = table.first_machine[stripe] + lane
                picks[rows, 1] = bundles
                _note_pick(table, wanted, use, stripe, lane, bundles)
                rows += 1
                found += bundles
                score += bundles * spare[best]
            spare[best] = _TAKEN
    return rows, found, score


@kernel
def _least(values: F64, count: Int) -> Int:
    best = 0
    for i in range(1, count):
        if values[i] < values[best]:
            best = i
    return best


@kernel
def count_slots(
    table: MachineTable, wanted: BundleKind, use: I64, a: Int, b: Int, most: Int
) -> Int:
    """Return how many bundles find a slot over the columns [a, b), up to `most`."""
    low = np.empty((wanted.amounts.shape[0], LANES), dtype=np.int32)
    lanes = np.empty(LANES, dtype=np.int64)
    found = np.int64(0)
    if wanted.amounts.shape[0] == 0 or a >= b:
        return found
    covering = np.empty(MOST_ROWS, dtype=np.int64)
    covering = covering[: cover(table.ring, a, b, covering)]
    for stripe in wanted.order:
        if found >= most:
            break
        fitting = lanes_with(table, stripe, wanted.amounts, (a, b), covering, low, lanes)
        for i in range(fitting):
            limit = min(most - found, _limit(table, wanted, use, stripe, lanes[i]))
            if limit > 0:
                bundles = _bundles_of_lane(low, wanted.amounts, lanes[i], limit)
                _note_pick(table, wanted, use, stripe, lanes[i], bundles)
                found += bundles
    return found
