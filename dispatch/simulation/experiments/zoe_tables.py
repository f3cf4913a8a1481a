"""Zoe's experiments: section 4 of the journal, section 10 of D5.2, and the shape of section 6."""

from __future__ import annotations

from dispatch.simulation.cluster.generator import ZoeWorkload, without_interactive
from dispatch.simulation.experiments.zoe_runs import (
    Plan,
    Variant,
    ZoeOptions,
    ZoeTable,
    run_experiment,
)

#: Without interactive applications the load is the batch's own; the papers' lines grow to days, so
#: theirs was at what the cluster can do.
BATCH = ZoeWorkload(interactive=0.0, load=1.0)

_MEDIAN, _MEAN = "all turnaround median_s", "all turnaround mean_s"


def zoe_baseline(options: ZoeOptions | None = None) -> ZoeTable:
    """Flexible against rigid, batch alone, FIFO and SJF (journal, 4.2, figures 3 to 5)."""
    orders = ("fifo", "sjf")
    variants = [Variant(name, order) for order in orders for name in ("rigid", "flexible")]
    ratios = {
        f"{order} median turnaround, rigid / flexible": (
            Variant("rigid", order),
            Variant("flexible", order),
            _MEDIAN,
        )
        for order in orders
    }
    ratios |= {
        f"{order} cpu allocation, flexible / rigid": (
            Variant("flexible", order),
            Variant("rigid", order),
            "cpu allocation",
        )
        for order in orders
    }
    claims = {name: "about 2" if "turnaround" in name else "above 1.2" for name in ratios}
    plan = Plan("zoe-baseline", variants, ratios, claims, without_interactive)
    return run_experiment(plan, options or ZoeOptions(BATCH))


def zoe_malleable(options: ZoeOptions | None = None) -> ZoeTable:
    """Flexible against malleable, batch alone, FIFO and SJF (journal, table 1).

    `flexible-grow` is what the published simulator ran.
    """
    names = ("malleable", "flexible", "flexible-grow")
    orders = ("fifo", "sjf")
    variants = [Variant(name, order) for order in orders for name in names]
    ratios = {
        f"{order} mean turnaround, {name} / malleable": (
            Variant(name, order),
            Variant("malleable", order),
            _MEAN,
        )
        for order in orders
        for name in names[1:]
    }
    claims = {name: "0.90" if name.startswith("fifo") else "0.84" for name in ratios}
    plan = Plan("zoe-malleable", variants, ratios, claims, without_interactive)
    return run_experiment(plan, options or ZoeOptions(BATCH))


def zoe_sizes(options: ZoeOptions | None = None) -> ZoeTable:
    """Definitions of size, flexible and rigid, batch alone (journal, 4.4; D5.2, table 10.3b)."""
    orders = (
        "sjf",
        "sjf-2d",
        "sjf-3d",
        "srpt",
        "srpt-2d1",
        "srpt-2d2",
        "srpt-3d1",
        "srpt-3d2",
        "hrrn",
        "hrrn-2d",
        "hrrn-3d",
        "hrrn-2d-printed",
        "hrrn-3d-printed",
    )
    variants = [Variant(name, order) for order in orders for name in ("flexible", "rigid")]
    ratios = {
        f"{name} mean turnaround, {size} / sjf": (Variant(name, size), Variant(name, "sjf"), _MEAN)
        for name in ("flexible", "rigid")
        for size in ("sjf-2d", "sjf-3d")
    }
    ratios |= {
        f"flexible mean turnaround, {size}-printed / {size}": (
            Variant("flexible", f"{size}-printed"),
            Variant("flexible", size),
            _MEAN,
        )
        for size in ("hrrn-2d", "hrrn-3d")
    }
    claims = dict.fromkeys(ratios, "not stated")
    claims["flexible mean turnaround, sjf-2d / sjf"] = "below 1"
    claims["flexible mean turnaround, sjf-3d / sjf"] = "below that of sjf-2d"
    plan = Plan("zoe-sizes", variants, ratios, claims, without_interactive)
    return run_experiment(plan, options or ZoeOptions(BATCH))


def zoe_preemption(options: ZoeOptions | None = None) -> ZoeTable:
    """With and without preemption, interactive applications included (journal, 4.5, figure 9).

    Without preemption the line is ordered by size alone; with it, interactive applications have
    priority and may take elastic components.
    """
    orders = ("srpt", "fifo")
    variants = [
        variant
        for order in orders
        for variant in (
            Variant("flexible", order),
            Variant("flexible", order, preemptive=True, by_priority=True),
        )
    ]
    ratios = {}
    for order in orders:
        plain, preemptive = (one for one in variants if one.ordering == order)
        ratios[f"{order} Int queuing p95, without / with"] = (
            plain,
            preemptive,
            "Int queuing p95_s",
        )
        ratios[f"{order} Int queuing mean, without / with"] = (
            plain,
            preemptive,
            "Int queuing mean_s",
        )
        ratios[f"{order} B-E turnaround median, with / without"] = (
            preemptive,
            plain,
            "B-E turnaround median_s",
        )
    claims = {name: "about 100" if "Int" in name else "stable" for name in ratios}
    plan = Plan("zoe-preemption", variants, ratios, claims)
    return run_experiment(plan, options or ZoeOptions())
