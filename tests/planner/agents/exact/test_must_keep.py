"""Requests that may not be lost: the bound, CP-SAT and the search hold them all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.agent import Limits, MustKeep, SolverAgent
from planner.agents import agent_named
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT, HYBRID
from planner.agents.exact.build import build_problem
from planner.agents.exact.cp_sat import solve_rigid
from planner.agents.exact.prices import ColumnGeneration, starts
from planner.agents.exact.search import RuinRecreate, plain_mix
from planner.agents.milp.agent import MILP
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from tests.builders import a_request
from tests.examples import some_of
from tests.planner.agents.exact.sets import REFUSED, small
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, rigid, tiny_requests

ROUNDING = 1e-9


def kept_of(seed: int, requests: list[Request]) -> list[int]:
    """Draw which requests may not be lost."""
    rng = np.random.default_rng(seed + 77)
    return np.flatnonzero(rng.random(len(requests)) < 0.5).tolist()


def least_wanted_first(requests: list[Request], kept: list[int]) -> list[Request]:
    """Make kept requests worth little, so that keeping them costs value."""
    return [
        Request(r.id, r.tenant, r.queue, r.priority, r.weight * (0.05 if i in kept else 1.0),
                r.submitted_ms, r.graph)
        for i, r in enumerate(requests)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", some_of(range(30), 8))
def test_the_bound_is_that_of_plans_that_keep(seed: int) -> None:
    """Never below the best plan with all kept ones, by full enumeration; steps and columns."""
    kept = kept_of(seed, tiny_requests(seed))
    requests = least_wanted_first(tiny_requests(seed), kept)
    problem = build_problem(requests, Plan(CLUSTER, CLUSTER.grid()).view(), kept)
    best = best_value(requests, CAPACITY, HORIZON, keep=kept)
    if best == -math.inf:
        return
    for ascent in starts(problem):
        for _ in range(4):
            ascent.run(10, 0.5 * best)
            assert ascent.bound >= best - ROUNDING
    flat, _ = starts(problem)
    generation = ColumnGeneration(problem, flat.prices, 1)
    for _ in range(6):
        generation.round(0.0)
    assert generation.bound >= best - ROUNDING


def test_keeping_lowers_the_bound() -> None:
    """Of two gangs that exclude each other the worse must stay: its worth is all there is."""
    gangs = [
        a_request(name, "window(atom(<1 cpu>, 4, 4, 0.004, 0.016), 0, 0.004)").weight(weight)
        for name, weight in (("a", 1.0), ("b", 2.0))
    ]
    requests = [gang.on(CLUSTER) for gang in gangs]
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    free, tied = build_problem(requests, view), build_problem(requests, view, [0])
    for problem, share in ((free, 2 / 3), (tied, 1 / 3)):
        flat, _ = starts(problem)
        for _ in range(40):
            flat.run(50, problem.total * share)
        assert flat.bound == pytest.approx(problem.total * share, rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_cp_sat_keeps_what_it_must(seed: int) -> None:
    """The best plan with all kept ones, proven; or that there is none."""
    kept = kept_of(seed, rigid(seed))
    requests = least_wanted_first(rigid(seed), kept)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    problem = build_problem(requests, view, kept)
    answer = solve_rigid(problem, [REFUSED] * 3, repeats=True)
    best = best_value(requests, CAPACITY, HORIZON, keep=kept)
    if best == -math.inf:
        assert answer.bound == -math.inf
        return
    assert answer.results is not None
    results = [one or REFUSED for one in answer.results]
    assert all(results[index].placed for index in kept)
    assert score_of(requests, results, view.reference)[0] == pytest.approx(best)
    assert answer.bound >= best * (1 - 1e-12)


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows"])
def test_the_search_never_drops_what_it_must_keep(kind: str) -> None:
    """Hot moves on an overloaded set leave every kept request in the best and the present plan."""
    requests, view = small(kind)
    standing = list(agent_named("gree").plan(requests, view, Limits()))
    kept = [index for index, one in enumerate(standing) if one.placed]
    search = RuinRecreate(build_problem(requests, view, kept), seed=1)
    search.load(standing)
    for temperature in (1e9, search.problem.total / 50, 0.0):
        search.run(120, plain_mix(6), temperature)
        assert all(search.plan()[index] is not None for index in kept)
        assert (search.arrays.held[0][kept] == 1).all()
    results = [one or REFUSED for one in search.plan()]
    assert score_of(requests, results, view.reference)[0] == pytest.approx(search.value)


@pytest.mark.parametrize("seed", some_of(range(12), 4))
@pytest.mark.parametrize("solver", [EXACT, HYBRID, MILP], ids=lambda solver: solver.name)
def test_the_agent_keeps_and_proves(solver: SolverAgent, seed: int) -> None:
    """On tiny sets of all operators: all kept, at most the bound, at least what can be proven."""
    kept = kept_of(seed, tiny_requests(seed))
    requests = least_wanted_first(tiny_requests(seed), kept)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    keep = MustKeep(frozenset(kept))
    results, report = solver.solve(requests, view, Limits(work=400, gap=0.0), keep)
    best = best_value(requests, CAPACITY, HORIZON, keep=kept)
    if report.status == "no_answer":
        assert not all(results[index].placed for index in kept)
        assert best == -math.inf or report.bound >= best - ROUNDING
        return
    assert all(results[index].placed for index in kept)
    assert check_plan(requests, results, view) == results
    assert report.value <= best + ROUNDING <= report.bound + 2 * ROUNDING


def test_what_stands_is_the_start_and_a_false_one_is_refused() -> None:
    """A standing plan is improved without losing anybody; one over capacity is an error."""
    requests, view = small("gangs", seed=4)
    standing = list(agent_named("earliest").plan(requests, view, Limits()))
    kept = frozenset(index for index, one in enumerate(standing) if one.placed)
    results, report = EXACT.solve(
        requests, view, Limits(work=300, gap=0.0), MustKeep(kept, standing)
    )
    assert all(results[index].placed for index in kept)
    assert report.value >= score_of(requests, standing, view.reference)[0] - ROUNDING
    with pytest.raises(ValueError, match="no request 99"):
        EXACT.solve(requests, view, Limits(work=1), MustKeep(frozenset({99})))
    with pytest.raises(ValueError, match="results for"):
        EXACT.solve(requests, view, Limits(work=1), MustKeep(kept, standing[1:]))
    index = min(kept)
    doubled = [*standing]
    doubled[index] = PlacementResult(
        vertices=standing[index].vertices, first=standing[index].first,
        rows=standing[index].rows + np.array([0, 0, 10**6]),
    )  # fmt: skip
    with pytest.raises(ValueError, match="breaks a limit"):
        EXACT.solve(requests, view, Limits(work=1), MustKeep(kept, doubled))
