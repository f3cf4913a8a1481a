"""Run an architecture on a cell, and measure it as Omega does (section 4, Metrics)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dispatch.simulation.cell.architecture import Architecture, CellScheduler, Growth, View
from dispatch.simulation.cell.kernels.arrays import (
    RANDOM,
    SIZE,
    CellJobStates,
    CellMachines,
    Log,
    Rules,
    Schedulers,
)
from dispatch.simulation.cell.kernels.loop import fill, run
from dispatch.simulation.cell.workload import (
    BATCH,
    DAY_S,
    F64,
    I64,
    SERVICE,
    WHOLE,
    CellJobs,
    CellMix,
    draw_jobs,
)

#: Seconds between two samples of what is held.
SAMPLE_S = 3_600.0


@dataclass(frozen=True, slots=True)
class SchedulerFigures:
    """One scheduler over the days of a run.

    Attributes
    ----------
    busyness, busyness_mad
        Part of the time spent on decisions: median of the days, and the median absolute deviation
        from it.
    conflict_fraction, conflict_mad
        Transactions with a conflict for each without: likewise.
    """

    busyness: float
    busyness_mad: float
    conflict_fraction: float
    conflict_mad: float


@dataclass(frozen=True, slots=True)
class TypeFigures:
    """The jobs of one type.

    Attributes
    ----------
    jobs, placed, abandoned, waiting
        How many came; were placed whole; were given up; had no attempt at the end.
    wait_s
        Mean time from submission to the first attempt; of those without one, to the end.
    wait_p90_s
        Nine in ten waited no longer.
    """

    jobs: int
    placed: int
    abandoned: int
    waiting: int
    wait_s: float
    wait_p90_s: float


@dataclass(frozen=True, slots=True)
class CellResult:
    """What came of one run.

    Attributes
    ----------
    schedulers
        In the order of the architecture.
    batch, service
        Jobs by type.
    used
        float64[sample]: part of the cores that is held, each `SAMPLE_S`.
    speed_ups
        float64[job]: of the jobs that more workers make faster, how much faster each is.
    """

    schedulers: tuple[SchedulerFigures, ...]
    batch: TypeFigures
    service: TypeFigures
    used: F64
    speed_ups: F64

    def of(self, type_: int) -> TypeFigures:
        """Return the figures of a type of jobs."""
        return self.batch if type_ == BATCH else self.service

    @property
    def is_saturated(self) -> bool:
        """Whether some jobs had no attempt, or were given up: one in a hundred of a type."""
        return any(
            one.waiting + one.abandoned > max(1, one.jobs // 100)
            for one in (self.batch, self.service)
        )


def simulate_cell(
    mix: CellMix, architecture: Architecture, days: float = 7.0, seed: int = 1
) -> CellResult:
    """Run an architecture on the jobs of a cell; the same arguments give the same result.

    Raises
    ------
    ValueError
        If a type of jobs has no scheduler, or the parts of the machines are no partition.
    """
    length_s = days * DAY_S
    found = run_jobs(mix, architecture, *draw_jobs(mix, length_s, seed), length_s, seed)
    spans = np.clip(length_s - DAY_S * np.arange(found.schedulers.busy_s.shape[1]), 0.0, DAY_S)
    schedulers = tuple(
        _scheduler_figures(found.schedulers, one, spans)
        for one in range(len(architecture.schedulers))
    )
    batch, service = (_type_figures(found.jobs, type_, length_s) for type_ in (BATCH, SERVICE))
    jobs = found.jobs
    grown = (jobs.useful > jobs.asked) & ~np.isnan(jobs.placed_s)
    speed_ups = jobs.workers[grown] / jobs.asked[grown]
    return CellResult(schedulers, batch, service, found.used, speed_ups)


class CellRun(NamedTuple):
    """The arrays of a cell at the end of a run."""

    machines: CellMachines
    jobs: CellJobStates
    schedulers: Schedulers
    log: Log
    counts: I64
    used: F64


def run_jobs(
    mix: CellMix,
    architecture: Architecture,
    standing: CellJobs,
    coming: CellJobs,
    length_s: float,
    seed: int = 1,
) -> CellRun:
    """Run an architecture on jobs that are given.

    Raises
    ------
    ValueError
        As `simulate_cell`.
    """
    days = max(1, math.ceil(length_s / DAY_S))
    kind = np.arange(mix.machines, dtype=np.int64) % mix.kinds
    grows = architecture.growth is not Growth.NONE
    most = coming.useful if grows else coming.tasks
    tasks = int(standing.tasks.sum() + most.sum())
    rules = Rules(
        int(architecture.view is View.OFFER),
        int(architecture.coarse),
        int(architecture.gang),
        architecture.attempts,
        architecture.offer_s,
        length_s,
        SAMPLE_S,
        int(architecture.growth),
        architecture.cap,
        architecture.times,
    )
    found = CellRun(
        _machines(kind, len(architecture.schedulers), architecture.view),
        _jobs(coming),
        _schedulers(mix, architecture, int(most.max(initial=1)), days),
        _log(tasks + len(architecture.schedulers) + 2),
        np.zeros(SIZE, dtype=np.int64),
        np.zeros(int(length_s // SAMPLE_S) + 1),
    )
    machines, jobs, who, log, counts, used = found
    counts[RANDOM] = 2 * seed + 1
    fill(machines, _jobs(standing), log, counts)
    run(machines, jobs, who, _dealt(architecture.schedulers, coming), log, counts, rules, used)
    return found


def _machines(kind: I64, schedulers: int, view: View) -> CellMachines:
    count = len(kind)
    offered = (schedulers, count) if view is View.OFFER else (1, 1)
    zeros = (np.zeros(count, dtype=np.int64) for _ in range(3))
    return CellMachines(
        np.full(count, WHOLE, dtype=np.int64),
        np.full(count, WHOLE, dtype=np.int64),
        next(zeros),
        kind,
        next(zeros),
        next(zeros),
        np.zeros(offered, dtype=np.int64),
        np.zeros(offered, dtype=np.int64),
    )


def _jobs(given: CellJobs) -> CellJobStates:
    count = len(given.tasks)
    never = np.full(count, np.nan)
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(3)]
    return CellJobStates(
        given.arrival_s, given.length_s, given.type, given.cores, given.memory, given.allowed,
        given.useful, given.tasks, given.tasks.copy(), given.tasks.copy(),
        zeros[0], zeros[1], never, never.copy(), zeros[2],
        np.full(count, -1, dtype=np.int64),
    )  # fmt: skip


def _log(most: int) -> Log:
    numbers = [np.zeros(most, dtype=np.int64) for _ in range(8)]
    return Log(np.zeros(most), *numbers)


def _schedulers(mix: CellMix, architecture: Architecture, most: int, days: int) -> Schedulers:
    given = architecture.schedulers
    count = len(given)
    bounds = np.zeros(count + 1, dtype=np.int64)
    bounds[1:] = mix.machines
    if architecture.view is View.PART:
        parts = np.cumsum([one.part for one in given])
        if not math.isclose(parts[-1], 1.0):
            raise ValueError(f"parts of the machines sum to {parts[-1]:g}, not to 1")
        bounds[1:] = np.rint(parts * mix.machines)
    whole = architecture.view is not View.PART
    begins = np.zeros(count, dtype=np.int64) if whole else bounds[:-1].copy()
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(3)]
    nobody = [np.full(count, -1, dtype=np.int64) for _ in range(3)]
    return Schedulers(
        begins,
        bounds[1:].copy(),
        np.array([[one.batch.job_s, one.service.job_s] for one in given]),
        np.array([[one.batch.task_s, one.service.task_s] for one in given]),
        np.array([round(one.limit * mix.machines * WHOLE) for one in given], dtype=np.int64),
        zeros[0],
        zeros[1],
        nobody[0],
        nobody[1],
        nobody[2],
        zeros[2],
        np.zeros((count, most), dtype=np.int64),
        np.zeros((count, most), dtype=np.int64),
        np.zeros((count, days)),
        np.zeros((count, days), dtype=np.int64),
        np.zeros((count, days), dtype=np.int64),
    )


def _dealt(schedulers: Sequence[CellScheduler], jobs: CellJobs) -> I64:
    """Return int64[job]: the scheduler of each; jobs of a type are dealt in turn."""
    found = np.zeros(len(jobs.tasks), dtype=np.int64)
    for type_ in (BATCH, SERVICE):
        own = np.flatnonzero(jobs.type == type_)
        takers = [place for place, one in enumerate(schedulers) if type_ in one.types]
        if len(own) and not takers:
            raise ValueError(f"no scheduler takes jobs of type {type_}")
        if takers:
            found[own] = np.array(takers)[np.arange(len(own)) % len(takers)]
    return found


def median_deviation(values: F64) -> tuple[float, float]:
    """Return the median and the median absolute deviation from it."""
    median = float(np.median(values))
    return median, float(np.median(np.abs(values - median)))


def _scheduler_figures(who: Schedulers, one: int, spans: F64) -> SchedulerFigures:
    busy = median_deviation(who.busy_s[one] / spans)
    conflicts = median_deviation(who.conflicts[one] / np.maximum(who.successes[one], 1))
    return SchedulerFigures(*busy, *conflicts)


def _type_figures(jobs: CellJobStates, type_: int, length_s: float) -> TypeFigures:
    own = jobs.type == type_
    first, arrival = jobs.first_s[own], jobs.arrival_s[own]
    waits = np.where(np.isnan(first), length_s, first) - arrival
    count = int(own.sum())
    return TypeFigures(
        count,
        int((~np.isnan(jobs.placed_s[own])).sum()),
        int(jobs.abandoned[own].sum()),
        int(np.isnan(first).sum()),
        float(waits.mean()) if count else 0.0,
        float(np.quantile(waits, 0.9)) if count else 0.0,
    )
