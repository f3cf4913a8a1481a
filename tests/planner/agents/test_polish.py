"""Falls, then cost, of a plan whose value stays: options of equal worth are all tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits, MustKeep
from planner.agents import agent_named
from planner.agents import polish as options
from planner.agents.check import check_plan, satisfies
from planner.agents.exact.agent import EXACT
from planner.agents.milp.agent import MILP
from planner.agents.polish import min_falls, option_variants, polish
from planner.cluster.cluster import Cluster, Price
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import falls_of, score_of, worth_of
from planner.view import PlanView
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.planner.tiny_requests import CLUSTER, tiny_requests


def seen(cluster: Cluster) -> PlanView:
    """Return the empty Plan of a cluster."""
    return Plan(cluster, cluster.grid()).view()


def an_any(options_: list[tuple[int, int, int]], window: int) -> Request:
    """Return a request of equal options (g, h, work), leases of a step, in a window from 0."""
    atoms = [f"atom(<1 cpu>, {g}, {h}, 0.001, 0.{work:03d})" for g, h, work in options_]
    text = atoms[0] if len(atoms) == 1 else f"any({', '.join(atoms)})"
    return a_request("r", f"window({text}, 0, 0.00{window})").on(CLUSTER)


@st.composite
def loose(draw: st.DrawFn) -> Request:
    """Draw equal options, each of which fits an idle cluster of 4 machines and 6 steps."""
    window = draw(st.integers(3, 6))
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        g = draw(st.integers(1, 3))
        h = draw(st.integers(g, 4))
        drawn.append((g, h, g * draw(st.integers(1, window))))
    return an_any(drawn, window)


def test_flattening_keeps_value_and_lowers_falls() -> None:
    """A work of 40 in a window of 40, held 4 high for 10 steps, falls by 1 when it is flat."""
    cluster = a_cluster().machines("m", 4, cpu=1).build()
    request = a_request("r", "window(atom(<1 cpu>, 1, 4, 10, 40), 0, 40)").on(cluster)
    view = seen(cluster)
    high = PlacementResult(
        vertices=np.array([0]), first=np.array([0, 1]), rows=np.array([[0, 10, 4]])
    )
    assert score_of([request], [high], view.reference)[1] == -4
    flat = polish([request], [high], view, lambda: False)
    assert score_of([request], flat, view.reference)[1] == -1
    assert check_plan([request], flat, view)[0].placed
    assert polish([request], [high], view, lambda: True) == [high]


@settings(max_examples=25, deadline=None)
@given(loose())
def test_of_equal_options_the_one_that_falls_least_is_held(request: Request) -> None:
    """Alone on an idle cluster the answer has the falls that the MILP proves least."""
    view = seen(CLUSTER)
    results, report = EXACT.solve([request], view, Limits())
    best, proof = MILP.solve([request], view, Limits())
    assert report.status == proof.status == "optimal"
    mine, least = (score_of([request], one, view.reference) for one in (results, best))
    assert mine[0] == pytest.approx(least[0])
    assert mine[1] == least[1]
    assert satisfies(request, results[0])


@pytest.mark.parametrize("seed", some_of(range(30), 8))
def test_value_stays_and_falls_never_rises(seed: int) -> None:
    """On tiny sets over all operators, from each greedy plan, and what comes out is sound."""
    requests, view = tiny_requests(seed), seen(CLUSTER)
    for name in ("gree", "gree-l", "aligned", "portfolio-free"):
        start = list(agent_named(name).plan(requests, view, Limits()))
        flat = polish(requests, start, view, lambda: False)
        before, after = (score_of(requests, one, view.reference) for one in (start, flat))
        assert after[0] >= before[0] - 1e-12
        assert after[1] >= before[1]
        assert [one.placed for one in check_plan(requests, flat, view)] == [
            one.placed for one in start
        ]
        for request, result in zip(requests, flat, strict=True):
            assert not result.placed or falls_of(request.graph, result) >= min_falls(request.graph)


def test_where_the_start_holds_everything_it_is_flattened_too() -> None:
    """Two requests of equal options: each ends at its flat one, not at the one written first."""
    requests = [an_any([(4, 4, 4), (1, 2, 6)], 6), an_any([(3, 3, 3), (2, 2, 4), (1, 1, 4)], 6)]
    results, report = EXACT.solve(requests, seen(CLUSTER), Limits())
    assert report.status == "optimal"
    assert [falls_of(r.graph, one) for r, one in zip(requests, results, strict=True)] == [1, 1]


def test_of_equal_falls_the_cheaper_is_held() -> None:
    """An hour that costs three times as much is left where the other one has the same capacity."""
    cluster = a_cluster().step("60s").horizon("2h").machines("m", 4, cpu=1)
    for start, end, dear in (("0h", "1h", 0), ("1h", "2h", 60)):
        priced = cluster.price(start, end, 3.0).build()
        view = seen(priced)
        request = a_request("r", "window(atom(<1 cpu>, 1, 1, 600, 1800), 0, 7200)").on(priced)
        [result] = EXACT.solve([request], view, Limits())[0]
        assert not any(a < dear + 60 and b > dear for a, b, _ in result.rows.tolist())


def test_cheap_steps_in_the_middle_of_a_window_are_found() -> None:
    """Neither the latest nor the earliest hour is the cheap one: that is held, and no other."""
    cluster = a_cluster().step("60s").horizon("3h").machines("m", 4, cpu=1)
    priced = cluster.price("1h", "2h", 0.25).build()
    request = a_request("r", "window(atom(<1 cpu>, 1, 1, 600, 1800), 0, 10800)").on(priced)
    [result] = EXACT.solve([request], seen(priced), Limits())[0]
    assert result.rows[0, 0] >= 60
    assert result.rows[-1, 1] <= 120


@pytest.mark.parametrize("seed", range(20))
def test_with_prices_the_rank_never_rises(seed: int) -> None:
    """On tiny sets over all operators value stays, then falls, then cost falls or stays."""
    cluster = replace(CLUSTER, prices=(Price(1, 3, 3.0), Price(4, 5, 0.5)))
    requests, view = tiny_requests(seed), seen(cluster)
    start = list(agent_named("gree").plan(requests, view, Limits()))
    flat = polish(requests, start, view, lambda: False)
    ranks = []
    for plan in (start, flat):
        value, falls = score_of(requests, plan, view.reference)
        assert view.prices is not None
        costs = [
            view.prices.cost_of(*pair, view.nominal) for pair in zip(requests, plan, strict=True)
        ]
        ranks.append((-value, -falls, sum(costs)))
    assert ranks[1][0] == pytest.approx(ranks[0][0])
    assert ranks[1][1:] <= (ranks[0][1], ranks[0][2] + 1e-9)
    assert [one.placed for one in check_plan(requests, flat, view)] == [one.placed for one in start]


def test_what_must_be_kept_and_stands_is_left_alone() -> None:
    """Who may not be lost keeps its place where the start is the answer: churn comes first."""
    request = an_any([(4, 4, 4), (1, 1, 4)], 6)
    standing = PlacementResult(
        vertices=np.array([0]),
        first=np.array([0, 1]),
        rows=np.array([[2, 3, 4]]),
        choices=((2, 0),),
    )
    keep = MustKeep(frozenset([0]), [standing])
    [result] = EXACT.solve([request], seen(CLUSTER), Limits(), keep)[0]
    assert result.rows.tolist() == [[2, 3, 4]]


@pytest.mark.parametrize("most", [64, 1])
def test_ways_are_those_worth_no_less(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them where they are few; of many those that differ in one choice."""
    monkeypatch.setattr(options, "MOST_WAYS", most)
    atom = "atom(<1 cpu>, 1, 1, 0.001, 0.001)"
    both = f"any({atom}, {atom}, {atom}, prefer=[1, 0.5, 1])"  # options stand as 0, 2, 1
    request = a_request("r", f"all({both}, {both})").on(CLUSTER)
    [result] = agent_named("gree").plan([request], seen(CLUSTER), Limits())
    found = []
    for way in option_variants(request, result, CLUSTER.reference):
        [again] = agent_named("gree").plan([way], seen(CLUSTER), Limits())
        assert worth_of(request.graph, again.choices, CLUSTER.reference) == 1
        assert satisfies(request, again)
        found.append(tuple(option for _, option in sorted(again.choices)))
    few = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(found) == (few if most == 64 else few[:3])
