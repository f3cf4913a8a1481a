"""Jobs of a cell: batch and service, drawn from documented distributions.

The shapes are Omega's (section 2.1, figures 2 to 4): more than four fifths of the jobs are batch,
service jobs hold most of the resources and run for days, most jobs have few tasks and some have
thousands. The figures themselves are not published; those below are chosen to agree with what the
paper says in words, and each is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]

#: Types of jobs.
BATCH: Final = 0
SERVICE: Final = 1

#: Capacity of one machine, in thousandths of it.
WHOLE: Final = 1000

DAY_S: Final = 86_400.0

#: Most workers of one MapReduce job.
MOST_WORKERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class JobType:
    """What jobs of one type look like; every length and count is log-normal.

    Attributes
    ----------
    share
        Part of the cell that they hold in the mean.
    interarrival_s
        Mean time between two of them, exponential.
    median_tasks, spread_tasks, most_tasks
        Tasks of a job: median, sigma of the logarithm, most.
    median_s, spread_s, most_s
        How long its tasks run, likewise.
    memory
        Memory of a task as a multiple of its cores, in shares of a machine; mean of an exponential
        around it, at least a tenth.
    picky
        Part of the jobs that only a tenth to a half of the machines can run.
    mapreduce
        Part of the jobs that run faster with more workers than they ask for, up to a multiple of
        them: log-normal, median 5, sigma 1.5 (Omega, section 6: about a fifth, and many more
        activities than workers).
    serial, setup
        Of those jobs, the largest part of the length that no worker shortens, and the largest that
        goes into setting up the workers asked for, and grows with them; uniform from 0.
    precedences
        Parts of the jobs whose own precedence is 0, 1, 2 and so on.
    """

    share: float
    interarrival_s: float
    median_tasks: float
    spread_tasks: float
    most_tasks: int
    median_s: float
    spread_s: float
    most_s: float
    memory: float = 1.0
    picky: float = 0.0
    mapreduce: float = 0.0
    serial: float = 0.0
    setup: float = 0.0
    precedences: tuple[float, ...] = (1.0,)


@dataclass(frozen=True, slots=True)
class CellMix:
    """A cell and its jobs.

    Attributes
    ----------
    machines
        All identical, but for `kinds` kinds that constraints name.
    batch, service
        Its two types of jobs.
    filled
        Part of the cell that is held at the start.
    """

    name: str
    machines: int
    batch: JobType
    service: JobType
    filled: float = 0.6
    kinds: int = 10

    def busier(self, factor: float) -> CellMix:
        """Return the mix with batch jobs that come `factor` times as often (Omega, figure 8).

        Each is as large as before, so that they hold more of the cell.
        """
        batch = self.batch
        often = batch.interarrival_s / factor
        return replace(self, batch=replace(batch, interarrival_s=often, share=batch.share * factor))

    def mapreduce(self, part: float = 0.2, serial: float = 0.0, setup: float = 0.0) -> CellMix:
        """Return the mix with a part of its batch jobs that more workers make faster."""
        return replace(self, batch=replace(self.batch, mapreduce=part, serial=serial, setup=setup))

    def picky(self, part: float) -> CellMix:
        """Return the mix with constraints on a part of its jobs."""
        return replace(
            self, batch=replace(self.batch, picky=part), service=replace(self.service, picky=part)
        )


_BATCH = JobType(0.22, 4.0, 8.0, 1.6, 3_000, 600.0, 1.6, 7 * DAY_S)
_SERVICE = JobType(0.38, 120.0, 4.0, 1.4, 1_000, DAY_S, 1.5, 29 * DAY_S, memory=1.5)

#: Cell A: middling; B: large, busy, many batch jobs; C: the cell of the public trace; D: a quarter
#: of C, lightly loaded.
CELLS: Final = {
    one.name: one
    for one in (
        CellMix(
            "A", 8_000, replace(_BATCH, interarrival_s=6.0), replace(_SERVICE, interarrival_s=180.0)
        ),
        CellMix(
            "B", 12_000, replace(_BATCH, interarrival_s=1.5), replace(_SERVICE, interarrival_s=90.0)
        ),
        CellMix("C", 12_500, _BATCH, _SERVICE),
        CellMix(
            "D",
            3_100,
            replace(_BATCH, share=0.1, interarrival_s=16.0),
            replace(_SERVICE, share=0.2, interarrival_s=480.0),
            filled=0.3,
        ),
    )
}


class CellJobs(NamedTuple):
    """Jobs by arrival.

    Attributes
    ----------
    arrival_s, length_s
        float64[job]: when each comes, and how long its tasks run.
    type, tasks
        int64[job]: `BATCH` or `SERVICE`; how many tasks.
    cores, memory
        int64[job]: what one task takes of a machine, in thousandths.
    allowed
        int64[job]: bit k is set where machines of kind k can run it.
    useful
        int64[job]: tasks up to which more of them shorten the job; `tasks` where none does.
    serial, setup
        float64[job]: parts of the length that more tasks leave as it is, and that grows with them;
        the rest is shared by them.
    precedence
        int64[job]: how important each is itself, apart from its type and its scheduler.
    """

    arrival_s: F64
    length_s: F64
    type: I64
    tasks: I64
    cores: I64
    memory: I64
    allowed: I64
    useful: I64
    serial: F64
    setup: F64
    precedence: I64


def _chosen(jobs: CellJobs, places: I64) -> CellJobs:
    """Return the jobs at some places."""
    return CellJobs._make(column[places] for column in jobs)


def join_jobs(one: CellJobs, other: CellJobs) -> CellJobs:
    """Return the jobs of both."""
    return CellJobs._make(np.concatenate(columns) for columns in zip(one, other, strict=True))


def draw_jobs(mix: CellMix, length_s: float, seed: int) -> tuple[CellJobs, CellJobs]:
    """Return the jobs that hold the cell at the start, and those that arrive in `length_s`.

    Those at the start are drawn as a passer-by meets them: longer ones more often, and each is
    somewhere in its run.
    """
    rng = np.random.default_rng(seed)
    parts = [_arrivals(mix, type_, length_s, rng) for type_ in (BATCH, SERVICE)]
    both = join_jobs(*parts)
    coming = _chosen(both, np.argsort(both.arrival_s, kind="stable"))
    standing, coming = _standing(mix, rng), _with_overheads(mix, coming, seed)
    own = np.random.default_rng([seed, 2])
    return _with_precedence(mix, standing, own), _with_precedence(mix, coming, own)


def _with_overheads(mix: CellMix, jobs: CellJobs, seed: int) -> CellJobs:
    """Return the jobs with the parts of their lengths that workers do not share."""
    rng = np.random.default_rng([seed, 1])
    grows = jobs.useful > jobs.tasks
    serial = np.where(grows, rng.uniform(0.0, mix.batch.serial, len(grows)), 0.0)
    setup = np.where(grows, rng.uniform(0.0, mix.batch.setup, len(grows)), 0.0)
    return jobs._replace(serial=serial, setup=setup)


def _with_precedence(mix: CellMix, jobs: CellJobs, rng: np.random.Generator) -> CellJobs:
    """Return the jobs with precedences of their own."""
    precedence = np.zeros(len(jobs.tasks), dtype=np.int64)
    for type_ in (BATCH, SERVICE):
        parts, own = _type_of(mix, type_).precedences, np.flatnonzero(jobs.type == type_)
        precedence[own] = rng.choice(len(parts), len(own), p=parts)
    return jobs._replace(precedence=precedence)


def _type_of(mix: CellMix, type_: int) -> JobType:
    return mix.batch if type_ == BATCH else mix.service


def mean_task_cores(mix: CellMix, type_: int) -> float:
    """Return the mean cores of a task, in thousandths: what makes the type hold its share."""
    job = _type_of(mix, type_)
    tasks = _mean_lognormal(job.median_tasks, job.spread_tasks, job.most_tasks)
    length = _mean_lognormal(job.median_s, job.spread_s, job.most_s)
    standing = tasks * length / job.interarrival_s
    return job.share * mix.machines * WHOLE / standing


def _mean_lognormal(median: float, sigma: float, most: float) -> float:
    """Return the mean of a log-normal that is cut at `most`, by its quantiles."""
    from scipy.special import ndtri

    quantiles = (np.arange(20_000) + 0.5) / 20_000
    return float(np.minimum(median * np.exp(sigma * ndtri(quantiles)), most).mean())


def _arrivals(mix: CellMix, type_: int, length_s: float, rng: np.random.Generator) -> CellJobs:
    job = _type_of(mix, type_)
    count = int(rng.poisson(length_s / job.interarrival_s))
    arrival = np.sort(rng.uniform(0.0, length_s, count))
    return _described(mix, type_, arrival, _lengths(job, count, rng), rng)


def _lengths(job: JobType, count: int, rng: np.random.Generator) -> F64:
    drawn = job.median_s * np.exp(job.spread_s * rng.standard_normal(count))
    return np.minimum(np.maximum(drawn, 1.0), job.most_s)


def _described(
    mix: CellMix, type_: int, arrival: F64, length: F64, rng: np.random.Generator
) -> CellJobs:
    job, count = _type_of(mix, type_), len(arrival)
    drawn = job.median_tasks * np.exp(job.spread_tasks * rng.standard_normal(count))
    tasks = np.minimum(np.maximum(np.rint(drawn), 1), job.most_tasks).astype(np.int64)
    mean = mean_task_cores(mix, type_)
    cores = np.clip(np.rint(rng.gamma(2.0, mean / 2.0, count)), 1, WHOLE).astype(np.int64)
    around = 0.5 + 0.5 * rng.exponential(1.0, count)
    memory = np.clip(np.rint(cores * job.memory * around), 1, WHOLE).astype(np.int64)
    allowed = np.full(count, (1 << mix.kinds) - 1, dtype=np.int64)
    for place in np.flatnonzero(rng.uniform(size=count) < job.picky).tolist():
        kinds = rng.permutation(mix.kinds)[: int(rng.integers(1, mix.kinds // 2 + 1))]
        allowed[place] = int((1 << kinds.astype(np.int64)).sum())
    types = np.full(count, type_, dtype=np.int64)
    multiple = np.exp(np.log(5.0) + 1.5 * rng.standard_normal(count))
    grows = rng.uniform(size=count) < job.mapreduce
    most = np.minimum(np.ceil(tasks * np.maximum(multiple, 1.0)), MOST_WORKERS).astype(np.int64)
    useful = np.where(grows, np.maximum(tasks, most), tasks)
    shared = np.zeros(count)
    return CellJobs(
        arrival, length, types, tasks, cores, memory, allowed, useful,
        shared, shared.copy(), np.zeros(count, dtype=np.int64),
    )  # fmt: skip


def _standing(mix: CellMix, rng: np.random.Generator) -> CellJobs:
    """Return jobs that hold `filled` of the cell: a run is met as often as it is long."""
    shares = np.array([mix.batch.share, mix.service.share])
    parts = []
    for type_ in (BATCH, SERVICE):
        job = _type_of(mix, type_)
        wanted = mix.filled * mix.machines * WHOLE * shares[type_] / shares.sum()
        pool = _described(mix, type_, np.zeros(20_000), _lengths(job, 20_000, rng), rng)
        chosen = rng.choice(20_000, 20_000, p=pool.length_s / pool.length_s.sum())
        met = _chosen(pool, chosen)
        held = np.cumsum(met.tasks * np.maximum(met.cores, met.memory))
        count = int(np.searchsorted(held, wanted, side="right"))
        met = _chosen(met, np.arange(count))
        parts.append(met._replace(length_s=met.length_s * rng.uniform(size=count)))
    return join_jobs(*parts)
