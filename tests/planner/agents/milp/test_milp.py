"""Rayon's MILP: proven optimal on tiny instances of every operator, checked by the oracle."""

from __future__ import annotations

import numpy as np
import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.milp import rayon
from planner.agents.milp.agent import MILP
from planner.agents.milp.codec import decode, encode
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.value import score_of
from rdl.oracle.satisfaction import check
from rdl.work_graph import choices_of
from tests.builders import a_request
from tests.examples import some_of
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, GRID, HORIZON, tiny_requests


def assert_satisfied(request: Request, result: PlacementResult) -> None:
    """Hold a result against the oracle."""
    graph = request.graph
    allocation = {
        path: rows.tolist()
        for atom in holding_of(request, result).atoms
        for path, rows in atom.occurrences()
    }
    choices = choices_of(graph, result.vertices.tolist())
    assert check(graph.expression, graph.grid, 0, allocation, choices) is None


@pytest.mark.parametrize("seed", some_of(range(100), 25))
def test_the_model_finds_and_proves_the_best_plan(seed: int) -> None:
    """On random tiny sets over all operators the value equals that of full enumeration."""
    requests = tiny_requests(seed)

    results, report = MILP.solve(requests, Plan(CLUSTER, CLUSTER.grid()).snapshot(), Limits())

    assert report.status == "optimal"
    assert report.value == pytest.approx(best_value(requests, CAPACITY, HORIZON))
    assert report.bound == pytest.approx(report.value, rel=1e-5)
    for request, result in zip(requests, results, strict=True):
        if result.placed:
            assert_satisfied(request, result)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 1000))
def test_the_model_is_exact_at_length(seed: int) -> None:
    """The same over hundreds of sets more, each by itself and under a window average."""
    test_the_model_finds_and_proves_the_best_plan(seed)
    test_window_averages_are_exact(seed)


@pytest.mark.parametrize("seed", some_of(range(60), 16))
def test_window_averages_are_exact(seed: int) -> None:
    """Under an average over every window the value is still that of full enumeration.

    Rows that were too tight would lose value; too loose, the Plan would refuse the commit.
    """
    share, window = [(0.5, 3), (0.3, 4), (0.6, 2), (0.25, 8)][seed % 4]
    ruled = GRID.policy("capacity_over_time", average=share, window=f"0.00{window}s").build()
    requests = tiny_requests(seed)
    plan = Plan(ruled, ruled.grid())

    results, report = MILP.solve(requests, plan.snapshot(), Limits())

    best = best_value(requests, CAPACITY, HORIZON, (share, window))
    assert report.value == pytest.approx(best)
    assert report.status == "optimal"
    changes = [Admit(r, a, "milp") for r, a in zip(requests, results, strict=True) if a.placed]
    assert not plan.prepare(changes, plan.version).conflicts


@pytest.mark.parametrize("seed", range(20))
def test_encoding_is_feasible_and_decodes_to_itself(seed: int) -> None:
    """A greedy plan becomes values that break no row of the model, and comes back unchanged."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    results = agent_named("gree").plan(requests, view, Limits())
    built = rayon.build(requests, view)

    values = encode(results, built)

    assert built.model.assemble().violation(values) <= 1e-9
    for before, after in zip(results, decode(values, built), strict=True):
        assert before.placed == after.placed
        assert np.array_equal(before.rows, after.rows)
        assert dict(before.choices) == dict(after.choices)


def test_the_second_solve_keeps_value_and_lowers_falls() -> None:
    """Work of 4 in a window of 4 on an idle cluster: one bundle throughout falls once, by one."""
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 0.001, 0.004), 0, 0.004)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()

    results = MILP.plan([request], view, Limits())

    assert score_of([request], results, view.reference)[1] == -1


@pytest.mark.parametrize("seed", range(4))
def test_it_starts_from_the_best_greedy_plan(seed: int) -> None:
    """However little it may work, it is worth at least what greedy agents reach in any order."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    greedy = agent_named("portfolio-free").plan(requests, view, Limits())

    results = MILP.plan(requests, view, Limits(work=1))

    best = score_of(requests, greedy, view.reference)
    assert score_of(requests, results, view.reference)[0] >= best[0] * (1 - 1e-9)


def test_it_says_what_alongside_value_is_not_proven() -> None:
    """All is placed at once, so value is proven; without time falls is not, and it says so."""
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 0.001, 0.006), 0, 0.004)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()

    report = MILP.solve([request], view, Limits(time_s=0.0))[1]
    proven = MILP.solve([request], view, Limits())[1]

    assert (report.status, "falls not proven" in report.detail) == ("optimal", True)
    assert (proven.status, proven.detail) == ("optimal", "")


def test_a_limit_of_no_time_returns_the_greedy_plan() -> None:
    """Stopped at once, the agent still answers, with what greedy found."""
    requests = tiny_requests(3)
    view = Plan(CLUSTER, CLUSTER.grid()).snapshot()
    greedy = [agent_named(name).plan(requests, view, Limits()) for name in ("gree", "gree-l")]

    results = MILP.plan(requests, view, Limits(time_s=0.0))

    best = max(score_of(requests, plan, view.reference) for plan in greedy)
    assert score_of(requests, results, view.reference) >= best
