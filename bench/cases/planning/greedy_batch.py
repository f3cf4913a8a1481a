"""`greedy_batch`: work graphs in memory to a committed plan, by GREE and GREE-L.

A run does what a service does: the agent packs and places the requests, `Plan.prepare` judges the
answers, `Plan.apply` makes a record of every reservation. Times are processor time of the one
thread that does the work, best of several; the reference alongside them is the same batch by the
printed rule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from bench.papers.agents import bench_agent
from bench.workloads.generator import Mix, cluster_of, requests_of
from bench.workloads.server_memory import as_served
from planner.agent import Limits
from planner.agents.greedy.agent import GreedyAgent, LazyResults
from planner.agents.greedy.batch import Batch, taking_order
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.request import Request

NAME = "greedy_batch"

#: Requests to arrays, arrays to placements, results to a record, the record applied.
_PARTS = ("pack", "place", "prepare", "apply")


def run(small: bool) -> dict[str, object]:
    """Time each size on each number of machines; figures in ms, and GREE-L over GREE."""
    sizes = [(100, 400)] if small else [(100, 400), (1000, 400), (1000, 4000), (10_000, 4000)]
    rounds = 3 if small else 7
    figures: dict[str, object] = {}
    for count, machines in sizes:
        mix = Mix(requests=count, machines=machines)
        requests = requests_of(mix)
        cluster = cluster_of(mix)
        placing: dict[str, float] = {}
        for name in ("gree", "gree-l", "gree-paper"):
            agent = bench_agent(name)
            assert isinstance(agent, GreedyAgent)
            key = f"{name}_{count}_on_{machines}"
            parts, committed = _least_times(agent, requests, cluster, rounds)
            placing[name] = parts[1]
            figures[f"{key}_ms"] = round(sum(parts), 2)
            figures[f"{key}_committed"] = committed
            figures[f"{key}_parts_ms"] = [round(part, 2) for part in parts]
        figures[f"gree-l_over_gree_{count}_on_{machines}"] = round(
            placing["gree-l"] / placing["gree"], 2
        )
    figures["mean_window_steps"] = round(_mean_window(requests))
    return {"params": {"rounds": rounds, "parts": _PARTS, "load": 1.2}, "figures": figures}


def _least_times(
    agent: GreedyAgent, requests: Sequence[Request], cluster: Cluster, rounds: int
) -> tuple[list[float], int]:
    """Return the least ms of each part over several runs, and the number of requests accepted."""
    least = [float("inf")] * len(_PARTS)
    committed = 0
    with as_served():
        for _ in range(rounds):
            parts, committed = _time_parts(agent, requests, Plan(cluster, cluster.grid()))
            least = [min(a, b) for a, b in zip(least, parts, strict=True)]
    return least, committed


def _time_parts(
    agent: GreedyAgent, requests: Sequence[Request], plan: Plan
) -> tuple[list[float], int]:
    """Return the ms of each part of one run, and the number of requests accepted."""
    marks = [time.process_time()]
    batch = Batch.of(requests, plan.view())
    order = taking_order(requests)
    marks.append(time.process_time())
    agent.run(batch, order, Limits())
    marks.append(time.process_time())
    placed = zip(requests, LazyResults(batch, requests), strict=True)
    changes = [Admit(one, result, agent.name) for one, result in placed if result.placed]
    prepared = plan.prepare(changes, plan.version)
    if prepared.record is None:
        raise AssertionError("the plan took nothing")
    marks.append(time.process_time())
    plan.apply(prepared.record, prepared.takings)
    marks.append(time.process_time())
    return [1000 * (b - a) for a, b in pairwise(marks)], len(changes)


def _mean_window(requests: Sequence[Request]) -> float:
    return mean(int(r.graph.vertices[-1, 3] - r.graph.vertices[-1, 2]) for r in requests)
