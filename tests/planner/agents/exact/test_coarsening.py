"""Buckets of columns: what they relax only lowers costs, so their bound is one of the fine set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.workloads.generator import KINDS, Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.exact import lagrangian as turns
from planner.agents.exact import prices as generation
from planner.agents.exact.build import build_problem
from planner.agents.exact.lagrangian import LagrangianBound, coarsen
from planner.agents.exact.prices import starts
from planner.agents.exact.problem import PlanningProblem
from planner.plan.plan import Plan
from planner.value import value_of
from planner.workload.compile import compile_workload
from tests.examples import some_of
from tests.planner.agents.exact.prices import (
    LAWS,
    ROUNDING,
    assert_every_way_costs_more,
    assert_greedy_costs_more,
    gains_at,
    prices_like,
)
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests
from tests.workload_strategies import clusters, workloads


@settings(LAWS, max_examples=40)
@given(cluster=clusters(), lines=workloads(), seed=st.integers(0, 1 << 30), size=st.integers(1, 9))
def test_no_placement_costs_less_than_its_buckets_say(
    cluster: object, lines: object, seed: int, size: int
) -> None:
    """At any prices of buckets, no greedy placement is worth more than its cost and the gain."""
    asked = [one for one in compile_workload(lines, cluster).requests if len(one.graph.vertices)]  # type: ignore[arg-type]
    if not asked:
        return
    view = Plan(cluster, asked[0].graph.grid).view()  # type: ignore[arg-type]
    problem = build_problem(asked, view)
    wide = coarsen(problem, size)
    prices = prices_like(wide.problem, seed)
    assert_greedy_costs_more(problem, view, gains_at(wide.problem, prices), wide.fine(prices))


@pytest.mark.parametrize("seed", some_of(range(30), 8))
def test_no_way_to_hold_a_tiny_request_costs_less(seed: int) -> None:
    """The same against every allocation that the idle cluster could hold, by full enumeration."""
    requests = tiny_requests(seed)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    for size in (2, 3):
        wide = coarsen(problem, size)
        prices = prices_like(wide.problem, 1000 * seed + size)
        gains = gains_at(wide.problem, prices)
        assert_every_way_costs_more(problem, requests, gains, wide.fine(prices))


@pytest.mark.parametrize("seed", some_of(range(30), 8))
def test_the_bound_of_buckets_is_never_below_the_best_plan(seed: int) -> None:
    """After any number of steps on buckets of two and three, by full enumeration of tiny sets."""
    requests = tiny_requests(seed)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    best = best_value(requests, CAPACITY, HORIZON)
    for size in (2, 3):
        for ascent in starts(coarsen(problem, size).problem):
            for _ in range(4):
                ascent.run(10, 0.5 * best)
                assert ascent.bound >= best - ROUNDING


def test_prices_of_buckets_are_those_of_their_columns() -> None:
    """Spread over columns and averaged again they are the same, the last short bucket too."""
    problem = build_problem(tiny_requests(1), Plan(CLUSTER, CLUSTER.grid()).view())
    wide = coarsen(problem, 3)
    prices = prices_like(wide.problem, 7)
    assert wide.fine(prices).shape == problem.room.free.shape
    assert np.allclose(wide.mean(wide.fine(prices)), prices)
    assert wide.problem.room.capacity.sum() == pytest.approx(problem.room.capacity.sum())
    with pytest.raises(ValueError, match="at least 1"):
        coarsen(problem, 0)


def crowded(kind: str) -> tuple[PlanningProblem, float]:
    """Return a set of the one generator at twice what fits, and what greedy agents accept."""
    mix = Mix(requests=150, steps=480, machines=400, kind=kind, seed=4, load=2.0)
    requests, cluster = requests_of(mix), cluster_of(mix)
    view = Plan(cluster, cluster.grid()).view()
    results = agent_named("portfolio-free").plan(requests, view, Limits())
    value = sum(
        value_of(request, result.choices, view.reference)
        for request, result in zip(requests, results, strict=True)
        if result.placed
    )
    return build_problem(requests, view), value


def drained(prices: LagrangianBound, value: float) -> float:
    """Return the bound once nothing more can be gained; it is held against a plan at each turn."""
    for _ in range(400):
        prices.advance(5, value)
        assert prices.bound >= value * (1 - ROUNDING)
        if prices.over:
            return prices.bound
    raise AssertionError("no end")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("grouped", [False, True])
def test_dear_problems_are_priced_on_buckets_first(
    kind: str, grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four fifths of what asking for all leaves open are closed on buckets alone, by groups too."""
    monkeypatch.setattr(turns, "COSTLY_S", 0.0)
    if grouped:
        monkeypatch.setattr(generation, "MOST_REQUESTS", 10)
        monkeypatch.setattr(turns, "MOST_REQUESTS", 10)
    problem, value = crowded(kind)
    bound = drained(LagrangianBound(problem, fine=False), value)
    assert bound - value <= (problem.total - value) / 5


def test_a_master_of_groups_holds_what_its_requests_hold() -> None:
    """What groups take together and are worth is the sum over their requests."""
    problem, _ = crowded("mixed")
    whole = generation.ColumnGeneration(problem, np.zeros(problem.room.free.shape), 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "MOST_REQUESTS", 10)
        grouped = generation.ColumnGeneration(problem, np.zeros(problem.room.free.shape), 4)
    for one in (whole, grouped):
        one.price()
    assert len({column.owner for column in grouped.columns}) == generation.GROUPS
    assert sum(one.worth for one in grouped.columns) == pytest.approx(
        sum(one.worth for one in whole.columns)
    )
    assert sum(one.shares.sum() for one in grouped.columns) == pytest.approx(
        sum(one.shares.sum() for one in whole.columns)
    )
