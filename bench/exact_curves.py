"""`exact_curves`: how far `exact` has proven its plan after 5, 15, 60 and 300 s, at every mix.

100 requests of the one generator at load 1.2 (workflows, mixed, gangs that may split), 1,000 atoms,
the rigid gangs of bench/workloads/exact_shapes.py, and the large pieces of
bench/workloads/large_pieces.py, planted ones too: there the bound is the planted value, to some
hundredths of a per cent. The whole takes hours; `python -m bench.exact_curves --set "wide
1.2" --seeds 1,2 --seconds 300 --out FILE` appends a line for each run, and `--draw PICTURE FILE...`
tabulates and draws what such runs found. With `--processor` seconds are half of what all threads of
the process use together, so that a busy machine takes longer and comes to about the same.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bench.cases.exact.exact_second import processor_clock
from bench.cases.exact.runs import Curve, rounded, run_on, warm_on
from bench.papers.spread import spread_of
from bench.workloads.exact_shapes import divided, narrow, wide
from bench.workloads.generator import Mix, cluster_of, requests_of
from bench.workloads.large_pieces import KINDS, LargePieces, large_pieces
from bench.workloads.planted import PLANTERS, planted
from planner.agent import Limits
from planner.agents.exact.agent import EXACT
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "exact_curves"

MARKS: Final = (1.0, 5.0, 15.0, 60.0, 300.0)

#: Gaps in per cent that a drawing names.
_GAPS: Final = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

#: Gap at which a run ends before its limit.
ENOUGH: Final = 1e-3


ExactSet: TypeAlias = tuple[PlanView, Sequence[Request]]
_Set: TypeAlias = Callable[[int], ExactSet]


def _on_empty(cluster: Cluster, requests: Sequence[Request]) -> ExactSet:
    return Plan(cluster, cluster.grid()).view(), requests


def _generated(kind: str, count: int, load: float, seed: int) -> ExactSet:
    mix = Mix(requests=count, steps=120, kind=kind, seed=seed, load=load)
    return _on_empty(cluster_of(mix), requests_of(mix))


def _gangs(shape: Callable[..., tuple[Cluster, Sequence[Request]]], size: float) -> _Set:
    return lambda seed: _on_empty(*shape(seed, size))


def _large(kind: str) -> _Set:
    return lambda seed: _on_empty(*large_pieces(LargePieces(kind, seed, 100)))


def _planted(kind: str, form: str) -> _Set:
    def made(seed: int) -> ExactSet:
        found = planted(LargePieces(kind, seed, 100), form)
        return found.view, found.requests

    return made


#: What is planned, and around what, for each set, by seed.
SETS: Final[Mapping[str, _Set]] = {
    "atoms 1.2": partial(_generated, "malleable", 1000, 1.2),
    "workflows 1.2": partial(_generated, "workflows", 100, 1.2),
    "mixed 1.2": partial(_generated, "mixed", 100, 1.2),
    "gangs 1.2": partial(_generated, "gangs", 100, 1.2),
    "wide 1.2": _gangs(wide, 1.2),
    "narrow 1.2": _gangs(narrow, 1.2),
    "divided 4": _gangs(divided, 4.0),
    **{f"large {kind}": _large(kind) for kind in KINDS},
    **{f"planted {kind} {form}": _planted(kind, form) for kind in KINDS for form in PLANTERS},
}


def run(small: bool) -> dict[str, object]:
    """Run two seeds of three sets for a minute; small: one set for a second."""
    names = ("wide 1.2",) if small else ("mixed 1.2", "wide 1.2", "workflows 1.2")
    seeds, seconds = range(1, 2 if small else 3), 1.0 if small else 60.0
    lines = [one_run(name, seed, seconds) for name in names for seed in seeds]
    params = {"sets": names, "seeds": list(seeds), "seconds": seconds}
    return {"params": params, "figures": summary(lines)}


def one_run(
    name: str, seed: int, seconds: float, clock: Callable[[], float] = time.monotonic
) -> dict[str, Any]:
    """Run one set and return what is kept of it: shares of the value asked, and the curve.

    Parameters
    ----------
    clock
        Seconds that the limit counts.
    """
    view, requests = SETS[name](seed)
    warm_on(view, requests[:10])
    curve = run_on(view, requests, Limits(seconds, gap=ENOUGH), replace(EXACT, clock=clock))
    return {
        "set": name,
        "seed": seed,
        "limit_s": seconds,
        "gree": curve.gree / curve.asked,
        "portfolio": curve.portfolio / curve.asked,
        "value": curve.value / curve.asked,
        "bound": curve.bound / curve.asked,
        "cpu_s": round(curve.cpu_s, 1),
        "wall_s": round(curve.wall_s, 1),
        "gaps": _corners(curve),
    }


def _corners(curve: Curve) -> list[tuple[float, float]]:
    """Return seconds and gap in per cent wherever the gap is 2 % below the last point."""
    kept: list[tuple[float, float]] = []
    for one in curve.news:
        if not kept or 100 * one.gap < 0.98 * kept[-1][1]:
            kept.append((round(one.elapsed_s, 2), round(100 * one.gap, 4)))
    last = curve.news[-1]
    return [*kept, (round(last.elapsed_s, 2), round(100 * last.gap, 4))]


def gap_at(line: Mapping[str, Any], seconds: float) -> float:
    """Return the gap in per cent after this many seconds: the last that was reported by then."""
    known = [gap for at, gap in line["gaps"] if at <= seconds]
    return float(known[-1]) if known else float(line["gaps"][0][1])


def summary(lines: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, object]]:
    """Return mean, spread and worst of the gap at every mark, set by set."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault(line["set"], []).append(line)
    return {name: _of_set(same) for name, same in groups.items()}


