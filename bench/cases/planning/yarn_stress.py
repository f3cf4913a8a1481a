"""`yarn_stress`: the thousand one-stage requests of YARN's stress test of reservation agents.

20,000 slots of one core and 1 GiB, steps of 1 s, 36 h. Each agent gets the requests in the order
of the test, one by one (each seeing what was promised before, as YARN asks its agents), and all at
once as a batch, where only the portfolios change the order. Milliseconds are processor time of the
one thread that plans; `whole_ms` counts the commits too.

The figures of YARN's own two agents alongside them were measured by this project: YARN's classes,
compiled and run in a warm JVM on a machine like that of docs/results/index.md. YARN publishes none.
Its agents round windows to their own steps: a comparison of what is admitted, not of milliseconds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.papers.agents import bench_agent
from bench.workloads.yarn_requests import stage_request
from planner.agent import Agent, Limits
from planner.cluster.cluster import Cluster, MachineGroup
from planner.files import read_line
from planner.placement import PlacementResult
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.request import Request
from planner.validation.validate import validate
from planner.workload.compile import CompiledWorkload, compile_workload
from planner.workload.plan import plan_from_nothing
from rdl.resources import Resources
from rdl.work_graph import WORK

NAME = "yarn_stress"

SLOTS: Final = 20_000
HOURS: Final = 36
_SLOT: Final = Resources.from_json({"cpu": 1, "memory": "1 GiB"})

#: What YARN's two agents admit, and in how many ms: this project's own measurement, in a JVM.
YARN_MEASURED: Final = {
    "yarn_greedy_late": {"accepted": 380, "container_hours": 561_672, "ms": 70},
    "yarn_aligned_late": {"accepted": 391, "container_hours": 635_909, "ms": 610},
}

AGENTS: Final = (
    "gree-paper",
    "gree",
    "gree-l",
    "aligned",
    "headroom",
    "level",
    "earliest",
    "portfolio",
)


def run(small: bool) -> dict[str, object]:
    """Admit the requests with each agent; figures by agent."""
    count = 40 if small else 1000
    cluster = stress_cluster(SLOTS // 20 if small else SLOTS)
    workload = stress_workload(cluster, count)
    agents: list[Agent] = [bench_agent(name) for name in AGENTS]
    figures: dict[str, object] = {}
    # The first calls load what is compiled and free capacity; that is no one's planning time.
    _one_by_one(stress_workload(cluster, 20), cluster, agents[-1])
    for agent in agents:
        figures[agent.name] = {
            "one_by_one": _one_by_one(workload, cluster, agent),
            "batch": _batch(workload, cluster, agent),
        }
    # The test fixes an order; a file of requests does not, and order is worth more than the rule.
    smallest = replace(workload, requests=tuple(sorted(workload.requests, key=_work)))
    for agent in (bench_agent("headroom"), bench_agent("level")):
        figures[f"{agent.name}, smallest first"] = {"batch": _batch(smallest, cluster, agent)}
    figures["asked_container_hours"] = round(container_hours(workload.requests))
    figures["not_compiled"] = len(workload.refusals)
    params = {"requests": count, "step_s": 1, "hours": HOURS, "yarn_measured": YARN_MEASURED}
    return {"params": params, "figures": figures}


def stress_cluster(slots: int = SLOTS) -> Cluster:
    """Return the slots of the test as machines of one core and 1 GiB."""
    group = MachineGroup("slots", slots, _SLOT)
    return Cluster(step_ms=1000, horizon_ms=HOURS * 3_600_000, machines=(group,))


def stress_workload(cluster: Cluster, count: int) -> CompiledWorkload:
    """Return the first `count` requests, all submitted at once in the order of the test."""
    lines = []
    for index in range(count):
        line = {"id": f"r{index}", "tenant": "stress", "submitted": 0}
        lines.append(read_line(line | {"rdl": stage_request(index).to_rdl()}, index + 1))
    return compile_workload(lines, cluster)


def container_hours(requests: Sequence[Request]) -> float:
    """Return the work of requests in hours of one slot; their bundles are one slot each."""
    return sum(_work(one) * one.graph.grid.step_ms for one in requests) / 3_600_000


def _work(request: Request) -> int:
    """Return the bundle-steps that a request asks for."""
    graph = request.graph
    return int(graph.vertices[graph.atoms, WORK].sum())


def _one_by_one(workload: CompiledWorkload, cluster: Cluster, agent: Agent) -> dict[str, object]:
    """Admit each request to the Plan before the next is looked at."""
    plan = Plan(cluster, workload.grid)
    accepted: list[Request] = []
    planning = whole = 0.0
    gc.collect()
    for request in workload.requests:
        began = time.process_time()
        refused = screen(plan, request)
        result = refused or agent.plan([request], plan.view(), Limits())[0]
        planning += time.process_time() - began
        if result.placed:
            _commit(plan, request, result, agent.name)
            accepted.append(request)
        whole += time.process_time() - began
    return _totals(accepted) | {"ms": round(1000 * planning, 1), "whole_ms": round(1000 * whole, 1)}


def _commit(plan: Plan, request: Request, result: PlacementResult, agent: str) -> None:
    prepared = plan.prepare([Admit(request, result, agent)], plan.version)
    if prepared.record is None or prepared.conflicts:
        raise AssertionError(f"the Plan does not take {request.id}: {prepared.outcomes}")
    plan.apply(prepared.record, prepared.takings)


def _batch(workload: CompiledWorkload, cluster: Cluster, agent: Agent) -> dict[str, object]:
    """Plan all requests at once, and judge the plan."""
    planned = plan_from_nothing(cluster, workload, agent, timer=time.process_time)
    violations = validate(planned.document.to_json())
    if violations:
        raise AssertionError(f"{len(violations)} violations, the first: {violations[0]}")
    pairs = zip(workload.requests, planned.results, strict=True)
    accepted = [request for request, result in pairs if result.placed]
    metrics = planned.metrics
    figures = {"falls": metrics.falls, "ms": round(metrics.runtime_ms, 1)}
    return _totals(accepted) | figures


def _totals(accepted: Sequence[Request]) -> dict[str, object]:
    return {"accepted": len(accepted), "container_hours": round(container_hours(accepted))}
