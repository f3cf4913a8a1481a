"""Omega's figures 5 to 16 on the model of a cell: one sweep a command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dispatch.simulation.cell.architecture import Growth
from dispatch.simulation.experiments import cell_sweeps
from dispatch.simulation.experiments.cell_sweeps import (
    QUANTILES,
    CellPoint,
    PickyPoint,
    run_growth,
    run_point,
)
from dispatch.simulation.spread import Figure, figures_json, figures_over_seeds
from service.cli.experiments.effort import ExperimentEffort
from service.cli.experiments.results import (
    ExperimentResult,
    Table,
    figure_cells,
    figure_series,
    spread_header,
)
from service.pictures.experiments import ExperimentPanel

#: Figures of a panel, and what its axis says.
_LABELS: Final[Mapping[str, str]] = {
    "batch_wait_s": "mean wait of batch jobs, s",
    "service_wait_s": "mean wait of service jobs, s",
    "batch_busyness": "busyness of batch schedulers",
    "busyness": "busyness of the service scheduler",
    "conflicts": "conflicts a transaction without, service",
    "batch_conflicts": "conflicts a transaction without, batch",
    "unserved": "jobs without an attempt, or given up",
}

_WAITS: Final = frozenset({"batch_wait_s", "service_wait_s"})


@dataclass(frozen=True, slots=True)
class _Sweep:
    """How one experiment is run and drawn.

    Attributes
    ----------
    points
        Makes the points; True for few of them.
    line, x
        Name a point's line, and its place on the axis.
    x_label
        Of the axis.
    shown
        Figures of the table.
    group
        Names the points that share a panel, besides their line; None where all do.
    drawn
        Figures that have a panel for each group; empty for all of `shown`.
    """

    points: Callable[[bool], Sequence[CellPoint]]
    line: Callable[[CellPoint], str]
    x: Callable[[CellPoint], float]
    x_label: str
    shown: Sequence[str]
    group: Callable[[CellPoint], str] | None = None
    drawn: Sequence[str] = ()

    def name(self, point: CellPoint) -> str:
        """Return what a row of the table is called."""
        return (
            self.line(point) if self.group is None else f"{self.group(point)}, {self.line(point)}"
        )


def _rules_of(point: CellPoint) -> str:
    found = "coarse" if point.coarse else "fine"
    return f"{found}, {'all-or-nothing' if point.gang else 'incremental'}"


def _picky(point: CellPoint) -> float:
    """Return the part of the jobs that have constraints."""
    return point.picky if isinstance(point, PickyPoint) else 0.0


_SERVICE: Final = "seconds to decide about a service job"

_SWEEPS: Final[Mapping[str, _Sweep]] = {
    "omega-waits": _Sweep(
        cell_sweeps.waits,
        lambda point: point.architecture,
        lambda point: point.job_s,
        _SERVICE,
        ("batch_wait_s", "service_wait_s", "batch_busyness", "busyness", "conflicts", "unserved"),
        lambda point: point.cell,
        ("batch_wait_s", "service_wait_s", "batch_busyness", "busyness"),
    ),
    "omega-loads": _Sweep(
        cell_sweeps.loads,
        lambda point: f"cell {point.cell}",
        lambda point: point.busier,
        "batch jobs, times as often",
        ("batch_wait_s", "batch_busyness", "busyness", "batch_conflicts", "unserved"),
    ),
    "omega-schedulers": _Sweep(
        cell_sweeps.schedulers,
        lambda point: f"{point.batches} of batch jobs",
        lambda point: point.batch_job_s,
        "seconds to decide about a batch job",
        ("batch_wait_s", "batch_busyness", "batch_conflicts", "unserved"),
    ),
    "omega-balance": _Sweep(
        cell_sweeps.balance,
        lambda point: f"{point.batches} of batch jobs",
        lambda point: point.busier,
        "batch jobs, times as often",
        ("batch_conflicts", "batch_busyness", "batch_wait_s", "conflicts", "unserved"),
    ),
    "omega-constraints": _Sweep(
        cell_sweeps.constraints,
        lambda point: f"{point.cell}, {_picky(point):.0%} with constraints",
        lambda point: point.job_s,
        _SERVICE,
        ("service_wait_s", "conflicts", "busyness", "batch_wait_s", "unserved"),
    ),
    "omega-decisions": _Sweep(
        cell_sweeps.decisions,
        lambda point: f"{point.task_s:g} s a task",
        lambda point: point.job_s,
        _SERVICE,
        ("busyness", "batch_busyness", "unserved"),
        lambda point: point.architecture,
        ("busyness", "batch_busyness"),
    ),
    "omega-rules": _Sweep(
        cell_sweeps.rules,
        _rules_of,
        lambda point: point.job_s,
        _SERVICE,
        ("conflicts", "busyness", "service_wait_s", "unserved"),
    ),
}


def run_sweep(effort: ExperimentEffort, name: str) -> ExperimentResult:
    """Run every point of a sweep with each seed; means and spreads over the seeds."""
    sweep, seeds = _SWEEPS[name], effort.seeds_or((1, 2, 3))
    points = list(sweep.points(effort.small))
    if effort.small:
        points = cell_sweeps.shortened(points)
    parts = [partial(run_point, point, seed) for point in points for seed in seeds]
    found: Sequence[dict[str, float]] = effort.parts(parts)
    whole = len(found) // len(seeds)
    figures = [
        figures_over_seeds(found[place * len(seeds) : (place + 1) * len(seeds)])
        for place in range(whole)
    ]
    return _result_of(name, sweep, points[:whole], figures)


#: Policies of Omega's MapReduce scheduler, as people call them.
_GROWTHS: Final = {
    Growth.NONE: "none",
    Growth.MAX_PARALLELISM: "max-parallelism",
    Growth.GLOBAL_CAP: "global cap 60 %",
    Growth.RELATIVE_SIZE: "relative size x 4",
}


def run_mapreduce(effort: ExperimentEffort) -> ExperimentResult:
    """Give MapReduce jobs of cells A, C and D more workers, by every policy."""
    seeds, days = effort.seeds_or((1, 2, 3)), 0.25 if effort.small else 7.0
    cells = ("D",) if effort.small else ("A", "C", "D")
    points = [(cell, growth) for cell in cells for growth in Growth]
    parts = [partial(run_growth, *point, days, seed) for point in points for seed in seeds]
    found: Sequence[dict[str, float]] = effort.parts(parts)
    whole = len(found) // len(seeds)
    figures = {
        point: figures_over_seeds(found[place * len(seeds) : (place + 1) * len(seeds)])
        for place, point in enumerate(points[:whole])
    }
    shown = ("faster", "speed_up_50", "speed_up_80", "used", "used_deviation")
    rows = [
        [cell, _GROWTHS[growth], *figure_cells(one, shown)]
        for (cell, growth), one in figures.items()
    ]
    header = ["cell", "policy", *spread_header(shown)]
    panels = [_speed_up_panel(cell, figures) for cell in dict.fromkeys(one for one, _ in figures)]
    document: dict[str, Any] = {
        "experiment": "omega-mapreduce",
        "rows": [
            {"cell": cell, "policy": _GROWTHS[growth], "figures": figures_json(one)}
            for (cell, growth), one in figures.items()
        ],
    }
    return ExperimentResult(document, (Table.of(header, rows),), panels)


def _speed_up_panel(
    cell: str, figures: Mapping[tuple[str, Growth], Mapping[str, Figure]]
) -> ExperimentPanel:
    series = [
        figure_series(
            _GROWTHS[growth],
            QUANTILES,
            [one[f"speed_up_{100 * quantile:g}"] for quantile in QUANTILES],
        )
        for (of, growth), one in figures.items()
        if of == cell and growth is not Growth.NONE
    ]
    label = "speed-up"
    return ExperimentPanel(
        f"MapReduce jobs of cell {cell}", "part of the jobs", label, series, log_y=True, least=1.0
    )


def _result_of(
    name: str, sweep: _Sweep, points: Sequence[CellPoint], figures: Sequence[Mapping[str, Figure]]
) -> ExperimentResult:
    rows = [
        [sweep.name(point), sweep.x(point), *figure_cells(one, sweep.shown)]
        for point, one in zip(points, figures, strict=True)
    ]
    header = ["line", sweep.x_label, *spread_header(sweep.shown)]
    groups: dict[str, dict[str, list[int]]] = {}
    for place, point in enumerate(points):
        lines = groups.setdefault("" if sweep.group is None else sweep.group(point), {})
        lines.setdefault(sweep.line(point), []).append(place)
    panels = [
        _panel(
            sweep,
            f"{group}: {_LABELS[key]}" if group else _LABELS[key],
            key,
            lines,
            points,
            figures,
        )
        for group, lines in groups.items()
        for key in sweep.drawn or sweep.shown
    ]
    document: dict[str, Any] = {
        "experiment": name,
        "rows": [
            {"line": sweep.name(point), "x": sweep.x(point), "figures": figures_json(one)}
            for point, one in zip(points, figures, strict=True)
        ],
    }
    return ExperimentResult(document, (Table.of(header, rows),), panels)


def _panel(
    sweep: _Sweep,
    title: str,
    key: str,
    lines: Mapping[str, Sequence[int]],
    points: Sequence[CellPoint],
    figures: Sequence[Mapping[str, Figure]],
) -> ExperimentPanel:
    series = [
        figure_series(
            line, [sweep.x(points[at]) for at in places], [figures[at][key] for at in places]
        )
        for line, places in lines.items()
    ]
    return ExperimentPanel(
        title, sweep.x_label, _LABELS[key], series, log_x=True, log_y=key in _WAITS, least=0.01
    )
