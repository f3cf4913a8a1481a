"""Zoe's comparisons where components lie on machines, beside the one pool of the others."""

from __future__ import annotations

from typing import Final

from dispatch.simulation.cluster.generator import without_interactive
from dispatch.simulation.cluster.machine_fit import Fit
from dispatch.simulation.experiments.zoe.runs import ExperimentDesign, Ratios, Variant

_MEDIAN: Final = "all turnaround median_s"
_MEAN: Final = "all turnaround mean_s"

_ORDERS: Final = (("fifo", False), ("sjf", False), ("sjf", True))


def on_machines() -> ExperimentDesign:
    """Flexible against rigid and malleable, on one pool and on machines (journal, 4.2, table 1).

    Allocation cannot be whole where what is left of machines holds no component.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for fit in (None, *Fit):
        for order, preemptive in _ORDERS:
            rigid = Variant("rigid", order, preemptive, fit=fit)
            flexible = Variant("flexible", order, preemptive, fit=fit)
            variants += [rigid, flexible]
            word = f"{order}, preemptive" if preemptive else order
            where = rigid.setting or "one pool"
            key = f"{where}, {word}: median turnaround, rigid / flexible"
            ratios[key], claims[key] = (rigid, flexible, _MEDIAN), "about 2"
            key = f"{where}, {word}: cpu allocation, flexible / rigid"
            ratios[key], claims[key] = (flexible, rigid, "cpu allocation"), "above 1.2"
            if not preemptive:
                malleable = Variant("malleable", order, fit=fit)
                variants.append(malleable)
                key = f"{where}, {word}: mean turnaround, flexible / malleable"
                ratios[key] = (flexible, malleable, _MEAN)
                claims[key] = "0.90" if order == "fifo" else "0.84"
    return ExperimentDesign("zoe-machines", variants, ratios, claims, without_interactive)
