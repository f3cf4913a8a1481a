"""Rounds of a search with more room than there is, whose plans are then made to fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from bench.workloads.large_pieces import LargePieces, large_pieces
from planner.agents.check import check_plan
from planner.agents.exact.budget import SLICE_S
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.move_mixes import mix_of, plain_mix
from planner.agents.exact.overload import moves
from planner.agents.exact.overload.search import OverloadSearch, lay_out, suits_overload
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.ruin_recreate import RuinRecreate
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.planner.agents.exact.sets import REFUSED, planned, small
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests


def steady() -> Iterator[float]:
    """Return a clock on which every look takes a slice: slices keep their length by it."""
    return (SLICE_S * looks for looks in count())


def rounds(problem: PlanningProblem, seed: int = 1) -> OverloadSearch:
    """Return rounds by a clock that is the same for everybody."""
    clock = steady()
    mix = mix_of(problem) if suits_overload(problem) else plain_mix(3)
    return OverloadSearch(problem, mix, seed, lambda: next(clock), lambda: False)


def large(requests: int = 30, kind: str = "workflows") -> tuple[list[Request], PlanView]:
    """Return a small set of large pieces, on the idle cluster."""
    cluster, found = large_pieces(LargePieces(kind, 1, requests))
    return found, Plan(cluster, cluster.grid()).view()


@pytest.mark.parametrize("kind", ["workflows", "mixed"])
def test_every_plan_of_a_round_passes_the_check(kind: str) -> None:
    """Plans of rounds break no rule, take no more than there is, and are never worth less."""
    requests, view = large(kind=kind)
    problem = build_problem(requests, view)
    search, overload = planned(requests, problem, 1), rounds(problem)
    for _ in range(4):
        before = search.value
        better = overload.improve(search, 10.0)
        assert search.value >= before
        assert better == (search.value > before)
        results = [result or REFUSED for result in search.plan()]
        kept = check_plan(requests, results, view)
        assert [one.placed for one in kept] == [one.placed for one in results]


def test_rounds_find_more_than_the_search_alone() -> None:
    """On large pieces a few rounds add value to a plan in which the search finds nothing more."""
    requests, view = large()
    problem = build_problem(requests, view)
    search, overload = planned(requests, problem, 1), rounds(problem)
    search.run(2000, mix_of(problem), 0.0)
    before = search.value
    found = [overload.improve(search, 20.0) for _ in range(6)]
    assert any(found)
    assert search.value > before


@pytest.mark.parametrize("seed", range(20))
def test_no_round_finds_more_than_there_is(seed: int) -> None:
    """On tiny sets over all operators rounds never pass what full enumeration finds."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    problem = build_problem(requests, view)
    search, overload = planned(requests, problem, seed), rounds(problem, seed)
    overload.surplus = 1.0
    for _ in range(3):
        overload.improve(search, 1.0)
    assert search.arrays.free.min(initial=0) >= 0
    assert search.value <= best_value(requests, CAPACITY, HORIZON) + 1e-9


def test_equal_seeds_and_clocks_give_equal_plans() -> None:
    """Two searches of one seed, by one clock, have one plan after each round."""
    requests, view = large()
    problem = build_problem(requests, view)
    searches = [planned(requests, problem, 1) for _ in range(2)]
    both = [rounds(problem), rounds(problem)]
    for _ in range(3):
        for search, overload in zip(searches, both, strict=True):
            overload.improve(search, 10.0)
        first, second = (search.arrays.rows[state.KEPT] for search in searches)
        assert (first == second).all()


def test_what_must_be_kept_is_kept() -> None:
    """No round refuses a request that may not be lost."""
    requests, view = large()
    problem = build_problem(requests, view)
    held = [r for r, result in enumerate(planned(requests, problem, 1).plan()) if result][:10]
    must = build_problem(requests, view, held)
    search = RuinRecreate(must, 1)
    search.load([result or REFUSED for result in planned(requests, problem, 1).plan()])
    overload = rounds(must)
    overload.surplus = 0.05
    for _ in range(3):
        overload.improve(search, 10.0)
        plan = search.plan()
        assert all(plan[r] is not None for r in held)


def test_a_stop_ends_a_round_with_the_plan_as_it_was() -> None:
    """Where there is no time left, nothing is changed."""
    requests, view = large()
    problem = build_problem(requests, view)
    search = planned(requests, problem, 1)
    before = search.arrays.rows[state.KEPT].copy()
    overload = replace(rounds(problem), is_over=lambda: True)
    assert not overload.improve(search, 1.0)
    assert (search.arrays.rows[state.KEPT] == before).all()


def test_overload_is_taken_away_where_there_is_room_beside() -> None:
    """Two flexible atoms in one place, and room for both: nothing is over after some moves."""
    requests, view = small("malleable", requests=8)
    problem = build_problem(requests, view)
    search = planned(requests, problem, 1)
    runs = lay_out(problem, search, 1)
    tight = int(np.argmin(runs.free.min(axis=1) / problem.room.scale))
    busy = int(np.argmin(runs.free[tight]))
    runs.free[tight, busy] = -int(problem.room.demand_amounts.max())
    runs.cost[0] = 1e9
    moves.reduce_overload(problem.forest, problem.room, runs, 0, 1.0, 1.0)
    shares = moves.overload_shares(problem.forest, problem.room, runs)
    assert shares.max() > 0
    assert all(search.arrays.held[state.KEPT, r] for r in np.flatnonzero(shares))


def test_rounds_are_for_large_pieces_that_bend() -> None:
    """Large workflows are made by rounds; small pieces, and sets of gangs only, are not."""
    requests, view = large()
    assert suits_overload(build_problem(requests, view))
    for kind in ("workflows", "gangs"):
        assert not suits_overload(build_problem(*small(kind)))
