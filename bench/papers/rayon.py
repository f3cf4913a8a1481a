"""Rayon's end-to-end experiments (6.4): Agenda and a capacity scheduler on the same jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from bench.papers.cluster.capacity_scheduler import CapacityOptions, run_capacity_scheduler
from bench.papers.cluster.job_progress import JobOutcome, RayonRun
from bench.papers.cluster.planned_cluster import PlannedOptions, run_planned_cluster
from bench.papers.cluster.rayon_workload import RayonJob, RayonWorkload, half_of, rayon_workload
from bench.papers.cluster.records import JobRecord, rayon_records_of
from bench.papers.cluster.run_trace import RunTrace
from bench.papers.experiment import (
    TRACES,
    ExperimentEffort,
    ExperimentResult,
    PartRun,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    reading,
    spread_header,
)
from bench.papers.spread import Figure, figures_json, figures_over_seeds
from planner.promise import PromiseLevel
from service.pictures.experiments import ExperimentPanel

#: Seconds below the entitlement at which figure 17 is reported.
BELOW_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

#: A difference of latency that counts: runs go by seconds.
_SAME_S = 1.0


def measure_rayon(run: RayonRun) -> dict[str, float]:
    """Return the figures of one run; times in s, shares between 0 and 1.

    SLA figures are of jobs with a deadline, the others of best effort. What ends after the window
    of arrivals counts for a deadline, and not for throughput.
    """
    production = [one for one in run.outcomes if one.job.deadline_s is not None]
    accepted = [one for one in production if one.accepted]
    rest = [one for one in run.outcomes if one.job.deadline_s is None]
    latency = [one.ended_s - one.job.at_s for one in rest if one.ended_s is not None]
    asked = sum(one.job.work_s for one in production)
    figures = {
        "sla acceptance": _share(len(accepted), len(production)),
        "sla acceptance by work": _share(sum(one.job.work_s for one in accepted), asked),
        "sla fulfilment": _share(sum(one.in_time for one in accepted), len(accepted)),
        "best-effort completed": float(sum(_ended_in(one, run.window_s) for one in rest)),
        "best-effort latency mean_s": float(np.mean(latency)) if latency else 0.0,
        "best-effort latency median_s": float(np.median(latency)) if latency else 0.0,
        "utilisation": float(np.mean(run.used)) / run.containers if run.used else 0.0,
        "requeued": float(sum(one.requeued for one in run.outcomes)),
        "below longest_s": max((one.below_s for one in accepted), default=0.0),
        "gang gathering mean_s": _mean_gathering_s(run.outcomes),
        "promises broken": float(len(run.broken)),
    }
    for limit in BELOW_S:
        share = sum(one.below_s > limit for one in accepted) / max(len(accepted), 1)
        figures[f"below over {limit:g} s"] = share
    return figures


def compare_rayon(run: RayonRun, base: RayonRun) -> dict[str, float]:
    """Return what a run gains over a baseline's on the same jobs."""
    before = {one.job.name: one for one in base.outcomes}
    pairs = [(one, before[one.job.name]) for one in run.outcomes]
    rest = [_gain_s(one, other) for one, other in pairs if one.job.deadline_s is None]
    production = [
        _gain_s(one, other)
        for one, other in pairs
        if one.job.deadline_s is not None and one.accepted
    ]
    here = sum(_ended_in(one, run.window_s) for one, _ in pairs if one.job.deadline_s is None)
    there = sum(_ended_in(one, run.window_s) for _, one in pairs if one.job.deadline_s is None)
    return {
        "best-effort throughput": here / max(there, 1),
        "best-effort latency better": float(np.mean(np.array(rest) > _SAME_S)),
        "best-effort latency worse": float(np.mean(np.array(rest) < -_SAME_S)),
        "sla latency worse": float(np.mean(np.array(production) < -_SAME_S)) if production else 0.0,
    }


def _share(part: float, whole: float) -> float:
    """Return a share; all of nothing is 1, for no promise was broken."""
    return part / whole if whole else 1.0


def _ended_in(one: JobOutcome, window_s: float) -> bool:
    return one.ended_s is not None and one.ended_s <= window_s


def _gain_s(one: JobOutcome, other: JobOutcome) -> float:
    """Return how much earlier a job ends than under the baseline; infinite where only one did."""
    if one.ended_s is None:
        return 0.0 if other.ended_s is None else -np.inf
    return np.inf if other.ended_s is None else other.ended_s - one.ended_s


