"""When machines can be taken without breaking a lease in force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.adaptation.repair import standing
from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.overlay import takings_of
from planner.capacity.profile import FreeProfile
from planner.cluster import Cluster, Outage
from planner.plan.plan import Plan
from planner.replanning.commitment import commitment_of
from planner.replanning.draft_plan import anchor_of


def drained_from(plan: Plan, cluster: Cluster, outage: Outage) -> int:
    """Return the first step from which the machines of `outage` are not needed by started work.

    Parameters
    ----------
    cluster
        The machines there are without the outage.

    Returns
    -------
    int
        From the start of the outage on; its end, rounded up, where started work needs them longer.
    """
    grid = plan.grid
    start, end = grid.floor(outage.start_ms), min(grid.ceil(outage.end_ms), grid.horizon)
    away = replace(cluster, outages=(*cluster.outages, outage))
    ledger = FreeProfile(CapacityRows(away), grid, plan.ledger.first)
    for number in standing(plan).tolist():
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
    inside = np.flatnonzero(short[max(0, start - ledger.first) : end - ledger.first])
    return start if not len(inside) else max(start, ledger.first) + int(inside[-1]) + 1
