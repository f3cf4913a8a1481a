"""`hybrid`: solver for the few and greedy for the many, against each alone at equal time.

Rayon (6.3.1) left open whether such a mix pays. Sets of the one generator, 1,000 and 10,000
requests on T = 1,440 steps; every agent gets the same seconds (greedy agents take what they need).
`first` is the hardest to the solver and GREE-L for the rest, without rounds; `rounds` are rounds
from the plan of GREE-L; `hybrid` lets exact go on from greedy agents in any order.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from bench.generator import Mix, cluster_of, requests_of
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.agents.hybrid import HYBRID
from planner.metrics import measure, outcome_of
from planner.plan import Plan
from planner.readiness import load_kernels

NAME = "hybrid"

#: Requests, machines, seconds for each agent.
SETS: Final = ((1000, 500, 20.0), (10_000, 4000, 30.0))
KINDS: Final = ("mixed", "malleable")


def agents(few: int) -> dict[str, Agent]:
    """Return who takes part; `few` is what hybrid gives to its solver at once."""
    hybrid = replace(HYBRID, few=few)
    rounds = replace(hybrid, start="gree-l", together=0)
    return {
        "gree-l": agent_named("gree-l"),
        "portfolio": agent_named("portfolio"),
        "portfolio-free": agent_named("portfolio-free"),
        "exact": agent_named("exact"),
        "first": replace(rounds, first=2 * few, round_s=0.0, share=0.9),
        "rounds": rounds,
        "hybrid": hybrid,
    }


def run(small: bool) -> dict[str, object]:
    """Run every agent on every set; small: 60 requests, a second each."""
    sets = ((60, 30, 1.0),) if small else SETS
    kinds = KINDS[:1] if small else KINDS
    figures: dict[str, object] = {}
    for requests, machines, seconds in sets:
        few = 10 if small else min(1000, requests // 5)
        for kind in kinds:
            mix = Mix(requests, 1440, machines, kind, seed=2)
            figures[f"{kind} {requests}"] = compared(mix, few, seconds)
    return {"params": {"sets": sets, "kinds": kinds, "load": 1.2, "seed": 2}, "figures": figures}


def compared(mix: Mix, few: int, seconds: float) -> Mapping[str, Any]:
    """Return acceptance, preemption and seconds of each agent on one set."""
    load_kernels()
    cluster, requests = cluster_of(mix), requests_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    found = {}
    for name, agent in agents(few).items():
        began = time.perf_counter()
        results = agent.plan(requests, view, Limits(time_s=seconds, seed=1))
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
