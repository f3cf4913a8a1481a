"""Rayon's figures 16 and 19: allocations of queues and jobs, and a capacity scheduler's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.capacity_scheduler import CapacityOptions, guarantees
from bench.papers.cluster.job_progress import JobOutcome, RayonRun
from bench.papers.cluster.rayon_workload import (
    KINDS,
    QUEUES,
    RayonJob,
    RayonWorkload,
    rayon_workload,
)
from bench.papers.cluster.run_trace import RunTrace
from bench.papers.experiment import ExperimentEffort, ExperimentResult, Table, claims_table, reading
from bench.papers.rayon import (
    CAPACITY,
    RayonOptions,
    RayonSystem,
    measure_rayon,
    rayon_options,
    run_rayon_system,
    swim_file,
)
from bench.papers.spread import Figure, figure_of, figures_json
from service.pictures.experiments import ExperimentPanel, PanelSeries

#: Agenda as it is compared elsewhere: a tenth more is requested than there is.
AGENDA = RayonSystem("agenda", over=1.1)
SYSTEMS = (AGENDA, CAPACITY)

#: Shares of the workloads A, B and C in figure 19.
MIXED = (0.8, 0.1, 0.1)

#: Until the cluster has filled, as the paper leaves out a warm-up.
WARM_UP_S = 600.0


@dataclass(frozen=True, slots=True)
class QueueHoldings:
    """One queue: shares of all containers.

    Attributes
    ----------
    guarantee, most
        What the capacity scheduler is tuned to.
    mean, peak
        What the queue's jobs held in the window, by system.
    """

    name: str
    guarantee: float
    most: float
    mean: dict[str, float]
    peak: dict[str, float]


@dataclass(frozen=True, slots=True)
class QueueTable:
    """Figure 16 of one seed.

    Attributes
    ----------
    production
        Share of all containers that jobs with a deadline hold, minute by minute, by system.
    """

    queues: tuple[QueueHoldings, ...]
    production: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class JobHoldings:
    """One job under one system.

    Attributes
    ----------
    at_s, containers
        Seconds since it was submitted, and what it holds from then on.
    gathering_s
        Of a gang, from its first container to its last; None for others, and for one that never
        had all.
    """

    kind: str
    job: str
    system: str
    widest: int
    stages: int
    at_s: list[float]
    containers: list[int]
    gathering_s: float | None
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class SampleTable:
    """Figure 19 of one seed: a job of each workload, and what is said of all of them.

    Attributes
    ----------
    figures
        By system: mean time in which gangs gather, s, and containers in use after the warm-up.
    """

    samples: tuple[JobHoldings, ...]
    figures: dict[str, dict[str, float]]


def queue_holdings(options: RayonOptions, seed: int) -> QueueTable:
    """Run both systems on workload A; return what each queue may hold, and what it held."""
    workload = replace(options.workload, mix=(1.0, 0.0, 0.0))
    jobs, traces, _ = _run(workload, options, seed)
    window = int(workload.hours * 3600)
    held = {name: trace.by_queue[:window] / workload.containers for name, trace in traces.items()}
    shares = guarantees(jobs, workload.containers) / workload.containers
    over = CapacityOptions(workload.containers, window).over_guarantee
    queues = tuple(
        QueueHoldings(
            _queue_name(queue),
            float(shares[queue]),
            float(min(1.0, over * shares[queue])),
            {name: float(rows[:, queue].mean()) for name, rows in held.items()},
            {name: float(rows[:, queue].max(initial=0)) for name, rows in held.items()},
        )
        for queue in range(QUEUES)
    )
    production = {name: _by_minute(rows[:, 1::2].sum(axis=1)) for name, rows in held.items()}
    return QueueTable(queues, production)


def sample_holdings(options: RayonOptions, seed: int) -> SampleTable:
    """Run both systems on mixed jobs; return what one job of each workload held over time."""
    workload = replace(options.workload, mix=MIXED)
    jobs, traces, runs = _run(workload, options, seed)
    outcomes = {name: {one.job.name: one for one in run.outcomes} for name, run in runs.items()}
    chosen = [
        job for kind in KINDS if (job := _sample_of(kind, jobs, outcomes[AGENDA.name])) is not None
    ]
    samples = tuple(
        _holdings_of(job, name, trace, outcomes[name][job.name])
        for job in chosen
        for name, trace in traces.items()
    )
    figures = {
        name: {
            "gang gathering mean_s": measure_rayon(run)["gang gathering mean_s"],
            "utilisation after the warm-up": _warm_use(run),
        }
        for name, run in runs.items()
    }
    return SampleTable(samples, figures)


def _run(
    workload: RayonWorkload, options: RayonOptions, seed: int
) -> tuple[list[RayonJob], dict[str, RunTrace], dict[str, RayonRun]]:
    jobs = rayon_workload(workload, np.random.default_rng(seed))
    traces = {system.name: RunTrace() for system in SYSTEMS}
    runs = {
        system.name: run_rayon_system(system, jobs, workload, options, traces[system.name])
        for system in SYSTEMS
    }
    return jobs, traces, runs


def _queue_name(queue: int) -> str:
    return f"tenant {queue // 2 + 1}, {'deadlines' if queue % 2 else 'best effort'}"


def _by_minute(shares: NDArray[np.float64]) -> list[float]:
    return [float(shares[at : at + 60].mean()) for at in range(0, len(shares), 60)]


def _sample_of(kind: str, jobs: list[RayonJob], outcomes: dict[str, JobOutcome]) -> RayonJob | None:
    """Return the job of a workload with the most work of those that were accepted and ended."""
    known = [
        job
        for job in jobs
        if job.kind == kind
        and job.deadline_s is not None
        and outcomes[job.name].ended_s is not None
    ]
    return max(known, key=lambda job: job.work_s, default=None)


def _holdings_of(job: RayonJob, system: str, trace: RunTrace, outcome: JobOutcome) -> JobHoldings:
    rows = trace.jobs.get(job.name, [])
    changes = [row for at, row in enumerate(rows) if at == 0 or row[1] != rows[at - 1][1]]
    ended = outcome.ended_s
    if ended is not None:
        changes.append((ended, 0))
    began, full = outcome.began_s, outcome.full_s
    return JobHoldings(
        job.kind,
        job.name,
        system,
        max(stage.tasks for stage in job.stages),
        len(job.stages),
        [at - job.at_s for at, _ in changes],
        [held for _, held in changes],
        None if full is None or began is None or not job.stages[0].gang else full - began,
        None if ended is None else ended - job.at_s,
    )


def _warm_use(run: RayonRun) -> float:
    """Return the share of the containers held after the warm-up; 0 in a window without an after."""
    used = run.used[int(WARM_UP_S) :]
    return float(np.mean(used)) / run.containers if used else 0.0


_QUEUE_CLAIMS = {
    "capacity scheduler: most of a guarantee held": "at most 2",
    "agenda: most of a guarantee held": "above 2",
    "agenda: queues above their maximum": "above 0",
}
_SAMPLE_CLAIMS = {
    "agenda: gang gathering, s": "near 0",
    "capacity scheduler: gang gathering, s": "above 0",
    "agenda: containers in use after 10 min": "near 1",
}
_WORKLOADS = {"A": "MapReduce", "B": "Giraph gang", "C": "workflow"}


def run_queues(effort: ExperimentEffort) -> ExperimentResult:
    """Run figure 16: guarantee and maximum of 16 queues, and what is held under each system."""
    options, seeds = _options(effort)
    with reading(swim_file()):
        found = effort.parts([partial(queue_holdings, options, seed) for seed in seeds])
    return _queue_result(options, seeds, found)


def run_allocations(effort: ExperimentEffort) -> ExperimentResult:
    """Run figure 19: the containers of one job of each workload, over time."""
    options, seeds = _options(effort)
    with reading(swim_file()):
        found = effort.parts([partial(sample_holdings, options, seed) for seed in seeds])
    return _sample_result(options, seeds, found)


def _options(effort: ExperimentEffort) -> tuple[RayonOptions, tuple[int, ...]]:
    options = rayon_options(effort.small)
    if effort.small:  # this many with a deadline that each workload has one
        workload = replace(options.workload, production=0.5)
        options = replace(options, workload=workload)
    return options, effort.seeds_or(options.seeds)


def _params(options: RayonOptions, seeds: Sequence[int]) -> dict[str, Any]:
    workload = options.workload
    return {
        "machines": workload.machines,
        "containers": workload.containers,
        "jobs_per_hour": workload.jobs_per_hour,
        "hours": workload.hours,
        "load": workload.load,
        "source": "drawn" if workload.trace is None else "swim-facebook-2009",
        "seeds": list(seeds),
    }


def _queue_result(
    options: RayonOptions, seeds: Sequence[int], found: list[QueueTable]
) -> ExperimentResult:
    names = [system.name for system in SYSTEMS]
    first = found[0].queues
    rows = [
        (
            queue.name, 100 * queue.guarantee, 100 * queue.most,
            *(100 * part[name] for name in names for part in (queue.mean, queue.peak)),
        )
        for queue in first
    ]  # fmt: skip
    header = ["queue (seed 1), % of the cluster", "guarantee", "maximum"]
    header += [f"{name}, {part}" for name in names for part in ("mean", "peak")]
    figures = _queue_figures(found)
    document = {
        "experiment": "rayon-queues",
        "params": _params(options, seeds[: len(found)]),
        "rows": [dataclasses.asdict(queue) for queue in first],
        "production": found[0].production,
        "claimed": figures_json(figures),
        "claims": _QUEUE_CLAIMS,
    }
    tables = (Table.of(header, rows), claims_table("figure", figures, _QUEUE_CLAIMS))
    return ExperimentResult(document, tables, _queue_panels(found[0]))


def _queue_figures(found: list[QueueTable]) -> dict[str, Figure]:
    def most(name: str) -> Figure:
        return figure_of(
            [max(one.peak[name] / one.guarantee for one in table.queues) for table in found]
        )

    beyond = [
        float(sum(one.peak[AGENDA.name] > one.most for one in table.queues)) for table in found
    ]
    return {
        "capacity scheduler: most of a guarantee held": most(CAPACITY.name),
        "agenda: most of a guarantee held": most(AGENDA.name),
        "agenda: queues above their maximum": figure_of(beyond),
    }


def _queue_panels(table: QueueTable) -> list[ExperimentPanel]:
    shorter = (("tenant ", "t"), (", best effort", ""), (", deadlines", " SLA"))
    names = [
        reduce(lambda name, pair: name.replace(*pair), shorter, one.name) for one in table.queues
    ]
    bars = [
        PanelSeries("guarantee", names, [100 * one.guarantee for one in table.queues]),
        PanelSeries("maximum", names, [100 * one.most for one in table.queues]),
        *(
            PanelSeries(
                f"{system.name}, peak", names, [100 * one.peak[system.name] for one in table.queues]
            )
            for system in SYSTEMS
        ),
    ]
    lines = [
        PanelSeries(name, [float(minute) for minute in range(len(shares))], shares)
        for name, shares in table.production.items()
    ]
    return [
        ExperimentPanel(
            "queues as tuned, and what was held (seed 1)", "", "% of the cluster", bars, form="bars"
        ),
        ExperimentPanel("jobs with a deadline (seed 1)", "minute", "share of the cluster", lines),
    ]


def _sample_result(
    options: RayonOptions, seeds: Sequence[int], found: list[SampleTable]
) -> ExperimentResult:
    rows = [
        (
            f"{one.kind}: {_WORKLOADS[one.kind]}", one.system, one.stages, one.widest,
            max(one.containers, default=0), one.gathering_s, one.ended_s,
        )
        for one in found[0].samples
    ]  # fmt: skip
    header = (
        "job (seed 1)", "system", "stages", "widest", "most held", "gathering s",
        "ended s after submission",
    )  # fmt: skip
    figures = {
        name: figure_of([table.figures[name.partition(": ")[0]][key] for table in found])
        for name, key in (
            ("agenda: gang gathering, s", "gang gathering mean_s"),
            ("capacity scheduler: gang gathering, s", "gang gathering mean_s"),
            ("agenda: containers in use after 10 min", "utilisation after the warm-up"),
        )
    }
    document = {
        "experiment": "rayon-allocations",
        "params": _params(options, seeds[: len(found)]),
        "rows": [dataclasses.asdict(one) for one in found[0].samples],
        "claimed": figures_json(figures),
        "claims": _SAMPLE_CLAIMS,
    }
    tables = (Table.of(header, rows), claims_table("figure", figures, _SAMPLE_CLAIMS))
    return ExperimentResult(document, tables, _sample_panels(found[0].samples))


def _sample_panels(samples: Sequence[JobHoldings]) -> list[ExperimentPanel]:
    panels = []
    for kind in KINDS:
        series = [_steps(one) for one in samples if one.kind == kind]
        if series:
            title = f"{_WORKLOADS[kind]} (workload {kind})"
            panels.append(ExperimentPanel(title, "s since submission", "containers", series))
    return panels


def _steps(one: JobHoldings) -> PanelSeries:
    """Return what a job held as a line of steps: a point before and after each change."""
    x: list[float] = []
    y: list[float] = []
    for at, held in zip(one.at_s, one.containers, strict=True):
        x += [at, at]
        y += [y[-1] if y else 0.0, float(held)]
    return PanelSeries(one.system, x, y)
