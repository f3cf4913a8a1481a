"""Draw experiments: panels of lines with spread or of bars, on linear or log scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.colours import COLOURS, colour_of, hatch_of
from planner.history.prediction import LEAST_RUNS, predict
from planner.history.run import JobRun, WidthProfile, Widths, widths_of
from service.pictures.style import FAINT, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_MARKERS = "osD^vP*X"

#: Series -> index among the series of all panels, for the same style in the whole picture.
_Slots = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PanelSeries:
    """One line, or one bar of each group.

    Attributes
    ----------
    x
        Positions, or names, which are placed at equal distances.
    y, spread
        Values, and the size of their error bars (standard deviation over seeds).
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    spread: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class ExperimentPanel:
    """One pair of axes.

    Attributes
    ----------
    form
        Lines over x, groups of bars, or a row for each name of one series.
    log_y
        Whether values have a log scale from `least` up, also in rows; smaller values and zero are
        drawn at `least`, as the axis label says.
    claimed
        Value of a dashed line; None: no line.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[PanelSeries]
    log_x: bool = False
    log_y: bool = False
    least: float = 0.1
    form: Literal["lines", "bars", "rows"] = "lines"
    claimed: float | None = None


def write_panels(title: str, panels: Sequence[ExperimentPanel], path: Path) -> None:
    """Draw panels below one another, as SVG or PNG depending on the suffix.

    Raises
    ------
    PictureError
        If the name is invalid, or the folder cannot be written.
    """
    write_figure(lambda: _figure(title, panels), path)


def _figure(title: str, panels: Sequence[ExperimentPanel]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import TightLayoutEngine

    columns = 1 if len(panels) < 3 else 2
    rows = -(-len(panels) // columns)
    heights = [
        max(_height(panel) for panel in panels[row * columns : (row + 1) * columns])
        for row in range(rows)
    ]
    inches = 0.6 + sum(heights)
    layout = TightLayoutEngine(rect=(0, 0, 1, 1 - 0.05 / inches))
    figure = Figure(figsize=(7.5 * columns, inches), layout=layout)
    grid = figure.add_gridspec(rows, columns, height_ratios=heights)
    figure.suptitle(title, x=0.01, y=1 - 0.1 / inches, ha="left", va="top", fontsize=11)
    if any(series.spread for panel in panels for series in panel.series):
        figure.supxlabel("thin bars: standard deviation over seeds", x=0.01, ha="left", fontsize=8)
    named = dict.fromkeys(series.name for panel in panels for series in panel.series)
    slots = {name: slot for slot, name in enumerate(named)}
    for index, panel in enumerate(panels):
        axes = figure.add_subplot(grid[index // columns, index % columns])
        if panel.form == "rows":
            _draw_rows(axes, panel)
        else:
            (_draw_bars if panel.form == "bars" else _draw_lines)(axes, panel, slots)
            _finish(axes, panel)
        axes.set_title(panel.title, fontsize=9, loc="left")
    return figure


def _height(panel: ExperimentPanel) -> float:
    """Return the height of a panel in inches."""
    return 0.9 + 0.26 * len(panel.series[0].x) if panel.form == "rows" else 3.4


def _draw_rows(axes: Axes, panel: ExperimentPanel) -> None:
    """Draw one series from top to bottom, with full names."""
    series = panel.series[0]
    places = np.arange(len(series.x))[::-1]
    values, spread = (
        _drawn_values(series.y, panel),
        np.array(series.spread or np.zeros(len(series.y))),
    )
    below = np.minimum(spread, values - _floor(panel))
    axes.errorbar(
        values, places, xerr=np.vstack([below, spread]), fmt="o", color=COLOURS[0], capsize=3
    )
    for place, value, real in zip(places, values, series.y, strict=True):
        said = f"{real:,.0f}" if real >= 100 else f"{real:.3g}"
        axes.annotate(
            said, (value, place), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_yticks(places, [str(name) for name in series.x], fontsize=8)
    axes.set_ylim(-0.7, len(places) - 0.3)
    if panel.log_y:
        axes.set_xscale("log")
        _label_log(axes.xaxis)
    else:
        axes.set_xlim(left=0)
    if panel.claimed is not None:
        axes.axvline(panel.claimed, color=FAINT, linewidth=0.8, linestyle="--")
    axes.set_xlabel(_value_label(panel))
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.margins(x=0.08)


def _draw_lines(axes: Axes, panel: ExperimentPanel, slots: _Slots) -> None:
    for series in panel.series:
        slot = slots[series.name]
        y = _drawn_values(series.y, panel)
        below = np.minimum(np.array(series.spread or np.zeros(len(y))), y - _floor(panel))
        spread = np.vstack([np.maximum(below, 0), series.spread or np.zeros(len(y))])
        axes.errorbar(
            _places(series.x),
            y,
            yerr=spread,
            label=series.name,
            color=colour_of(slot),
            linestyle="-" if hatch_of(slot) is None else "--",
            marker=_MARKERS[slot % len(_MARKERS)] if len(y) <= 30 else None,
            markersize=4,
            linewidth=1.4,
            capsize=2 if series.spread else 0,
        )
    names = panel.series[0].x if panel.series else ()
    if names and isinstance(names[0], str):
        axes.set_xticks(range(len(names)), [str(name) for name in names])
    elif panel.log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks([float(x) for x in names], [f"{x:g}" for x in names])


def _draw_bars(axes: Axes, panel: ExperimentPanel, slots: _Slots) -> None:
    width = 0.8 / max(1, len(panel.series))
    for index, series in enumerate(panel.series):
        places = np.arange(len(series.x)) + (index - (len(panel.series) - 1) / 2) * width
        axes.bar(
            places,
            _drawn_values(series.y, panel),
            width,
            yerr=series.spread or None,
            label=series.name,
            color=colour_of(slots[series.name]),
            hatch=hatch_of(slots[series.name]),
            error_kw={"linewidth": 0.8, "capsize": 2},
        )
    names = [str(name) for name in panel.series[0].x] if panel.series else []
    tilt = 30 if max(map(len, names), default=0) * len(names) > 70 else 0
    axes.set_xticks(range(len(names)), names, rotation=tilt, ha="right" if tilt else "center")


def _finish(axes: Axes, panel: ExperimentPanel) -> None:
    if panel.log_y:
        axes.set_yscale("log")
        axes.set_ylim(bottom=_floor(panel))
        _label_log(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    if panel.claimed is not None:
        axes.axhline(panel.claimed, color=FAINT, linewidth=0.8, linestyle="--")
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(_value_label(panel))
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    if len(panel.series) > 1 or (panel.series and panel.series[0].name):
        if panel.form == "bars" and not panel.log_y:  # leave space above the bars
            axes.set_ylim(top=axes.get_ylim()[1] * (1.05 + 0.08 * len(panel.series)))
        axes.legend(
            frameon=False, fontsize=8, loc="upper right" if panel.form == "bars" else "best"
        )


def _value_label(panel: ExperimentPanel) -> str:
    """Return the label of the value axis; on a log scale it says where zero is drawn."""
    if not panel.log_y:
        return panel.y_label
    low = any(value <= panel.least for series in panel.series for value in series.y)
    scale = f"(log; 0 is drawn at {panel.least:g})" if low else "(log)"
    return f"{panel.y_label} {scale}".strip()


def _label_log(axis: Axis) -> None:
    """Label a log axis with plain numbers, as matplotlib's own labels are formulas.

    An axis of less than two decades also has labels between powers of ten, to have at least two.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    ratio = high / max(low, 1e-300)
    between: tuple[float, ...] = (1.0,) if ratio >= 100 else (1.0, 2.0, 5.0)
    if ratio < 10:
        between = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    axis.set_major_locator(LogLocator(10.0, subs=between))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def _places(x: Sequence[float | str]) -> Sequence[float]:
    if x and isinstance(x[0], str):
        return list(map(float, range(len(x))))
    return [float(value) for value in x]


