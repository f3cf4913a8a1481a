"""Omega's simulated cell: which runs make which figure of sections 4 and 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from bench.papers.cell.architecture import (
    Architecture,
    Decision,
    Growth,
    multi_path,
    partitioned,
    shared_state,
    single_path,
    two_level,
)
from bench.papers.cell.audit import audit_claims
from bench.papers.cell.kernels.arrays import TRANSACTIONS
from bench.papers.cell.simulator import CellRun, measure_cell, run_jobs, simulate_cell
from bench.papers.cell.workload import CELLS, DAY_S, CellMix, draw_jobs

#: Makes an architecture of the decision about service jobs.
Maker: TypeAlias = Callable[[Decision], Architecture]

MAKERS: Final[Mapping[str, Maker]] = {
    "single path": lambda decision: single_path(decision.job_s),
    "multi-path": multi_path,
    "partition": partitioned,
    "two-level": two_level,
    "shared state": shared_state,
}

#: Days of a run, as in the paper.
DAYS: Final = 7.0

#: Days of a run with many failed attempts: of two-level, as in the paper, and of cells that fill.
SHORT_DAYS: Final = 1.0


@dataclass(frozen=True, slots=True)
class CellPoint:
    """One run.

    Attributes
    ----------
    architecture
        A name of `MAKERS`.
    cell
        A name of `CELLS`.
    job_s, task_s
        Decision times of the service scheduler (of every scheduler on the single path).
    batch_job_s
        Seconds for a batch job.
    batches
        Batch schedulers of shared state.
    busier
        Batch jobs come this many times as often.
    coarse, gang
        Rules of transactions.
    days
        Length of the run; None for the figure's own.
    """

    architecture: str = "shared state"
    cell: str = "B"
    job_s: float = 0.1
    task_s: float = 0.005
    batch_job_s: float = 0.1
    batches: int = 1
    busier: float = 1.0
    coarse: bool = False
    gang: bool = False
    days: float | None = None

    def built(self) -> Architecture:
        """Return the architecture that is run."""
        service = Decision(self.job_s, self.task_s)
        if self.architecture == "shared state":
            found = shared_state(service, Decision(self.batch_job_s), self.batches)
        else:
            found = MAKERS[self.architecture](service)
        return found.rules(coarse=self.coarse, gang=self.gang)

    def length_days(self) -> float:
        """Return how long it runs."""
        own = SHORT_DAYS if self.architecture == "two-level" else DAYS
        return own if self.days is None else self.days

    def mix(self) -> CellMix:
        """Return the jobs that come."""
        return CELLS[self.cell].busier(self.busier)


@dataclass(frozen=True, slots=True)
class PickyPoint(CellPoint):
    """One run of jobs with constraints.

    Attributes
    ----------
    picky
        Part of the jobs that run on some kinds of machines only.
    """

    picky: float = 0.0

    def mix(self) -> CellMix:
        """Return the jobs that come."""
        return CELLS[self.cell].busier(self.busier).picky(self.picky)


def run_point(point: CellPoint, seed: int) -> dict[str, float]:
    """Run a point and return its figures.

    ``busyness`` and ``conflicts`` are those of the scheduler of service jobs, ``batch_busyness``
    and ``batch_conflicts`` the mean of those of batch jobs; with one scheduler they are the same.
    ``unserved`` is the part of the jobs that had no attempt or were given up.
    """
    found = simulate_cell(point.mix(), point.built(), point.length_days(), seed)
    service = found.schedulers[-1]
    batch = found.schedulers[:-1] or found.schedulers
    lost = sum(one.waiting + one.abandoned for one in (found.batch, found.service))
    return {
        "batch_wait_s": found.batch.wait_s,
        "service_wait_s": found.service.wait_s,
        "batch_busyness": sum(one.busyness for one in batch) / len(batch),
        "busyness": service.busyness,
        "mad": service.busyness_mad,
        "batch_conflicts": sum(one.conflict_fraction for one in batch) / len(batch),
        "conflicts": service.conflict_fraction,
        "abandoned": float(found.batch.abandoned + found.service.abandoned),
        "unserved": lost / max(1, found.batch.jobs + found.service.jobs),
        "used": float(found.used.mean()),
    }


_SERVICE_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_TASK_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 1.0)


def waits(small: bool) -> Sequence[CellPoint]:
    """Figures 5, 6, 7 and 12: every architecture over the decision time of service jobs."""
    cells, times = (("C",), (0.1, 10.0, 100.0)) if small else (("A", "B", "C"), _SERVICE_S)
    return [
        CellPoint(architecture, cell, job_s)
        for cell in cells
        for architecture in MAKERS
        for job_s in times
    ]


def loads(small: bool) -> Sequence[CellPoint]:
    """Figure 8: shared state, batch jobs that come up to six times as often; a day."""
    factors = (1.0, 4.0) if small else (1.0, 2.0, 3.0, 4.0, 6.0)
    cells = ("C",) if small else ("A", "B", "C")
    return [
        CellPoint(cell=cell, busier=factor, days=SHORT_DAYS) for cell in cells for factor in factors
    ]


def schedulers(small: bool) -> Sequence[CellPoint]:
    """Figures 9 and 13: batch jobs dealt to 1 to 32 schedulers, each slower and slower."""
    counts, times = ((1, 4), (0.1, 4.0)) if small else ((1, 3, 8, 16, 32), (0.1, 1.0, 4.0, 15.0))
    return [
        CellPoint(cell="C", batch_job_s=job_s, batches=count) for count in counts for job_s in times
    ]


def balance(small: bool) -> Sequence[CellPoint]:
    """Figure 9: batch jobs that come more often, dealt to 1 to 32 schedulers, on cell B; a day."""
    factors, counts = (
        ((1.0, 4.0), (1, 4)) if small else ((1.0, 2.0, 3.0, 4.0), (1, 2, 4, 8, 16, 32))
    )
    return [
        CellPoint(cell="D" if small else "B", busier=factor, batches=count, days=SHORT_DAYS)
        for count in counts
        for factor in factors
    ]


def constraints(small: bool) -> Sequence[PickyPoint]:
    """Figures 11 and 12: shared state where jobs have constraints, on cells B and C."""
    cells, times = (("D",), (10.0, 100.0)) if small else (("B", "C"), _SERVICE_S)
    return [
        PickyPoint(cell=cell, job_s=job_s, picky=picky)
        for cell in cells
        for picky in (0.0, 0.5)
        for job_s in times
    ]


def decisions(small: bool) -> Sequence[CellPoint]:
    """Figure 10: busyness over both decision times of service jobs, on cell B; a day."""
    jobs, tasks = ((0.1, 10.0), (0.005, 0.5)) if small else (_SERVICE_S, _TASK_S)
    return [
        CellPoint(architecture, "B", job_s, task_s, days=SHORT_DAYS)
        for architecture in ("multi-path", "two-level", "shared state")
        for job_s in jobs
        for task_s in tasks
    ]


def rules(small: bool) -> Sequence[CellPoint]:
    """Figure 14: what detects a conflict, and what is then given up, on cell C."""
    times = (10.0, 100.0) if small else _SERVICE_S
    return [
        CellPoint(cell="C", job_s=job_s, coarse=coarse, gang=gang)
        for coarse in (False, True)
        for gang in (False, True)
        for job_s in times
    ]


#: Parts of the MapReduce jobs whose speed-ups are reported.
QUANTILES: Final = (0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.99)


def run_growth(cell: str, growth: Growth, days: float, seed: int) -> dict[str, float]:
    """Run MapReduce jobs with more workers on a cell; return their speed-ups and how it is used.

    ``faster`` is the part of them that gains; ``speed_up_80`` is what four fifths do not pass;
    ``used`` and ``used_deviation`` are over the hours (Omega, figures 15 and 16).
    """
    mix = CELLS[cell].mapreduce()
    architecture = replace(shared_state(Decision()), growth=growth)
    found = simulate_cell(mix, architecture, days, seed)
    quantiles = np.quantile(found.speed_ups, QUANTILES).tolist()
    return {
        "faster": float((found.speed_ups > 1).mean()),
        **{f"speed_up_{100 * q:g}": at for q, at in zip(QUANTILES, quantiles, strict=True)},
        "used": float(found.used.mean()),
        "used_deviation": float(found.used.std()),
    }


def shortened(points: Sequence[CellPoint]) -> list[CellPoint]:
    """Return the points with runs of a quarter of a day."""
    return [replace(one, days=0.25) for one in points]


#: Seconds to decide about a service job.
SERVICE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class PrecedencePoint:
    """One run.

    Attributes
    ----------
    cell
        A name of `CELLS`.
    busier
        Batch jobs come this many times as often.
    above
        Whether service jobs have precedence over batch jobs, or both are equal.
    days
        Length of the run.
    """

    cell: str
    busier: float
    above: bool
    days: float = 1.0


def precedence_points(small: bool) -> Sequence[PrecedencePoint]:
    """Return cells, loads, and both rules; a quarter of a day of cell D where `small`."""
    cells, factors = (("D",), (1.0, 8.0)) if small else (("A", "B", "C"), (1.0, 2.0, 3.0, 4.0))
    return [
        PrecedencePoint(cell, factor, above, 0.25 if small else 1.0)
        for cell in cells
        for above in (False, True)
        for factor in factors
    ]


def run_precedence(point: PrecedencePoint, seed: int) -> dict[str, float]:
    """Run a point and return its figures.

    ``batch_placed_s`` and ``service_placed_s`` are mean times from submission until all tasks are
    placed, ``evictions`` those of a day, ``lost_h`` the hours of tasks that they lost in a day,
    ``lost`` these as a part of all that tasks ran, and ``breaches`` what an audit of all claims
    found against the policy.
    """
    mix = CELLS[point.cell].busier(point.busier)
    precedence = (0, 1) if point.above else (0, 0)
    architecture = replace(shared_state(Decision(SERVICE_S)), precedence=precedence)
    length_s = point.days * DAY_S
    run = run_jobs(mix, architecture, *draw_jobs(mix, length_s, seed), length_s, seed)
    found = measure_cell(run, architecture, length_s)
    batch, service = found.schedulers
    lost_s = found.batch.lost_task_s + found.service.lost_task_s
    return {
        "batch_wait_s": found.batch.wait_s,
        "service_wait_s": found.service.wait_s,
        "batch_placed_s": found.batch.placed_after_s,
        "service_placed_s": found.service.placed_after_s,
        "batch_busyness": batch.busyness,
        "busyness": service.busyness,
        "conflicts": service.conflict_fraction,
        "evictions": (found.batch.evicted + found.service.evicted) / point.days,
        "lost_h": lost_s / 3_600.0 / point.days,
        "lost": lost_s / _ran_s(run, length_s),
        "used": float(found.used.mean()),
        "breaches": float(len(audit_claims(run, architecture))),
    }


def _ran_s(run: CellRun, length_s: float) -> float:
    """Return the seconds that all tasks ran."""
    log, count = run.log, int(run.counts[TRANSACTIONS])
    tasks, begin_s = log.tasks[:count], log.begin_s[:count]
    claims = np.repeat(np.arange(count), tasks)
    end_s = log.end_s[claims]
    if len(log.precedence.level):
        evicted = log.precedence.evictor[: len(claims)] >= 0
        end_s = np.where(evicted, log.precedence.evicted_s[: len(claims)], end_s)
    return float((np.minimum(end_s, length_s) - begin_s[claims]).sum())


#: Largest parts of a job's length that are serial, and that set up the workers asked for.
SERIAL: Final = 0.3
SETUP: Final = 0.05

#: Parts of the jobs whose speed-ups are reported.
HISTORY_QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One run.

    Attributes
    ----------
    cell
        A name of `CELLS`.
    linear
        Whether jobs are as the linear model has them; else parts of them, up to `SERIAL` and
        `SETUP`, are serial and set up workers.
    growth, fitted
        Policy, and which model says how many workers shorten a job.
    days
        Length of the run.
    """

    cell: str
    linear: bool
    growth: Growth
    fitted: bool
    days: float = 1.0


