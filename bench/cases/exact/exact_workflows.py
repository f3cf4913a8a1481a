"""`exact_workflows`: 100 workflows of 3 to 20 stages, 120 steps: figure 14's hard end.

Target: a proven gap of 5 % within 60 s, mean of 5 seeds; 1 % is the goal.
"""

from __future__ import annotations

from typing import Final

from bench.cases.exact.runs import figures_of, run_exact, warm
from bench.workloads.generator import Mix, cluster_of, requests_of

NAME = "exact_workflows"

LOADS: Final = (1.2, 2.0)
SEEDS: Final = (1, 2, 3, 4, 5)
SECONDS: Final = 60.0
MARKS: Final = (5.0, 15.0, 60.0)


def run(small: bool) -> dict[str, object]:
    """Run every load and seed; small: 15 workflows for a second."""
    loads, seeds = (LOADS[:1], SEEDS[:1]) if small else (LOADS, SEEDS)
    count, seconds = (15, 1.0) if small else (100, SECONDS)
    figures = {
        f"load {load:g}": of_kind("workflows", count, load, seeds, seconds) for load in loads
    }
    params = {"requests": count, "steps": 120, "machines": 4000, "seeds": seeds, "seconds": seconds}
    return {"params": params, "figures": figures}


def of_kind(
    kind: str, count: int, load: float, seeds: tuple[int, ...], seconds: float
) -> dict[str, object]:
    """Return the figures of one kind of the generator over some seeds."""
    mixes = [Mix(requests=count, steps=120, kind=kind, seed=seed, load=load) for seed in seeds]
    warm(cluster_of(mixes[0]), requests_of(mixes[0])[:10])
    curves = [run_exact(cluster_of(mix), requests_of(mix), seconds, 0.001) for mix in mixes]
    return figures_of(curves, MARKS)
