"""Interval colouring: assign units to intervals in order of start; some already have a machine.

An interval takes any unit that is free at its start: the unit is free from then on, except for
later intervals already on it, which may move in their turn. So intervals that never exceed the
number of units all find one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.machines.kernels.arrays import I64, Int
from planner.machines.kernels.compiled import kernel

#: Values before and after every step.
_EVER = -(2**62)
_NEVER = 2**62


class Intervals(NamedTuple):
    """Intervals sorted by start, each of one unit of a machine.

    Attributes
    ----------
    start, stop
        int64[n]: the steps [start, stop).
    machine
        int64[n]: current machine, or -1.
    key
        int64[n]: intervals of one atom have the same key.
    fixed
        bool[n]: intervals that may not move.
    """

    start: I64
    stop: I64
    machine: I64
    key: I64
    fixed: NDArray[np.bool_]


@kernel
def _units_now(these: Intervals, first_unit: I64) -> I64:
    """Return each interval's current unit, or -1; empty if a machine has too few units.

    Intervals of one atom that are adjacent or nested on one machine become fixed, because together
    they form one stay.
    """
    units = first_unit[-1]
    free_at = np.full(units, _EVER, dtype=np.int64)
    last = np.full(units, -1, dtype=np.int64)
    own = np.full(these.start.shape[0], -1, dtype=np.int64)
    for i in range(own.shape[0]):
        machine = these.machine[i]
        if machine < 0:
            continue
        found = np.int64(-1)
        for unit in range(first_unit[machine], first_unit[machine + 1]):
            goes_on = False
            j = last[unit]
            if j >= 0 and these.key[j] == these.key[i]:
                goes_on = these.stop[j] == these.start[i]
                if goes_on or (these.start[j] < these.start[i] and these.stop[i] < these.stop[j]):
                    these.fixed[i] = these.fixed[j] = True
            if free_at[unit] <= these.start[i] and (found < 0 or goes_on):
                found = np.int64(unit)
        if found < 0:
            return own[:0]
        own[i], free_at[found], last[found] = found, these.stop[i], i
    return own


@kernel
def colour(these: Intervals, first_unit: I64) -> I64:
    """Return the final unit of each interval; empty if an interval finds none.

    Parameters
    ----------
    first_unit
        int64[machines + 1]: first unit of each machine.
    """
    count, units = these.start.shape[0], first_unit[-1]
    own = _units_now(these, first_unit)
    if own.shape[0] < count:
        return own
    # Per unit: its next interval, and the start of its next fixed interval (`limit`).
    after, limit_after = np.full(count, -1, dtype=np.int64), np.full(count, _NEVER, dtype=np.int64)
    head, limit = np.full(units, -1, dtype=np.int64), np.full(units, _NEVER, dtype=np.int64)
    for i in range(count - 1, -1, -1):
        unit = own[i]
        if unit >= 0:
            after[i], limit_after[i], head[unit] = head[unit], limit[unit], i
            if these.fixed[i]:
                limit[unit] = these.start[i]
    free_at = np.full(units, _EVER, dtype=np.int64)
    waiting = np.empty(count, dtype=np.int64)
    i = 0
    while i < count:
        step, waits = these.start[i], 0
        while i < count and these.start[i] == step:
            unit = own[i]
            if unit >= 0:
                head[unit], limit[unit] = after[i], limit_after[i]
            if unit >= 0 and free_at[unit] <= step:
                free_at[unit] = these.stop[i]
            elif these.fixed[i]:
                return own[:0]
            else:
                waiting[waits] = i
                waits += 1
            i += 1
        if waits > 0 and not _seat(these, own, waiting[:waits], (free_at, head, limit)):
            return own[:0]
    return own


@kernel
def _seat(these: Intervals, own: I64, waiting: I64, units: tuple[I64, I64, I64]) -> bool:
    """Assign free units to the intervals that start now, in `own`; False if there are too few.

    Each gets a unit without another interval before its end, preferably the one occupied again
    soonest; if there is none, the unit occupied again last, whose next interval then moves.
    """
    free_at, head, limit = units
    step = these.start[waiting[0]]
    free = np.flatnonzero(free_at <= step)
    if free.shape[0] < waiting.shape[0]:
        return False
    comes = np.empty(free.shape[0], dtype=np.int64)
    for k in range(free.shape[0]):
        comes[k] = these.start[head[free[k]]] if head[free[k]] >= 0 else _NEVER
    order = np.argsort(comes)
    used = np.zeros(free.shape[0], dtype=np.bool_)
    left, at = 0, 0
    for i in waiting[np.argsort(these.stop[waiting])]:
        while at < order.shape[0] and comes[order[at]] < these.stop[i]:
            at += 1
        if at == order.shape[0]:
            waiting[left] = i
            left += 1
            continue
        _sit(these, own, i, free[order[at]], free_at)
        used[order[at]] = True
        at += 1
    back = order.shape[0] - 1
    for i in waiting[:left]:
        while back >= 0 and (used[order[back]] or limit[free[order[back]]] < these.stop[i]):
            back -= 1
        if back < 0:
            return False
        _sit(these, own, i, free[order[back]], free_at)
        back -= 1
    return True


@kernel
def _sit(these: Intervals, own: I64, i: Int, unit: Int, free_at: I64) -> None:
    own[i] = unit
    free_at[unit] = these.stop[i]