def history_points(small: bool) -> Sequence[HistoryPoint]:
    """Return cells, worlds, policies and models; a quarter of a day of cell D where `small`."""
    cells = ("D",) if small else ("A", "C", "D")
    found = []
    for cell in cells:
        for linear in (False, True):
            for growth in Growth:
                models = (False,) if growth is Growth.NONE else (False, True)
                found += [
                    HistoryPoint(cell, linear, growth, fitted, 0.25 if small else 1.0)
                    for fitted in models
                ]
    return found


def run_history(point: HistoryPoint, seed: int) -> dict[str, float]:
    """Run a point and return its figures.

    ``faster`` and ``slower`` are the parts of the MapReduce jobs that take less and more time than
    with the workers that they asked for, ``speed_up_80`` is what four fifths do not pass, and
    ``used 3`` the part of the cell's cores that is held after three hours.
    """
    serial, setup = (0.0, 0.0) if point.linear else (SERIAL, SETUP)
    mix = CELLS[point.cell].mapreduce(serial=serial, setup=setup)
    architecture = replace(shared_state(Decision()), growth=point.growth, fitted=point.fitted)
    found = simulate_cell(mix, architecture, point.days, seed)
    quantiles = np.quantile(found.speed_ups, HISTORY_QUANTILES).tolist()
    return {
        "faster": float((found.speed_ups > 1.0 + _SAME).mean()),
        "slower": float((found.speed_ups < 1.0 - _SAME).mean()),
        **{f"speed_up_{100 * q:g}": at for q, at in zip(HISTORY_QUANTILES, quantiles, strict=True)},
        "used": float(found.used.mean()),
        "used_deviation": float(found.used.std()),
        **{f"used {hour}": part for hour, part in enumerate(found.used.tolist())},
    }


#: What rounding makes of a job that is neither faster nor slower.
_SAME: Final = 1e-9
