"""Hybrid: the hard few to the solver, the many to GREE-L, never below the start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from bench.generator import KINDS, Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.hardness import Neighbourhoods, hardest, lumpiness, tightness
from planner.agents.hybrid import HYBRID
from planner.cluster import Cluster
from planner.files import WorkloadLine
from planner.placement import Code, PlacementResult
from planner.plan import Plan
from planner.plan_file import plan_from_nothing
from planner.solver_report import all_asked
from planner.validator import validate
from planner.value import score_of
from planner.workload import compile_workload
from tests.builders import a_cluster, a_request
from tests.property.test_agents_properties import clusters, workloads

#: Small enough that a handful of requests takes both of its ways, by the quickest solver to start.
SMALL = replace(HYBRID, inner="milp", few=3, first=2, start="gree-l")

CLUSTER = a_cluster().horizon(40).machines("m", 4, cpu=1).build()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", [SMALL, replace(SMALL, first=0), replace(SMALL, round_s=0.0)])
def test_it_is_worth_at_least_its_start(agent: object, kind: str) -> None:
    """Both ways together, and each alone, accept no less value than GREE-L, validly."""
    mix = Mix(requests=12, steps=120, machines=4, kind=kind, seed=5, load=2.0)
    cluster, requests = cluster_of(mix), requests_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    limits = Limits(work=1000, seed=1)
    results, report = agent.solve(requests, view, limits)  # type: ignore[attr-defined]
    greedy = agent_named("gree-l").plan(requests, view, limits)
    value = score_of(requests, results, view.nominal)[0]
    assert value == pytest.approx(report.value)
    assert value >= score_of(requests, greedy, view.nominal)[0] - 1e-9
    assert report.bound >= value


def test_rounds_find_what_greedy_gives_away() -> None:
    """GREE-L takes requests as they come; a round gives two small ones up for one worth more."""
    asked = [
        *(a_request(f"s{n}", "window(atom(<1 cpu>, 2, 2, 10, 20), 0, 10)") for n in range(2)),
        a_request("big", "window(atom(<1 cpu>, 4, 4, 10, 40), 0, 10)").weight(3),
        a_request("late", "window(atom(<1 cpu>, 1, 1, 10, 10), 20, 30)"),
    ]
    requests = [one.on(CLUSTER) for one in asked]
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    greedy = agent_named("gree-l").plan(requests, view, Limits())
    assert [result.placed for result in greedy] == [True, True, False, True]
    agent = replace(SMALL, first=0)
    results, report = agent.solve(requests, view, Limits(work=500))
    assert [result.placed for result in results] == [False, False, True, True]
    assert report.source == "rounds by milp"


def test_a_small_set_goes_to_the_solver_whole() -> None:
    """Then plan, bound and status are the solver's own."""
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 2, 8), 0, 20)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    agent = replace(HYBRID, inner="milp")
    report = agent.solve([request], view, Limits(time_s=5.0))[1]
    assert report == agent_named("milp").solve([request], view, Limits(time_s=5.0))[1]  # type: ignore[attr-defined]


def test_more_than_a_few_are_searched_together() -> None:
    """`exact` goes on from the plan of any order with all requests: no less, and with a bound."""
    mix = Mix(requests=60, steps=120, machines=4, kind="mixed", seed=5, load=2.0)
    cluster, requests = cluster_of(mix), requests_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    agent = replace(HYBRID, few=3)
    results, report = agent.solve(requests, view, Limits(work=200, seed=1))
    start = agent_named("portfolio-free").plan(requests, view, Limits())
    value = score_of(requests, results, view.nominal)[0]
    assert value >= score_of(requests, start, view.nominal)[0] - 1e-9
    assert value <= report.bound < all_asked(requests, view.nominal)


def test_gangs_and_tight_windows_are_hard() -> None:
    """Of equal value: what needs more at once, then what needs more of its window."""
    texts = {
        "loose": "window(atom(<1 cpu>, 1, 4, 2, 16), 0, 40)",
        "tight": "window(atom(<1 cpu>, 1, 4, 2, 16), 0, 4)",
        "gang": "window(atom(<1 cpu>, 4, 4, 2, 16), 0, 4)",
    }
    requests = [a_request(name, text).on(CLUSTER) for name, text in texts.items()]
    nominal = Plan(CLUSTER, CLUSTER.grid()).snapshot().nominal
    assert [lumpiness(one.graph, nominal) for one in requests] == [0.25, 0.25, 1.0]
    assert [tightness(one.graph) for one in requests] == [0.1, 1.0, 1.0]
    assert hardest(requests, nominal, 1) == [2]
    assert hardest(requests, nominal, 2) == [1, 2]
    assert hardest(requests, nominal, 9) == [0, 1, 2]


def test_neighbours_are_near_in_time() -> None:
    """A refused request is drawn with those that hold something inside its window, and no other."""
    windows = [(0, 10), (2, 8), (20, 30), (21, 29)]
    requests = [
        a_request(f"r{n}", f"window(atom(<1 cpu>, 1, 1, 1, 2), {s}, {e})").on(CLUSTER)
        for n, (s, e) in enumerate(windows)
    ]
    rows = np.array([[22, 24, 1]], dtype=np.int64)
    held = PlacementResult(vertices=np.array([0]), first=np.array([0, 1]), rows=rows)
    early = replace(held, rows=np.array([[3, 5, 1]], dtype=np.int64))
    refused = PlacementResult(Code.CAPACITY, "no")
    near = Neighbourhoods(requests, 3, np.random.default_rng(0))
    assert near.draw([refused, early, held, held]) == [0, 1]
    assert near.draw([held, held, held, held]) == []


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cluster=clusters(), lines=workloads())
def test_plans_of_both_ways_are_valid(cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Whatever the cluster, the policies and the requests: the validator finds nothing."""
    agent = replace(SMALL, few=1, first=1)
    work = compile_workload(lines, cluster)
    done = plan_from_nothing(cluster, work, agent, Limits(work=1000, seed=1))
    assert validate(done.document.to_json(), asked=[line.id for line in lines]) == []
