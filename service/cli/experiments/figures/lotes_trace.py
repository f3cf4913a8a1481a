"""LoTES figures 6, 7, 9 and 10: Google's arrivals, and how long jobs and queues are."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Final

from dispatch.simulation.experiments.lotes.arrivals import ArrivalTable, lotes_arrivals
from dispatch.simulation.experiments.lotes.tables import LONGER_S, LotesRow, LotesTable
from dispatch.simulation.experiments.lotes.trace import TraceOptions, lotes_trace
from dispatch.simulation.experiments.lotes.variants import GREEDY, LOTES, LOTES_PAPER, TETRIS
from dispatch.simulation.spread import Figure, figure_of, figures_json
from service.cli.experiments.effort import ExperimentEffort, google_folder, reading
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel, PanelSeries

#: The classes of the paper's table 2.
_ARRIVAL_CLAIMS: Final = {
    "classes": "4",
    "share of the largest class": "about 0.46",
    "busiest hour over the mean hour": "not stated",
    "largest class: its most over its least share of an hour": "above 1.5",
}
_VARIANTS: Final = (LOTES, LOTES_PAPER, TETRIS, GREEDY)
#: What the paper says of the slowest hundredth: policy, wait (s) and words.
_TAILS: Final = (
    (LOTES.name, 3_600.0, "at most 0.01"),
    (LOTES_PAPER.name, 3_600.0, "at most 0.01"),
    (TETRIS.name, 25_200.0, "about 0.01"),
    (GREEDY.name, 61_200.0, "about 0.01"),
)


def run_arrivals(effort: ExperimentEffort) -> ExperimentResult:
    """Count Google's tasks by hour and by class (figures 6 and 7)."""
    folder = google_folder("lotes-arrivals")
    seeds = effort.seeds_or((1, 2, 3))
    with reading(folder):
        found = effort.parts([partial(lotes_arrivals, folder, seed) for seed in seeds])
    return _arrival_result(found, seeds)


def run_queues(effort: ExperimentEffort) -> ExperimentResult:
    """Run four policies on Google's trace; tell how long jobs wait and queues grow."""
    folder = google_folder("lotes-queues")
    part = 0.05 if effort.small else 0.5
    runs = (("scaled", 0.15),) if effort.small else (("scaled", 0.15), ("initial", 1.0))
    parts = [
        partial(
            lotes_trace,
            folder,
            TraceOptions(
                runs=(run,), shares=(share,), variants=_VARIANTS, seeds=(seed,), part=part
            ),
        )
        for run, share in runs
        for seed in effort.seeds_or((1, 2, 3))
    ]
    with reading(folder):
        return _queue_result(effort.parts(parts))


def _arrival_result(found: Sequence[ArrivalTable], seeds: Sequence[int]) -> ExperimentResult:
    first = found[0]
    classes = [
        (name, share, time, *request)
        for name, share, time, request in zip(
            first.names, first.share, first.time_h, first.request, strict=True
        )
    ]
    hours = [
        (hour, count, *shares)
        for hour, (count, shares) in enumerate(zip(first.arrived, first.shares, strict=True))
    ]
    figures = {
        "classes": figure_of([float(len(one.names)) for one in found]),
        "share of the largest class": figure_of([one.share[0] for one in found]),
        "busiest hour over the mean hour": figure_of(
            [max(one.arrived) * len(one.arrived) / sum(one.arrived) for one in found]
        ),
        "largest class: its most over its least share of an hour": figure_of(
            [_swing(one) for one in found]
        ),
    }
    document = {
        "experiment": "lotes-arrivals",
        "params": {"learning_h": first.learning_h, "seeds": list(seeds[: len(found)])},
        "rows": [dataclasses.asdict(one) for one in found],
        "claimed": figures_json(figures),
        "claims": _ARRIVAL_CLAIMS,
    }
    tables = (
        Table.of(("class (seed 1)", "share", "time h", "cores", "memory"), classes),
        Table.of(("hour", "tasks", *first.names), hours),
        claims_table("figure", figures, _ARRIVAL_CLAIMS),
    )
    return ExperimentResult(document, tables, _arrival_panels(first))


