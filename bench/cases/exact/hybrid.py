"""`hybrid`: greedy for the many and a search for the few, against each alone at equal time.

Rayon (6.3.1) left open whether such a mix pays. Sets of the one generator, 1,000 and 10,000
requests on T = 1,440 steps; every agent gets the same seconds (greedy agents take what they need).
Two ways that lost, the hardest first to the solver and rounds of a thousand, are gone; their
figures are in docs/results/exact.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.metrics import measure, outcome_of
from planner.plan.plan import Plan
from planner.workload.warm_up import load_kernels

NAME = "hybrid"

#: Requests, machines, seconds for each agent.
SETS: Final = ((1000, 500, 20.0), (10_000, 4000, 30.0))
KINDS: Final = ("mixed", "malleable")
AGENTS: Final = ("gree-l", "portfolio", "portfolio-free", "exact", "hybrid")


def run(small: bool) -> dict[str, object]:
    """Run every agent on every set; small: 60 requests, a second each."""
    sets = ((60, 30, 1.0),) if small else SETS
    kinds = KINDS[:1] if small else KINDS
    figures: dict[str, object] = {}
    for requests, machines, seconds in sets:
        for kind in kinds:
            mix = Mix(requests, 1440, machines, kind, seed=2)
            figures[f"{kind} {requests}"] = compared(mix, seconds)
    return {"params": {"sets": sets, "kinds": kinds, "load": 1.2, "seed": 2}, "figures": figures}


def compared(mix: Mix, seconds: float) -> Mapping[str, Any]:
    """Return acceptance, preemption and seconds of each agent on one set."""
    load_kernels()
    cluster, requests = cluster_of(mix), requests_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    found = {}
    for name in AGENTS:
        began = time.perf_counter()
        results = agent_named(name).plan(requests, view, Limits(time_s=seconds, seed=1))
        took = time.perf_counter() - began
        outcomes = [
            outcome_of(r, a, cluster.nominal) for r, a in zip(requests, results, strict=True)
        ]
        figures = measure(outcomes, cluster.nominal, cluster.grid().horizon)
        found[name] = {
            "acceptance": figures.acceptance,
            "accepted": figures.accepted,
            "preemption": figures.preemption,
            "seconds": round(took, 2),
        }
    return found


__all__ = ["NAME", "compared", "run"]
