"""Rayon's end-to-end experiments (its 6.4): SLAs, over-reservation, mixed workloads.

Every system meets the same jobs. Rows are systems, mean and spread are over seeds, and what the
paper claims stands beside what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dispatch.simulation.cluster.capacity_scheduler import CapacityOptions, run_capacity_scheduler
from dispatch.simulation.cluster.job_progress import RayonRun
from dispatch.simulation.cluster.planned_cluster import PlannedOptions, run_planned_cluster
from dispatch.simulation.cluster.rayon_workload import (
    RayonJob,
    RayonWorkload,
    half_of,
    rayon_workload,
)
from dispatch.simulation.cluster.run_trace import RunTrace
from dispatch.simulation.experiments.rayon_metrics import compare_rayon, measure_rayon
from dispatch.simulation.spread import Figure, figures_json, figures_over_seeds
from planner.promise import PromiseLevel


@dataclass(frozen=True, slots=True)
class RayonSystem:
    """Who runs the jobs.

    Attributes
    ----------
    name
        Of the row.
    over
        Work asked for over the true work; None is the capacity scheduler, which is asked nothing.
    half
        Whether it meets half of the jobs only.
    promise
        What its reservations are promised.
    as_served
        Whether it dispatches by the defaults of a server (`PlannedOptions.as_served`).
    """

    name: str
    over: float | None = None
    half: bool = False
    promise: PromiseLevel = PromiseLevel.POOLED
    as_served: bool = False


CAPACITY = RayonSystem("capacity scheduler")


@dataclass(frozen=True, slots=True)
class RayonDesign:
    """What an experiment runs and which of the paper's sentences it is about.

    Attributes
    ----------
    claims
        Figure of the table -> what the paper says. A name ``<system>: <figure>``, with
        ``, against the capacity scheduler`` behind it for a gain.
    """

    name: str
    mix: tuple[float, float, float]
    systems: tuple[RayonSystem, ...]
    claims: dict[str, str]


@dataclass(frozen=True, slots=True)
class RayonOptions:
    """Sizes of the experiments."""

    workload: RayonWorkload = field(default_factory=lambda: RayonWorkload(load=1.2))
    seeds: tuple[int, ...] = (1, 2, 3)
    agent: str = "gree-l"
    ordering: str = "drf"


@dataclass(frozen=True, slots=True)
class RayonTable:
    """What came out: figures by system, and those that the paper has a word on."""

    name: str
    params: dict[str, object]
    rows: dict[str, dict[str, Figure]]
    claimed: dict[str, Figure]
    claims: dict[str, str]

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {
            "experiment": self.name,
            "params": self.params,
            "rows": [
                {"system": name, "figures": figures_json(figures)}
                for name, figures in self.rows.items()
            ],
            "claimed": figures_json(self.claimed),
            "claims": self.claims,
        }


_RAYON = RayonSystem("agenda", over=1.1)
_OVER = RayonSystem("agenda, 50 % over", over=1.5)
_PLACED = RayonSystem("agenda, machines promised", over=1.1, promise=PromiseLevel.PLACED)
_HALF = RayonSystem("capacity scheduler, half load", half=True)
_SERVED = RayonSystem("agenda as served", over=1.1, as_served=True)
_SERVED_OVER = RayonSystem("agenda as served, 50 % over", over=1.5, as_served=True)

#: What the paper says of the two experiments, of a server's own defaults.
_SERVED_CLAIMS = {
    "agenda as served: sla fulfilment": "1",
    "agenda as served: best-effort throughput": "above 1.15",
    "agenda as served: best-effort latency better": "about 0.40",
    "agenda as served: utilisation": "near 1",
    "agenda as served: below over 5 s": "0",
}

_DESIGNS = {
    design.name: design
    for design in (
        RayonDesign(
            "rayon-sla",
            (1.0, 0.0, 0.0),
            (_RAYON, _PLACED, CAPACITY, _HALF),
            {
                "agenda: sla acceptance": "about 0.96",
                "agenda: sla fulfilment": "1",
                "capacity scheduler: sla fulfilment": "below 0.85",
                "capacity scheduler, half load: sla fulfilment": "below 1",
                "agenda: best-effort throughput": "above 1.15",
                "agenda: best-effort latency better": "about 0.40",
                "agenda: sla latency worse": "about 0.60",
                "agenda: utilisation": "near 1",
                "agenda: below over 5 s": "0",
                "agenda, machines promised: sla fulfilment": "1",
                "agenda, machines promised: slots broken": "0",
            },
        ),
        RayonDesign(
            "rayon-overreserve",
            (1.0, 0.0, 0.0),
            (_RAYON, _OVER, CAPACITY),
            {
                "agenda, 50 % over: sla acceptance": "0.89",
                "agenda, 50 % over: sla fulfilment": "1",
                "agenda, 50 % over: best-effort throughput": "1.20",
                "agenda, 50 % over: utilisation": "near 1",
            },
        ),
        RayonDesign(
            "rayon-mixed",
            (0.8, 0.1, 0.1),
            (_RAYON, _PLACED, CAPACITY, _HALF),
            {
                "agenda: sla fulfilment": "1",
                "agenda: gang gathering mean_s": "near 0",
                "capacity scheduler: gang gathering mean_s": "above",
                "agenda: utilisation": "near 1",
                "agenda: best-effort throughput": "not stated",
                "agenda: below over 5 s": "0",
                "agenda, machines promised: sla fulfilment": "1",
                "agenda, machines promised: slots broken": "0",
            },
        ),
        RayonDesign(
            "rayon-served",
            (1.0, 0.0, 0.0),
            (_RAYON, _SERVED, _SERVED_OVER, CAPACITY),
            {
                **_SERVED_CLAIMS,
                "agenda as served, 50 % over: sla acceptance": "0.89",
                "agenda as served, 50 % over: sla fulfilment": "1",
                "agenda as served, 50 % over: best-effort throughput": "1.20",
            },
        ),
        RayonDesign(
            "rayon-served-mixed",
            (0.8, 0.1, 0.1),
            (_RAYON, _SERVED, CAPACITY),
            {**_SERVED_CLAIMS, "agenda as served: gang gathering mean_s": "near 0"},
        ),
    )
}

#: Figures of one seed, by system.
SeedFigures = dict[str, dict[str, float]]


def rayon_design(name: str) -> RayonDesign:
    """Return what an experiment runs; KeyError for a name that is none."""
    return _DESIGNS[name]


def run_rayon_seed(
    design: RayonDesign,
    options: RayonOptions,
    seed: int,
    keep: Callable[[str, RayonRun], None] | None = None,
) -> SeedFigures:
    """Run every system once on the jobs of one seed; `keep` is given each run with its name."""
    workload = replace(options.workload, mix=design.mix)
    jobs = rayon_workload(workload, np.random.default_rng(seed))
    runs = {one: run_rayon_system(one, jobs, workload, options) for one in design.systems}
    for one, run in runs.items():
        if keep is not None:
            keep(f"{design.name} {one.name} seed {seed}", run)
    base = runs[CAPACITY]
    return {
        one.name: measure_rayon(run) | ({} if one.over is None else compare_rayon(run, base))
        for one, run in runs.items()
    }


def run_rayon_system(
    system: RayonSystem,
    jobs: list[RayonJob],
    workload: RayonWorkload,
    options: RayonOptions,
    trace: RunTrace | None = None,
) -> RayonRun:
    """Run one system on jobs; `trace` notes who holds what."""
    window_s = workload.hours * 3600.0
    if system.over is None:
        met = half_of(jobs) if system.half else jobs
        return run_capacity_scheduler(met, CapacityOptions(workload.containers, window_s), trace)
    return run_planned_cluster(
        jobs,
        PlannedOptions(
            workload.machines,
            workload.containers_each,
            window_s,
            step_s=workload.step_s,
            over=system.over,
            agent=options.agent,
            ordering=options.ordering,
            promise=system.promise,
            as_served=system.as_served,
        ),
        trace=trace,
    )


def rayon_table(
    design: RayonDesign, options: RayonOptions, runs: Sequence[SeedFigures]
) -> RayonTable:
    """Return mean and spread over the seeds that were run, the first of `options.seeds`."""
    rows = {
        system.name: figures_over_seeds([run[system.name] for run in runs])
        for system in design.systems
    }
    claimed = {}
    for name in design.claims:
        system, _, key = name.partition(": ")
        claimed[name] = rows[system][key]
    return RayonTable(
        design.name, _params(design, options, len(runs)), rows, claimed, design.claims
    )


def _params(design: RayonDesign, options: RayonOptions, seeds: int) -> dict[str, object]:
    workload = options.workload
    return {
        "machines": workload.machines,
        "containers": workload.containers,
        "jobs_per_hour": workload.jobs_per_hour,
        "hours": workload.hours,
        "production": workload.production,
        "load": workload.load,
        "mix": list(design.mix),
        "slack": list(workload.slack),
        "step_s": workload.step_s,
        "source": "drawn" if workload.trace is None else "swim-facebook-2009",
        "agent": options.agent,
        "ordering": options.ordering,
        "seeds": list(options.seeds[:seeds]),
    }
