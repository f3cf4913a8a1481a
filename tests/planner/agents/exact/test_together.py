"""Gangs that run together, as each part of `exact` and the MILP sees them, by full enumeration."""

from __future__ import annotations

import pytest

from planner.agent import Limits
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.agents.exact.cp_sat import solve_rigid, suits_cp_sat
from planner.agents.exact.prices import starts
from planner.agents.exact.search import RuinRecreate, plain_mix
from planner.agents.milp.agent import MILP
from planner.placement import PlacementResult
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.value import score_of
from planner.view import PlanView
from rdl.oracle.satisfaction import check
from rdl.work_graph import choices_of
from tests.examples import some_of
from tests.planner.agents.exact.prices import (
    ROUNDING,
    assert_every_way_costs_more,
    gains_at,
    prices_like,
)
from tests.planner.agents.exact.sets import REFUSED, laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, HORIZON, togethers

SEEDS = some_of(range(60), 8)


def assert_the_best(
    requests: list[Request], results: list[PlacementResult], view: PlanView
) -> None:
    """Hold a plan against the check, the oracle, and the value of full enumeration."""
    assert check_plan(requests, results, view) == results
    for request, result in zip(requests, results, strict=True):
        if not result.placed:
            continue
        graph = request.graph
        rows = {
            path: held.tolist()
            for atom in holding_of(request, result).atoms
            for path, held in atom.occurrences()
        }
        assert check(graph.expression, graph.grid, 0, rows,
                     choices_of(graph, result.vertices.tolist())) is None  # fmt: skip
    best = best_value(requests, CAPACITY, HORIZON)
    assert score_of(requests, results, view.reference)[0] == pytest.approx(best)


@pytest.mark.parametrize("seed", SEEDS)
def test_cp_sat_proves_the_best_plan_of_togethers(seed: int) -> None:
    """Gangs that run together are one block each: value and bound are those of enumeration."""
    requests = togethers(seed)
    problem, view = laid_out(requests)
    assert suits_cp_sat(problem)
    answer = solve_rigid(problem, [REFUSED] * len(requests), repeats=True)
    assert answer.results is not None
    assert_the_best(requests, [one or REFUSED for one in answer.results], view)
    best = best_value(requests, CAPACITY, HORIZON)
    assert best * (1 - 1e-12) <= answer.bound <= best * (1 + 1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_milp_proves_the_best_plan_of_togethers(seed: int) -> None:
    """Its value is that of full enumeration, and proven."""
    requests = togethers(seed)
    _, view = laid_out(requests)
    results, report = MILP.solve(requests, view, Limits(time_s=120.0))
    assert report.status == "optimal"
    assert_the_best(requests, list(results), view)


@pytest.mark.parametrize("seed", some_of(range(30), 4))
def test_exact_proves_the_best_plan_of_togethers(seed: int) -> None:
    """All of its ways together prove what full enumeration finds."""
    requests = togethers(seed)
    _, view = laid_out(requests)
    results, report = EXACT.solve(requests, view, Limits(time_s=20.0, gap=0.0))
    assert report.status == "optimal"
    assert_the_best(requests, list(results), view)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_way_to_hold_gangs_together_costs_less_than_prices_say(seed: int) -> None:
    """At any prices, and neither bound falls below the best plan."""
    requests = togethers(seed)
    problem, _ = laid_out(requests)
    for draw in range(4):
        prices = prices_like(problem, 1000 * seed + draw)
        assert_every_way_costs_more(problem, requests, gains_at(problem, prices), prices)
    best = best_value(requests, CAPACITY, HORIZON)
    for ascent in starts(problem):
        ascent.run(40, 0.5 * best)
        assert ascent.bound >= best - ROUNDING


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_search_finds_passes_the_check(seed: int) -> None:
    """No part of its best plan breaks a rule, and it is worth what it says."""
    requests = togethers(seed)
    problem, view = laid_out(requests)
    search = RuinRecreate(problem, seed)
    search.load([REFUSED] * len(requests))
    search.run(200, plain_mix(3), problem.total / 4)
    results = [one or REFUSED for one in search.plan()]
    assert check_plan(requests, results, view) == results
    assert score_of(requests, results, view.reference)[0] == pytest.approx(search.value)
    assert search.value <= best_value(requests, CAPACITY, HORIZON) + ROUNDING
