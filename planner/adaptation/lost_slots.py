"""Slots without a machine: none was found, it is down, or it holds too much."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.plan.table import StandingSlots
from planner.reservations.slots import NOWHERE
from rdl.time_grid import TimeGrid

I64 = NDArray[np.int64]


def lost_slots(held: StandingSlots, cluster: Cluster, grid: TimeGrid, now: int) -> I64:
    """Return int64[n]: indices of slots that have no valid machine from `now` on.

    Parameters
    ----------
    held
        Slots on the machines of `cluster`.
    """
    slots = held.slots
    later = slots[:, 1] > now
    crowded = _overfull_slots(held, cluster, grid, now)
    hit = np.zeros(len(slots), dtype=bool)
    if len(crowded):
        named = np.flatnonzero(later & np.isin(slots[:, 3], crowded[:, 0]))
        hit[named[_overlap(slots[named], crowded, now)]] = True
    return np.flatnonzero(later & (hit | (slots[:, 3] == NOWHERE)))


def _overlap(slots: I64, intervals: I64, now: int) -> NDArray[np.bool_]:
    """Return which slots overlap an interval of their machine from `now` on.

    `intervals`, int64[n, 3] of (machine, start, end), are sorted and disjoint for each machine.
    """
    span = np.int64(2**32)
    # The first interval of the machine that ends after the slot starts.
    ends = intervals[:, 0] * span + intervals[:, 2]
    start = np.maximum(slots[:, 0], now)
    index = np.searchsorted(ends, slots[:, 3] * span + start, side="right")
    known = index < len(intervals)
    near = intervals[np.minimum(index, len(intervals) - 1)]
    hit: NDArray[np.bool_] = known & (near[:, 0] == slots[:, 3]) & (near[:, 1] < slots[:, 1])
    return hit


def _overfull_slots(held: StandingSlots, cluster: Cluster, grid: TimeGrid, now: int) -> I64:
    """Return int64[n, 3]: (machine, start, end) of times when slots exceed a machine.

    Sweeps over starts and ends, machine by machine; an outage takes the whole machine.
    """
    names = cluster.resources
    kinds = np.zeros((len(held.kinds) + 1, len(names)), dtype=np.int64)
    for number, (bundle, _, _) in enumerate(held.kinds):
        kinds[number] = [bundle.get(name, 0) for name in names]
    chosen = (held.slots[:, 3] != NOWHERE) & (held.slots[:, 1] > now)
    slots, taken = held.slots[chosen], kinds[held.kind[chosen]] * held.slots[chosen, 2:3]
    capacity = np.array(
        [[group.resources.get(n, 0) for n in names] for group in cluster.machines], dtype=np.int64
    ).reshape(-1, len(names))
    capacity = np.repeat(capacity, [group.count for group in cluster.machines], axis=0)
    for _, number, left in cluster.reduced:
        capacity[number] = [left.get(n, 0) for n in names]
    away = outage_intervals(cluster, grid, now)
    machine = np.concatenate([slots[:, 3], away[:, 0]])
    start = np.concatenate([slots[:, 0], away[:, 1]])
    end = np.concatenate([slots[:, 1], away[:, 2]])
    amount = np.concatenate([taken, capacity[away[:, 0]]])
    at, change = np.concatenate([start, end]), np.concatenate([amount, -amount])
    who = np.concatenate([machine, machine])
    order = np.lexsort((at, who))
    at, who, use = at[order], who[order], np.cumsum(change[order], axis=0)
    # The changes of each machine add up to 0: no sum carries over to the next machine.
    last = np.append((at[1:] != at[:-1]) | (who[1:] != who[:-1]), True)[: len(at)]
    full = np.flatnonzero(last & (use > capacity[who]).any(axis=1))
    intervals = np.stack([who[full], at[full], at[full + 1]], axis=1)
    return intervals[intervals[:, 2] > now]


def outage_intervals(cluster: Cluster, grid: TimeGrid, first_step: int) -> I64:
    """Return int64[n, 3]: (machine, first step, end step) of outages, disjoint, by machine.

    Parameters
    ----------
    first_step
        Occurrences of recurring outages that end before it are left out.
    """
    first, numbers = {}, 0
    for group in cluster.machines:
        first[group.name] = numbers
        numbers += group.count
    rows = sorted(
        (first[outage.machines] + index, grid.floor(outage.start_ms), grid.ceil(outage.end_ms))
        for outage in cluster.outages_between(grid.ms(first_step), grid.horizon_ms)
        for index in outage.indices
    )
    joined: list[list[int]] = []
    for machine, start, end in rows:
        if joined and joined[-1][0] == machine and start <= joined[-1][2]:
            joined[-1][2] = max(joined[-1][2], end)
        else:
            joined.append([machine, start, end])
    return np.array(joined, dtype=np.int64).reshape(-1, 3)