def _floor(panel: ExperimentPanel) -> float:
    return panel.least if panel.log_y else 0.0


def _drawn_values(
    values: Sequence[float], panel: ExperimentPanel
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return values as drawn: on a log scale, small values are raised to its floor; NaN stays."""
    shown = np.array(values, dtype=np.float64)
    return np.where(np.isnan(shown), np.nan, np.maximum(shown, _floor(panel)))


def last_run_panel(
    runs: Sequence[JobRun], confidence: float, step_s: int
) -> ExperimentPanel | None:
    """Return the last run of a job and the prediction from earlier runs; None if they are too few.

    Time is a fraction of the longer of the two, capacity a fraction of the largest width.
    """
    last = runs[-1]
    before = [run for run in runs[:-1] if run.ended_s <= last.began_s]
    if len(before) < LEAST_RUNS:
        return None
    profile = predict(before, confidence, step_s).profile
    actual = widths_of(last, profile.bucket_s)
    return _prediction_panel(f"{last.job}: {len(before)} runs before", actual, profile)


def _prediction_panel(title: str, actual: Widths, profile: WidthProfile) -> ExperimentPanel:
    """Return the panel of a run's widths and the predicted allocation."""
    size = max(actual.size, profile.widths.size)
    most = float(max(actual.max(), profile.widths.max()))
    series = [
        _curve("actual", actual, size, most),
        _curve("prediction", profile.widths, size, most),
    ]
    return ExperimentPanel(title, "normalized time", "required capacity", series)


def _curve(name: str, widths: Widths, size: int, most: float) -> PanelSeries:
    """Return widths as a step function that ends at zero."""
    padded = np.zeros(size)
    padded[: widths.size] = widths
    edges = np.arange(size + 1) / size
    x = np.repeat(edges, 2)[1:-1]
    return PanelSeries(name, [*map(float, x), 1.0], [*map(float, np.repeat(padded / most, 2)), 0.0])
