"""How far a job of Rayon's workloads is, and what a run over all of them gave.

Work is a fluid: every container of a stage works off a second a second, a gang only with all of
its containers. What was worked stays when containers are taken away (Rayon builds on preemption
that preserves work). What ends inside a second frees its containers at the next whole one. A
container that was given starts up first, and counts as held from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.papers.cluster.rayon_workload import RayonJob, RayonStage

#: Container-seconds that count as none.
_NONE = 1e-6


class JobProgress:
    """The state of one job; containers are counted by `hold`, time by `advance`."""

    __slots__ = ("began_s", "ended_s", "full_s", "held", "job", "left_s", "now_s", "number", "up")

    def __init__(self, job: RayonJob, now_s: float) -> None:
        self.job = job
        self.number = 0
        self.left_s = job.stages[0].work_s
        self.held = self.up = 0
        self.now_s = now_s
        self.began_s: float | None = None
        self.full_s: float | None = None
        self.ended_s: float | None = None

    @property
    def stage(self) -> RayonStage:
        """The stage that is worked on."""
        return self.job.stages[self.number]

    @property
    def rate(self) -> int:
        """Containers that work."""
        return self.up if not self.stage.gang or self.up >= self.stage.tasks else 0

    def hold(self, containers: int, up: int) -> None:
        """Say how many containers it has from now on, and how many of them have started."""
        if containers and self.began_s is None:
            self.began_s = self.now_s
        if containers >= self.stage.tasks and self.full_s is None:
            self.full_s = self.now_s
        self.held, self.up = containers, up

    def stage_end_s(self) -> float | None:
        """Return when the stage ends if nothing changes, or None."""
        return self.now_s + self.left_s / self.rate if self.rate else None

    def advance(self, now_s: float) -> bool:
        """Work until `now_s`; return whether the job has ended. A stage that ends frees all."""
        end = self.stage_end_s()
        if end is not None and end <= now_s + _NONE:
            self.held = self.up = 0
            self.now_s = now_s
            self.number += 1
            if self.number == len(self.job.stages):
                self.number -= 1
                self.ended_s, self.left_s = end, 0.0
                return True
            self.left_s = self.stage.work_s
            return False
        self.left_s -= self.rate * (now_s - self.now_s)
        self.now_s = now_s
        return False


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of one job; times in s.

    Attributes
    ----------
    accepted
        Whether it was accepted: of a job with a deadline, whether its reservation was granted.
    began_s, full_s, ended_s
        When it had its first container, all that a stage can use, and ended; None if it never
        did within the run.
    below_s
        Longest time on end with demand that its entitlement covers and no running container for it;
        0 without one.
    requeued
        How often its cores were stopped.
    """

    job: RayonJob
    accepted: bool
    began_s: float | None
    full_s: float | None
    ended_s: float | None
    below_s: float = 0.0
    requeued: int = 0

    @property
    def in_time(self) -> bool:
        """Whether it ended by its deadline."""
        deadline = self.job.deadline_s
        return self.ended_s is not None and deadline is not None and self.ended_s <= deadline


@dataclass(frozen=True, slots=True)
class RayonRun:
    """What one run gave.

    Attributes
    ----------
    outcomes
        In order of submission.
    containers, window_s
        The cluster, and how long jobs arrived.
    used
        Containers held in every second of the window.
    broken
        Reservations that lacked machines while they were due.
    """

    outcomes: tuple[JobOutcome, ...]
    containers: int
    window_s: float
    used: tuple[int, ...]
    broken: frozenset[str] = frozenset()


@dataclass(slots=True)
class Tally:
    """Collects what a run gives."""

    jobs: Sequence[RayonJob]
    containers: int
    window_s: float
    used: list[int] = field(default_factory=list)
    _progress: dict[str, JobProgress] = field(default_factory=dict)

    def take(self, progress: JobProgress) -> None:
        """Follow a job from its arrival."""
        self._progress[progress.job.name] = progress

    def use(self, now_s: float, containers: int) -> None:
        """Note how many containers are held from `now_s` for a second."""
        if now_s < self.window_s:
            self.used.append(containers)

    def run(self) -> RayonRun:
        """Return the outcomes."""
        found = []
        for job in self.jobs:
            one = self._progress.get(job.name)
            if one is None:
                found.append(JobOutcome(job, False, None, None, None))
            else:
                found.append(JobOutcome(job, True, one.began_s, one.full_s, one.ended_s))
        return RayonRun(tuple(found), self.containers, self.window_s, tuple(self.used))
