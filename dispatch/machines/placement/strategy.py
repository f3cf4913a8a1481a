"""MachinePlacement: chooses machines by one of five policies, over the compiled index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.policy import POLICIES, Policy
from dispatch.machines.placement.state import (
    Machines,
    build_fleet,
    build_rules,
    build_targets,
    room_left,
)
from lp.lotes.dispatch_table import DispatchTable


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """The properties of a job or component that a placement needs.

    Attributes
    ----------
    request
        Shape (L,), in the units of the machines' capacity.
    job_class
        Column of the speeds and of the dispatch table.
    hours
        Expected processing time, for Tetris.
    draw
        Uniform in [0, 1), for the roulette wheel of LoTES.
    allowed
        Machines that labels admit, shape (machines,); None admits all.
    """

    request: NDArray[np.float64]
    job_class: int = 0
    hours: float = 0.0
    draw: float = 0.0
    allowed: NDArray[np.bool_] | None = None


class MachinePlacement:
    """Chooses machines for jobs and counts the jobs on each; has no queue.

    Parameters
    ----------
    policy
        - ``best_fit``: the machine with the least capacity left over, relative to the machine;
        - ``greedy``: the lowest machine that fits;
        - ``lotes``: the wheel, then the machine furthest below its target (LoTES section 4.3);
        - ``spread``: the machine with the fewest jobs, then with the most memory left;
        - ``tetris``: the highest r . left - p (r . 1), p in hours (LoTES section 5.1).
    machines
        Machines by configuration.
    speed
        Shape (J, K); 0 forbids a pair. None is one class at speed one everywhere.
    table
        Targets of ``lotes``, and for no other policy.
    sample
        Machines that ``lotes`` examines for a job; 0 for all.
    tetris_hours
        Hours of work that count as much as a whole machine.
    memory
        Column of the resource that ``spread`` compares.
    """

    def __init__(
        self,
        policy: Policy,
        machines: Machines,
        speed: NDArray[np.float64] | None = None,
        *,
        table: DispatchTable | None = None,
        sample: int = 0,
        tetris_hours: float = 1.0,
        memory: int = 1,
    ) -> None:
        from dispatch.machines.placement.kernels.scores import index_scores

        speeds = np.ones((machines.count.size, 1)) if speed is None else speed
        self._fleet = build_fleet(machines, speeds.shape[1])
        self._targets = build_targets(self._fleet, machines, table, speeds, sample)
        self._rules = build_rules(
            POLICIES.index(policy), speeds, tetris_hours=tetris_hours, memory=memory
        )
        self._shut = np.zeros(machines.total, dtype=np.bool_)
        if table is not None:
            index_scores(self._fleet, self._targets)

    @classmethod
    def of_table(
        cls, table: DispatchTable, speed: NDArray[np.float64] | None = None
    ) -> MachinePlacement:
        """Return a LoTES placement for a dispatch table and the machines it was made for."""
        speeds = np.ones(table.wheel.shape) if speed is None else speed
        return cls("lotes", Machines.of_table(table), speeds, table=table)

    def choose(self, job: PlacedJob) -> int | None:
        """Return a machine for a job that could start now, or None when none has capacity.

        A job with `allowed` takes time proportional to the number of machines.
        """
        from dispatch.machines.placement.kernels.arrays import NONE
        from dispatch.machines.placement.kernels.choices import place_job, place_job_among

        request = self._request_of(job)
        given = (job.job_class, request, float(job.hours), float(job.draw))
        if job.allowed is None:
            found = place_job(self._fleet, self._targets, self._rules, *given)
        else:
            found = place_job_among(
                self._fleet, self._targets, self._rules, *given, job.allowed, self._shut
            )
        return None if found == NONE else int(found)

    def count_start(self, machine: int, job: PlacedJob) -> None:
        """Count a job that starts on the machine."""
        self._change(machine, job, 1)

    def count_end(self, machine: int, job: PlacedJob) -> None:
        """Remove a job that has left the machine from the count."""
        self._change(machine, job, -1)

    def set_open(self, machine: int, is_open: bool) -> None:
        """Open or close a machine for new jobs (drain, loss)."""
        from dispatch.machines.placement.kernels.choices import open_machine

        open_machine(self._fleet, machine, is_open)

    def free_on(self, machine: int) -> NDArray[np.float64]:
        """Return the free capacity of a machine, shape (L,)."""
        return np.array(room_left(self._fleet)[machine])

    def below_target(self, machine: int, job_class: int) -> int:
        """Return a class's target on a machine minus its jobs running there (LoTES 4.3.1)."""
        from dispatch.machines.placement.kernels.machines import BIN

        row = self._fleet.whole[machine]
        target = self._targets.bins[row[BIN], job_class]
        return int(target - row[self._fleet.by_class + job_class])

    def serves(self, machine: int, job_class: int) -> bool:
        """Return whether a machine takes jobs of a class from its queue.

        It does if its configuration has a target for the class, or if no configuration has one.
        """
        from dispatch.machines.placement.kernels.machines import CONFIGURATION

        return bool(self._targets.eligible[self._fleet.whole[machine, CONFIGURATION], job_class])

    def _change(self, machine: int, job: PlacedJob, change: int) -> None:
        from dispatch.machines.placement.kernels.choices import change_machine

        request = self._request_of(job)
        change_machine(
            self._fleet, self._targets, self._rules, machine, job.job_class, request, change
        )

    def _request_of(self, job: PlacedJob) -> NDArray[np.float64]:
        # Kernels do not check bounds.
        size, classes = self._fleet.capacity.shape[1], self._rules.speed.shape[1]
        if job.request.shape != (size,):
            raise ValueError(f"request has shape {job.request.shape}: expected ({size},)")
        if not 0 <= job.job_class < classes:
            raise ValueError(f"job_class is {job.job_class}: expected 0 to {classes - 1}")
        return np.ascontiguousarray(job.request, dtype=np.float64)
