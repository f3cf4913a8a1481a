"""LoTES: towards the bins of a dispatch table (section 4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dispatch.placement.interface import KernelPlacement, PlacedJob, Policy
from dispatch.placement.state import Machines, jobs_by_class
from lp.lotes.dispatch_table import DispatchTable


class LotesPlacement(KernelPlacement):
    """The wheel, then the machine furthest below its target; see `kernels.scores`."""

    name: Policy = "lotes"

    def __init__(
        self,
        table: DispatchTable,
        speed: NDArray[np.float64] | None = None,
        *,
        sample: int = 0,
    ) -> None:
        speeds = np.ones(table.wheel.shape) if speed is None else speed
        super().__init__(Machines.of_table(table), speeds, table=table, sample=sample)

    def _preferred(self, machine: int, waiting: list[PlacedJob], fitting: list[int]) -> int | None:
        """Classes by score, ties to the lowest; oldest first inside; none without a target."""
        from dispatch.placement.kernels.machines import BIN

        group, fleet, targets = self._group(machine), self._fleet, self._targets
        served = [job for job in fitting if targets.eligible[group, waiting[job].job_class]]
        running = jobs_by_class(fleet, targets.bins.shape[1])[machine]
        score = targets.bins[fleet.whole[machine, BIN]] - running
        return max(
            served,
            key=lambda job: (score[waiting[job].job_class], -waiting[job].job_class, -job),
            default=None,
        )
