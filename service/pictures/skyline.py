"""The skyline: stacked allocation under the capacity line, by tenant, refusals alongside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np

from planner.colours import colour_of, hatch_of
from rdl.local_time import UTC_ZONE
from rdl.resources import CPU, MEMORY
from rdl.time_grid import duration_text
from service.pictures.skyline_data import (
    CommonAxes,
    Floats,
    Layer,
    Panel,
    SkylineData,
    skyline_data,
)
from service.pictures.style import FAINT, INK, STYLE, check_picture_path, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_DOT = " · "
_SHOWN_REFUSALS = 24
_NARROW = 4.6  # inches: letters of 9 points are 10 pixels high on a page 400 wide
_LEGEND_LINE = 0.19  # inches a line of the legend takes
_LIST_LINE = 0.16  # inches a line of the refused list takes

#: Hours between ticks of a calendar, below a day; and most ticks.
_TICK_HOURS = (1, 2, 3, 6, 12, 24)
_MOST_TICKS = 7


def write_skyline(document: Mapping[str, object], paths: Sequence[Path]) -> None:
    """Draw a Plan document once and write it to every path, SVG or PNG by suffix.

    Raises
    ------
    PictureError
        For a name or a folder that cannot be written.
    """
    for path in paths:
        check_picture_path(path)
    with _drawn(document, skyline_data(document, None), _figure) as figure:
        for path in paths:
            path.write_bytes(render(figure, path.suffix.lower().lstrip(".")))


def skyline_beside(
    document: Mapping[str, object], common: CommonAxes
) -> tuple[str, dict[str, object]]:
    """Return the skyline of a Plan document as one ``<svg>`` element for a page, and its values.

    To appear next to others it is narrow, so that a telephone shows its letters large enough, has
    the legend below and no list of refusals, and the tenants, panels and times of all of them.

    The values are for a pointer: the times of the columns in words and where each ends, as a part
    of the width of a panel; per panel its box (left, right, top, bottom as parts of the picture),
    unit, capacity by column, and what each layer holds by column.
    """
    data = skyline_data(document, common)
    with _drawn(document, data, _compact_figure) as figure:
        text = render(figure, "svg").decode("utf-8")
        boxes = [axes.get_position() for axes in figure.axes]
    panels = []
    for panel, box in zip(data.panels, boxes, strict=True):
        unit, scale = _unit(panel)
        amounts = [panel.capacity, *panel.used]
        capacity, *used = (np.round(one / scale, 2).tolist() for one in amounts)
        edges = [round(float(one), 4) for one in (box.x0, box.x1, 1 - box.y1, 1 - box.y0)]
        name = unit if panel.resource == CPU else f"{unit} {panel.resource}".strip()
        panels.append({"unit": name, "box": edges, "capacity": capacity, "used": used})
    words = _time_words(document, data.edges[:-1].tolist())
    ends = np.round(data.edges[1:] / data.edges[-1], 5).tolist()
    names = [layer.name for layer in data.layers]
    return text[text.index("<svg") :], {
        "times": words, "ends": ends, "names": names, "panels": panels,
    }  # fmt: skip


def load_drawing() -> None:
    """Import the drawing library, which takes seconds the first time."""
    from importlib import import_module

    from matplotlib.font_manager import FontProperties, findfont

    import_module("matplotlib.backends.backend_svg")
    findfont(FontProperties())


@contextmanager
def _drawn(
    document: Mapping[str, object],
    data: SkylineData,
    draw: Callable[[Mapping[str, object], SkylineData], Figure],
) -> Iterator[Figure]:
    """Yield the figure of a document inside the style it is drawn and written in."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield draw(document, data)


