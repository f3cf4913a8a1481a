"""Sets of requests that several tests of `exact` solve."""

from __future__ import annotations

from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agents.exact.build import build_problem
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.search import RuinRecreate, plain_mix
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.planner.tiny_requests import CLUSTER

REFUSED = PlacementResult(Code.CAPACITY)


def laid_out(requests: list[Request]) -> tuple[PlanningProblem, PlanView]:
    """Return the problem on the idle cluster of tiny requests."""
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    return build_problem(requests, view), view


def small(kind: str, seed: int = 1, requests: int = 24) -> tuple[list[Request], PlanView]:
    """Return a small set of the one generator, overloaded."""
    mix = Mix(requests=requests, steps=96, machines=40, kind=kind, seed=seed, load=1.4)
    return requests_of(mix), Plan(cluster_of(mix), cluster_of(mix).grid()).view()


def crowded(kind: str = "gangs") -> tuple[list[Request], PlanView]:
    """Return a set of which no plan holds everything: work is 1.8 times what the machines do."""
    mix = Mix(requests=120, steps=96, machines=10, kind=kind, seed=1, load=1.8)
    return requests_of(mix), Plan(cluster_of(mix), cluster_of(mix).grid()).view()


def planned(requests: list[Request], problem: PlanningProblem, seed: int) -> RuinRecreate:
    """Return a search that has some plan."""
    search = RuinRecreate(problem, seed)
    search.load([REFUSED] * len(requests))
    search.run(200, plain_mix(3), 0.0)
    search.restore_best()
    return search
