"""Rounds of a search with more capacity than there is, whose plans are then made to fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from bench.workloads.large_pieces import LargePieces, large_pieces
from planner.agent import Limits
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import SLICE_S
from planner.agents.exact.kernels import runs as loops
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.runs import RunSet
from planner.agents.exact.overload import (
    OverloadSearch,
    lay_out,
    stands_still,
    suits_overload,
)
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.search import RuinRecreate, mix_of, plain_mix
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.builders import a_cluster, a_request
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


#: All of four machines for ten steps.
FULL = PlacementResult(vertices=np.array([0]), first=np.array([0, 1]), rows=np.array([[0, 10, 4]]))


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


def test_no_round_finds_more_than_there_is() -> None:
    """On tiny sets over all operators rounds find plans, and none passes full enumeration."""
    better = 0
    for seed in range(20):
        requests = tiny_requests(seed)
        view = Plan(CLUSTER, CLUSTER.grid()).view()
        problem = build_problem(requests, view)
        search, overload = RuinRecreate(problem, seed), rounds(problem, seed)
        search.load([REFUSED] * len(requests))
        overload.surplus = 1.0
        for _ in range(3):
            better += overload.improve(search, 1.0)
            assert search.arrays.free.min(initial=0) >= 0
        assert search.value <= best_value(requests, CAPACITY, HORIZON) + 1e-9
    assert better >= 10


@pytest.mark.parametrize(
    ("costs", "in_vain"),
    [
        ([9000.0], False),
        ([9000.0, 400.0], True),
        ([9000.0, 200.0], False),
        ([9000.0, 200.0, 190.0, 180.0, 170.0], True),
        ([9000.0, 200.0, 160.0, 130.0, 100.0], False),
    ],
)
def test_draws_end_where_much_stays_over(costs: list[float], in_vain: bool) -> None:
    """Above a cost, or where most of it stays, draws end."""
    assert stands_still(costs) == in_vain


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


def two_at_once(problem: PlanningProblem, overload: OverloadSearch) -> RunSet:
    """Return runs of two requests that each take all there is, at the same time."""
    room = problem.room
    both = replace(problem, room=room._replace(free=2 * room.free))
    search = RuinRecreate(both, 1)
    search.load([FULL, FULL])
    overload.wide.problem = both
    overload.wide.adopt(search)
    return lay_out(problem, search, state.random_state(1))


def test_overload_goes_if_there_is_capacity_alongside() -> None:
    """Two flexible atoms at one time, and capacity for both: after some moves nothing is over."""
    cluster = a_cluster().machines("m", 4, cpu=1).build()
    text = "window(atom(<1 cpu>, 1, 4, 10, 40), 0, 40)"
    requests = [a_request(f"r{i}", text).on(cluster) for i in range(2)]
    problem = build_problem(requests, Plan(cluster, cluster.grid()).view())
    overload = rounds(problem)
    runs = two_at_once(problem, overload)
    assert int(runs.over[0]) == 10
    loops.draw_windows(problem.forest, overload.wide.arrays, runs)
    made = loops.reduce_overload(problem.forest, problem.room, runs, 100_000, 8.0, 0.1)
    assert 0 < made < 100_000
    assert runs.free.min() >= 0
    assert loops.overload_cost(runs) == 0


@pytest.mark.parametrize("looks", [0, 3, 12, 30, 60])
def test_a_stop_ends_a_round_with_a_plan_that_holds(looks: int) -> None:
    """Wherever in a round a stop comes, the plan is worth no less, and takes what there is."""
    requests, view = large()
    problem = build_problem(requests, view)
    search = planned(requests, problem, 1)
    before, left = search.value, iter(range(looks))
    overload = replace(rounds(problem), is_over=lambda: next(left, None) is None)
    better = overload.improve(search, 1.0)
    assert better == (search.value > before)
    assert search.value >= before
    assert search.arrays.free.min() >= 0
    assert next(left, None) is None


def test_rounds_are_for_large_pieces_that_bend() -> None:
    """Large workflows are made by rounds; small pieces, and sets of gangs only, are not."""
    requests, view = large()
    assert suits_overload(build_problem(requests, view))
    for kind in ("workflows", "gangs"):
        assert not suits_overload(build_problem(*small(kind)))


def test_rounds_are_not_for_more_runs_than_can_be_moved() -> None:
    """Atoms of a hundred thousand bundles have too many runs."""
    cluster = a_cluster().machines("m", 100_000, cpu=1).build()
    text = "window(atom(<1 cpu>, 1, 50000, 10, 2000000), 0, 800)"
    requests = [a_request(f"r{i}", text).on(cluster) for i in range(4)]
    assert not suits_overload(build_problem(requests, Plan(cluster, cluster.grid()).view()))


def test_a_limit_of_work_has_no_rounds_and_one_of_time_has() -> None:
    """The annealer makes rounds by the clock only: equal calls with a limit of work are equal."""
    requests, view = large()
    found = []
    for by_time in (False, True):
        made: list[int] = []
        limits = Limits(work=400, gap=0.0)
        if by_time:  # and until one was made
            limits = Limits(time_s=60.0, gap=0.0, stop=lambda made=made: bool(made))
        with pytest.MonkeyPatch.context() as patch:
            improve = OverloadSearch.improve

            def counted(
                own: OverloadSearch,
                search: RuinRecreate,
                seconds: float,
                made: list[int] = made,
                improve: Callable[..., bool] = improve,
            ) -> bool:
                made.append(1)
                return improve(own, search, seconds)

            patch.setattr(OverloadSearch, "improve", counted)
            EXACT.solve(requests, view, limits)
        found.append(bool(made))
    assert found == [False, True]
