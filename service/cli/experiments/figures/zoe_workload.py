"""Figure 2 of Zoe's journal: the distributions of its workload."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dispatch.simulation.cluster.generator import ZoeWorkload
from dispatch.simulation.experiments.zoe.workload_shape import (
    CLAIMS,
    METRICS,
    PARTS,
    WorkloadShape,
    workload_shape,
)
from dispatch.simulation.spread import figure_of
from service.cli.experiments.effort import TRACES, ExperimentEffort, reading
from service.cli.experiments.results import ExperimentResult, Table
from service.pictures.experiments import ExperimentPanel, PanelSeries


def run_workload(effort: ExperimentEffort) -> ExperimentResult:
    """Draw the workload, from Google's trace where there is one, and tell its quantiles."""
    folder = Path(os.environ.get(TRACES, "")) / "google2011"
    trace = folder if os.environ.get(TRACES) and folder.is_dir() else None
    options = replace(ZoeWorkload(), trace=trace)
    if effort.small:
        options = replace(options, applications=2_000)
    seeds = effort.seeds_or((1, 2, 3))
    with reading(folder):
        found = effort.parts([partial(workload_shape, options, seed) for seed in seeds])
    return _result_of(options, seeds, found)


def _result_of(
    options: ZoeWorkload, seeds: tuple[int, ...], found: list[WorkloadShape]
) -> ExperimentResult:
    means = {
        key: [figure_of([float(one[key][at]) for one in found]) for at in range(len(PARTS))]
        for key in found[0]
    }
    rows = [[*key, *(f"{one.mean:,.6g}" for one in line)] for key, line in means.items()]
    header = ["metric", "group", *(f"{100 * part:g} %" for part in PARTS)]
    claims = [[metric, CLAIMS[metric]] for metric in METRICS]
    panels = [
        ExperimentPanel(
            metric,
            metric,
            "part of the applications",
            [
                PanelSeries(group, [float(f"{one.mean:.2g}") for one in line], PARTS)
                for (of, group), line in means.items()
                if of == metric
            ],
            log_x=True,
        )
        for metric in METRICS
    ]
    document: dict[str, Any] = {
        "experiment": "zoe-workload",
        "params": {
            "applications": options.applications,
            "source": "drawn" if options.trace is None else "google-2011",
            "seeds": list(seeds[: len(found)]),
        },
        "parts": list(PARTS),
        "rows": [
            {"metric": metric, "group": group, "values": [one.mean for one in line]}
            for (metric, group), line in means.items()
        ],
        "claims": dict(CLAIMS),
    }
    tables = (Table.of(header, rows), Table.of(["metric", "claimed"], claims))
    return ExperimentResult(document, tables, panels)
