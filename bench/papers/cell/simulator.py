"""Run an architecture on a cell, and measure it as Omega does (section 4, Metrics)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bench.papers.cell.architecture import Architecture, Growth, View
from bench.papers.cell.initial_state import (
    empty_log,
    free_machines,
    idle_schedulers,
    job_states,
    levels,
    longer_log,
    precedences,
    schedulers_of,
)
from bench.papers.cell.kernels.arrays import (
    RANDOM,
    SIZE,
    CellJobStates,
    CellMachines,
    Log,
    Rules,
    Schedulers,
)
from bench.papers.cell.kernels.loop import fill, run
from bench.papers.cell.speed_up import length_parts, workers_by_history
from bench.papers.cell.workload import (
    BATCH,
    DAY_S,
    F64,
    I64,
    SERVICE,
    CellJobs,
    CellMix,
    draw_jobs,
    join_jobs,
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
    jobs, refused, placed, abandoned, waiting
        How many came; were not admitted; were placed whole; were given up; had no attempt at the
        end.
    wait_s
        Mean time from submission to the first attempt, of those admitted; of those without one, to
        the end.
    wait_p90_s
        Nine in ten waited no longer.
    placed_after_s
        Mean time from submission until all tasks are placed; of those without, to the end.
    evicted, lost_task_s
        Tasks that gave way to others, and the seconds that they had run, of the jobs that stood
        at the start too.
    """

    jobs: int
    refused: int
    placed: int
    abandoned: int
    waiting: int
    wait_s: float
    wait_p90_s: float
    placed_after_s: float
    evicted: int
    lost_task_s: float


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
        If a type of jobs has no scheduler, the parts of the machines are no partition, or offers
        are to be evicted from.
    """
    length_s = days * DAY_S
    standing, coming = draw_jobs(mix, length_s, seed)
    useful = coming.useful
    if architecture.fitted:
        coming = coming._replace(useful=workers_by_history(coming, seed))
    found = run_jobs(mix, architecture, standing, coming, length_s, seed)
    return measure_cell(found, architecture, length_s, useful)


class CellRun(NamedTuple):
    """The arrays of a cell at the end of a run.

    Attributes
    ----------
    states
        All jobs: those that came, and behind them those that stood at the start.
    came
        How many came.
    precedence
        int64[job]: their own.
    """

    machines: CellMachines
    states: CellJobStates
    came: int
    schedulers: Schedulers
    log: Log
    counts: I64
    used: F64
    precedence: I64

    @property
    def jobs(self) -> CellJobStates:
        """The jobs that came."""
        return CellJobStates._make(column[: self.came] for column in self.states)


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
    jobs = join_jobs(coming, _initial_jobs(standing))
    most = jobs.tasks if architecture.growth is Growth.NONE else np.maximum(jobs.tasks, jobs.useful)
    widest = int(most.max(initial=1))
    count = len(architecture.schedulers)
    rules = _rules(architecture, length_s)
    deciding = np.concatenate(
        [schedulers_of(architecture.schedulers, some) for some in (coming, standing)]
    )
    level = levels(precedences(architecture, jobs.type, deciding, jobs.precedence))
    if len(level) and architecture.view is View.OFFER:
        raise ValueError("precedence needs a view of what others hold; offers show what is free")
    log = empty_log(int(most.sum()) + widest + count + 2, level, mix.machines)
    machines = free_machines(kind, count, architecture.view)
    states = job_states(jobs, deciding)
    schedulers = idle_schedulers(mix, architecture, widest, days)
    counts = np.zeros(SIZE, dtype=np.int64)
    used = np.zeros(int(length_s // SAMPLE_S) + 1)
    counts[RANDOM] = 2 * seed + 1
    fill(machines, states, log, counts)
    while not run(machines, states, schedulers, log, counts, rules, used):
        log = longer_log(log)
    came = len(coming.tasks)
    return CellRun(machines, states, came, schedulers, log, counts, used, jobs.precedence)


def _initial_jobs(standing: CellJobs) -> CellJobs:
    """Return jobs that exist at the start as such: they never arrive, and do not grow."""
    never = np.full(len(standing.tasks), np.inf)
    return standing._replace(arrival_s=never, useful=np.zeros_like(standing.useful))


def _rules(architecture: Architecture, length_s: float) -> Rules:
    return Rules(
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


def measure_cell(
    run: CellRun, architecture: Architecture, length_s: float, useful: I64 | None = None
) -> CellResult:
    """Return the figures of a run.

    Parameters
    ----------
    useful
        int64[job]: tasks up to which more shorten each job that came, where the run believed
        something else.
    """
    spans = np.clip(length_s - DAY_S * np.arange(run.schedulers.busy_s.shape[1]), 0.0, DAY_S)
    schedulers = tuple(
        _scheduler_figures(run.schedulers, one, spans)
        for one in range(len(architecture.schedulers))
    )
    batch, service = (_type_figures(run, type_, length_s) for type_ in (BATCH, SERVICE))
    jobs = run.jobs
    grows = (jobs.useful if useful is None else useful) > jobs.asked
    lengths = length_parts(jobs.serial, jobs.setup, jobs.workers / jobs.asked)
    speed_ups = 1.0 / lengths[grows & ~np.isnan(jobs.placed_s)]
    return CellResult(schedulers, batch, service, run.used, speed_ups)


def median_deviation(values: F64) -> tuple[float, float]:
    """Return the median and the median absolute deviation from it."""
    median = float(np.median(values))
    return median, float(np.median(np.abs(values - median)))


def _scheduler_figures(schedulers: Schedulers, one: int, spans: F64) -> SchedulerFigures:
    busy = median_deviation(schedulers.busy_s[one] / spans)
    successes = np.maximum(schedulers.successes[one], 1)
    conflicts = median_deviation(schedulers.conflicts[one] / successes)
    return SchedulerFigures(*busy, *conflicts)


def _type_figures(run: CellRun, type_: int, length_s: float) -> TypeFigures:
    jobs, held = run.jobs, run.log.precedence
    came = jobs.type == type_
    own = came & (jobs.refused == 0)
    first, arrival, placed = jobs.first_s[own], jobs.arrival_s[own], jobs.placed_s[own]
    waits = np.where(np.isnan(first), length_s, first) - arrival
    until = np.where(np.isnan(placed), length_s, placed) - arrival
    count = int(own.sum())
    of_type = run.states.type == type_
    return TypeFigures(
        int(came.sum()),
        int(jobs.refused[came].sum()),
        int((~np.isnan(placed)).sum()),
        int(jobs.abandoned[own].sum()),
        int(np.isnan(first).sum()),
        float(waits.mean()) if count else 0.0,
        float(np.quantile(waits, 0.9)) if count else 0.0,
        float(until.mean()) if count else 0.0,
        int(held.evictions[of_type].sum()) if len(held.level) else 0,
        float(held.lost_s[of_type].sum()) if len(held.level) else 0.0,
    )
