"""Portfolio: never worth less than what it is made of."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bench.papers.agents import bench_agent
from bench.workloads.generator import KINDS, Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents.greedy.agent import GreedyAgent, LazyResults
from planner.agents.greedy.batch import Batch
from planner.agents.greedy.kernels.codes import BLOCKS
from planner.agents.portfolio import PORTFOLIO, PORTFOLIO_FREE, batch_falls
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of, value_of
from tests.builders import a_cluster, a_request
from tests.planner.graphs import ArrayView, any_of, atom, heights, request, within


def _requests(count: int, seed: int) -> list[Request]:
    rng = random.Random(seed)
    found = []
    for index in range(count):
        most, lease = rng.randint(1, 6), rng.randint(1, 5)
        start = rng.randint(0, 20)
        piece = atom(1, most, lease, most * lease * rng.randint(1, 3))
        if rng.random() < 0.3:
            piece = any_of(piece, atom(1, most, lease, most * lease))
        found.append(request(within(start, start + rng.randint(10, 30), piece), 60, f"r{index}"))
    return found


def test_worth_at_least_each_member() -> None:
    """On a crowded cluster the portfolio's value is at least that of each of its named members."""
    for seed in range(5):
        requests = _requests(60, seed)
        view = ArrayView(np.full(60, 10))

        def value(name: str, asked: list[Request], view: ArrayView = view) -> float:
            results = bench_agent(name).plan(asked, view, Limits())
            return sum(
                value_of(one, result.choices, view.reference)
                for one, result in zip(asked, results, strict=True)
                if result.placed
            )

        best = value("portfolio", requests)
        for name in ("gree", "gree-l", "aligned", "earliest"):
            assert best >= value(name, requests) - 1e-9


def test_small_requests_first_among_equals() -> None:
    """One large request does not shut out many small ones of the same priority."""
    large = request(atom(4, 4, 10, 40), 10, "large")
    small = [request(atom(1, 1, 9, 9), 10, f"s{i}") for i in range(4)]
    # 40 of 40 is worth more than 36: value decides, not count.
    view = ArrayView(np.full(10, 4))
    results = bench_agent("portfolio").plan([*small, large], view, Limits())
    assert [result.placed for result in results] == [False] * 4 + [True]


def test_priority_is_never_overtaken() -> None:
    """Value does not overrule priority: the important small request is placed first."""
    large = request(atom(4, 4, 10, 40), 10, "large")
    small = request(atom(1, 1, 9, 9), 10, "small", priority=1)
    results = bench_agent("portfolio").plan([large, small], ArrayView(np.full(10, 4)), Limits())
    assert [result.placed for result in results] == [False, True]


def test_one_request_alone() -> None:
    """Online: most headroom first, and GREE's shape if there is no rectangle."""
    view = ArrayView(np.array([1, 2, 1]))
    result = bench_agent("portfolio").plan([request(atom(1, 3, 2, 4), 3)], view, Limits())[0]
    assert heights(result, 0, 3) == [1, 2, 1]


def test_falls_count_every_fall() -> None:
    """Falls between rows, gaps and the last fall count; rises do not."""
    requests = [
        request(within(0, 4, atom(1, 3, 1, 6)), 10),
        request(within(5, 9, atom(2, 2, 2, 4)), 10),
    ]
    view = ArrayView(np.array([3, 1, 0, 2, 0, 2, 2, 0, 0, 0]))
    batch = Batch.of(requests, view)
    batch.place(np.array([0, 1]), np.array([BLOCKS]))
    # The first holds 3, 1, 0, 2: falls 2 + 1 + 2; the second 2, 2: falls 2.
    assert [r.rows.tolist() for r in LazyResults(batch, requests)] == [
        [[0, 1, 3], [1, 2, 1], [3, 4, 2]],
        [[5, 7, 2]],
    ]
    assert batch_falls(batch, requests) == 7


@pytest.mark.parametrize("name", ["gree", "gree-l", "level"])
def test_falls_count_every_occurrence(name: str) -> None:
    """What the judge counts in arrays is what the metrics count in results, recurrences too."""
    rng = random.Random(7)
    cluster = a_cluster().horizon(60).machines("m", 12, cpu=1).build()
    texts = []
    for _ in range(40):
        piece = f"atom(<1 cpu>, 1, {rng.randint(1, 4)}, {rng.randint(1, 4)}, {rng.randint(3, 9)})"
        pair = rng.choice((piece, f"order({piece}, {piece})", f"all({piece}, {piece})"))
        start = rng.randint(0, 20)
        shapes = (f"window({pair}, {start}, {start + 30})", f"every(20s, {pair}, times=3)")
        texts.append(rng.choice(shapes))
    requests = [a_request(f"r{index}", text).on(cluster) for index, text in enumerate(texts)]
    agent = bench_agent(name)
    assert isinstance(agent, GreedyAgent)
    batch = agent.place(requests, Plan(cluster, cluster.grid()).snapshot(), Limits())
    results = LazyResults(batch, requests)
    refused = sum(not one.placed for one in results)
    assert 0 < refused < 35
    falls = score_of(requests, results, cluster.reference)[1]
    assert batch_falls(batch, requests) == -falls


def test_any_order_places_what_turns_forbid() -> None:
    """A large request that comes last is worth more than the small one whose turn is first."""
    cluster = a_cluster().horizon(20).machines("m", 4, cpu=1).build()
    small = a_request("small", "window(atom(<1 cpu>, 2, 2, 10, 20), 0, 12)")
    large = a_request("large", "window(atom(<1 cpu>, 4, 4, 10, 40), 0, 12)").submitted(1)
    requests = [one.on(cluster) for one in (small, large)]
    view = Plan(cluster, cluster.grid()).snapshot()
    placed = {
        agent.name: [one.placed for one in agent.plan(requests, view, Limits())]
        for agent in (PORTFOLIO, PORTFOLIO_FREE)
    }
    assert placed == {"portfolio": [True, False], "portfolio-free": [False, True]}


@pytest.mark.parametrize("kind", KINDS)
def test_any_order_is_worth_no_less_than_turns(kind: str) -> None:
    """Its runs are those of the portfolio in turn, and more; stopped at once, it is GREE-L."""
    mix = Mix(requests=60, steps=240, machines=30, kind=kind, seed=3)
    cluster, requests = cluster_of(mix), requests_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    worth = {
        name: score_of(requests, bench_agent(name).plan(requests, view, Limits()), view.reference)
        for name in ("gree-l", "headroom", "level", "portfolio-free")
    }
    assert worth["portfolio-free"] == max(worth.values())
    stopped = PORTFOLIO_FREE.plan(requests, view, Limits(stop=lambda: True))
    assert score_of(requests, stopped, view.reference) == worth["gree-l"]
