"""Rayon's experiments: Agenda against a capacity scheduler on the same jobs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from dispatch.simulation.cluster.job_progress import RayonRun
from dispatch.simulation.experiments.rayon_metrics import BELOW_S
from dispatch.simulation.experiments.rayon_tables import (
    RayonOptions,
    RayonTable,
    rayon_design,
    rayon_table,
    run_rayon_seed,
)
from dispatch.simulation.records import JobRecord, rayon_records_of
from service.cli.experiments.effort import TRACES, ExperimentEffort, PartRun, reading
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel

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
    """Return figures of each system, and those of which the paper says something beside it."""
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