def _mean_gathering_s(outcomes: Sequence[JobOutcome]) -> float:
    """Return the mean time from a gang's first container to its last, s; 0 without gangs."""
    found = [
        one.full_s - one.began_s
        for one in outcomes
        if one.job.stages[0].gang and one.full_s is not None and one.began_s is not None
    ]
    return float(np.mean(found)) if found else 0.0


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
    "agenda as served: sla fulfilment": "1 within 0.01",
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
                "agenda: sla fulfilment": "1 within 0.01",
                "capacity scheduler: sla fulfilment": "below 0.85",
                "capacity scheduler, half load: sla fulfilment": "below 1",
                "agenda: best-effort throughput": "above 1.15",
                "agenda: best-effort latency better": "about 0.40",
                "agenda: sla latency worse": "about 0.60",
                "agenda: utilisation": "near 1",
                "agenda: below over 5 s": "0",
                "agenda, machines promised: sla fulfilment": "1 within 0.01",
                "agenda, machines promised: promises broken": "0",
            },
        ),
        RayonDesign(
            "rayon-overreserve",
            (1.0, 0.0, 0.0),
            (_RAYON, _OVER, CAPACITY),
            {
                "agenda, 50 % over: sla acceptance": "0.89",
                "agenda, 50 % over: sla fulfilment": "1 within 0.01",
                "agenda, 50 % over: best-effort throughput": "1.20 within 0.05",
                "agenda, 50 % over: utilisation": "near 1",
            },
        ),
        RayonDesign(
            "rayon-mixed",
            (0.8, 0.1, 0.1),
            (_RAYON, _PLACED, CAPACITY, _HALF),
            {
                "agenda: sla fulfilment": "1 within 0.01",
                "agenda: gang gathering mean_s": "near 0",
                "capacity scheduler: gang gathering mean_s": "above",
                "agenda: utilisation": "near 1",
                "agenda: best-effort throughput": "not stated",
                "agenda: below over 5 s": "0",
                "agenda, machines promised: sla fulfilment": "1 within 0.01",
                "agenda, machines promised: promises broken": "0",
            },
        ),
        RayonDesign(
            "rayon-served",
            (1.0, 0.0, 0.0),
            (_RAYON, _SERVED, _SERVED_OVER, CAPACITY),
            {
                **_SERVED_CLAIMS,
                "agenda as served, 50 % over: sla acceptance": "0.89",
                "agenda as served, 50 % over: sla fulfilment": "1 within 0.01",
                "agenda as served, 50 % over: best-effort throughput": "1.20 within 0.05",
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


_SWIM: Final = "swim/FB-2009_samples_24_times_1hr_0.tsv.gz"

_FIGURES = (
    "sla acceptance",
    "sla fulfilment",
    "best-effort completed",
    "best-effort latency median_s",
    "best-effort latency mean_s",
    "utilisation",
)


def swim_file() -> Path:
    """Return where SWIM's day is, or would be."""
    return Path(os.environ.get(TRACES, "")) / _SWIM


def rayon_options(small: bool) -> RayonOptions:
    """Return the sizes of Rayon's experiments: SWIM's jobs where they are, few where small."""
    file, own = swim_file(), RayonOptions()
    trace = file if os.environ.get(TRACES) and file.is_file() else None
    workload = replace(own.workload, trace=trace)
    if small:
        # Few machines, so that the largest of few jobs fill them; a fifth with deadlines, so that
        # there are some.
        workload = replace(workload, machines=4, jobs_per_hour=500.0, hours=0.5, production=0.2)
    return replace(own, workload=workload)


def run_table(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run one comparison with the capacity scheduler, on SWIM's jobs where they are."""
    own = rayon_options(effort.small)
    options = replace(own, seeds=effort.seeds_or(own.seeds))
    wants_jobs = effort.jobs is not None
    parts = [
        partial(run_seed_of_rayon, name, replace(options, seeds=(seed,)), wants_jobs)
        for seed in options.seeds
    ]
    with reading(swim_file()):
        runs = effort.parts(parts)
    return _result_of(rayon_table(rayon_design(name), options, runs))


def run_seed_of_rayon(name: str, options: RayonOptions, wants_jobs: bool) -> PartRun:
    """Run every system of an experiment by the seed of its options, with its jobs if wanted."""
    records: list[JobRecord] = []

    def keep(system: str, run: RayonRun) -> None:
        records.extend(rayon_records_of(run, system))

    found = run_rayon_seed(
        rayon_design(name), options, options.seeds[0], keep if wants_jobs else None
    )
    return PartRun(found, records)


def _result_of(table: RayonTable) -> ExperimentResult:
    """Return figures of each system, and those of which the paper says something alongside it."""
    rows = [(name, *figure_cells(figures, _FIGURES)) for name, figures in table.rows.items()]
    heads = [key.replace("best-effort", "b-e").replace("_s", " s") for key in _FIGURES]
    tables = (
        Table.of(["system", *spread_header(heads)], rows),
        claims_table("figure", table.claimed, table.claims),
    )
    return ExperimentResult(table.to_json(), tables, _panels(table))


def _panels(table: RayonTable) -> list[ExperimentPanel]:
    def bars(title: str, keys: Sequence[str], unit: str = "share") -> ExperimentPanel:
        names = [key.replace("best-effort ", "").replace("_s", "") for key in keys]
        series = []
        for name, figures in table.rows.items():
            known = [figures.get(key) for key in keys]
            found = [one for one in known if one is not None]
            if len(found) == len(keys):
                series.append(figure_series(name, names, found))
        return ExperimentPanel(title, "", unit, series, form="bars")

    below = [
        figure_series(name, BELOW_S, [figures[f"below over {limit:g} s"] for limit in BELOW_S])
        for name, figures in table.rows.items()
        if name.startswith("agenda")
    ]
    changed = ("best-effort latency better", "best-effort latency worse", "sla latency worse")
    return [
        bars(
            "jobs with a deadline, and the cluster",
            ("sla acceptance", "sla fulfilment", "utilisation"),
        ),
        bars("best effort, completed in the window", ("best-effort completed",), "jobs"),
        bars(
            "best-effort latency",
            ("best-effort latency mean_s", "best-effort latency median_s"),
            "s",
        ),
        bars("jobs whose latency changes against the capacity scheduler", changed),
        ExperimentPanel(
            "reservations below their entitlement (figure 17)", "longer than, s", "share", below
        ),
    ]
