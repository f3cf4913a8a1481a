"""Prices drawn for a problem, and what they say about requests, for tests of bounds."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings

from bench.papers.agents import bench_agent
from planner.agent import Limits
from planner.agents.exact.kernels import bound as kernels
from planner.agents.exact.prices import pricing_scratch
from planner.agents.exact.problem import PlanningProblem
from planner.placement import PlacementResult, shifts_of
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import value_of
from planner.view import PlanView
from tests.planner.brute_force_plan import options_of
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON

#: What sums in another order may differ by.
ROUNDING = 1e-9

PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
LAWS = settings(max_examples=60, deadline=None, suppress_health_check=PATIENT)


def gains_at(problem: PlanningProblem, prices: np.ndarray) -> np.ndarray:
    """Return what the programme says each request can be worth more than it costs, at most."""
    space = pricing_scratch(problem)
    kernels.evaluate(problem.forest, problem.room, space, prices)
    return space.gains


def _cost_of(
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


def _resources_of(problem: PlanningProblem) -> list[str]:
    """Return the resource of each row of the capacity."""
    names = Plan(CLUSTER, CLUSTER.grid()).view().row_names
    assert len(problem.rows) == len(problem.room.free)
    return [names[row][1] for row in problem.rows]


def assert_greedy_costs_more(
    problem: PlanningProblem, view: PlanView, gains: np.ndarray, prices: np.ndarray
) -> None:
    """Hold each greedy placement against `gains`: it is worth at most its price and the gain."""
    for name in ("gree", "earliest", "gree-l", "aligned-early"):
        for index, request in enumerate(problem.requests):
            [result] = bench_agent(name).plan([request], view, Limits())
            if result.placed:
                worth = value_of(request, result.choices, view.reference)
                cost = _cost_of(problem, index, result, prices)
                assert worth - cost <= gains[index] + ROUNDING * max(1.0, worth)


def assert_every_way_costs_more(
    problem: PlanningProblem, requests: list[Request], gains: np.ndarray, prices: np.ndarray
) -> None:
    """Hold each allocation of tiny requests that the idle cluster holds against `gains`."""
    names = sorted(CAPACITY)
    capacity = np.array([[CAPACITY[name]] for name in names])
    rows = [names.index(resource) for resource in _resources_of(problem)]
    columns = slice(problem.base, problem.base + prices.shape[1])
    for index, request in enumerate(requests):
        for worth, used in options_of(request, CAPACITY, HORIZON):
            if (used > capacity).any():
                continue
            shares = used[rows] / problem.room.scale[:, None]
            cost = float((shares[:, columns] * prices).sum())
            assert worth - cost <= gains[index] + ROUNDING * max(1.0, worth)
