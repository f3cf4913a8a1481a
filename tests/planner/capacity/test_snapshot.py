"""Views with something more, and with something less."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files import WorkloadLine
from planner.plan.plan import Plan
from planner.workload.compile import compile_workload
from tests.workload_strategies import clusters, workloads


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cluster=clusters(), lines=workloads())
def test_without_undoes_after(cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """What is free and what averages leave is as before, for any requests; the views are apart."""
    requests = compile_workload(lines, cluster).requests
    view = Plan(cluster, cluster.grid()).snapshot()
    results = agent_named("gree").plan(requests, view, Limits())
    placed = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
    before = view.free.copy(), view.averages.slack.copy()
    held = view.after(placed, 1)
    one_less = held.without(placed[:1], 1)
    again = one_less.without(placed[1:], 1)
    assert np.array_equal(again.free, before[0])
    assert np.array_equal(again.averages.slack, before[1])
    assert np.array_equal(view.free, before[0])
    assert np.array_equal(one_less.after(placed[:1], 1).free, held.free)
