"""Zoe's experiments: schedulers and orderings on one workload, against the papers' ratios."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from dispatch.simulation.cluster.simulator import SimulatedRun
from dispatch.simulation.experiments.zoe.cluster import SEEDS, SERVERS, cluster_design
from dispatch.simulation.experiments.zoe.example import ZoeExample, zoe_example
from dispatch.simulation.experiments.zoe.runs import (
    ExperimentDesign,
    Variant,
    ZoeOptions,
    ZoeTable,
    run_seed,
    table_of,
)
from dispatch.simulation.experiments.zoe.tables import zoe_design, zoe_options
from dispatch.simulation.records import JobRecord, records_of
from service.cli.experiments.effort import TRACES, ExperimentEffort, PartRun, reading
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel, PanelSeries

_CLUSTER: Final = "zoe-cluster"

_FIGURES = (
    "all turnaround median_s",
    "all turnaround mean_s",
    "all alone median_s",
    "Int queuing mean_s",
    "cpu allocation",
    "memory allocation",
)


def run_table(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run one comparison of schedulers, on Google's trace where there is one."""
    root = Path(os.environ.get(TRACES, ""))
    folder = root / "google2011"
    trace = folder if os.environ.get(TRACES) and folder.is_dir() else None
    own = zoe_options(name, trace)
    workload = own.workload
    if effort.small:
        # More than the cluster can do: so few would end before there is a line.
        workload = replace(workload, applications=2_000, load=1.5)
        if name == "zoe-machines":  # each event takes longer there
            workload = replace(workload, applications=500, machines=20)
    options = replace(own, workload=workload, seeds=effort.seeds_or(own.seeds))
    with reading(folder):
        return _run_seeds(effort, name, options)


def run_cluster(effort: ExperimentEffort) -> ExperimentResult:
    """Run flexible against rigid on the ten servers."""
    options = ZoeOptions(SERVERS, effort.seeds_or(SEEDS))
    return _run_seeds(effort, _CLUSTER, options)


def run_example(effort: ExperimentEffort) -> ExperimentResult:
    """Run the worked example; it has no seeds."""
    return _example_result(effort.whole(zoe_example))


def _run_seeds(effort: ExperimentEffort, name: str, options: ZoeOptions) -> ExperimentResult:
    wants_jobs = effort.jobs is not None
    parts = [
        partial(run_zoe_seed, name, replace(options, seeds=(seed,)), wants_jobs)
        for seed in options.seeds
    ]
    return _result_of(table_of(_design(name), options, effort.parts(parts)))


def run_zoe_seed(name: str, options: ZoeOptions, wants_jobs: bool) -> PartRun:
    """Run every variant of an experiment by the seed of its options, with its jobs if wanted."""
    records: list[JobRecord] = []

    def keep(variant: str, run: SimulatedRun) -> None:
        records.extend(records_of(run, variant))

    found = run_seed(_design(name), options, options.seeds[0], keep if wants_jobs else None)
    return PartRun(found, records)


def _design(name: str) -> ExperimentDesign:
    return cluster_design() if name == _CLUSTER else zoe_design(name)


def _result_of(table: ZoeTable) -> ExperimentResult:
    """Return figures of each variant, and each ratio beside the papers' words on it."""
    shown = [name for name in _FIGURES if name in table.rows[0].figures]
    has_setting = any(row.variant.setting for row in table.rows)
    rows = [
        (
            row.variant.scheduler,
            row.variant.ordering,
            row.variant.preemptive,
            *([row.variant.setting] if has_setting else []),
            *figure_cells(row.figures, shown),
        )
        for row in table.rows
    ]
    header = ["scheduler", "ordering", "preemptive", *(["workload"] if has_setting else [])]
    header += spread_header(name.replace("all ", "").replace("_s", " s") for name in shown)
    tables = (Table.of(header, rows), claims_table("ratio", table.ratios, table.claims))
    return ExperimentResult(table.to_json(), tables, _panels(table))


def _panels(table: ZoeTable) -> list[ExperimentPanel]:
    names = [_name_of(row.variant) for row in table.rows]
    medians = [row.figures["all turnaround median_s"] for row in table.rows]
    turnaround = figure_series("", names, medians)
    ratios = figure_series(
        "",
        [
            f"{name} (claimed: {table.claims[name]})" if table.claims[name] else name
            for name in table.ratios
        ],
        table.ratios.values(),
    )
    return [
        ExperimentPanel("median turnaround", "", "s", (turnaround,), log_y=True, form="rows"),
        ExperimentPanel(
            "ratios", "", "", (ratios,), log_y=True, least=1e-3, form="rows", claimed=1.0
        ),
    ]


def _name_of(variant: Variant) -> str:
    words = f"{variant.scheduler} {variant.ordering}{' preemptive' if variant.preemptive else ''}"
    return f"{words}, {variant.setting}" if variant.setting else words


def _example_result(example: ZoeExample) -> ExperimentResult:
    """Return the six averages."""
    rows = [
        (row.model, row.scheduler, float(row.average_turnaround_s), float(row.last_end_s))
        for row in example.rows
    ]
    models = list(dict.fromkeys(row.model for row in example.rows))
    schedulers = list(dict.fromkeys(row.scheduler for row in example.rows))
    averages = {(model, scheduler): average for model, scheduler, average, _ in rows}
    series = [
        PanelSeries(model, schedulers, [averages[model, scheduler] for scheduler in schedulers])
        for model in models
    ]
    header = ("model", "scheduler", "average turnaround s", "last end s")
    panel = ExperimentPanel("average turnaround of four requests", "", "s", series, form="bars")
    document = {"experiment": "zoe-example", **example.to_json()}
    return ExperimentResult(document, (Table(header, rows),), (panel,))
