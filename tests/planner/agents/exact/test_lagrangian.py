"""The Lagrangian bound: valid at any prices, and never below the best plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.agents.exact import lagrangian
from planner.agents.exact.build import build_problem
from planner.agents.exact.lagrangian import LagrangianBound
from planner.agents.exact.prices import ColumnGeneration, starts
from planner.plan.plan import Plan
from planner.workload.compile import compile_workload
from tests.builders import a_request
from tests.examples import some_of
from tests.planner.agents.exact.prices import (
    LAWS,
    ROUNDING,
    assert_every_way_costs_more,
    assert_greedy_costs_more,
    gains_at,
    prices_like,
)
from tests.planner.agents.exact.sets import small
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests
from tests.workload_strategies import clusters, workloads


@LAWS
@given(cluster=clusters(), lines=workloads(), seed=st.integers(0, 1 << 30))
def test_no_placement_costs_less_than_the_programme_says(
    cluster: object, lines: object, seed: int
) -> None:
    """At any prices, what a greedy agent places is worth at most its cost and the gain."""
    requests = compile_workload(lines, cluster).requests  # type: ignore[arg-type]
    asked = [request for request in requests if len(request.graph.vertices)]
    if not asked:
        return
    plan = Plan(cluster, asked[0].graph.grid)  # type: ignore[arg-type]
    view = plan.view()
    problem = build_problem(asked, view)
    prices = prices_like(problem, seed)
    assert_greedy_costs_more(problem, view, gains_at(problem, prices), prices)


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_no_way_to_hold_a_tiny_request_costs_less(seed: int) -> None:
    """The same against every allocation that the idle cluster could hold, by full enumeration."""
    requests = tiny_requests(seed)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    for draw in range(4):
        prices = prices_like(problem, 1000 * seed + draw)
        assert_every_way_costs_more(problem, requests, gains_at(problem, prices), prices)


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_the_bound_is_never_below_the_best_plan(seed: int) -> None:
    """From both starts, after any number of steps, by full enumeration of tiny sets."""
    requests = tiny_requests(seed)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    best = best_value(requests, CAPACITY, HORIZON)
    for ascent in starts(problem):
        for _ in range(6):
            ascent.run(10, 0.5 * best)
            assert ascent.bound >= best - ROUNDING


def test_two_gangs_that_exclude_each_other_are_bounded_by_the_greater() -> None:
    """Two gangs of the whole cluster in one window of their length: the LP bound is exact."""
    gangs = [
        a_request(name, "window(atom(<1 cpu>, 4, 4, 0.004, 0.016), 0, 0.004)").weight(weight)
        for name, weight in (("a", 1.0), ("b", 2.0))
    ]
    problem = build_problem(
        [gang.on(CLUSTER) for gang in gangs], Plan(CLUSTER, CLUSTER.grid()).view()
    )
    flat, _ = starts(problem)
    for _ in range(40):
        flat.run(50, problem.total * 2 / 3)
    assert flat.bound == pytest.approx(problem.total * 2 / 3, rel=1e-3)


def test_columns_are_generated_from_prices_at_which_nothing_pays() -> None:
    """The first master programme is then empty; the bound comes down nevertheless."""
    gangs = [
        a_request(name, "window(atom(<1 cpu>, 4, 4, 0.004, 0.016), 0, 0.004)") for name in "ab"
    ]
    requests = [gang.on(CLUSTER) for gang in gangs]
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    generation = ColumnGeneration(problem, np.full(problem.room.free.shape, problem.total), 1)
    assert generation.price() == (True, 0)
    for _ in range(60):
        generation.round(0.0)
    assert generation.bound == pytest.approx(problem.total / 2)


def test_prices_end_with_column_generation_on_all_columns() -> None:
    """Once its last master gains nothing, no steps along a subgradient follow."""
    requests, view = small("workflows")
    problem = build_problem(requests, view)
    prices = LagrangianBound(problem)
    rounds = 0
    while not prices.over:
        prices.advance(5, 0.0)
        rounds += 1
    assert prices.proof == "columns"
    assert prices.bound < problem.total
    assert rounds < 500


def test_prices_without_column_generation_settle_by_their_ascents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of more requests than the master takes, ascents are all that there is."""
    monkeypatch.setattr(lagrangian, "MOST_REQUESTS", 0)
    requests, view = small("mixed", 1)
    prices = LagrangianBound(build_problem(requests, view))
    assert not prices.over
    while not prices.over:
        prices.advance(20, 0.0)
    assert prices.best is not None
    assert prices.proof == "prices"
