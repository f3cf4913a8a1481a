"""`quick_bound`: the bound beside a greedy plan: what it takes, and how far above the plan it lies.

Sets of the generator and of large pieces, at 1.2 times what the machines do; figures are means over
the seeds. The processor time is that of the bound alone, beside that of planning with ``gree-l``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Final, TypeAlias

from bench.workloads.exact_shapes import lumpy, narrow, wide
from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agent import Limits, total_requested_value
from planner.agents import agent_named
from planner.agents.exact.bound.quick import quick_bound
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of

NAME = "quick_bound"

SEEDS: Final = (1, 2, 3, 4, 5)
LOAD: Final = 1.2

Made: TypeAlias = Callable[[int], tuple[Cluster, Sequence[Request]]]


def _of(kind: str, requests: int) -> Made:
    def made(seed: int) -> tuple[Cluster, Sequence[Request]]:
        mix = Mix(requests=requests, kind=kind, seed=seed, load=LOAD)
        return cluster_of(mix), requests_of(mix)

    return made


SETS: Final[Mapping[str, Made]] = {
    "lumpy": lambda seed: lumpy(seed, LOAD),
    "narrow": lambda seed: narrow(seed, LOAD),
    "wide": lambda seed: wide(seed, LOAD),
    "mixed_100": _of("mixed", 100),
    "mixed_1000": _of("mixed", 1000),
    "workflows_100": _of("workflows", 100),
    "malleable_10000": _of("malleable", 10_000),
}


def run(small: bool) -> dict[str, object]:
    """Return the figures of every set."""
    seeds = SEEDS[:1] if small else SEEDS
    sets = {name: SETS[name] for name in ("lumpy", "mixed_100")} if small else SETS
    made = lumpy(99, LOAD)
    _measured(*made)  # loads the compiled loops
    figures: dict[str, object] = {}
    for name, make in sets.items():
        found = [_measured(*make(seed)) for seed in seeds]
        figures |= {f"{name}_{key}": round(mean(one[key] for one in found), 4) for key in found[0]}
    return {"params": {"seeds": len(seeds), "load": LOAD}, "figures": figures}


def _measured(cluster: Cluster, requests: Sequence[Request]) -> dict[str, float]:
    view = Plan(cluster, cluster.grid()).view()
    began = time.process_time()
    placed = agent_named("gree-l").plan(requests, view, Limits())
    planned = time.process_time()
    value = score_of(requests, placed, view.nominal)[0]
    before = time.process_time()
    bound = quick_bound(requests, view, value).value
    spent = time.process_time() - before
    asked = total_requested_value(requests, view.nominal)
    return {
        "plan_ms": 1000 * (planned - began),
        "bound_ms": 1000 * spent,
        "value": value / asked,
        "bound": bound / asked,
    }
