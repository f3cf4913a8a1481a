"""Omega's precedence on the model of a cell: waits and busyness, with it and without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dispatch.simulation.experiments.cell_precedence import (
    PrecedencePoint,
    precedence_points,
    run_precedence,
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

#: Figures of the first table: waits, and how busy schedulers are.
_WAITS: Final = (
    "batch_wait_s", "service_wait_s", "batch_placed_s", "service_placed_s",
    "batch_busyness", "busyness", "conflicts",
)  # fmt: skip

#: Figures of the second table: what it costs.
_COSTS: Final = ("evictions", "lost_h", "lost", "used", "breaches")

#: Figures that have a panel, what the axis says, and whether it is logarithmic.
_PANELS: Final = (
    ("service_placed_s", "service jobs: s until placed", True),
    ("batch_placed_s", "batch jobs: s until placed", True),
    ("busyness", "busyness of the service scheduler", False),
    ("evictions", "evictions a day", False),
)

_LOAD: Final = "batch jobs, times as often"

_Figures = Mapping[PrecedencePoint, Mapping[str, Figure]]


def run_sweep(effort: ExperimentEffort) -> ExperimentResult:
    """Run every cell and load with equal precedence and with service jobs above batch jobs."""
    figures = over_seeds(effort, precedence_points(effort.small), run_precedence)
    tables = [_table(figures, shown) for shown in (_WAITS, _COSTS)]
    document: dict[str, Any] = {
        "experiment": "omega-precedence",
        "rows": [
            {"line": _line(point), "x": point.busier, "figures": figures_json(one)}
            for point, one in figures.items()
        ],
    }
    panels = [_panel(figures, *shown) for shown in _PANELS]
    return ExperimentResult(document, tables, panels)


def _line(point: PrecedencePoint) -> str:
    return f"{point.cell}, {'service above batch' if point.above else 'equal'}"


def _table(figures: _Figures, shown: tuple[str, ...]) -> Table:
    rows = [
        [_line(point), point.busier, *figure_cells(one, shown)] for point, one in figures.items()
    ]
    return Table.of(["precedence", _LOAD, *spread_header(shown)], rows)


def _panel(figures: _Figures, key: str, label: str, logarithmic: bool) -> ExperimentPanel:
    lines: dict[str, list[PrecedencePoint]] = {}
    for point in figures:
        lines.setdefault(_line(point), []).append(point)
    series = [
        figure_series(line, [one.busier for one in ones], [figures[one][key] for one in ones])
        for line, ones in lines.items()
    ]
    return ExperimentPanel(label, _LOAD, label, series, log_y=logarithmic)
