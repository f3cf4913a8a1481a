"""What is held of the cluster in Rayon's runs: by queue (figure 16), and single jobs (figure 19).

Both systems of a comparison meet the same jobs. Of the capacity scheduler a queue is given what it
is tuned to; Agenda has no queues: its holdings are counted by the queue that a job would be in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dispatch.simulation.cluster.capacity_scheduler import CapacityOptions, guarantees
from dispatch.simulation.cluster.job_progress import JobOutcome, RayonRun
from dispatch.simulation.cluster.rayon_workload import (
    KINDS,
    QUEUES,
    RayonJob,
    RayonWorkload,
    rayon_workload,
)
from dispatch.simulation.cluster.run_trace import RunTrace
from dispatch.simulation.experiments.rayon_metrics import measure_rayon
from dispatch.simulation.experiments.rayon_tables import (
    CAPACITY,
    RayonOptions,
    RayonSystem,
    run_rayon_system,
)

#: Agenda as it is compared elsewhere: a tenth more is asked for than there is.
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
