"""`greedy_batch`: work graphs in memory to a committed plan, by GREE and GREE-L.

A run packs the requests, places them and commits the answers, arrays still, to another profile by
the compiled re-check. Beside it stands the way of the service: the same agent, then `Plan.prepare`
and `Plan.apply`, which make an object of every answer and a record of every reservation. Times are
processor time of the one thread that does the work, best of several; the reference beside them is
the same batch by the printed rule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from bench.generator import Mix, cluster_of, requests_of
from bench.served import as_served
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.atom_placer import GreedyAgent
from planner.cluster import Cluster
from planner.commit import Admit
from planner.kernels import OUTCOME, PLACED
from planner.plan import Plan
from planner.profile import Batch, taking_order
from planner.request import Request
from planner.view import PlanView

NAME = "greedy_batch"

_PARTS = ("pack", "place", "recheck", "all")


def run(small: bool) -> dict[str, object]:
    """Time each size on each number of machines; figures in ms, and GREE-L over GREE."""
    sizes = [(100, 400)] if small else [(100, 400), (1000, 400), (1000, 4000), (10_000, 4000)]
    rounds = 3 if small else 7
    figures: dict[str, object] = {}
    for count, machines in sizes:
        mix = Mix(requests=count, machines=machines)
        requests = requests_of(mix)
        cluster = cluster_of(mix)
        view = Plan(cluster, cluster.grid()).snapshot()
        spent: dict[str, list[float]] = {}
        for name in ("gree", "gree-l", "gree-paper"):
            agent = agent_named(name)
            assert isinstance(agent, GreedyAgent)
            key = f"{name}_{count}_on_{machines}"
            best, committed = _best(agent, requests, view, rounds)
            spent[name] = best
            figures[f"{key}_ms"] = round(best[-1], 2)
            figures[f"{key}_committed"] = committed
            figures[f"{key}_parts_ms"] = [round(part, 2) for part in best[:-1]]
            figures[f"{key}_into_plan_ms"] = round(_into_plan(agent, requests, cluster, rounds), 2)
        figures[f"gree-l_over_gree_{count}_on_{machines}"] = round(
            spent["gree-l"][1] / spent["gree"][1], 2
        )
    figures["mean_window_steps"] = round(_mean_window(requests))
    return {"params": {"rounds": rounds, "parts": _PARTS[:-1], "load": 1.2}, "figures": figures}


def _best(
    agent: GreedyAgent, requests: Sequence[Request], view: PlanView, rounds: int
) -> tuple[list[float], int]:
    """Return the least ms of each part and of all, and how many requests were committed."""
    best = [float("inf")] * len(_PARTS)
    committed = 0
    with as_served():
        for _ in range(rounds):
            spent, committed = _once(agent, requests, view)
            best = [min(a, b) for a, b in zip(best, spent, strict=True)]
    return best, committed


def _once(
    agent: GreedyAgent, requests: Sequence[Request], view: PlanView
) -> tuple[list[float], int]:
    """Return the ms of each part and of all of one run, and how many requests were committed."""
    marks = [time.process_time()]
    batch = Batch.of(requests, view)
    order = taking_order(requests)
    marks.append(time.process_time())
    agent.run(batch, order, Limits())
    marks.append(time.process_time())
    table = batch.table
    live = table.profile(view)
    averages = table.average_limits(view)
    verdicts = batch.recheck(order, live, averages)
    marks.append(time.process_time())
    committed = int((verdicts[:, OUTCOME] == PLACED).sum())
    if committed != int((batch.out.status[:, OUTCOME] == PLACED).sum()):
        raise AssertionError("the re-check refused a placement")
    spent = [1000 * (b - a) for a, b in pairwise(marks)]
    return [*spent, 1000 * (marks[-1] - marks[0])], committed


def _into_plan(
    agent: GreedyAgent, requests: Sequence[Request], cluster: Cluster, rounds: int
) -> float:
    """Return the least ms from work graphs to reservations of a Plan."""
    best = float("inf")
    for _ in range(rounds):
        plan = Plan(cluster, cluster.grid())
        with as_served():
            begin = time.process_time()
            results = agent.plan(requests, plan.view(), Limits())
            placed = zip(requests, results, strict=True)
            changes = [Admit(one, result, agent.name) for one, result in placed if result.placed]
            record = plan.prepare(changes, plan.version).record
            if record is None:
                raise AssertionError("the plan took nothing")
            plan.apply(record)
            best = min(best, 1000 * (time.process_time() - begin))
    return best


def _mean_window(requests: Sequence[Request]) -> float:
    return mean(int(r.graph.vertices[-1, 3] - r.graph.vertices[-1, 2]) for r in requests)
