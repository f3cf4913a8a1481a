"""The Lagrangian bound: valid at any prices, and never below the best plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.exact.bound.column_generation import ColumnGeneration
from planner.agents.exact.bound.subgradient import pricing_scratch, starts
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import bound as kernels
from planner.agents.exact.problem import PlanningProblem
from planner.placement import PlacementResult, shifts_of
from planner.plan.plan import Plan
from planner.value import value_of
from planner.workload.compile import compile_workload
from tests.builders import a_request
from tests.planner.agents.milp.test_milp import CAPACITY, CLUSTER, HORIZON, requests_of
from tests.planner.brute_force_plan import _options, best_value
from tests.property.test_agents_properties import clusters, workloads

#: What sums in another order may differ by.
ROUNDING = 1e-9

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAWS = settings(max_examples=60, deadline=None, suppress_health_check=SLOW)


def gains_at(problem: PlanningProblem, prices: np.ndarray) -> np.ndarray:
    """Return what the programme says each request can be worth more than it costs, at most."""
    space = pricing_scratch(problem)
    kernels.evaluate(problem.forest, problem.room, space, prices)
    return space.gains


def cost_of(
    problem: PlanningProblem, index: int, result: PlacementResult, prices: np.ndarray
) -> float:
    """Return the price of an allocation, added up step by step."""
    request, room, total = problem.requests[index], problem.room, 0.0
    offset = int(problem.forest.first[index])
    for vertex, rows in result.atoms():
        demand = int(problem.forest.vertices[offset + vertex, 10])
        for j in range(room.demand_first[demand], room.demand_first[demand + 1]):
            price = prices[room.demand_rows[j]] * room.shares[j]
            for shift in shifts_of(request.graph, vertex).tolist():
                for start, end, bundles in rows.tolist():
                    first, last = start + shift - problem.base, end + shift - problem.base
                    total += bundles * price[first:last].sum()
    return float(total)


def prices_like(problem: PlanningProblem, seed: int) -> np.ndarray:
    """Draw prices, some steps free, of the size at which requests begin not to pay."""
    rng = np.random.default_rng(seed)
    shape = problem.room.free.shape
    scale = problem.total / max(1, shape[1]) * float(rng.choice([0.1, 1.0, 5.0]))
    return np.asarray(rng.random(shape) * scale * (rng.random(shape) < 0.8))


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
    gains = gains_at(problem, prices)
    for name in ("gree", "earliest", "gree-l", "aligned-early"):
        for index, request in enumerate(asked):
            [result] = agent_named(name).plan([request], view, Limits())
            if result.placed:
                worth = value_of(request, result.choices, view.nominal)
                cost = cost_of(problem, index, result, prices)
                assert worth - cost <= gains[index] + ROUNDING * max(1.0, worth)


@pytest.mark.parametrize("seed", range(40))
def test_no_way_to_hold_a_tiny_request_costs_less(seed: int) -> None:
    """The same against every allocation that the idle cluster could hold, by full enumeration."""
    requests = requests_of(seed)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    names = sorted(CAPACITY)
    capacity = np.array([[CAPACITY[name]] for name in names])
    rows = [names.index(resource) for resource in _resources(problem)]
    for draw in range(4):
        prices = prices_like(problem, 1000 * seed + draw)
        gains = gains_at(problem, prices)
        for index, request in enumerate(requests):
            for worth, used in _options(request, CAPACITY, HORIZON):
                if (used > capacity).any():
                    continue
                shares = used[rows] / problem.room.scale[:, None]
                columns = slice(problem.base, problem.base + prices.shape[1])
                cost = float((shares[:, columns] * prices).sum())
                assert worth - cost <= gains[index] + ROUNDING * max(1.0, worth)


def _resources(problem: PlanningProblem) -> list[str]:
    """Return the resource of each row of the room."""
    names = Plan(CLUSTER, CLUSTER.grid()).view().row_names
    assert len(problem.rows) == len(problem.room.free)
    return [names[row][1] for row in problem.rows]


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_never_below_the_best_plan(seed: int) -> None:
    """From both starts, after any number of steps, by full enumeration of tiny sets."""
    requests = requests_of(seed)
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
    """The first master programme is then empty; the bound comes down all the same."""
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
