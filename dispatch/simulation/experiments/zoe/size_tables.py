"""Zoe's experiments of D5.2, sections 10.3 to 10.5: sizes by malleable, preemption, rigid work."""

from __future__ import annotations

from typing import Final

from dispatch.simulation.cluster.generator import without_elastic, without_interactive
from dispatch.simulation.cluster.workload import Submission
from dispatch.simulation.experiments.zoe.runs import ExperimentDesign, Ratios, Variant

_MEAN: Final = "all turnaround mean_s"

#: Orders by what size is, the plain one first; D5.2's PSJF is `sjf` that takes elastic components.
#: Among those that wait nothing has begun, so without preemption SRPT is SJF.
_SIZES: Final = {
    "sjf": ("sjf", "sjf-2d", "sjf-3d"),
    "srpt": ("srpt", "srpt-2d1", "srpt-2d2", "srpt-3d1", "srpt-3d2"),
    "hrrn": ("hrrn", "hrrn-2d", "hrrn-3d"),
}
_TAKES: Final = ("srpt",)


def inelastic() -> ExperimentDesign:
    """Flexible against rigid where every component is core (D5.2, table 10.4a): they are one."""
    variants, ratios = [], {}
    for order, preemptive in (("fifo", False), ("sjf", True), ("srpt", True), ("hrrn", False)):
        rigid = Variant("rigid", order, preemptive)
        flexible = Variant("flexible", order, preemptive)
        variants += [rigid, flexible]
        word = f"{order}, preemptive" if preemptive else order
        ratios[f"{word}: mean turnaround, flexible / rigid"] = (flexible, rigid, _MEAN)
    claims = dict.fromkeys(ratios, "exactly 1")
    return ExperimentDesign("zoe-inelastic", variants, ratios, claims, _batch_of_cores)


def _batch_of_cores(submissions: list[Submission]) -> list[Submission]:
    return without_elastic(without_interactive(submissions))


def malleable_sizes() -> ExperimentDesign:
    """Definitions of size by a malleable scheduler, batch alone (D5.2, figures 18 to 23)."""
    variants: list[Variant] = []
    ratios: Ratios = {}
    for plain, sizes in _SIZES.items():
        ones = [Variant("malleable", size, plain in _TAKES) for size in sizes]
        variants += ones
        for size, one in zip(sizes[1:], ones[1:], strict=True):
            ratios[f"malleable mean turnaround, {size} / {plain}"] = (one, ones[0], _MEAN)
    claims = {key: "not stated" if "hrrn" in key else "below 1" for key in ratios}
    return ExperimentDesign("zoe-malleable-sizes", variants, ratios, claims, without_interactive)


def preemption_sizes() -> ExperimentDesign:
    """With and without preemption, every order and size (D5.2, figures 31 to 33).

    Without it a line is ordered by size alone; with it interactive applications have priority and
    may take elastic components.
    """
    variants: list[Variant] = []
    ratios: Ratios = {}
    claims: dict[str, str] = {}
    for sizes in _SIZES.values():
        for size in sizes:
            plain = Variant("flexible", size)
            with_it = Variant("flexible", size, preemptive=True, by_priority=True)
            variants += [plain, with_it]
            key = f"{size}: Int queuing mean, without / with"
            ratios[key] = (plain, with_it, "Int queuing mean_s")
            claims[key] = "about 100"
            key = f"{size}: cpu allocation, with / without"
            ratios[key] = (with_it, plain, "cpu allocation")
            claims[key] = "below 1"
            key = f"{size}: waiting applications, with / without"
            ratios[key] = (with_it, plain, "waiting mean")
            claims[key] = "above 1"
    return ExperimentDesign("zoe-preemption-sizes", variants, ratios, claims)
