"""Omega's figures 5 to 16 on the simulated cell, as tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.papers import omega_cell
from bench.papers.cell.architecture import Growth
from bench.papers.experiment import (
    ExperimentEffort,
    ExperimentResult,
    Table,
    figure_cells,
    figure_series,
    over_seeds,
    spread_header,
)
from bench.papers.omega_cell import (
    QUANTILES,
    CellPoint,
    HistoryPoint,
    PickyPoint,
    PrecedencePoint,
    history_points,
    precedence_points,
    run_growth,
    run_history,
    run_point,
    run_precedence,
)
from bench.papers.spread import Figure, figures_json, figures_over_seeds
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
        Names the points that share a panel, apart from their line; None if all do.
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
        omega_cell.waits,
        lambda point: point.architecture,
        lambda point: point.job_s,
        _SERVICE,
        ("batch_wait_s", "service_wait_s", "batch_busyness", "busyness", "conflicts", "unserved"),
        lambda point: point.cell,
        ("batch_wait_s", "service_wait_s", "batch_busyness", "busyness"),
    ),
    "omega-loads": _Sweep(
        omega_cell.loads,
        lambda point: f"cell {point.cell}",
        lambda point: point.busier,
        "batch jobs, times as often",
        ("batch_wait_s", "batch_busyness", "busyness", "batch_conflicts", "unserved"),
    ),
    "omega-schedulers": _Sweep(
        omega_cell.schedulers,
        lambda point: f"{point.batches} of batch jobs",
        lambda point: point.batch_job_s,
        "seconds to decide about a batch job",
        ("batch_wait_s", "batch_busyness", "batch_conflicts", "unserved"),
    ),
    "omega-balance": _Sweep(
        omega_cell.balance,
        lambda point: f"{point.batches} of batch jobs",
        lambda point: point.busier,
        "batch jobs, times as often",
        ("batch_conflicts", "batch_busyness", "batch_wait_s", "conflicts", "unserved"),
    ),
    "omega-constraints": _Sweep(
        omega_cell.constraints,
        lambda point: f"{point.cell}, {_picky(point):.0%} with constraints",
        lambda point: point.job_s,
        _SERVICE,
        ("service_wait_s", "conflicts", "busyness", "batch_wait_s", "unserved"),
    ),
    "omega-decisions": _Sweep(
        omega_cell.decisions,
        lambda point: f"{point.task_s:g} s a task",
        lambda point: point.job_s,
        _SERVICE,
        ("busyness", "batch_busyness", "unserved"),
        lambda point: point.architecture,
        ("busyness", "batch_busyness"),
    ),
    "omega-rules": _Sweep(
        omega_cell.rules,
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
        points = omega_cell.shortened(points)
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


#: Figures of the first table: waits, and how busy schedulers are.
_PRECEDENCE_WAITS: Final = (
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

_PrecedenceFigures = Mapping[PrecedencePoint, Mapping[str, Figure]]


def run_precedences(effort: ExperimentEffort) -> ExperimentResult:
    """Run every cell and load with equal precedence and with service jobs above batch jobs."""
    figures = over_seeds(effort, precedence_points(effort.small), run_precedence)
    tables = [_precedence_table(figures, shown) for shown in (_PRECEDENCE_WAITS, _COSTS)]
    document: dict[str, Any] = {
        "experiment": "omega-precedence",
        "rows": [
            {"line": _line(point), "x": point.busier, "figures": figures_json(one)}
            for point, one in figures.items()
        ],
    }
    panels = [_precedence_panel(figures, *shown) for shown in _PANELS]
    return ExperimentResult(document, tables, panels)


def _line(point: PrecedencePoint) -> str:
    return f"{point.cell}, {'service above batch' if point.above else 'equal'}"


def _precedence_table(figures: _PrecedenceFigures, shown: tuple[str, ...]) -> Table:
    rows = [
        [_line(point), point.busier, *figure_cells(one, shown)] for point, one in figures.items()
    ]
    return Table.of(["precedence", _LOAD, *spread_header(shown)], rows)


def _precedence_panel(
    figures: _PrecedenceFigures, key: str, label: str, logarithmic: bool
) -> ExperimentPanel:
    lines: dict[str, list[PrecedencePoint]] = {}
    for point in figures:
        lines.setdefault(_line(point), []).append(point)
    series = [
        figure_series(line, [one.busier for one in ones], [figures[one][key] for one in ones])
        for line, ones in lines.items()
    ]
    return ExperimentPanel(label, _LOAD, label, series, log_y=logarithmic)


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

_HistoryFigures = Mapping[HistoryPoint, Mapping[str, Figure]]


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


def _speed_ups(cell: str, figures: _HistoryFigures) -> ExperimentPanel:
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


def _use(cell: str, figures: _HistoryFigures) -> ExperimentPanel:
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
