"""Tetris: alignment of request and room, less the work (LoTES section 5.1)."""

from __future__ import annotations

from dispatch.placement.interface import KernelPlacement, PlacedJob, Policy


class TetrisPlacement(KernelPlacement):
    """Highest r . left - p (r . 1), p in hours; see `kernels.choices`."""

    name: Policy = "tetris"

    def _preferred(self, machine: int, waiting: list[PlacedJob], fitting: list[int]) -> int | None:
        def score(index: int) -> float:
            job = waiting[index]
            speed = self._rules.speed[self._group(machine), job.job_class]
            work = job.request.sum() * self._rules.time_weight * job.hours / speed
            return float(job.request @ self.left(machine) - work)

        return max(fitting, key=lambda index: (score(index), -index), default=None)
