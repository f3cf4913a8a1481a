"""Hybrid: greedy agents place all, the exact planner's search continues; never below the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from bench.workloads.generator import KINDS, Mix, cluster_of, requests_of
from planner.agent import Limits, SolveProgress, total_requested_value
from planner.agents import agent_named
from planner.agents.exact.agent import EXACT, HYBRID
from planner.cluster.cluster import Cluster
from planner.files import WorkloadLine
from planner.plan.plan import Plan
from planner.request import Request
from planner.validation.validate import validate
from planner.value import score_of
from planner.view import PlanView
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from tests.patience import stopwatch
from tests.workload_strategies import clusters, workloads

#: So few that a small set is bounded on buckets of steps.
MANY = replace(HYBRID, most_fine=3)


def crowded(kind: str, requests: int) -> tuple[list[Request], PlanView]:
    """Return requests for twice what fits."""
    mix = Mix(requests=requests, steps=120, machines=4, kind=kind, seed=5, load=2.0)
    cluster = cluster_of(mix)
    return requests_of(mix), Plan(cluster, cluster.grid()).snapshot()


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_worth_at_least_its_start(kind: str) -> None:
    """No less value than greedy agents in any order accept; a bound of at most all asked."""
    requests, view = crowded(kind, 60)
    results, report = MANY.solve(requests, view, Limits(work=200, seed=1))
    value = score_of(requests, results, view.reference)[0]
    assert value == pytest.approx(report.value)
    for start in ("gree-l", "portfolio", "portfolio-free"):
        greedy = agent_named(start).plan(requests, view, Limits())
        assert value >= score_of(requests, greedy, view.reference)[0] - 1e-9
    assert value <= report.bound <= total_requested_value(requests, view.reference) * (1 + 1e-9)


def test_a_small_set_is_left_to_exact() -> None:
    """Then plan and report are the exact planner's own."""
    requests, view = crowded("mixed", 20)
    limits = Limits(work=100, seed=3)
    assert HYBRID.solve(requests, view, limits)[1] == EXACT.solve(requests, view, limits)[1]


def test_the_search_continues_from_the_start() -> None:
    """Sooner or later it is worth more than the start; stopped then, that stands."""
    requests, view = crowded("mixed", 60)
    greedy = agent_named("portfolio-free").plan(requests, view, Limits())
    start = score_of(requests, greedy, view.reference)[0]
    seen: list[SolveProgress] = []
    limits = Limits(
        time_s=60.0, gap=0.0, news=seen.append, stop=lambda: any(n.value > start for n in seen)
    )
    results, report = MANY.solve(requests, view, limits)
    assert report.value > start
    assert report.value == pytest.approx(score_of(requests, results, view.reference)[0])


def test_the_search_ends_at_its_limit() -> None:
    """A second is kept, and no proof claimed."""
    requests, view = crowded("mixed", 60)
    with stopwatch() as taken:
        report = MANY.solve(requests, view, Limits(time_s=1.0, gap=0.0))[1]
    assert taken.seconds < 1.0 + 10.0
    assert report.status == "feasible"


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cluster=clusters(), lines=workloads())
def test_plans_are_valid(cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Whatever the cluster, the policies and the requests: the validator finds nothing."""
    agent = replace(HYBRID, most_fine=0)
    work = compile_workload(lines, cluster)
    done = plan_from_nothing(cluster, work, agent, Limits(work=400, seed=1))
    assert validate(done.document.to_json(), asked=[line.id for line in lines]) == []
