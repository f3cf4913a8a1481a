"""Rayon's figures 16 and 19: what queues and single jobs hold, beside a capacity scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from dispatch.simulation.cluster.rayon_workload import KINDS
from dispatch.simulation.experiments.rayon_holdings import (
    AGENDA,
    SYSTEMS,
    JobHoldings,
    QueueTable,
    SampleTable,
    queue_holdings,
    sample_holdings,
)
from dispatch.simulation.experiments.rayon_tables import CAPACITY, RayonOptions
from dispatch.simulation.spread import Figure, figure_of, figures_json
from service.cli.experiments.effort import ExperimentEffort, reading
from service.cli.experiments.rayon import rayon_options, swim_file
from service.cli.experiments.results import ExperimentResult, Table, claims_table
from service.pictures.experiments import ExperimentPanel, PanelSeries

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
    if effort.small:  # so many with a deadline that each workload has one
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
