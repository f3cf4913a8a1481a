"""`greedy_quality`: what each greedy agent accepts and preempts, against GREE, mean of seeds.

Value is the part of the asked size that is accepted; preemption counts every fall, the last of
each atom too; `over_floor` is preemption over the least that the accepted plain atoms could fall
(the lowest height their windows allow).
"""

from __future__ import annotations

from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from bench.generator import Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.atom_placer import GreedyAgent
from planner.agents.portfolio import preemption_of
from planner.kernels import OUTCOME, PLACED
from planner.plan import Plan
from planner.profile import Batch, taking_order
from planner.request import Request
from planner.value import size_of
from rdl.work_graph import END, MIN_HEIGHT, START, WORK

NAME = "greedy_quality"

_AGENTS = ("gree", "gree-l", "aligned", "gree-paper")
_KINDS = {"malleable": 1000, "gangs": 1000, "workflows": 200, "mixed": 400}


def run(small: bool) -> dict[str, object]:
    """Run every agent on every kind and seed; figures are means, with their spread."""
    seeds = 1 if small else 5
    figures: dict[str, object] = {}
    for kind, count in _KINDS.items():
        rows: dict[str, list[tuple[float, float, float]]] = {name: [] for name in _AGENTS}
        for seed in range(1, seeds + 1):
            mix = Mix(count // (4 if small else 1), kind=kind, seed=seed)
            for name, row in _one_seed(mix).items():
                rows[name].append(row)
        for name in _AGENTS:
            key = f"{kind}_{name}"
            values, preemption, over = zip(*rows[name], strict=True)
            figures[f"{key}_value"] = round(mean(values), 3)
            ratio = [p / g[1] for p, g in zip(preemption, rows["gree"], strict=True)]
            figures[f"{key}_preemption_to_gree"] = round(mean(ratio), 3)
            if seeds > 1:
                figures[f"{key}_preemption_spread"] = round(stdev(ratio), 3)
            if kind == "malleable":
                figures[f"{key}_over_floor"] = round(mean(over), 2)
    return {"params": {"seeds": seeds, "machines": 4000, "load": 1.2}, "figures": figures}


def _one_seed(mix: Mix) -> dict[str, tuple[float, float, float]]:
    """Return (value accepted, preemption, preemption over its floor) by agent."""
    requests = requests_of(mix)
    cluster = cluster_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    sizes = np.array([size_of(request.graph, cluster.nominal) for request in requests])
    found: dict[str, tuple[float, float, float]] = {}
    for name in _AGENTS:
        agent = agent_named(name)
        assert isinstance(agent, GreedyAgent)
        batch = Batch.of(requests, view)
        agent.run(batch, taking_order(requests), Limits())
        placed = batch.out.status[:, OUTCOME] == PLACED
        falls = preemption_of(batch)
        floor = _floor(requests, placed)
        found[name] = (float(sizes[placed].sum() / sizes.sum()), falls, falls / floor)
    return found


def _floor(requests: list[Request], placed: NDArray[np.bool_]) -> int:
    total = 0
    for index in np.flatnonzero(placed).tolist():
        vertices = requests[index].graph.vertices[requests[index].graph.atoms]
        length = vertices[:, END] - vertices[:, START]
        total += int(np.maximum(vertices[:, MIN_HEIGHT], -(-vertices[:, WORK] // length)).sum())
    return max(1, total)
