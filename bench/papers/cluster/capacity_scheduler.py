"""A capacity scheduler, Rayon's baseline (its 6.4): queues with a guarantee and a maximum.

Sixteen queues, one for the jobs with deadlines and one for the others of each tenant. Guarantees
are set from the workload that is known to come, the maximum is twice the guarantee. Free containers
go to the queue that uses least of its guarantee; a queue that has been short of its guarantee for
`patience_s` gets containers back from those above theirs, the newest job's first, and what they had
worked is kept. In a queue jobs are served in order of submission; gangs collect their containers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.job_progress import JobProgress, RayonRun, Tally
from bench.papers.cluster.rayon_workload import QUEUES, RayonJob, queue_of
from bench.papers.cluster.run_trace import RunTrace


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """The cluster and the tuning.

    Attributes
    ----------
    containers
        All there are.
    over_guarantee
        Maximum of a queue over its guarantee.
    patience_s
        How long a queue is short of its guarantee before containers are taken back.
    start_s
        How long a container starts up, whole seconds.
    window_s
        How long jobs arrive; figures count what ends in it. The run continues for `after_s`.
    """

    containers: int
    window_s: float
    after_s: float = 3_600.0
    over_guarantee: float = 2.0
    patience_s: float = 15.0
    start_s: float = 2.0


@dataclass(slots=True)
class _Served:
    """A job in a queue; `starting` has (since when, how many) of what does not work yet."""

    progress: JobProgress
    starting: deque[tuple[float, int]] = field(default_factory=deque)

    def give(self, more: int, now: float) -> None:
        self.starting.append((now, more))
        self._tell(self.progress.held + more)

    def take_back(self, fewer: int) -> None:
        """The last to start leave first."""
        left = fewer
        while left and self.starting:
            since, count = self.starting.pop()
            if count > left:
                self.starting.append((since, count - left))
            left -= min(count, left)
        self._tell(self.progress.held - fewer)

    def settle(self, now: float, start_s: float) -> None:
        """Let work what has started up."""
        while self.starting and self.starting[0][0] + start_s <= now:
            self.starting.popleft()
        self._tell(self.progress.held)

    def _tell(self, held: int) -> None:
        self.progress.hold(held, held - sum(count for _, count in self.starting))


@dataclass(slots=True)
class _Queue:
    guarantee: int
    most: int
    jobs: list[_Served] = field(default_factory=list)
    short_since: float | None = None

    @property
    def use(self) -> int:
        return sum(job.progress.held for job in self.jobs)

    @property
    def demand(self) -> int:
        return sum(job.progress.stage.tasks for job in self.jobs)


def guarantees(jobs: Sequence[RayonJob], containers: int) -> NDArray[np.int64]:
    """Return containers by queue, in proportion to the work that each will be given."""
    work = np.zeros(QUEUES)
    for job in jobs:
        work[queue_of(job)] += job.work_s
    shares = np.floor(containers * work / max(work.sum(), 1e-9))
    return np.asarray(np.maximum(1, shares), dtype=np.int64)


def run_capacity_scheduler(
    jobs: Sequence[RayonJob], options: CapacityOptions, trace: RunTrace | None = None
) -> RayonRun:
    """Run jobs, in order of submission, second by second; `trace` notes who holds what."""
    queues = [
        _Queue(int(share), max(1, min(options.containers, int(share * options.over_guarantee))))
        for share in guarantees(jobs, options.containers)
    ]
    tally = Tally(jobs, options.containers, options.window_s)
    arrived, now = 0, 0.0
    last = options.window_s + options.after_s
    while now <= last and (arrived < len(jobs) or any(queue.jobs for queue in queues)):
        for queue in queues:
            queue.jobs = [job for job in queue.jobs if not job.progress.advance(now)]
            for job in queue.jobs:
                if not job.progress.held:  # a stage that has ended left nothing behind
                    job.starting.clear()
        while arrived < len(jobs) and jobs[arrived].at_s <= now:
            progress = JobProgress(jobs[arrived], now)
            tally.take(progress)
            queues[queue_of(jobs[arrived])].jobs.append(_Served(progress))
            arrived += 1
        _share_out(queues, options, now)
        for queue in queues:
            for job in queue.jobs:
                job.settle(now, options.start_s)
        tally.use(now, sum(queue.use for queue in queues))
        if trace is not None:
            trace.take(now, (job.progress for queue in queues for job in queue.jobs))
        now += 1.0
    return tally.run()


def _share_out(queues: Sequence[_Queue], options: CapacityOptions, now: float) -> None:
    """Give free containers out, and take some back for queues that were short for too long."""
    for queue in queues:
        if queue.use < min(queue.demand, queue.guarantee):
            queue.short_since = now if queue.short_since is None else queue.short_since
        else:
            queue.short_since = None
    free = options.containers - sum(queue.use for queue in queues)
    missing = -free + sum(
        min(queue.demand, queue.guarantee) - queue.use
        for queue in queues
        if queue.short_since is not None and now - queue.short_since >= options.patience_s
    )
    free += _take_back(queues, missing)
    for queue, more in zip(queues, _growth(queues, free), strict=True):
        _hand_out(queue.jobs, more, now)


def _take_back(queues: Sequence[_Queue], missing: int) -> int:
    """Stop containers of queues above their guarantee, the most above first; newest jobs first."""
    taken = 0
    above = sorted(queues, key=lambda queue: queue.guarantee - queue.use)
    for queue in above:
        fewer = min(missing - taken, queue.use - queue.guarantee)
        if fewer <= 0:
            continue
        taken += fewer
        for job in reversed(queue.jobs):
            here = min(fewer, job.progress.held)
            job.take_back(here)
            fewer -= here
    return taken


def _growth(queues: Sequence[_Queue], free: int) -> list[int]:
    """Return how many more containers each queue gets: the least used of its guarantee first."""
    held = np.array([queue.use for queue in queues], dtype=np.float64)
    guarantee = np.array([queue.guarantee for queue in queues], dtype=np.float64)
    most = np.array([min(queue.demand, queue.most) for queue in queues], dtype=np.float64)
    most = np.maximum(most, held)
    target = min(float(free) + held.sum(), most.sum())
    low, high = 0.0, float((most / guarantee).max(initial=0.0))
    for _ in range(50):  # the level of use at which everything free is given out
        level = (low + high) / 2
        if np.clip(level * guarantee, held, most).sum() < target:
            low = level
        else:
            high = level
    grown = np.floor(np.clip(low * guarantee, held, most) - held).astype(np.int64)
    rest = int(target - held.sum() - grown.sum())
    for index in np.argsort((held + grown) / guarantee, kind="stable"):
        more = min(rest, int(most[index] - held[index] - grown[index]))
        grown[index] += max(more, 0)
        rest -= max(more, 0)
    return [int(more) for more in grown]


def _hand_out(jobs: Sequence[_Served], more: int, now: float) -> None:
    """Give containers to the jobs of a queue, the first submitted first."""
    for job in jobs:
        if more <= 0:
            return
        here = min(more, job.progress.stage.tasks - job.progress.held)
        if here > 0:
            job.give(here, now)
            more -= here
