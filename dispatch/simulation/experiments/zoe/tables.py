"""Zoe's experiments: section 4 of the journal, section 10 of D5.2, and why ratios come out so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dispatch.simulation.cluster.generator import ZoeWorkload, without_interactive
from dispatch.simulation.experiments.zoe.machine_tables import on_machines
from dispatch.simulation.experiments.zoe.runs import ExperimentDesign, Ratios, Variant, ZoeOptions
from dispatch.simulation.experiments.zoe.size_tables import (
    inelastic,
    malleable_sizes,
    preemption_sizes,
)

#: Without interactive applications the load is the batch's own; the papers' lines grow to days, so
#: theirs was at what the cluster can do.
BATCH = ZoeWorkload(interactive=0.0, load=1.0)

#: Shares of the cluster that `zoe-widths` allows one application.
WIDTHS = (0.1, 0.25, 0.5)
#: Most components of a rigid application there: without, and with, those of figure 2's tail.
RIGID = (64, 1_000)

#: Applications where the papers' 80,000 take too long.
_FEWER = {"zoe-widths": 16_000, "zoe-machines": 8_000}

_MEDIAN, _MEAN = "all turnaround median_s", "all turnaround mean_s"

#: Orders of the comparisons. What the published simulator calls SJF keeps those in service in order
#: of size and lets an arrival take elastic components (its PSJF, D5.2's table 10.4a): the last.
_ORDERS = (("fifo", False), ("sjf", False), ("sjf", True))


def zoe_design(name: str) -> ExperimentDesign:
    """Return what an experiment runs and compares; KeyError for a name that is none."""
    return _DESIGNS[name]()


def zoe_options(name: str, trace: Path | None = None) -> ZoeOptions:
    """Return the size of an experiment (the papers' but for `_FEWER`), drawn or sampled."""
    workload = ZoeWorkload() if name.startswith("zoe-preemption") else BATCH
    if name in _FEWER:
        workload = replace(workload, applications=_FEWER[name])
    return ZoeOptions(replace(workload, trace=trace))


def _word(order: str, preemptive: bool) -> str:
    return f"{order}, preemptive" if preemptive else order


def _baseline() -> ExperimentDesign:
    """Flexible against rigid, batch alone, FIFO and SJF (journal, 4.2, figures 3 to 5)."""
    variants, ratios = [], {}
    for order, preemptive in _ORDERS:
        rigid = Variant("rigid", order, preemptive)
        flexible = Variant("flexible", order, preemptive)
        variants += [rigid, flexible]
        word = _word(order, preemptive)
        ratios[f"{word}: median turnaround, rigid / flexible"] = (rigid, flexible, _MEDIAN)
        ratios[f"{word}: mean turnaround, rigid / flexible"] = (rigid, flexible, _MEAN)
        ratios[f"{word}: cpu allocation, flexible / rigid"] = (
            flexible,
            rigid,
            "cpu allocation",
        )
    claims = {
        name: "about 2" if "median" in name else "above 1.2" if "cpu" in name else "not stated"
        for name in ratios
    }
    return ExperimentDesign("zoe-baseline", variants, ratios, claims, without_interactive)


def _malleable() -> ExperimentDesign:
    """Flexible against malleable, batch alone, FIFO and SJF (journal, table 1).

    `flexible-grow` is what the published simulator ran.
    """
    variants, ratios, claims = [], {}, {}
    for order, preemptive in _ORDERS:
        base = Variant("malleable", order, preemptive)
        variants.append(base)
        for name in ("flexible", "flexible-grow"):
            other = Variant(name, order, preemptive)
            variants.append(other)
            key = f"{_word(order, preemptive)}: mean turnaround, {name} / malleable"
            ratios[key] = (other, base, _MEAN)
            claims[key] = "0.90" if order == "fifo" else "0.84"
    return ExperimentDesign("zoe-malleable", variants, ratios, claims, without_interactive)


def _sizes() -> ExperimentDesign:
    """Definitions of size, flexible and rigid, batch alone (journal, 4.4; D5.2, table 10.3b).

    SRPT is preemptive: among those that wait nothing has begun, and without preemption it is SJF.
    """
    sjf = ("sjf", "sjf-2d", "sjf-3d")
    srpt = ("srpt", "srpt-2d1", "srpt-2d2", "srpt-3d1", "srpt-3d2")
    hrrn = ("hrrn", "hrrn-2d", "hrrn-3d", "hrrn-2d-printed", "hrrn-3d-printed")
    orders = [
        *((order, False) for order in (*sjf, *hrrn)),
        *((order, True) for order in (*sjf, *srpt)),
    ]
    names = ("flexible", "rigid")
    variants = [Variant(name, order, early) for order, early in orders for name in names]
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for name in names:
        for early in (False, True):
            for size, claim in zip(sjf[1:], ("below 1", "below that of sjf-2d"), strict=True):
                key = f"{name} mean turnaround, {_word(size, early)} / {_word('sjf', early)}"
                ratios[key] = (Variant(name, size, early), Variant(name, "sjf", early), _MEAN)
                claims[key] = claim if name == "flexible" else "not stated"
    for size in hrrn[1:3]:
        key = f"flexible mean turnaround, {size}-printed / {size}"
        ratios[key] = (Variant("flexible", f"{size}-printed"), Variant("flexible", size), _MEAN)
        claims[key] = "not stated"
    return ExperimentDesign("zoe-sizes", variants, ratios, claims, without_interactive)


def _preemption() -> ExperimentDesign:
    """With and without preemption, interactive applications included (journal, 4.5, figure 9).

    Without preemption the line is ordered by size alone; with it, interactive applications have
    priority and may take elastic components.
    """
    variants, ratios, claims = [], {}, {}
    for order in ("srpt", "fifo"):
        plain = Variant("flexible", order)
        with_it = Variant("flexible", order, preemptive=True, by_priority=True)
        variants += [plain, with_it]
        for figure in ("p95", "mean", "median"):
            key = f"{order}: Int queuing {figure}, without / with"
            ratios[key] = (plain, with_it, f"Int queuing {figure}_s")
            claims[key] = "about 100"
        key = f"{order}: B-E turnaround median, with / without"
        ratios[key] = (with_it, plain, "B-E turnaround median_s")
        claims[key] = "stable"
    return ExperimentDesign("zoe-preemption", variants, ratios, claims)


def _widths() -> ExperimentDesign:
    """What the gains depend on: how wide applications are, and how many cores rigid ones have.

    FIFO, batch alone. A rigid scheduler empties the cluster for a wide head of the line, and a
    malleable one for a head with many cores; nothing else sets them apart from the flexible one.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    for rigid in RIGID:
        for widest in WIDTHS:
            ones = {
                name: Variant(name, "fifo", widest=widest, most_rigid=rigid)
                for name in ("rigid", "malleable", "flexible")
            }
            variants += ones.values()
            setting = ones["rigid"].setting
            for name in ("rigid", "malleable"):
                key = f"{setting}: mean turnaround, {name} / flexible"
                ratios[key] = (ones[name], ones["flexible"], _MEAN)
            key = f"{setting}: median turnaround, rigid / flexible"
            ratios[key] = (ones["rigid"], ones["flexible"], _MEDIAN)
            key = f"{setting}: cpu allocation, flexible / rigid"
            ratios[key] = (ones["flexible"], ones["rigid"], "cpu allocation")
    return ExperimentDesign(
        "zoe-widths", variants, ratios, dict.fromkeys(ratios, ""), without_interactive
    )


_DESIGNS: dict[str, Callable[[], ExperimentDesign]] = {
    "zoe-baseline": _baseline,
    "zoe-malleable": _malleable,
    "zoe-sizes": _sizes,
    "zoe-preemption": _preemption,
    "zoe-widths": _widths,
    "zoe-machines": on_machines,
    "zoe-inelastic": inelastic,
    "zoe-malleable-sizes": malleable_sizes,
    "zoe-preemption-sizes": preemption_sizes,
}
