"""Spare machines, kept free of promises as a reserve for losses: outages only for the Plan.

Best effort runs on them. When a machine is lost, a spare one of its group accepts promises in the
same change, so that the promises on the lost machine have a place immediately. No promise is
displaced by a spare machine: it begins when the promises on it, and those that may be on any
machine, have ended. There are no spare machines while a promise waits for capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.cluster.calendar import LOST_MS, lost_at_once, lost_now
from planner.cluster.cluster import SPARE, Cluster, MachineGroup, Outage
from planner.plan.plan import Plan
from planner.plan.table_columns import LEVEL_NUMBERS
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE
from planner.reservations.state import LIVE, STATE_NUMBERS, State


def outages_with_spares(plan: Plan, cluster: Cluster, now_ms: int) -> tuple[Outage, ...]:
    """Return the outages of a cluster, including those of spare machines by its policy.

    Parameters
    ----------
    plan
        The Plan with its promises.
    cluster
        The Plan's cluster, with the new outages except those of spare machines.
    now_ms
        Now, in ms from the origin.
    """
    spares = [one for one in cluster.outages if one.kind == SPARE]
    if not spares and not cluster.dispatch.spare:
        return cluster.outages
    others = replace(cluster, outages=tuple(one for one in cluster.outages if one.kind != SPARE))
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    found: list[Outage] = []
    for group in cluster.machines:
        wanted = _wanted(plan, others, group, now_ms)
        mine = _standing(spares, others, group, now_ms)
        found += mine[max(0, len(mine) - wanted) :]
        found += _more(plan, others, group, [one.indices[0] for one in mine], now_ms)[
            : max(0, wanted - len(mine))
        ]
    found.sort(key=lambda one: (one.machines, one.start_ms, one.indices))
    return (*others.outages, *found)


def _wanted(plan: Plan, cluster: Cluster, group: MachineGroup, now_ms: int) -> int:
    """Return how many machines of a group should be spare now; at most half of them."""
    share = cluster.dispatch.spare
    if not share or (plan.table.meta["state"] == STATE_NUMBERS[State.DEGRADED]).any():
        return 0
    expected = lost_at_once(cluster, group.name, now_ms, share)
    return min(max(0, expected - len(lost_now(cluster, group.name, now_ms))), group.count // 2)


def _standing(
    spares: Sequence[Outage], cluster: Cluster, group: MachineGroup, now_ms: int
) -> list[Outage]:
    """Return the spare machines of a group that are in no other outage, oldest first."""
    away = _away(cluster, group, now_ms)
    mine = [one for one in spares if one.machines == group.name and one.end_ms > now_ms]
    mine = [one for one in mine if one.indices[0] not in away]
    return sorted(mine, key=lambda one: (one.start_ms, one.indices))


def _more(
    plan: Plan, cluster: Cluster, group: MachineGroup, taken: Sequence[int], now_ms: int
) -> list[Outage]:
    """Return a group's machines as spare ones, in order of when they become free."""
    away = _away(cluster, group, now_ms)
    free = _free_from(plan, now_ms)
    first = cluster.machine_names.index(f"{group.name}-0")
    indices = [n for n in range(group.count) if n not in away and n not in taken]
    indices.sort(key=lambda index: (int(free[first + index]), -index))
    starts = [max(now_ms, plan.grid.ms(int(free[first + index]))) for index in indices]
    return [
        Outage(group.name, (index,), start_ms, start_ms + LOST_MS, SPARE)
        for index, start_ms in zip(indices, starts, strict=True)
    ]


def _away(cluster: Cluster, group: MachineGroup, now_ms: int) -> set[int]:
    """Return the machines of a group that are in outages now."""
    return {
        index
        for one in cluster.outages_at(now_ms)
        if one.machines == group.name
        for index in one.indices
    }


def _free_from(plan: Plan, now_ms: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return int64[machines]: the step at which the last promise on each machine ends.

    A promise without a machine may be on any machine.
    """
    slots, _ = plan.table.slots_after(now_ms // plan.grid.step_ms)
    somewhere = slots[slots[:, 3] != NOWHERE]
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    anywhere = live & (meta["promise"] != LEVEL_NUMBERS[PromiseLevel.PLACED])
    ends = [meta["finish"][anywhere], slots[slots[:, 3] == NOWHERE, 1]]
    first = max((int(one.max(initial=0)) for one in ends), default=0)
    found = np.full(len(plan.cluster.machine_names), first, dtype=np.int64)
    np.maximum.at(found, somewhere[:, 3], somewhere[:, 1])
    return found
