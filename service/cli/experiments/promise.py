"""The promise levels: what each accepts, and what of it finds no machine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dispatch.simulation.experiments.promise_levels import (
    PromiseTable,
    promise_table,
    run_promise_seed,
)
from dispatch.simulation.experiments.promise_requests import PromiseOptions
from service.cli.experiments.effort import ExperimentEffort
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel


def run_levels(effort: ExperimentEffort) -> ExperimentResult:
    """Admit the same requests under each level, and carry out what was accepted."""
    own = PromiseOptions()
    options = replace(own, seeds=effort.seeds_or(own.seeds))
    if effort.small:
        options = replace(options, machines=8, requests=80, horizon=240)
    runs = effort.parts(
        [partial(run_promise_seed, replace(options, seeds=(s,)), s) for s in options.seeds]
    )
    return _result_of(promise_table(options, runs))


def _result_of(table: PromiseTable) -> ExperimentResult:
    """Return what each level accepts and what of it breaks, by case and strategy."""
    keys = list(next(iter(table.rows.values())))
    rows = [(*row, *figure_cells(figures, keys)) for row, figures in table.rows.items()]
    header = ["case", "level", "strategy", *spread_header(keys)]
    panels = []
    for case in dict.fromkeys(row[0] for row in table.rows):
        mine = {row: figures for row, figures in table.rows.items() if row[0] == case}
        names = [f"{level}, {strategy}" for _, level, strategy in mine]
        series = [
            figure_series(label, names, [figures[key] for figures in mine.values()])
            for key, label in (
                ("accepted", "of requests: accepted"),
                ("broken", "of accepted: entitlement broken"),
            )
        ]
        panels.append(ExperimentPanel(case, "", "share", series, form="bars"))
    return ExperimentResult(table.to_json(), (Table.of(header, rows),), panels)
