"""`placed_loss`: what machines cost of a solver's plan, as it is laid and after the search.

Sets: the example day; the generator's mixed, gangs and workflows on 24 machines of 16 containers;
gangs of three bundle shapes on 25 machines with an outage (`narrow`). The agent has its part of
the time, then its plan is laid once without and once with the search in the rest, counted in
processor seconds, for others may share the machine. Target: a loss of at most 2 % against the value
of the agent's pooled plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from bench.cases.exact.runs import warm
from bench.workloads.exact_shapes import narrow
from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents.exact.agent import EXACT
from planner.cluster.cluster import Cluster
from planner.files import read_cluster, read_workload
from planner.machines.warm_up import load_machine_kernels
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.request import Request
from planner.value import value_of
from planner.workload.commit import commit_workload
from planner.workload.compile import CompiledWorkload, compile_workload
from planner.workload.placed_improvement import AGENT_SHARE, PlacedImprovement

NAME = "placed_loss"

SECONDS: Final = (5.0, 15.0)
MIX: Final = Mix(requests=200, steps=480, machines=24)
DAY: Final = Path(__file__).parents[3] / "fixtures" / "example-day"

#: Seconds that no search takes.
_LONG_S: Final = 3600.0

_Set = tuple[Cluster, CompiledWorkload]


def run(small: bool) -> dict[str, object]:
    """Solve, lay and search every set; small: one set of 40 requests for a second."""
    load_machine_kernels()
    figures = {}
    for name, make in _sets(small):
        cluster, workload = make()
        warm(cluster, workload.requests[:10])
        for seconds in (1.0,) if small else SECONDS:
            figures[f"{name}, {seconds:g} s"] = _losses(cluster, workload, seconds)
    return {"params": {"agent": EXACT.name, "agent_share": AGENT_SHARE}, "figures": figures}


def _sets(small: bool) -> Iterator[tuple[str, Callable[[], _Set]]]:
    if small:
        yield "mixed", partial(_generated, replace(MIX, requests=40, steps=120, kind="mixed"))
        return
    yield "example day", _example_day
    for kind in ("mixed", "gangs", "workflows"):
        yield kind, partial(_generated, replace(MIX, kind=kind))
    yield "narrow", _narrow


def _example_day() -> _Set:
    cluster = read_cluster(DAY / "cluster.toml")
    return _placed(cluster), compile_workload(read_workload(DAY / "workload.jsonl"), cluster)


def _generated(mix: Mix) -> _Set:
    return _compiled(cluster_of(mix), requests_of(mix))


def _narrow() -> _Set:
    return _compiled(*narrow(1, 1.2))


def _compiled(cluster: Cluster, requests: Sequence[Request]) -> _Set:
    positions = tuple(range(len(requests)))
    workload = CompiledWorkload(cluster.grid(), tuple(requests), positions, ())
    return _placed(cluster), workload


def _placed(cluster: Cluster) -> Cluster:
    return replace(cluster, promise=PromiseLevel.PLACED)


def _losses(cluster: Cluster, workload: CompiledWorkload, seconds: float) -> dict[str, float]:
    """Return the value on totals and the parts of it that are lost on machines."""
    empty = Plan(cluster, workload.grid)
    limits = Limits(time_s=AGENT_SHARE * seconds)
    pooled, report = EXACT.solve(workload.requests, empty.view(), limits)
    value = partial(_value, cluster, workload)
    laid = commit_workload(empty.copy(), workload, pooled, EXACT)
    until = time.process_time() + (1 - AGENT_SHARE) * seconds
    left = Limits(time_s=_LONG_S, stop=lambda: time.process_time() > until)
    improvement = PlacedImprovement(workload, EXACT, left, report.bound, time.process_time)
    searched = commit_workload(empty.copy(), workload, pooled, EXACT, improvement)
    whole = value(pooled)
    return {
        "pooled": round(whole, 1),
        "bound": round(report.bound, 1),
        "loss_laid": round(1 - value(laid) / whole, 4),
        "loss_searched": round(1 - value(searched) / whole, 4),
        "gap_searched": round(1 - value(searched) / report.bound, 4),
        "search_s": round(improvement.taken_s, 2),
    }


def _value(
    cluster: Cluster, workload: CompiledWorkload, results: Sequence[PlacementResult]
) -> float:
    return sum(
        value_of(request, result.choices, cluster.reference)
        for request, result in zip(workload.requests, results, strict=True)
        if result.placed
    )
