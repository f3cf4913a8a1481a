"""One face for every way to choose a machine, and the base that the five strategies share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dispatch.placement.state import (
    Machines,
    build_fleet,
    build_rules,
    build_targets,
    room_left,
)
from lp.lotes.dispatch_table import DispatchTable

Policy = Literal["lotes", "greedy", "tetris", "best_fit", "spread"]
POLICIES: tuple[Policy, ...] = ("lotes", "greedy", "tetris", "best_fit", "spread")
FIT_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """What a placement needs to know of a job or component.

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


class Placement(Protocol):
    """Chooses machines and is told what runs where; owns no queue."""

    name: Policy

    def choose(self, job: PlacedJob) -> int | None:
        """Machine for a job that could start now, or None when none has room."""
        ...

    def next_waiting(self, machine: int, waiting: list[PlacedJob]) -> int | None:
        """Index of the waiting job, oldest first, that the machine takes next, or None."""
        ...

    def started(self, machine: int, job: PlacedJob) -> None:
        """The job runs on the machine from now on."""
        ...

    def ended(self, machine: int, job: PlacedJob) -> None:
        """The job has left the machine."""
        ...

    def set_open(self, machine: int, is_open: bool) -> None:
        """Offer a machine to new jobs, or not (drain, loss)."""
        ...


class KernelPlacement:
    """A strategy over the compiled index.

    Parameters
    ----------
    machines
        Machines by configuration.
    speed
        Shape (J, K); 0 forbids a pair. None is one class at speed one everywhere.
    """

    name: Policy

    def __init__(
        self,
        machines: Machines,
        speed: NDArray[np.float64] | None = None,
        *,
        table: DispatchTable | None = None,
        sample: int = 0,
        tetris_hours: float = 1.0,
        memory: int = 1,
    ) -> None:
        from dispatch.placement.kernels.scores import index_scores

        speeds = np.ones((machines.count.size, 1)) if speed is None else speed
        self._fleet = build_fleet(machines, speeds.shape[1])
        self._targets = build_targets(self._fleet, machines, table, speeds, sample)
        self._rules = build_rules(
            POLICIES.index(self.name), speeds, tetris_hours=tetris_hours, memory=memory
        )
        self._shut = np.zeros(machines.total, dtype=np.bool_)
        if table is not None:
            index_scores(self._fleet, self._targets)

    def choose(self, job: PlacedJob) -> int | None:
        """See `Placement.choose`; a job with `allowed` costs a look at every machine."""
        from dispatch.placement.kernels.arrays import NONE
        from dispatch.placement.kernels.choices import place_job, place_job_among

        request = self._checked(job)
        given = (job.job_class, request, float(job.hours), float(job.draw))
        if job.allowed is None:
            found = place_job(self._fleet, self._targets, self._rules, *given)
        else:
            found = place_job_among(
                self._fleet, self._targets, self._rules, *given, job.allowed, self._shut
            )
        return None if found == NONE else int(found)

    def next_waiting(self, machine: int, waiting: list[PlacedJob]) -> int | None:
        """See `Placement.next_waiting`."""
        fitting = [index for index, job in enumerate(waiting) if self._fits(machine, job)]
        return self._preferred(machine, waiting, fitting)

    def started(self, machine: int, job: PlacedJob) -> None:
        """See `Placement.started`."""
        self._change(machine, job, 1)

    def ended(self, machine: int, job: PlacedJob) -> None:
        """See `Placement.ended`."""
        self._change(machine, job, -1)

    def set_open(self, machine: int, is_open: bool) -> None:
        """See `Placement.set_open`."""
        from dispatch.placement.kernels.choices import open_machine

        open_machine(self._fleet, machine, is_open)

    def left(self, machine: int) -> NDArray[np.float64]:
        """What is left of a machine, shape (L,)."""
        return np.array(room_left(self._fleet)[machine])

    def _preferred(self, machine: int, waiting: list[PlacedJob], fitting: list[int]) -> int | None:
        return fitting[0] if fitting else None

    def _fits(self, machine: int, job: PlacedJob) -> bool:
        from dispatch.placement.kernels.machines import CLOSED

        closed = self._fleet.whole[machine, CLOSED] != 0
        if closed or self._rules.speed[self._group(machine), job.job_class] <= 0:
            return False
        if job.allowed is not None and not job.allowed[machine]:
            return False
        left = room_left(self._fleet)[machine]
        return bool((left + FIT_TOLERANCE >= job.request).all())

    def _group(self, machine: int) -> int:
        """Configuration of a machine."""
        from dispatch.placement.kernels.machines import CONFIGURATION

        return int(self._fleet.whole[machine, CONFIGURATION])

    def _change(self, machine: int, job: PlacedJob, change: int) -> None:
        from dispatch.placement.kernels.choices import change_machine

        request = self._checked(job)
        change_machine(
            self._fleet, self._targets, self._rules, machine, job.job_class, request, change
        )

    def _checked(self, job: PlacedJob) -> NDArray[np.float64]:
        # Kernels do not check bounds.
        size, classes = self._fleet.capacity.shape[1], self._rules.speed.shape[1]
        if job.request.shape != (size,):
            raise ValueError(f"request has shape {job.request.shape}: expected ({size},)")
        if not 0 <= job.job_class < classes:
            raise ValueError(f"job_class is {job.job_class}: expected 0 to {classes - 1}")
        return np.ascontiguousarray(job.request, dtype=np.float64)