def _of_set(same: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    longest = max(line["limit_s"] for line in same)
    gaps = {mark: [gap_at(line, mark) for line in same] for mark in MARKS if mark <= longest}
    return {
        "seeds": [line["seed"] for line in same],
        "limit_s": longest,
        "gap_percent": {
            f"{mark:g} s": (round(mean(at), 2), rounded(spread_of(at), 2), round(max(at), 2))
            for mark, at in gaps.items()
        },
        **{
            part: round(mean(line[part] for line in same), 4)
            for part in ("gree", "portfolio", "value", "bound", "cpu_s", "wall_s")
        },
    }


def _gap_text(middle: float, spread: float | None, worst: float) -> str:
    if spread is None:
        return f"{middle:.2f}"
    return f"{middle:.2f} ± {spread:.2f} ({worst:.2f})"


def table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return Markdown: mean ± spread (worst) of the gap at each mark, and shares of the value."""
    marks = [f"{mark:g} s" for mark in MARKS]
    head = ["set", "seeds", *marks, "GREE", "portfolio", "exact", "bound"]
    lines = ["| " + " | ".join(head) + " |", "|---|---" + "|---:" * (len(head) - 2) + "|"]
    for name, row in found.items():
        gaps = [row["gap_percent"].get(mark) for mark in marks]
        cells = ["–" if gap is None else _gap_text(*gap) for gap in gaps]
        shares = [f"{row[part]:.4f}" for part in ("gree", "portfolio", "value", "bound")]
        lines.append("| " + " | ".join([name, str(len(row["seeds"])), *cells, *shares]) + " |")
    return lines


def _panels(lines: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw a panel a set: each seed's gap over time, and their mean at the marks."""
    from matplotlib.figure import Figure

    from planner.colours import COLOURS

    names = list(summary(lines))
    figure = Figure(figsize=(3.0 * len(names), 3.2), layout="constrained")
    axes = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, names, strict=True):
        same = [line for line in lines if line["set"] == name]
        for line in same:
            at, gap = zip(*line["gaps"], strict=True)
            axis.step(at, gap, where="post", color=COLOURS[0], alpha=0.35, linewidth=1)
        marks = [mark for mark in MARKS if mark <= max(line["limit_s"] for line in same)]
        middle = [mean(gap_at(line, mark) for line in same) for mark in marks]
        axis.plot(marks, middle, "o-", color=COLOURS[1], label=f"mean of {len(same)} seeds")
        axis.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
        axis.set(xscale="log", yscale="log", title=name, xlabel="seconds")
        axis.set_xticks(MARKS, [f"{mark:g}" for mark in MARKS])
        axis.set_yticks(_GAPS, [f"{gap:g}" for gap in _GAPS])
        axis.minorticks_off()
        axis.legend(fontsize="small")
    axes[0].set_ylabel("proven gap, %")
    return figure


def main() -> None:
    """Run a piece, or tabulate and draw what pieces found."""
    parser = argparse.ArgumentParser(prog="python -m bench.exact_curves")
    parser.add_argument("--set", choices=tuple(SETS), default="wide 1.2")
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--processor", action="store_true", help="count processor seconds, halved")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", type=Path, help="picture to write")
    parser.add_argument("pieces", nargs="*", type=Path)
    options = parser.parse_args()
    if options.draw is not None:
        from service.pictures.style import write_figure

        lines = [json.loads(line) for file in options.pieces for line in file.open()]
        print("\n".join(table(summary(lines))))
        write_figure(partial(_panels, lines), options.draw)
        return
    for seed in map(int, options.seeds.split(",")):
        clock = processor_clock if options.processor else time.monotonic
        text = json.dumps(one_run(options.set, seed, options.seconds, clock))
        print(text, flush=True)
        if options.out is not None:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
