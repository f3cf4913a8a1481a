"""LoTES's experiments: waits by policy on Google's trace, and where requests or rates differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import nan
from pathlib import Path
from statistics import mean

from dispatch.simulation.experiments.lotes.drift import DriftOptions, lotes_drift
from dispatch.simulation.experiments.lotes.rates import DrawnOptions, lotes_rates, lotes_resources
from dispatch.simulation.experiments.lotes.tables import LotesRow, LotesTable, Summary
from dispatch.simulation.experiments.lotes.trace import TraceOptions, lotes_trace
from dispatch.simulation.experiments.lotes.variants import LOTES, LOTES_PAIRED, LOTES_PAPER
from dispatch.simulation.machine_level.traces import (
    TraceJobs,
    read_google_machines,
    read_google_tasks,
)
from dispatch.simulation.spread import Figure
from lp.lotes.instance import MachineConfigurations
from service.cli.experiments.effort import POLICIES, ExperimentEffort, google_folder, reading
from service.cli.experiments.results import SPREAD, ExperimentResult, Table, figure_series
from service.pictures.experiments import ExperimentPanel, PanelSeries

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
