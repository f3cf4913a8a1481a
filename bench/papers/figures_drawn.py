"""Draws and tabulates what `figures_12_14` found: mean over seeds, bars for the spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from bench.papers.spread import spread_of
from planner.colours import COLOURS
from service.pictures.style import write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

#: Who takes part, in the order of tables, the reference first.
AGENTS: Final = (
    "gree",
    "gree-paper",
    "gree-l",
    "aligned",
    "portfolio",
    "milp-cold",
    "milp",
    "exact",
    "hybrid",
)

#: The paper's four metrics, and the gap where one is proven.
METRICS: Final = ("seconds", "acceptance", "falls", "uniformity", "gap")

_TITLES: Final = {
    "seconds": "runtime (s)",
    "acceptance_relative": "acceptance / gree",
    "falls_relative": "falls / gree",
    "uniformity_relative": "uniformity / gree",
}
_MARKS: Final = "osD^v*PXh"

Row = Mapping[str, Any]


def draw(points: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write ``figure-12.svg`` and ``figure-14.svg`` into a folder and print the table."""
    rows = summary(points)
    for figure in ("12", "14"):
        own = [row for row in rows if row["figure"] == figure]
        if own:
            write_figure(partial(_panels, own), folder / f"figure-{figure}.svg")
    print("\n".join(table(rows)))


def summary(points: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and spread over seeds of each metric, absolute and relative to gree."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for point in merged(points):
        groups.setdefault((point["figure"], point["kind"], point["x"]), []).append(point)
    rows = []
    for (figure, kind, x), same in groups.items():
        for name in same[0]["agents"]:
            row: dict[str, Any] = {"figure": figure, "kind": kind, "x": x, "agent": name}
            for metric in METRICS:
                values = [point["agents"][name][metric] for point in same]
                row[metric] = _mean_spread(values)
                base = [point["agents"]["gree"][metric] for point in same]
                row[f"{metric}_relative"] = _mean_spread(
                    [
                        v / b if v is not None and b else None
                        for v, b in zip(values, base, strict=True)
                    ]
                )
            rows.append(row)
    return rows


def merged(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a point for each set and seed with all agents that pieces ran on it, as ordered."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for point in points:
        key = tuple(point[part] for part in ("figure", "kind", "x", "seed"))
        found.setdefault(key, {**point, "agents": {}})["agents"] |= point["agents"]
    return [
        {**point, "agents": {n: point["agents"][n] for n in AGENTS if n in point["agents"]}}
        for point in found.values()
    ]


def _mean_spread(values: Iterable[float | None]) -> tuple[float, float | None] | None:
    known = [value for value in values if value is not None]
    return (mean(known), spread_of(known)) if known else None


def table(rows: Sequence[Row]) -> list[str]:
    """Return the rows as Markdown, a line a set, mean ± spread: value and gap, then shapes."""
    sets: dict[str, dict[str, Row]] = {}
    for row in rows:
        sets.setdefault(_set_name(row), {})[row["agent"]] = row
    names = list(next(iter(sets.values())))
    shaped = [name for name in names[1:] if name != "milp-cold"]
    proving = [name for name in shaped if any(own[name]["gap"] for own in sets.values())]
    lines = _head(["set", *names, *(f"gap of {name}, %" for name in proving)])
    for name, own in sets.items():
        shares = [_text(own[agent]["acceptance"], 1, 100.0) for agent in names]
        gaps = [_text(own[agent]["gap"], 1, 100.0) for agent in proving]
        lines.append(f"| {name} | {' | '.join(shares + gaps)} |")
    lines += ["", *_head(["set", *shaped, *shaped])]
    for name, own in sets.items():
        falls = [_text(own[agent]["falls_relative"], 2) for agent in shaped]
        evenness = [_text(own[agent]["uniformity_relative"], 2) for agent in shaped]
        lines.append(f"| {name} | {' | '.join(falls + evenness)} |")
    return lines


def _head(names: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]


def _set_name(row: Row) -> str:
    return f"{row['x']} atoms" if row["figure"] == "12" else f"100 requests, {_share(row)}"


def _share(row: Row) -> str:
    return "malleable only" if row["kind"] == "none" else f"{row['x']} % {row['kind']}"


def _text(pair: tuple[float, float | None] | None, digits: int, scale: float = 1.0) -> str:
    if pair is None:
        return "–"
    middle, spread = pair
    text = f"{scale * middle:.{digits}f}"
    return text if spread is None else f"{text} ± {scale * spread:.{digits}f}"


def _panels(rows: Sequence[Row]) -> Figure:
    """Draw a column of panels for each sweep, a row for each metric."""
    from matplotlib.figure import Figure

    sweeps = [kind for kind in ("atoms", "gangs", "workflows") if _sweep(rows, kind)]
    size = (4.6 * len(sweeps), 2.3 * len(_TITLES) + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(_TITLES), len(sweeps), squeeze=False, sharex="col")
    for column, kind in enumerate(sweeps):
        for row, (metric, title) in enumerate(_TITLES.items()):
            _panel(axes[row][column], _sweep(rows, kind), metric)
            axes[row][0].set_ylabel(title)
        label = "atoms (machines: four each)" if kind == "atoms" else f"% {kind} of 100 requests"
        axes[-1][column].set_xlabel(label)
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return figure


def _sweep(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the rows of a sweep; those of Figure 14 begin with the set without gangs or orders."""
    zero = "none" if kind != "atoms" else kind
    own = [row for row in rows if row["kind"] == kind]
    return [row for row in rows if row["kind"] in (kind, zero)] if own else []


def _panel(axes: Axes, rows: Sequence[Row], metric: str) -> None:
    names = list(dict.fromkeys(row["agent"] for row in rows))
    for number, name in enumerate(names):
        shown = (r for r in rows if r["agent"] == name and r[metric] and _says(r, metric))
        own = sorted(shown, key=lambda r: r["x"])
        axes.errorbar(
            [row["x"] for row in own],
            [row[metric][0] for row in own],
            yerr=_bars([row[metric][1] for row in own]),
            label=name,
            color=COLOURS[number],
            marker=_MARKS[number],
            markersize=4,
            capsize=2,
        )
    if metric == "seconds":
        axes.set_yscale("log")
        _plain(axes.yaxis)
    if rows[0]["figure"] == "12":
        axes.set_xscale("log")
        axes.set_xticks(sorted({row["x"] for row in rows}))
        _plain(axes.xaxis)
    axes.spines[["top", "right"]].set_visible(False)


def _bars(spreads: Sequence[float | None]) -> list[float] | None:
    """Return the bars for the spread; None if a set was run with one seed only."""
    found = [spread for spread in spreads if spread is not None]
    return found if len(found) == len(spreads) else None


def _says(row: Row, metric: str) -> bool:
    """Return whether a metric says anything of a plan: nearly empty ones have no shape."""
    held = row["acceptance_relative"]
    return metric in ("seconds", "acceptance_relative") or (held is not None and held[0] >= 0.5)


def _plain(axis: Axis) -> None:
    """Write powers of ten as numbers: the shared style draws no formulas."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
