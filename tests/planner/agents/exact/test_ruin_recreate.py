"""Ruin and recreate, the check that its plans must pass, and the agent that races it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agent import BoundError, Limits, SolveProgress, total_requested_value
from planner.agents import agent_named
from planner.agents.check import check_plan, satisfies
from planner.agents.exact.agent import EXACT, ExactAgent
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import Incumbent
from planner.agents.exact.lagrangian import evaluation_s
from planner.agents.exact.parallel import load_loops
from planner.agents.exact.search import RuinRecreate, plain_mix
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.patience import stopwatch
from tests.planner.agents.exact.sets import REFUSED, small
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests


def portfolio(requests: list[Request], view: PlanView) -> tuple[float, int]:
    """Return the score of the greedy plan that the agent starts from."""
    return score_of(
        requests, agent_named("portfolio").plan(requests, view, Limits()), view.reference
    )


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_every_plan_found_passes_the_check(kind: str) -> None:
    """After any number of moves, hot or cold, no part of the best plan breaks a rule."""
    requests, view = small(kind)
    search = RuinRecreate(build_problem(requests, view), seed=3)
    search.load([REFUSED] * len(requests))
    for temperature in (1e9, search.problem.total / 50, 0.0):
        search.run(150, plain_mix(6), temperature)
        results = [result or REFUSED for result in search.plan()]
        kept = check_plan(requests, results, view)
        assert [one.placed for one in kept] == [one.placed for one in results]
        assert score_of(requests, results, view.reference)[0] == pytest.approx(search.value)


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_plans_of_every_operator_satisfy_the_oracle(seed: int) -> None:
    """On tiny sets over all operators, and never more value than full enumeration finds."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    search = RuinRecreate(build_problem(requests, view), seed)
    search.load([REFUSED] * len(requests))
    search.run(200, plain_mix(3), search.problem.total / 4)
    for request, result in zip(requests, search.plan(), strict=True):
        assert result is None or satisfies(request, result)
    assert search.value <= best_value(requests, CAPACITY, HORIZON) + 1e-9


def test_the_search_starts_from_the_plan_it_is_given() -> None:
    """A loaded plan comes back unchanged, and moves never lose value."""
    requests, view = small("mixed")
    greedy = agent_named("gree").plan(requests, view, Limits())
    search = RuinRecreate(build_problem(requests, view), seed=1)
    search.load(greedy)
    for before, after in zip(greedy, search.plan(), strict=True):
        assert before.placed == (after is not None)
        assert after is None or np.array_equal(before.rows, after.rows)
    value = search.value
    search.run(100, plain_mix(5), search.problem.total)
    assert search.value >= value


def test_the_check_refuses_what_breaks_a_limit() -> None:
    """Rows over capacity, outside the window, of too little work, or above an average go."""
    cluster = a_cluster().machines("m", 4, cpu=1).policy(
        "capacity_over_time", average=0.5, window="100s", name="half"
    ).build()  # fmt: skip
    request = a_request("r", "window(atom(<1 cpu>, 4, 4, 40, 160), 0, 100)").on(cluster)
    view = Plan(cluster, cluster.grid()).view()
    good = PlacementResult(
        vertices=np.array([0]), first=np.array([0, 1]), rows=np.array([[0, 40, 4]])
    )
    late = replace(good, rows=np.array([[70, 110, 4]]))
    little = replace(good, rows=np.array([[0, 39, 4]]))
    assert [one.placed for one in check_plan([request], [good], view)] == [True]
    assert [one.placed for one in check_plan([request], [late], view)] == [False]
    assert [one.placed for one in check_plan([request], [little], view)] == [False]
    second = a_request("s", "window(atom(<1 cpu>, 4, 4, 40, 160), 0, 100)").weight(2).on(cluster)
    behind = replace(good, rows=np.array([[40, 80, 4]]))
    both = check_plan([request, second], [good, behind], view)
    assert [one.placed for one in both] == [False, True]  # half of 4 for 100 s is 200, not 320


