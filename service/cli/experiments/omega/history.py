"""Omega's MapReduce jobs by two models of their speed-up, linear and fitted to past runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dispatch.simulation.cell.architecture import Growth
from dispatch.simulation.experiments.cell_history import (
    QUANTILES,
    HistoryPoint,
    history_points,
    run_history,
)
from dispatch.simulation.spread import Figure, figures_json
from service.cli.experiments.effort import ExperimentEffort
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.cli.experiments.seeds import over_seeds
from service.pictures.experiments import ExperimentPanel

#: Policies of Omega's MapReduce scheduler, as people call them.
POLICIES: Final = {
    Growth.NONE: "none",
    Growth.MAX_PARALLELISM: "max-parallelism",
    Growth.GLOBAL_CAP: "global cap 60 %",
    Growth.RELATIVE_SIZE: "relative size x 4",
}

_SHOWN: Final = (
    "faster", "slower", "speed_up_5", "speed_up_50", "speed_up_80", "used", "used_deviation",
)  # fmt: skip

_Figures = Mapping[HistoryPoint, Mapping[str, Figure]]


def run_models(effort: ExperimentEffort) -> ExperimentResult:
    """Let either model choose the workers, by every policy, of linear jobs and of others."""
    figures = over_seeds(effort, history_points(effort.small), run_history)
    rows = [
        [
            point.cell,
            _jobs(point),
            POLICIES[point.growth],
            _model(point),
            *figure_cells(one, _SHOWN),
        ]
        for point, one in figures.items()
    ]
    header = ["cell", "jobs", "policy", "model", *spread_header(_SHOWN)]
    document: dict[str, Any] = {
        "experiment": "omega-history",
        "rows": [
            {
                "cell": point.cell,
                "jobs": _jobs(point),
                "policy": POLICIES[point.growth],
                "model": _model(point),
                "figures": figures_json(one),
            }
            for point, one in figures.items()
        ],
    }
    cells = dict.fromkeys(point.cell for point in figures)
    panels = [_speed_ups(cell, figures) for cell in cells]
    panels += [_use(cell, figures) for cell in cells]
    return ExperimentResult(document, (Table.of(header, rows),), panels)


def _jobs(point: HistoryPoint) -> str:
    return "linear" if point.linear else "with overheads"


def _model(point: HistoryPoint) -> str:
    if point.growth is Growth.NONE:
        return "none"
    return "fitted" if point.fitted else "linear"


def _speed_ups(cell: str, figures: _Figures) -> ExperimentPanel:
    """Draw true speed-ups of jobs with overheads (figure 15)."""
    series = [
        figure_series(
            f"{POLICIES[point.growth]}, {_model(point)}",
            QUANTILES,
            [one[f"speed_up_{100 * quantile:g}"] for quantile in QUANTILES],
        )
        for point, one in figures.items()
        if point.cell == cell and not point.linear and point.growth is not Growth.NONE
    ]
    title = f"MapReduce jobs with overheads, cell {cell}"
    return ExperimentPanel(
        title, "part of the jobs", "speed-up", series, log_y=True, least=0.1, claimed=1.0
    )


def _use(cell: str, figures: _Figures) -> ExperimentPanel:
    """Draw what is held by the hour, without more workers and with all that help (figure 16)."""
    series = []
    for point, one in figures.items():
        chosen = point.growth in (Growth.NONE, Growth.MAX_PARALLELISM)
        if point.cell == cell and not point.linear and chosen:
            hours = [hour for hour in range(len(one)) if f"used {hour}" in one]
            held = [Figure(one[f"used {hour}"].mean, None) for hour in hours]
            name = f"{POLICIES[point.growth]}, {_model(point)}"
            grows = point.growth is not Growth.NONE
            series.append(figure_series(name if grows else "no more workers", hours, held))
    return ExperimentPanel(f"use of cell {cell}", "hours", "part of the cores held", series)