def _figure(document: Mapping[str, object], data: SkylineData) -> Figure:
    from matplotlib.figure import Figure

    heights = [3.2] + [1.9] * (len(data.panels) - 1)
    figure = Figure(figsize=(13.0, 1.6 + sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(data.panels), 2, width_ratios=(10, 3.2), height_ratios=heights)
    _title(figure, document)
    first: Axes | None = None
    for row, panel in enumerate(data.panels):
        axes = figure.add_subplot(grid[row, 0], sharex=first)
        first = first or axes
        _draw_panel(axes, panel, data)
        axes.tick_params(labelbottom=row == len(data.panels) - 1)
    _label_time(figure.axes[-1], document, data)
    _draw_side(figure.add_subplot(grid[:, 1]), data, sum(heights))
    return figure


def _compact_figure(document: Mapping[str, object], data: SkylineData) -> Figure:
    """Draw only the panels, narrow, with the tenants below them."""
    from matplotlib.figure import Figure

    heights = [2.2] + [1.4] * (len(data.panels) - 1)
    below = 0.2 * -(-len(data.layers) // 2)
    figure = Figure(figsize=(_NARROW, 1.7 + below + sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(data.panels), 1, height_ratios=heights)
    _title(figure, document, lines=3)
    first: Axes | None = None
    for row, panel in enumerate(data.panels):
        axes = figure.add_subplot(grid[row, 0], sharex=first)
        first = first or axes
        _draw_panel(axes, panel, data)
        axes.tick_params(labelbottom=row == len(data.panels) - 1)
    _label_time(figure.axes[-1], document, data)
    names = [f"{_cut(x.name, 16)} {x.accepted:,}/{x.requests:,}" for x in data.layers]
    if names:
        figure.legend(
            _handles(data), names, loc="outside lower left", ncols=2, frameon=False, fontsize=8
        )
    return figure


def _title(figure: Figure, document: Mapping[str, object], *, lines: int = 1) -> None:
    metrics = document["metrics"]
    assert isinstance(metrics, Mapping)
    parts = metrics_line(metrics).split(_DOT)
    at = -(-len(parts) // lines)
    parts_text = "\n".join(_DOT.join(parts[i : i + at]) for i in range(0, len(parts), at))
    figure.suptitle(
        f"agent {document['agent']}: {metrics['accepted']:,} of {metrics['requests']:,} requests "
        f"accepted\n{parts_text}",
        x=0.01,
        ha="left",
        fontsize=11,
    )


def metrics_line(metrics: Mapping[str, Any]) -> str:
    """Return the metrics of a Plan in one line, without missing ones."""
    parts = []
    if metrics["acceptance"] is not None:
        parts.append(f"acceptance {metrics['acceptance']:.1%} of the value")
    parts.append(f"falls {metrics['falls']:,.0f}")
    if metrics["uniformity"] is not None:
        parts.append(f"uniformity {metrics['uniformity']:.3f}")
    if metrics["gap"] is not None:
        parts.append(f"gap {metrics['gap']:.2%}")
    if metrics["runtime_ms"] is not None:
        parts.append(f"{metrics['runtime_ms']:,.1f} ms")
    return _DOT.join(parts)


def _draw_panel(axes: Axes, panel: Panel, data: SkylineData) -> None:
    unit, scale = _unit(panel)
    hours = data.edges / _time_unit(data.edges)[1]
    lower = np.zeros(panel.capacity.size)
    for layer, used in zip(data.layers, panel.used, strict=True):
        upper = lower + used / scale
        at = _changes(lower, upper)
        axes.fill_between(
            np.append(hours[at], hours[-1]),
            np.append(lower[at], lower[-1]),
            np.append(upper[at], upper[-1]),
            step="post",
            **_look(layer),
        )
        lower = upper
    capacity = panel.capacity / scale
    axes.stairs(capacity, hours, baseline=None, color=INK, linewidth=1.4)
    axes.set_ylim(0, 1.1 * max(float(capacity.max()), float(lower.max()), 1e-9))
    axes.set_xlim(hours[0], hours[-1])
    axes.set_ylabel(f"{panel.resource} ({unit})" if unit else panel.resource)
    axes.spines[["top", "right"]].set_visible(False)
    mean = float(panel.used.sum() / max(1e-9, panel.capacity.sum()))
    axes.set_title(f"{mean:.0%} of {panel.resource} planned", loc="right", fontsize=8, color=FAINT)


def _look(layer: Layer) -> dict[str, Any]:
    """Return how the area of a tenant looks: its colour, hatched where the colours are used up."""
    hatch = hatch_of(layer.slot)
    edge = "white" if hatch else "none"
    return {"facecolor": colour_of(layer.slot), "hatch": hatch, "edgecolor": edge, "linewidth": 0}


def _handles(data: SkylineData) -> list[Patch]:
    """Return the legend entries of the layers."""
    from matplotlib.patches import Patch

    return [Patch(**_look(layer)) for layer in data.layers]


def _changes(lower: Floats, upper: Floats) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the columns at which a layer begins or changes, so that a picture stays small."""
    moved = (np.diff(lower) != 0) | (np.diff(upper) != 0)
    return np.append(0, np.flatnonzero(moved) + 1)


def _unit(panel: Panel) -> tuple[str, float]:
    """Return the unit of a panel, and its size in canonical units."""
    if panel.resource == CPU:
        return "cores", 1000.0
    if panel.resource == MEMORY:
        top = float(panel.capacity.max())
        return ("TiB", 1024.0**2) if top >= 4 * 1024**2 else ("GiB", 1024.0)
    return "", 1.0


def _time_unit(edges: Floats) -> tuple[str, float]:
    """Return the unit of the time axis and its seconds."""
    length = float(edges[-1])
    for name, seconds, least in (("days", 86400.0, 4), ("hours", 3600.0, 2), ("minutes", 60.0, 5)):
        if length >= least * seconds:
            return name, seconds
    return "seconds", 1.0


def _label_time(axes: Axes, document: Mapping[str, object], data: SkylineData) -> None:
    unit, seconds = _time_unit(data.edges)
    calendar = _calendar_of(document)
    is_dated = calendar is not None and unit in ("hours", "days")
    label = f"{unit} from {calendar[0].isoformat() if calendar else 'the origin'}"
    if calendar is not None and is_dated:
        label = f"times in {calendar[1]}"
    if data.steps_per_column > 1:
        width = round(float(data.edges[1] - data.edges[0]) * 1000)
        label += f" (means over {duration_text(width)})"
    axes.set_xlabel(label)
    if calendar is not None and is_dated:
        ticks = _calendar_ticks(*calendar, float(data.edges[-1]))
        axes.set_xticks([at / seconds for at, _ in ticks], [text for _, text in ticks])
    elif unit == "hours":
        from matplotlib.ticker import MaxNLocator

        # Hours read as parts of a day, not as tenths.
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 3, 6, 10], integer=True))


def _calendar_of(document: Mapping[str, object]) -> tuple[datetime, ZoneInfo] | None:
    """Return the origin of a Plan by the clock of its zone, and the zone; None without one."""
    cluster = document["cluster"]
    assert isinstance(cluster, Mapping)
    if not cluster.get("origin"):
        return None
    zone = ZoneInfo(str(cluster.get("zone") or UTC_ZONE))
    return datetime.fromisoformat(str(cluster["origin"])).astimezone(zone), zone


def _time_words(document: Mapping[str, object], seconds: Sequence[float]) -> list[str]:
    """Return instants, seconds from the origin, as people read them; lengths without an origin."""
    calendar = _calendar_of(document)
    if calendar is None:
        return [f"+{duration_text(round(1000 * at)) if at else '0s'}" for at in seconds]
    origin, zone = calendar
    start = origin.astimezone(UTC)
    times = [(start + timedelta(seconds=at)).astimezone(zone) for at in seconds]
    return [f"{at:%a %d %b %H:%M:%S}".removesuffix(":00") for at in times]


def _calendar_ticks(origin: datetime, zone: ZoneInfo, end_s: float) -> list[tuple[float, str]]:
    """Return round times of the clock up to `end_s`: seconds from the origin, and a text."""
    per = next((one for one in _TICK_HOURS if end_s <= _MOST_TICKS * one * 3600), None)
    if per is None:
        days = -(-end_s // (_MOST_TICKS * 86_400))
        per = 24 * int(days)
    midnight = origin.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    ticks: list[tuple[float, str]] = []
    for number in count():
        clock = midnight + timedelta(hours=number * per)
        instant = clock.replace(tzinfo=zone).astimezone(UTC)
        at_s = (instant - origin.astimezone(UTC)).total_seconds()
        if at_s > end_s:
            return ticks
        # An hour that a change of the clock skips is no time.
        if at_s >= 0 and instant.astimezone(zone).replace(tzinfo=None) == clock:
            is_date = not ticks or clock.hour == 0
            text = f"{clock:%d %b}" if is_date else ""
            if per < 24:
                text = f"{clock:%H:%M}\n{text}".rstrip()
            ticks.append((at_s, text))
    return ticks


def _draw_side(axes: Axes, data: SkylineData, inches: float) -> None:
    """Write the legend and the refused list alongside panels that are `inches` high."""
    from matplotlib.patches import Patch

    axes.set_axis_off()
    handles = _handles(data)
    names = [f"{_cut(x.name, 24)}  {x.accepted:,}/{x.requests:,}" for x in data.layers]
    legend = axes.legend(
        [*handles[::-1], Patch(facecolor="white", edgecolor=INK)],
        [*names[::-1], "capacity"],
        title="tenant  accepted/asked",
        loc="upper left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.0,
        frameon=False,
        alignment="left",
    )
    legend.get_title().set_fontweight("bold")
    used = _LEGEND_LINE * (len(names) + 3)
    room = int((inches - used) / _LIST_LINE) - len(data.codes) - 4
    text = _refused_text(data, max(0, min(room, _SHOWN_REFUSALS)))
    head = f"refused  {len(data.refusals):,}"
    axes.text(0.02, 1.0 - used / inches, head, va="top", weight="bold", transform=axes.transAxes)
    below = 1.0 - (used + 1.4 * _LEGEND_LINE) / inches
    axes.text(0.02, below, text, va="top", fontsize=8, transform=axes.transAxes, linespacing=1.25)


def _refused_text(data: SkylineData, shown: int) -> str:
    counts = [f"{count:,} {code}" for code, count in data.codes] or ["none"]
    listed = [_refusal_line(refusal) for refusal in data.refusals[:shown]]
    left = len(data.refusals) - len(listed)
    if listed and left:
        listed.append(f"... and {left:,} more")
    return "\n".join([*counts, "", *listed])


def _refusal_line(refusal: Mapping[str, Any]) -> str:
    binding = refusal.get("binding") or {}
    short = f": {binding['resource']}" if binding.get("resource") else ""
    who = f"{_cut(str(refusal['id']), 18)} ({_cut(str(refusal['tenant']), 12)})"
    return f"{who} {refusal['code']}{short}"


def _cut(text: str, most: int) -> str:
    """Return a user's word as one short line; XML has no form for control characters."""
    text = "".join(x if x.isprintable() else "\N{REPLACEMENT CHARACTER}" for x in text[: most + 1])
    return text if len(text) <= most else text[: most - 1] + "…"