def test_a_bound_below_a_checked_plan_is_an_error() -> None:
    """A incumbent whose bound falls below its plan raises, whichever comes first."""
    requests, view = small("gangs")
    greedy = list(agent_named("gree").plan(requests, view, Limits()))
    value = score_of(requests, greedy, view.reference)[0]
    incumbent = Incumbent(
        requests, view, greedy, total_requested_value(requests, view.reference), "gree"
    )
    with pytest.raises(BoundError):
        incumbent.lower(0.9 * value, "prices")
    empty = Incumbent(requests, view, [REFUSED] * len(requests), 0.9 * value, "nothing")
    with pytest.raises(BoundError):
        empty.offer(greedy, "gree")


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_never_below_the_portfolio_and_the_gap_is_true(kind: str) -> None:
    """The answer is worth at least the portfolio's, at most the bound, and passes the check."""
    requests, view = small(kind, seed=2)
    start = score_of(
        requests, agent_named("portfolio").plan(requests, view, Limits()), view.reference
    )
    results, report = EXACT.solve(requests, view, Limits(work=600))
    score = score_of(requests, results, view.reference)
    assert score >= start
    assert score[0] == pytest.approx(report.value)
    assert report.value <= report.bound * (1 + 1e-9)
    assert all(one.placed for one in check_plan(requests, results, view)) == all(
        one.placed for one in results
    )


def test_equal_work_and_seed_give_the_equal_plan() -> None:
    """Two runs with a work limit agree in every row and in the bound."""
    requests, view = small("mixed", seed=5)
    (first, one), (second, two) = (
        EXACT.solve(requests, view, Limits(work=400, seed=7)) for _ in range(2)
    )
    assert one == two
    for a, b in zip(first, second, strict=True):
        assert a.code == b.code
        assert np.array_equal(a.rows, b.rows)


def test_it_stops_when_told_and_keeps_the_best_so_far() -> None:
    """A stop ends the run within a second, with a plan no worse than the portfolio's."""
    requests, view = small("workflows", seed=3, requests=40)
    asked = iter([False] * 5)
    agent = ExactAgent(gap=0.0)
    results, report = agent.solve(
        requests, view, Limits(time_s=60.0, stop=lambda: next(asked, True))
    )
    start = score_of(
        requests, agent_named("portfolio").plan(requests, view, Limits()), view.reference
    )
    assert report.status in ("stopped", "optimal")
    assert score_of(requests, results, view.reference) >= start


def test_no_time_at_all_gives_the_portfolio() -> None:
    """A limit of 0 s leaves the greedy plan and a bound that costs nothing."""
    requests, view = small("gangs")
    results, report = EXACT.solve(requests, view, Limits(time_s=0.0))
    greedy = agent_named("portfolio").plan(requests, view, Limits())
    assert score_of(requests, results, view.reference) >= score_of(requests, greedy, view.reference)
    assert report.source == "portfolio-free"
    assert report.bound == pytest.approx(total_requested_value(requests, view.reference))


def test_a_set_too_large_for_memory_is_left_to_the_greedy_plan() -> None:
    """Memory is predicted before anything is built, and the report says how much."""
    requests, view = small("workflows", requests=40)
    _, report = ExactAgent(most_memory=1000).solve(requests, view, Limits())
    assert report.status == "too_large"
    assert "GiB" in report.detail


def test_windows_too_long_for_the_limit_are_priced_on_buckets() -> None:
    """Where one evaluation would take much of the limit, buckets of steps bound it in time."""
    cluster = a_cluster().step("60s").horizon("100d").machines("m", 4, cpu=8).build()
    view = Plan(cluster, cluster.grid()).view()
    text = "window(atom(<1 cpu>, 1, 50, 40h, 4000h), 0, 100d)"
    requests = [a_request(f"w{index}", text).on(cluster) for index in range(30)]
    problem = build_problem(requests, view)
    assert evaluation_s(problem) > 2.0
    load_loops(build_problem(requests[:1], view))  # a limit is given more time where this compiles
    heard: list[SolveProgress] = []

    def bounded() -> bool:
        return any(one.bound < 0.9 * problem.total for one in heard)

    limits = Limits(time_s=15.0, news=heard.append, stop=bounded)
    with stopwatch() as taken:
        _, report = EXACT.solve(requests, view, limits)
    assert taken.seconds < 15.0 + 10.0
    assert report.value <= report.bound < 0.9 * problem.total


def test_no_requests_give_no_results() -> None:
    """An empty set is proven optimal at once."""
    _, view = small("gangs")
    results, report = EXACT.solve([], view, Limits())
    assert results == []
    assert report.status == "optimal"
