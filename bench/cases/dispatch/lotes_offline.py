"""Both LPs and the bins: the published tables in both modes, and thirty drawn classes."""

from __future__ import annotations

import time

import numpy as np

from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import LotesOptions, Mode, plan_lotes

NAME = "lotes_offline"
COUNT = (6732, 3863, 1001, 795, 126, 52, 5, 5, 3, 1)
PROFILE = (
    (0.50, 0.50),
    (0.50, 0.25),
    (0.50, 0.75),
    (1.00, 1.00),
    (0.25, 0.25),
    (0.50, 0.12),
    (0.50, 0.03),
    (0.50, 0.97),
    (1.00, 0.50),
    (1.00, 0.06),
)


def published() -> LotesInstance:
    """LoTES Tables 1 and 2."""
    classes = JobClasses.of(
        (0.23, 0.46, 0.30, 0.01),
        ((0.02, 0.01), (0.02, 0.03), (0.07, 0.03), (0.20, 0.06)),
        (0.03, 0.04, 0.04, 0.03),
    )
    return LotesInstance.of(MachineConfigurations.of(COUNT, PROFILE), classes)


def drawn(classes: int, seed: int) -> LotesInstance:
    """Classes drawn uniformly on the machines of Table 1."""
    rng = np.random.default_rng(seed)
    jobs = JobClasses.of(
        rng.uniform(0.1, 1.0, classes),
        rng.uniform(0.005, 0.08, (classes, 2)),
        rng.uniform(0.1, 1.0, classes),
    )
    return LotesInstance.of(MachineConfigurations.of(COUNT, PROFILE), jobs)


def run(small: bool) -> dict[str, object]:
    """Best of three (one when small) of each instance and mode, in seconds."""
    repeats = 1 if small else 3
    many = 9 if small else 30
    plan_lotes(published())  # loads the solver and the compiled search
    cases: list[tuple[str, LotesInstance, Mode]] = [
        ("tables_priced", published(), "priced"),
        ("tables_paper", published(), "paper"),
        ("drawn_priced", drawn(many, 0), "priced"),
    ]
    figures: dict[str, object] = {}
    for name, instance, mode in cases:
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            result = plan_lotes(instance, LotesOptions(mode=mode))
            seconds.append(time.perf_counter() - began)
        figures[f"{name}_s"] = min(seconds)
        figures[f"{name}_rate_per_h"] = result.assignment.relaxed_rate
        figures[f"{name}_of_bound"] = result.assignment.relaxed_rate / result.bound
        figures[f"{name}_rounded_of_relaxed"] = result.arrival_rate / result.assignment.relaxed_rate
        figures[f"{name}_bins"] = len(result.assignment.bins.jobs)
    return {"params": {"drawn_classes": many, "repeats": repeats}, "figures": figures}
