"""What Rayon's experiments and the promise levels found, as a document, tables and panels."""

from __future__ import annotations

from collections.abc import Sequence

from dispatch.simulation.experiments.promise.levels import PromiseTable
from dispatch.simulation.experiments.rayon.metrics import BELOW_S
from dispatch.simulation.experiments.rayon.tables import RayonTable
from dispatch.simulation.experiments.zoe.runs import Figure
from service.cli.experiments.outcomes import SPREAD, ExperimentResult, Table, spreads
from service.pictures.experiments import ExperimentPanel, PanelSeries

_RAYON_FIGURES = (
    "sla acceptance",
    "sla fulfilment",
    "best-effort completed",
    "best-effort latency median_s",
    "best-effort latency mean_s",
    "utilisation",
)


def rayon_outcome(table: RayonTable) -> ExperimentResult:
    """Figures of each system, and each that the paper has a word on beside that word."""
    rows = [
        (name, *(value for key in _RAYON_FIGURES for value in _pair(figures.get(key))))
        for name, figures in table.rows.items()
    ]
    header = ["system"]
    for key in _RAYON_FIGURES:
        header += [key.replace("best-effort", "b-e").replace("_s", " s"), SPREAD]
    claimed = [
        (name, figure.mean, figure.deviation, table.claims[name])
        for name, figure in table.claimed.items()
    ]
    tables = (Table.of(header, rows), Table.of(("figure", "mean", SPREAD, "claimed"), claimed))
    return ExperimentResult(table.to_json(), tables, _rayon_panels(table))


def _pair(figure: Figure | None) -> tuple[object, object]:
    return (None, None) if figure is None else (figure.mean, figure.deviation)


def _rayon_panels(table: RayonTable) -> list[ExperimentPanel]:
    def bars(title: str, keys: Sequence[str], unit: str = "share") -> ExperimentPanel:
        names = [key.replace("best-effort ", "").replace("_s", "") for key in keys]
        series = []
        for name, figures in table.rows.items():
            known = [figures.get(key) for key in keys]
            found = [one for one in known if one is not None]
            if len(found) == len(keys):
                means, spread = [one.mean for one in found], spreads(one.deviation for one in found)
                series.append(PanelSeries(name, names, means, spread))
        return ExperimentPanel(title, "", unit, series, form="bars")

    ours = {name: figures for name, figures in table.rows.items() if name.startswith("agenda")}
    below = [
        PanelSeries(
            name,
            list(BELOW_S),
            [figures[f"below over {limit:g} s"].mean for limit in BELOW_S],
            spreads(figures[f"below over {limit:g} s"].deviation for limit in BELOW_S),
        )
        for name, figures in ours.items()
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


def promise_outcome(table: PromiseTable) -> ExperimentResult:
    """What each level accepts and what of it breaks, by case and strategy."""
    keys = list(next(iter(table.rows.values())))
    rows = [
        (*row, *(value for key in keys for value in (figures[key].mean, figures[key].deviation)))
        for row, figures in table.rows.items()
    ]
    header = ["case", "level", "strategy"]
    for key in keys:
        header += [key, SPREAD]
    panels = []
    for case in dict.fromkeys(row[0] for row in table.rows):
        mine = {row: figures for row, figures in table.rows.items() if row[0] == case}
        names = [f"{level}, {strategy}" for _, level, strategy in mine]
        series = [
            PanelSeries(
                label,
                names,
                [figures[key].mean for figures in mine.values()],
                spreads(figures[key].deviation for figures in mine.values()),
            )
            for key, label in (
                ("accepted", "of requests: accepted"),
                ("broken", "of accepted: entitlement broken"),
            )
        ]
        panels.append(ExperimentPanel(case, "", "share", series, form="bars"))
    return ExperimentResult(table.to_json(), (Table.of(header, rows),), panels)
