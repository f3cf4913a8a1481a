"""Draw a LoTES result: lambda at each stage, utilisation of machine groups, and bins in use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lp.lotes.pipeline import LotesResult
from planner.colours import COLOURS, OTHERS
from service.pictures.style import FAINT, INK, write_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN_BINS = 14
_SHOWN_GROUPS = 12
_FILLS = (*COLOURS, OTHERS)
_SHOWN_CLASSES = len(COLOURS)


def write_lotes(result: LotesResult, own_rate_per_h: float | None, path: Path) -> None:
    """Draw one run of the pipeline, as SVG or PNG depending on the suffix.

    Raises
    ------
    PictureError
        If the name is invalid, or the folder cannot be written.
    """
    write_figure(lambda: _figure(result, own_rate_per_h), path)


def _figure(result: LotesResult, own: float | None) -> Figure:
    from matplotlib.figure import Figure

    groups = min(len(result.instance.configurations.names), _SHOWN_GROUPS)
    resources = len(result.instance.configurations.resources)
    middle = 0.7 + 0.24 * groups * resources
    bins = 0.7 + 0.17 * min(len(result.table.bins), _SHOWN_BINS)
    figure = Figure(figsize=(11.0, 2.2 + middle + bins), layout="tight")
    grid = figure.add_gridspec(3, 1, height_ratios=(1.7, middle, bins))
    figure.suptitle(
        f"LoTES ({result.mode}): {result.arrival_rate / 3600:,.3f} jobs a second on "
        f"{result.table.machines:,} machines",
        x=0.01,
        ha="left",
        fontsize=11,
    )
    _draw_rates(figure.add_subplot(grid[0]), result, own)
    _draw_fill(figure.add_subplot(grid[1]), result)
    _draw_bins(figure.add_subplot(grid[2]), result)
    return figure


def _draw_rates(axes: Axes, result: LotesResult, own: float | None) -> None:
    """Draw a bar per stage, and the rate of the jobs as a line."""
    stages = {
        "allocation LP": result.allocation.arrival_rate,
        "assignment LP": result.assignment.relaxed_rate,
        "rounded": result.arrival_rate,
    }
    rates = [rate / 3600 for rate in stages.values()]
    places = np.arange(len(rates))[::-1]
    axes.barh(places, rates, height=0.6, color=COLOURS[0])
    axes.set_yticks(places, list(stages))
    for place, rate in zip(places, rates, strict=True):
        axes.annotate(f" {rate:,.3f}", (rate, place), va="center", fontsize=8)
    if own is not None:
        axes.axvline(own / 3600, color=INK, linestyle="--", linewidth=1)
        axes.set_title(f"the work's own rate: {own / 3600:,.3f} (dashed)", fontsize=9, loc="right")
    axes.set_xlim(0, 1.15 * max([*rates, 0 if own is None else own / 3600, 1e-9]))
    axes.set_title("lambda, jobs a second", fontsize=9, loc="left")


def _draw_fill(axes: Axes, result: LotesResult) -> None:
    """Draw the mean utilisation of each group and resource at the targets, stacked by class."""
    configurations, classes = result.instance.configurations, result.instance.classes
    capacity = configurations.capacity * configurations.count[:, None]
    asked = result.assignment.in_service[:, :, None] * classes.request[None]
    used = np.divide(
        asked,
        capacity[:, None],
        out=np.zeros(asked.shape),
        where=np.broadcast_to(capacity[:, None] > 0, asked.shape),
    )
    groups = np.argsort(-configurations.count, kind="stable")[:_SHOWN_GROUPS]
    labels = [
        f"{configurations.names[j]} {name}" for j in groups for name in configurations.resources
    ]
    places = np.arange(len(labels))[::-1]
    bars = used[groups].transpose(0, 2, 1).reshape(len(labels), -1)
    names = list(classes.names)
    if bars.shape[1] > _SHOWN_CLASSES:
        # If there are many classes, only the largest ones have their own colours.
        most = np.sort(np.argsort(-bars.sum(axis=0), kind="stable")[:_SHOWN_CLASSES])
        rest = bars.sum(axis=1) - bars[:, most].sum(axis=1)
        bars, names = np.column_stack([bars[:, most], rest]), [names[k] for k in most] + ["others"]
    left = np.zeros(len(labels))
    for k, (name, parts) in enumerate(zip(names, bars.T, strict=True)):
        axes.barh(places, parts, left=left, height=0.7, color=_FILLS[k], label=name)
        left += parts
    axes.axvline(1.0, color=FAINT, linewidth=0.8)
    axes.set_yticks(places, labels, fontsize=8)
    axes.set_xlim(0, max(1.02, float(left.max(initial=0)) * 1.02))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_title("planned fill at mean requests", fontsize=9, loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)


def _draw_bins(axes: Axes, result: LotesResult) -> None:
    """Draw a table of the bins that most machines emulate, with counts."""
    used = np.flatnonzero(result.assignment.machines > 0)
    most = used[np.argsort(-result.assignment.machines[used], kind="stable")][:_SHOWN_BINS]
    bins, names = result.assignment.bins, result.instance.classes.names
    rows = []
    for index in most:
        jobs = [
            f"{count} {name}"
            for name, count in zip(names, bins.jobs[index].tolist(), strict=True)
            if count
        ]
        group = result.instance.configurations.names[bins.configuration[index]]
        rows.append(
            f"{result.assignment.machines[index]:>8,} x {group}: {' + '.join(jobs) or 'nothing'}"
        )
    if used.size > most.size:
        rows.append(f"... and {used.size - most.size:,} bins more")
    axes.set_axis_off()
    axes.set_title("bins in use: machines, and the jobs of one", fontsize=9, loc="left")
    text = "\n".join(row if len(row) <= 150 else row[:149] + "…" for row in rows)
    axes.text(0.0, 1.0, text, va="top", fontsize=8, linespacing=1.3, transform=axes.transAxes)
