"""What experiments found, as one document, tables of text and panels to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import mean
from typing import Any, Final

from dispatch.simulation.experiments.lotes.tables import LotesRow, LotesTable, Summary
from dispatch.simulation.experiments.omega import OmegaFigures
from dispatch.simulation.experiments.zoe.example import ZoeExample
from dispatch.simulation.experiments.zoe.runs import ZoeTable
from dispatch.simulation.spread import spread_of
from service.pictures.experiments import ExperimentPanel, PanelSeries

#: Heads a column of standard deviations over seeds.
SPREAD: Final = "spread"

_FIGURES = (
    "all turnaround median_s",
    "all turnaround mean_s",
    "all alone median_s",
    "Int queuing mean_s",
    "cpu allocation",
    "memory allocation",
)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of text."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        """Return a table without the columns of spread that hold none: one seed has none."""
        kept = [
            column
            for column, name in enumerate(header)
            if name != SPREAD or any(row[column] is not None for row in rows)
        ]
        return cls([header[at] for at in kept], [[row[at] for at in kept] for row in rows])


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """What an experiment found, in every form it is shown in.

    Attributes
    ----------
    document
        Plain JSON.
    """

    document: dict[str, Any]
    tables: Sequence[Table]
    panels: Sequence[ExperimentPanel]


def spreads(values: Iterable[float | None]) -> Sequence[float]:
    """Return the spreads to draw; nothing where there is none."""
    known = list(values)
    found = [value for value in known if value is not None]
    return found if len(found) == len(known) else ()


def lotes_outcome(parts: Sequence[LotesTable]) -> ExperimentResult:
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
                PanelSeries(
                    policy,
                    [one.setting[key] for one in mine],
                    [one.wait_mean_s for one in mine],
                    spreads(one.wait_spread_s for one in mine),
                )
            )
        waits = [one.wait_mean_s for one in here]
        # A log scale is for waits of different orders; others show their spread better without.
        log = min(waits) * 10 < max(waits)
        title = f"load {load:g} of lambda*" if load else "mean wait"
        panels.append(ExperimentPanel(title, key, "mean wait, s", series, log_y=log, least=1e-3))
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
            (
                PanelSeries(
                    "",
                    [one.policy for one in ones],
                    [one.wait_mean_s for one in ones],
                    spreads(one.wait_spread_s for one in ones),
                ),
            ),
            log_y=True,
            form="rows",
        )
        for title, ones in groups.items()
    ]


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


def zoe_outcome(table: ZoeTable) -> ExperimentResult:
    """Figures of each variant, and each ratio beside the papers' word on it."""
    shown = [name for name in _FIGURES if name in table.rows[0].figures]
    has_setting = any(row.variant.setting for row in table.rows)
    rows = [
        (
            row.variant.scheduler,
            row.variant.ordering,
            row.variant.preemptive,
            *([row.variant.setting] if has_setting else []),
            *(
                value
                for name in shown
                for value in (row.figures[name].mean, row.figures[name].deviation)
            ),
        )
        for row in table.rows
    ]
    header = ["scheduler", "ordering", "preemptive", *(["workload"] if has_setting else [])]
    for name in shown:
        header += [name.replace("all ", "").replace("_s", " s"), SPREAD]
    ratios = [
        (name, figure.mean, figure.deviation, table.claims[name])
        for name, figure in table.ratios.items()
    ]
    tables = (Table.of(header, rows), Table.of(("ratio", "mean", SPREAD, "claimed"), ratios))
    return ExperimentResult(table.to_json(), tables, _zoe_panels(table))


def _zoe_panels(table: ZoeTable) -> list[ExperimentPanel]:
    names = [
        f"{row.variant.scheduler} {row.variant.ordering}{' +p' if row.variant.preemptive else ''}"
        f"{', ' + row.variant.setting if row.variant.setting else ''}"
        for row in table.rows
    ]
    figures = [row.figures["all turnaround median_s"] for row in table.rows]
    turnaround = PanelSeries(
        "", names, [one.mean for one in figures], spreads(one.deviation for one in figures)
    )
    ratios = PanelSeries(
        "",
        [
            f"{name} (claimed: {table.claims[name]})" if table.claims[name] else name
            for name in table.ratios
        ],
        [one.mean for one in table.ratios.values()],
        spreads(one.deviation for one in table.ratios.values()),
    )
    return [
        ExperimentPanel("median turnaround", "", "s", (turnaround,), log_y=True, form="rows"),
        ExperimentPanel(
            "ratios", "", "", (ratios,), log_y=True, least=1e-3, form="rows", claimed=1.0
        ),
    ]


def example_outcome(example: ZoeExample) -> ExperimentResult:
    """The six averages."""
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


def omega_outcome(figures: Sequence[OmegaFigures]) -> ExperimentResult:
    """Conflict fraction, busyness and wait by transaction model and number of planners."""
    groups: dict[tuple[str, int], list[OmegaFigures]] = {}
    for one in figures:
        groups.setdefault((_model(one), one.run.planners), []).append(one)
    summaries = [_omega_summary(model, count, ones) for (model, count), ones in groups.items()]
    document = {
        "experiment": "omega",
        "summaries": summaries,
        "rows": [one.to_json() for one in figures],
    }
    keys = ("conflict_fraction", "busyness", "wait_s")
    labels = ("conflicts a successful transaction", "busyness (median)", "mean wait, s")
    panels = [
        ExperimentPanel(label, "planners", label, _omega_series(summaries, key), log_x=True)
        for key, label in zip(keys, labels, strict=True)
    ]
    table = Table.of(
        [key.replace("_", " ") for key in summaries[0]],
        [tuple(one.values()) for one in summaries],
    )
    return ExperimentResult(document, (table,), panels)


def _model(figures: OmegaFigures) -> str:
    detection = "coarse" if figures.run.coarse else "fine"
    return f"{detection}, {'all-or-nothing' if figures.run.all_or_nothing else 'incremental'}"


def _omega_summary(model: str, planners: int, ones: Sequence[OmegaFigures]) -> dict[str, Any]:
    conflicts = [one.conflict_fraction for one in ones]
    return {
        "model": model,
        "planners": planners,
        "seeds": len(ones),
        "conflict_fraction": mean(conflicts),
        "spread": spread_of(conflicts),
        "busyness": mean(one.busyness for one in ones),
        "busyness_mad": mean(one.busyness_mad for one in ones),
        "wait_s": mean(one.wait_s for one in ones),
        "jobs": sum(one.jobs for one in ones),
        "given_up": sum(one.given_up for one in ones),
    }


def _omega_series(summaries: Sequence[dict[str, Any]], key: str) -> list[PanelSeries]:
    found = []
    for model in dict.fromkeys(one["model"] for one in summaries):
        mine = [one for one in summaries if one["model"] == model]
        spread = spreads(one["spread"] for one in mine) if key == "conflict_fraction" else []
        found.append(
            PanelSeries(
                model, [one["planners"] for one in mine], [one[key] for one in mine], spread
            )
        )
    return found
