"""Rayon's workloads (its 6.1.2): MapReduce jobs, gangs and workflows, a few with deadlines.

What the paper gives is kept: eight tenants, 5,400 jobs an hour, 5 % with a deadline, work asked for
10 % above the truth, jobs limited in size until the cluster can do what is offered. Workload A is
sampled from SWIM's Facebook day where it is there (each tenant has three hours of it), else drawn
from its quantiles; a map task reads 128 MiB and a reduce task 1 GiB at 1 MiB/s, at least 10 s.
Deadlines are nowhere recorded and are ours: slack U[0.1, 3] of the time alone. So are the shapes of
B and C, of which the paper gives none.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TENANTS = 8

#: Queues of a capacity scheduler: one for deadlines and one for the rest of each tenant.
QUEUES = 2 * TENANTS
KINDS = "ABC"

_MIB = 1 << 20
_MAP_MIB, _REDUCE_MIB = 128, 1024
_LEAST_TASK_S = 10.0

#: Quantiles of SWIM's Facebook day of 2009: MiB that maps read, and MiB that are shuffled. The last
#: of the latter (8.4 million there) is where the mean between quantiles becomes the day's.
_PLACES = (0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99,
           0.995, 0.998, 0.999, 0.9995, 1)  # fmt: skip
READ_MIB = (0, 7.25e-05, 5.76e-04, 4.84e-03, 0.0182, 0.0405, 0.0498, 0.234, 5.13, 40.5, 577, 2400,
             7230, 21_000, 41_100, 76_700, 125_000, 232_000, 470_000, 571_000,
             7_200_000)  # fmt: skip
SHUFFLED_MIB = (0, 0, 0, 0, 0, 0, 0, 0, 7.83e-03, 2.36, 68.9, 438, 1500, 9810, 18_800, 48_800,
                 127_000, 199_000, 387_000, 504_000, 10_400_000)  # fmt: skip
#: What counts as zero between quantiles, of which logarithms are interpolated.
_NOTHING_MIB = 1e-6

Floats = NDArray[np.float64]
Stages = tuple["RayonStage", ...]


@dataclass(frozen=True, slots=True)
class RayonStage:
    """Equal tasks that run side by side; the next stage starts when all have ended.

    Attributes
    ----------
    tasks
        Most containers that can work at once; of a gang, what it needs to work at all.
    work_s
        Container-seconds.
    gang
        Whether it works only with all containers.
    """

    tasks: int
    work_s: float
    gang: bool = False

    @property
    def alone_s(self) -> float:
        """Time with every container, s."""
        return self.work_s / self.tasks


@dataclass(frozen=True, slots=True)
class RayonJob:
    """One job; `deadline_s` is None for best effort. Times in s from the start."""

    name: str
    kind: str
    tenant: int
    at_s: float
    stages: tuple[RayonStage, ...]
    deadline_s: float | None = None

    @property
    def work_s(self) -> float:
        """Container-seconds of all stages."""
        return sum(stage.work_s for stage in self.stages)


def queue_of(job: RayonJob) -> int:
    """Return the number of a job's queue, below `QUEUES`; those of deadlines are odd."""
    return 2 * job.tenant + (job.deadline_s is not None)


@dataclass(frozen=True, slots=True)
class RayonWorkload:
    """What is drawn.

    Attributes
    ----------
    machines, containers_each
        The cluster; a container is one core and 2 GiB, of machines of 32 cores and 128 GiB.
    jobs_per_hour, hours
        Poisson arrivals, and for how long.
    jobs
        This many in that time, whatever the rate; None for as many as the rate gives.
    production
        Share of the jobs with a deadline.
    load
        Offered work over what all containers can do in that time; tasks of a stage are limited so
        that it comes out.
    mix
        Shares of the workloads A, B and C.
    slack
        Bounds of the deadline slack, in times alone.
    step_s
        Of the Plan's grid, on which deadlines lie.
    trace
        SWIM's file to sample A from, or None.
    """

    machines: int = 256
    containers_each: int = 32
    jobs_per_hour: float = 5_400.0
    hours: float = 1.0
    production: float = 0.05
    load: float = 1.0
    mix: tuple[float, float, float] = (1.0, 0.0, 0.0)
    slack: tuple[float, float] = (0.1, 3.0)
    step_s: int = 10
    trace: Path | None = None
    jobs: int | None = None

    @property
    def containers(self) -> int:
        """All containers together."""
        return self.machines * self.containers_each


def rayon_workload(options: RayonWorkload, random: np.random.Generator) -> list[RayonJob]:
    """Return jobs in order of submission; the same generator state gives the same jobs."""
    drawn = int(random.poisson(options.jobs_per_hour * options.hours))
    count = drawn if options.jobs is None else options.jobs
    at = np.sort(random.uniform(0.0, options.hours * 3600.0, count))
    kinds = random.choice(3, count, p=options.mix)
    tenants = random.integers(0, TENANTS, count)
    sizes = _draw_sizes(tenants, options.trace, random)
    makers = (_map_reduce, _giraph, _workflow)
    drafts = [makers[kinds[index]](sizes[index], random) for index in range(count)]
    most = most_tasks(drafts, options)
    with_deadline = random.random(count) < options.production
    slack = random.uniform(*options.slack, count)
    found = []
    for index, draft in enumerate(drafts):
        stages = tuple(_limit_tasks(stage, most) for stage in draft)
        deadline = (
            deadline_of(float(at[index]), stages, float(slack[index]), options.step_s)
            if with_deadline[index]
            else None
        )
        kind = KINDS[kinds[index]]
        found.append(
            RayonJob(f"j{index}", kind, int(tenants[index]), float(at[index]), stages, deadline)
        )
    return found


