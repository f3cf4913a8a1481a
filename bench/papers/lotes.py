"""LoTES's experiments as tables and pictures: waits by policy (5.3, 5.4), figures 6, 7, 9, 10."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from statistics import mean
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.papers.experiment import (
    POLICIES,
    SPREAD,
    ExperimentEffort,
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    google_folder,
    reading,
    spread_header,
)
from bench.papers.lotes_runs import (
    GREEDY,
    LONGER_S,
    LOTES,
    LOTES_PAIRED,
    LOTES_PAPER,
    TETRIS,
    DrawnOptions,
    DriftOptions,
    LotesRow,
    LotesTable,
    Summary,
    TraceOptions,
    lotes_drift,
    lotes_rates,
    lotes_resources,
    lotes_trace,
)
from bench.papers.machines.traces import (
    GOOGLE_WINDOW_S,
    TraceJobs,
    read_google_machines,
    read_google_tasks,
)
from bench.papers.spread import Figure, figure_of, figures_json
from lp.lotes.instance import MachineConfigurations
from lp.lotes.job_classes import fit_job_classes
from service.pictures.experiments import ExperimentPanel, PanelSeries


@dataclass(frozen=True, slots=True)
class ArrivalTable:
    """Arrivals by hour.

    Attributes
    ----------
    at_start
        Tasks that were there when the trace begins.
    names, time_h, request, share
        The classes: mean time (h), mean request by resource, and share of the hours learnt from.
    arrived
        Tasks of each whole hour.
    shares
        What part of them is of each class, a list an hour.
    """

    learning_h: float
    at_start: int
    names: tuple[str, ...]
    time_h: tuple[float, ...]
    request: tuple[tuple[float, ...], ...]
    share: tuple[float, ...]
    arrived: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]


def lotes_arrivals(folder: Path, seed: int = 1, learning_h: float = 5.0) -> ArrivalTable:
    """Fit classes to the first hours of Google's trace, and count every hour's arrivals by class.

    Parameters
    ----------
    seed
        Of the clustering.

    Raises
    ------
    ValueError
        If the file lacks a column or holds a malformed row, or nothing arrives in those hours.
    """
    tasks = read_google_tasks(folder)
    later = tasks.after(0.0)
    first = float(later.arrival_h[0]) if later.jobs else 0.0
    learnt = later.sample(end_h=first + learning_h)
    classes = fit_job_classes(learnt, np.random.default_rng(seed))
    counted = _by_hour(later, classes.nearest(later.request), len(classes.names))
    arrived = counted.sum(axis=1)
    shares = counted / np.maximum(arrived, 1)[:, None]
    return ArrivalTable(
        learning_h,
        tasks.jobs - later.jobs,
        tuple(classes.names),
        tuple(classes.time_h.tolist()),
        tuple(tuple(row) for row in classes.request.tolist()),
        tuple(classes.share.tolist()),
        tuple(arrived.tolist()),
        tuple(tuple(row) for row in shares.tolist()),
    )


def _by_hour(jobs: TraceJobs, kinds: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return tasks by whole hour of the window and by class, shape (H, K)."""
    hours = int(GOOGLE_WINDOW_S // 3600)
    found = np.zeros((hours, classes), dtype=np.int64)
    at = jobs.arrival_h.astype(np.int64)
    kept = at < hours
    np.add.at(found, (at[kept], kinds[kept]), jobs.weight[kept])
    return found


_SEEDS = (1, 2, 3, 4, 5)

#: What varies, as an axis says it.
_VARIED = {
    "phi": "phi: how far requests of a class differ",
    "omega": "omega: how far rates differ by machine",
    "every_h": "hours between two tables; 0: never renewed",
}


def run_trace(effort: ExperimentEffort) -> ExperimentResult:
    """Run the policies on Google's trace: all its machines, and parts of them."""
    folder = google_folder("lotes-trace")
    part = 0.05 if effort.small else 0.5
    runs = [("scaled", 0.15)] if effort.small else [
        ("initial", 1.0), ("empty", 1.0), ("scaled", 0.15), ("scaled", 0.125)
    ]  # fmt: skip
    parts = [
        partial(
            lotes_trace,
            folder,
            TraceOptions(runs=(run,), shares=(share,), seeds=(seed,), part=part),
        )
        for run, share in runs
        for seed in effort.seeds_or(_SEEDS)
    ]
    with reading(folder):
        return lotes_result(effort.parts(parts))


def run_resources(effort: ExperimentEffort) -> ExperimentResult:
    """Run the policies on classes whose requests differ by phi."""
    phis = (0.0, 0.015) if effort.small else (0.0, 0.003, 0.006, 0.009, 0.012, 0.015)
    parts = [
        partial(lotes_resources, (phi,), options=_drawn(effort, seed))
        for phi in phis
        for seed in effort.seeds_or(_SEEDS)
    ]
    return lotes_result(effort.parts(parts))


def run_rates(effort: ExperimentEffort) -> ExperimentResult:
    """Run the policies on machines whose rates differ by omega."""
    omegas = (0.0, 0.4) if effort.small else (0.0, 0.1, 0.2, 0.3, 0.4)
    parts = [
        partial(lotes_rates, (omega,), options=_drawn(effort, seed))
        for omega in omegas
        for seed in effort.seeds_or(_SEEDS)
    ]
    return lotes_result(effort.parts(parts))


def _drawn(effort: ExperimentEffort, seed: int) -> DrawnOptions:
    own, asked = DrawnOptions(seeds=(seed,)), effort.sizes
    if effort.small:
        own = DrawnOptions(machines=20, hours=10.0, seeds=(seed,))
    policies = asked.policies or POLICIES
    named = [one for one in own.variants if one.name.replace(" ", "-") in policies]
    planned = {"paper": LOTES_PAPER, "paired": LOTES_PAIRED}.get(asked.mode or "", LOTES)
    return DrawnOptions(
        machines=asked.machines or own.machines,
        hours=asked.hours or own.hours,
        seeds=own.seeds,
        variants=tuple(planned if one == LOTES else one for one in named),
    )


def run_drift(effort: ExperimentEffort) -> ExperimentResult:
    """Run classes renewed every few hours against those of the first hours."""
    folder = google_folder("lotes-drift")
    every, part = ((4.0,), 0.05) if effort.small else (DriftOptions().every_h, 0.5)
    parts = [
        partial(run_drift_seed, folder, DriftOptions(every_h=every, seeds=(seed,), part=part))
        for seed in effort.seeds_or(_SEEDS)
    ]
    with reading(folder):
        return lotes_result(effort.parts(parts))


def run_drift_seed(folder: Path, options: DriftOptions) -> LotesTable:
    """Run one seed on the trace, which each process reads once."""
    return lotes_drift(*_drift_trace(folder), options)


@lru_cache(maxsize=1)
def _drift_trace(folder: Path) -> tuple[MachineConfigurations, TraceJobs]:
    # The share of the machines on which there is something to schedule (docs/lotes.md).
    return read_google_machines(folder).with_share(0.15), read_google_tasks(folder).after(0.0)


def lotes_result(parts: Sequence[LotesTable]) -> ExperimentResult:
    """Join the parts of one LoTES experiment: waits and tails by variant, and hour by hour."""
    rows = [row for part in parts for row in part.rows]
    whole = LotesTable(parts[0].name, tuple(rows), parts[0].notes)
    keys = list(rows[0].setting)
    found = []
    for summary in whole.summaries():
        mine = [r for r in rows if (r.setting, r.policy) == (summary.setting, summary.policy)]
        found.append(
            (
                *(summary.setting[key] for key in keys),
                summary.policy,
                summary.seeds,
                mean(row.offered_load for row in mine),
                summary.wait_mean_s,
                summary.wait_spread_s,
                summary.wait_p99_s / 3600,
                100 * summary.long_share,
                None if summary.long_spread is None else 100 * summary.long_spread,
                mean(row.still_waiting for row in mine),
                summary.unstable,
            )
        )
    header = (*keys, "policy", "seeds", "offered", "mean wait s", SPREAD, "p99 h",
              "over 1 h %", SPREAD, "never started", "unstable")  # fmt: skip
    panels = (
        [*_variant_panels(whole), *_trace_panels(rows)] if "run" in keys else _setting_panels(whole)
    )
    return ExperimentResult(whole.to_json(), (Table.of(header, found),), panels)


def _setting_panels(table: LotesTable) -> list[ExperimentPanel]:
    """Mean wait over what varies, a panel for each load."""
    summaries = table.summaries()
    key = next(iter(summaries[0].setting))
    loads = sorted({float(one.setting.get("load", 0.0)) for one in summaries})
    panels = []
    for load in loads:
        here = [one for one in summaries if float(one.setting.get("load", 0.0)) == load]
        series = []
        for policy in dict.fromkeys(one.policy for one in here):
            mine = [one for one in here if one.policy == policy]
            mine.sort(key=lambda one: float(one.setting[key]))
            series.append(
                figure_series(policy, [one.setting[key] for one in mine], map(_wait_of, mine))
            )
        waits = [one.wait_mean_s for one in here]
        # A log scale is for waits of different orders; others show their spread better without.
        log = min(waits) * 10 < max(waits)
        title = f"load {load:g} of what the LP sustains (lambda*)" if load else "mean wait"
        x = _VARIED.get(key, key)
        panels.append(ExperimentPanel(title, x, "mean wait, s", series, log_y=log, least=1e-3))
    return panels


def _variant_panels(table: LotesTable) -> list[ExperimentPanel]:
    """Mean wait of each variant with its spread over the seeds, a panel for each run."""
    groups: dict[str, list[Summary]] = {}
    for summary in table.summaries():
        groups.setdefault(_run_title(summary.setting), []).append(summary)
    return [
        ExperimentPanel(
            title,
            "",
            "mean wait of every job, s",
            (figure_series("", [one.policy for one in ones], map(_wait_of, ones)),),
            log_y=True,
            form="rows",
        )
        for title, ones in groups.items()
    ]


def _wait_of(summary: Summary) -> Figure:
    return Figure(summary.wait_mean_s, summary.wait_spread_s)


def _waits_of_starts(row: LotesRow) -> list[float]:
    """Mean wait of each hour's starts: no number where none started, which is not a wait of 0."""
    return [
        wait if starts else nan
        for wait, starts in zip(row.wait_by_interval_s, row.starts_by_interval, strict=True)
    ]


def _run_title(setting: dict[str, float | str]) -> str:
    return f"{setting['run']}, {float(setting['machines']):.1%} of the machines"


def _trace_panels(rows: Sequence[LotesRow]) -> list[ExperimentPanel]:
    """Mean wait of the jobs that start in each hour, a panel for each run; the first seed."""
    panels = []
    for setting in {str(row.setting): row.setting for row in rows}.values():
        mine = [row for row in rows if row.setting == setting and row.seed == rows[0].seed]
        series = [
            PanelSeries(row.policy, [float(hour) for hour in range(len(waits))], waits)
            for row in mine
            if (waits := _waits_of_starts(row))
        ]
        panels.append(
            ExperimentPanel(
                _run_title(setting), "hour of the start", "mean wait, s", series, log_y=True
            )
        )
    return panels


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
    """Run four policies on Google's trace; show how long jobs wait and queues grow."""
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
        groups.setdefault((_queue_title(row), row.policy), []).append(row)
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


def _queue_title(row: LotesRow) -> str:
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