def _swing(one: ArrivalTable) -> float:
    shares = [row[0] for row, count in zip(one.shares, one.arrived, strict=True) if count]
    return max(shares) / max(min(shares), 1e-9)


def _arrival_panels(one: ArrivalTable) -> list[ExperimentPanel]:
    hours = [float(hour) for hour in range(len(one.arrived))]
    counts = PanelSeries("", hours, [float(count) for count in one.arrived])
    shares = [
        PanelSeries(name, hours, [row[index] for row in one.shares])
        for index, name in enumerate(one.names)
    ]
    return [
        ExperimentPanel("tasks that arrive (figure 6)", "hour", "tasks", [counts]),
        ExperimentPanel("by class (figure 7, seed 1)", "hour", "share of the hour's tasks", shares),
    ]


def _queue_result(tables: Sequence[LotesTable]) -> ExperimentResult:
    rows = [row for table in tables for row in table.rows]
    groups: dict[tuple[str, str], list[LotesRow]] = {}
    for row in rows:
        groups.setdefault((_run_title(row), row.policy), []).append(row)
    found = {key: _figures_of(same) for key, same in groups.items()}
    columns = [*map(_longer, LONGER_S), "longest queue", "mean queue"]
    listed = [(*key, *figure_cells(figures, columns)) for key, figures in found.items()]
    claimed, claims = _tail_claims(found)
    document = {
        "experiment": "lotes-queues",
        "longer_s": list(LONGER_S),
        "rows": [dataclasses.asdict(row) for row in rows],
        "claimed": figures_json(claimed),
        "claims": claims,
    }
    shown = (
        Table.of(["run", "policy", *spread_header(columns)], listed),
        claims_table("share of the jobs", claimed, claims),
    )
    return ExperimentResult(document, shown, _queue_panels(groups, found))


def _run_title(row: LotesRow) -> str:
    return f"{row.setting['run']}, {float(row.setting['machines']):.0%} of the machines"


def _longer(wait_s: float) -> str:
    return f"over {wait_s:g} s" if wait_s < 3600 else f"over {wait_s / 3600:g} h"


def _figures_of(rows: Sequence[LotesRow]) -> dict[str, Figure]:
    """Return shares that waited longer, and the queue's length, over the seeds."""
    found = {
        _longer(wait): figure_of([row.longer_shares[index] for row in rows])
        for index, wait in enumerate(LONGER_S)
    }
    found["longest queue"] = figure_of([float(row.waiting_max) for row in rows])
    found["mean queue"] = figure_of([row.waiting_mean for row in rows])
    return found


def _tail_claims(
    found: dict[tuple[str, str], dict[str, Figure]],
) -> tuple[dict[str, Figure], dict[str, str]]:
    figures: dict[str, Figure] = {}
    claims: dict[str, str] = {}
    for (run, policy), own in found.items():
        for name, wait, words in _TAILS:
            if name == policy:
                key = f"{run}: {policy}, {_longer(wait)}"
                figures[key], claims[key] = own[_longer(wait)], words
    return figures, claims


def _queue_panels(
    groups: dict[tuple[str, str], list[LotesRow]],
    found: dict[tuple[str, str], dict[str, Figure]],
) -> list[ExperimentPanel]:
    """Draw of each run how many waited longer (figure 9), and the queue by the hour (figure 10)."""
    panels = []
    names = [_longer(wait).removeprefix("over ") for wait in LONGER_S]
    for run in dict.fromkeys(run for run, _ in groups):
        policies = [policy for title, policy in groups if title == run]
        waits = [
            figure_series(policy, names, [found[run, policy][_longer(wait)] for wait in LONGER_S])
            for policy in policies
        ]
        queues = [
            PanelSeries(
                policy,
                [float(hour) for hour in range(len(groups[run, policy][0].waiting_by_interval))],
                [float(count) for count in groups[run, policy][0].waiting_by_interval],
            )
            for policy in policies
        ]
        panels += [
            ExperimentPanel(f"{run}: jobs that wait longer (figure 9)", "than",
                            "share of the jobs", waits, log_y=True, least=1e-5),
            ExperimentPanel(f"{run}: longest queue of each hour (figure 10)", "hour", "jobs",
                            queues, log_y=True, least=1.0),
        ]  # fmt: skip
    return panels
