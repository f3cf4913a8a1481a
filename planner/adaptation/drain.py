"""Choose the machines of a drain, and its start: not while a lease in force needs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.adaptation.lost_slots import outage_intervals
from planner.adaptation.relocation import promises_machines, slots_on
from planner.adaptation.repair import present_holders
from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import takings_of
from planner.cluster.cluster import Cluster, Outage
from planner.plan.plan import Plan
from planner.replanning.commitment import commitment_of
from planner.replanning.draft_plan import anchor_of
from planner.reservations.slots import NOWHERE


def least_held(plan: Plan, cluster: Cluster, outage: Outage) -> Outage:
    """Return an outage of the same number of machines of its group, with the least to move.

    Compares the work of slots inside the outage (bundle-steps x dominant share), that of the
    highest priority first; of equal machines the one with the highest index is chosen. Without
    promises of machines the outage is unchanged.

    Parameters
    ----------
    cluster
        The cluster without the outage. Machines that are down at that time are chosen last.
    """
    held = slots_on(plan, cluster)
    if not promises_machines(plan):
        return outage
    start, end = plan.grid.floor(outage.start_ms), plan.grid.ceil(outage.end_ms)
    slots = held.slots
    shares = np.array([bundle.dominant_share(cluster.nominal) for bundle, _, _ in held.kinds])
    steps = np.minimum(slots[:, 1], end) - np.maximum(slots[:, 0], start)
    inside = (steps > 0) & (slots[:, 3] != NOWHERE)
    priorities, level = np.unique(
        plan.table.meta["priority"][held.number[inside]], return_inverse=True
    )
    #: A first row for machines that are down anyway, then a row per priority, highest first.
    work = np.zeros((1 + len(priorities), len(cluster.machine_names)))
    parts = (steps * slots[:, 2] * shares[held.kind])[inside] if len(slots) else []
    np.add.at(work, (len(priorities) - level, slots[inside, 3]), parts)
    for machine, low, high in outage_intervals(cluster, plan.grid, start).tolist():
        if low < end and start < high:
            work[0, machine] = np.inf
    first, count = _numbers_of(cluster, outage.machines)
    work = work.round(9)
    order = sorted(range(count), key=lambda index: (work[:, first + index].tolist(), -index))
    return replace(outage, indices=tuple(sorted(order[: len(outage.indices)])))


def _numbers_of(cluster: Cluster, name: str) -> tuple[int, int]:
    """Return the number of the first machine of a group, and how many it has."""
    first = 0
    for group in cluster.machines:
        if group.name == name:
            return first, group.count
        first += group.count
    raise KeyError(name)


def _slots_end(plan: Plan, cluster: Cluster, outage: Outage) -> int:
    """Return the end step of the last started slot on the machines of an outage."""
    first, _ = _numbers_of(cluster, outage.machines)
    slots = slots_on(plan, cluster).slots
    there = np.isin(slots[:, 3], np.array(outage.indices, dtype=np.int64) + first)
    begun = there & (slots[:, 0] < plan.now)
    return int(slots[begun, 1].max(initial=0))


def drained_from(plan: Plan, cluster: Cluster, outage: Outage) -> int:
    """Return the first step from which the machines of `outage` are not needed by started work.

    Parameters
    ----------
    cluster
        The cluster without the outage.

    Returns
    -------
    int
        Not before the start of the outage; its end, rounded up, if started work needs them longer.
    """
    grid = plan.grid
    start, end = grid.floor(outage.start_ms), min(grid.ceil(outage.end_ms), grid.horizon)
    away = replace(cluster, outages=(*cluster.outages, outage))
    ledger = FreeProfile(CapacityRows(away), grid, plan.ledger.first)
    for number in present_holders(plan).tolist():
        commitment = commitment_of(plan, number)
        if commitment.started:
            takings = takings_of(
                anchor_of(plan, commitment), ledger, commitment.tenant, commitment.queue
            )
            ledger.take((taking.demand, taking.rows, 1) for taking in takings)
    short = np.zeros(ledger.free.shape[1], dtype=bool)
    for row, named in enumerate(ledger.book.rows):
        if named.policy is None:
            short |= ledger.free[row] < 0
    start = max(start, min(end, _slots_end(plan, cluster, outage)))
    inside = np.flatnonzero(short[max(0, start - ledger.first) : end - ledger.first])
    return start if not len(inside) else max(start, ledger.first) + int(inside[-1]) + 1