def deadline_of(at_s: float, stages: tuple[RayonStage, ...], slack: float, step_s: int) -> float:
    """Return submission plus (1 + slack) times the time alone, both counted in whole steps."""
    alone = sum(ceil(stage.alone_s / step_s) for stage in stages)
    return float(step_s * (ceil(at_s / step_s) + ceil(alone * (1.0 + slack))))


def half_of(jobs: list[RayonJob]) -> list[RayonJob]:
    """Return every second job of each class, so that half of the load is left of both."""
    production = [job for job in jobs if job.deadline_s is not None]
    rest = [job for job in jobs if job.deadline_s is None]
    return sorted(production[::2] + rest[::2], key=lambda job: job.at_s)


def read_swim_sizes(path: Path) -> tuple[Floats, NDArray[np.int64]]:
    """Return MiB read and shuffled by each job of a SWIM file, and its tenant by time of day.

    Raises
    ------
    ValueError
        If a line has other than six columns of whole numbers, or there is none.
    OSError
        If there is no such file.
    """
    rows: list[tuple[int, int, int]] = []
    with gzip.open(path, "rt") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.split("\t")
            try:
                rows.append((int(columns[1]), int(columns[3]), int(columns[4])))
            except (ValueError, IndexError):
                raise ValueError(f"line {number}: six tab-separated columns of numbers") from None
    if not rows:
        raise ValueError("it holds no jobs")
    table = np.array(rows, dtype=np.float64)
    tenants = np.minimum(table[:, 0] * TENANTS // 86_400, TENANTS - 1).astype(np.int64)
    return table[:, 1:] / _MIB, tenants


def _draw_sizes(
    tenants: NDArray[np.int64], trace: Path | None, random: np.random.Generator
) -> Floats:
    """Return MiB read and shuffled for each job, float64[jobs, 2], by the job's tenant."""
    if trace is None:
        return np.stack(
            [size_at(table, random.random(len(tenants))) for table in (READ_MIB, SHUFFLED_MIB)],
            axis=1,
        )
    table, owner = read_swim_sizes(trace)
    found = np.empty((len(tenants), 2))
    for tenant in range(TENANTS):
        mine, rows = np.flatnonzero(tenants == tenant), np.flatnonzero(owner == tenant)
        found[mine] = table[random.choice(rows if len(rows) else len(table), len(mine))]
    return found


def size_at(table: tuple[float, ...], places: Floats) -> Floats:
    """Return the MiB below which a share `places` of the jobs lies, between known quantiles."""
    logs = np.log(np.maximum(table, _NOTHING_MIB))
    drawn = np.exp(np.interp(places, _PLACES, logs))
    return np.where(drawn <= 2 * _NOTHING_MIB, 0.0, drawn)


def _map_reduce(sizes: Floats, random: np.random.Generator) -> Stages:
    """A: maps, then reduces where anything is shuffled."""
    del random
    read, shuffled = float(sizes[0]), float(sizes[1])
    stages = [_tasks_of(read, _MAP_MIB)]
    if shuffled > 0:
        stages.append(_tasks_of(shuffled, _REDUCE_MIB))
    return tuple(stages)


def _tasks_of(size_mib: float, per_task_mib: int) -> RayonStage:
    tasks = max(1, ceil(size_mib / per_task_mib))
    return RayonStage(tasks, tasks * max(_LEAST_TASK_S, size_mib / tasks))


def _giraph(sizes: Floats, random: np.random.Generator) -> Stages:
    """B: one gang of some tens of workers for some minutes (lognormal, medians 24 and 180 s)."""
    del sizes
    workers = int(np.clip(np.exp(np.log(24) + 0.8 * random.standard_normal()), 2, 400))
    length = float(np.clip(np.exp(np.log(180) + 0.7 * random.standard_normal()), 30, 1_800))
    return (RayonStage(workers, workers * length, gang=True),)


def _workflow(sizes: Floats, random: np.random.Generator) -> Stages:
    """C: three to eight stages one after the other, each of its own width and length."""
    del sizes
    count = int(random.integers(3, 9))
    widths = np.clip(np.exp(np.log(12) + 1.0 * random.standard_normal(count)), 1, 400).astype(int)
    lengths = np.clip(np.exp(np.log(60) + 0.7 * random.standard_normal(count)), 10, 600)
    pairs = zip(widths.tolist(), lengths.tolist(), strict=True)
    return tuple(RayonStage(width, width * length) for width, length in pairs)


def _limit_tasks(stage: RayonStage, most: int) -> RayonStage:
    """Return a stage with no more tasks than `most`; each task is as long as before."""
    if stage.tasks <= most:
        return stage
    return replace(stage, tasks=most, work_s=stage.work_s * most / stage.tasks)


def most_tasks(drafts: Sequence[Stages], options: RayonWorkload) -> int:
    """Return the largest limit of tasks in a stage at which no more than `load` is offered."""
    tasks = np.array([stage.tasks for draft in drafts for stage in draft], dtype=np.float64)
    each = np.array([stage.alone_s for draft in drafts for stage in draft])
    offered = options.load * options.containers * options.hours * 3600.0
    low, high = 1, options.containers
    while low < high:
        middle = (low + high + 1) // 2
        if float(np.minimum(tasks, middle) @ each) <= offered:
            low = middle
        else:
            high = middle - 1
    return low
