"""GREE-L: flat, in shared intervals, at most half the falls."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import COMPACT, LOWEST, OUTCOME, PLACED
from planner.agents.portfolio import batch_falls
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.value import size_of
from rdl.compile.shapes import is_reachable
from tests.planner.graphs import ArrayView, Piece, atom, heights, order, request


def _plan(piece: Piece, free: list[int]) -> PlacementResult:
    view = ArrayView(np.array(free))
    return agent_named("gree-l").plan([request(piece, len(free))], view, Limits())[0]


def test_flat_over_the_window() -> None:
    """One atom on an empty cluster is as low as its window allows."""
    assert heights(_plan(atom(1, 10, 2, 20), [10] * 10), 0, 10) == [2] * 10


def test_lowest_then_most_headroom() -> None:
    """Of two rectangles of the same height, the one with more left above it is taken."""
    free = [9, 9, 9, 9, 0, 5, 5, 5, 5]
    assert heights(_plan(atom(1, 8, 2, 8), free), 0, 9) == [2, 2, 2, 2, 0, 0, 0, 0, 0]


def test_corners_are_trimmed() -> None:
    """Work that is no rectangle enters late on the left and exits early on the right."""
    # 11 in 4 columns: height 3, one bundle too much, cut from the left corner.
    assert heights(_plan(atom(1, 9, 2, 11), [9] * 4), 0, 4) == [2, 3, 3, 3]


def test_intervals_by_the_square_root_of_work() -> None:
    """Two stages of works 100 and 400 share a window of 30 as 1 to 2 (greedy.md 2.1)."""
    result = _plan(order(atom(1, 100, 1, 100), atom(1, 100, 1, 400)), [100] * 30)
    second = np.flatnonzero(heights(result, 1, 30))
    assert (second[0], second[-1]) == (10, 29)
    assert heights(result, 0, 30)[:10] == [10] * 10


@settings(max_examples=60, deadline=None)
@given(
    works=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    free=st.lists(st.integers(0, 8), min_size=20, max_size=20),
)
def test_a_plain_atom_falls_by_no_more_than_its_lowest_rectangle(
    works: list[int], free: list[int]
) -> None:
    """Where one block holds the work, no more falls than that of the lowest such block; one that
    is near the least height there could be is taken as it is, and never falls inside."""
    for work in works:
        held = heights(_plan(atom(1, 8, 1, work), free), 0, 20)
        rectangles = [
            -(-work // (b - a))
            for a in range(20)
            for b in range(a + 1, 21)
            if b - a <= work <= (b - a) * min(free[a:b])
        ]
        if not rectangles:
            continue
        falls = sum(max(0, x - y) for x, y in zip(held, [*held[1:], 0], strict=True))
        assert 0 < falls <= min(rectangles)
        if 8 * min(rectangles) <= 15 * -(-work // 20):
            assert falls == max(held) == min(rectangles)


@pytest.mark.parametrize("strategy", [LOWEST, COMPACT], ids=["lowest", "compact"])
@settings(max_examples=60, deadline=None)
@given(
    lease=st.integers(1, 4),
    most=st.integers(1, 5),
    work=st.integers(1, 40),
    free=st.lists(st.integers(0, 5), min_size=14, max_size=14),
)
def test_a_refusal_shows_what_is_true_of_the_window(
    strategy: int, lease: int, most: int, work: int, free: list[int]
) -> None:
    """What is free is less than needed, wherever a refusal says so: at a step, as the longest time
    with capacity, or as the capacity of all times that are long enough."""
    work = max(work, lease)
    if work > most * len(free) or not is_reachable(1, most, 1, lease, work):
        return
    asked = request(atom(1, most, lease, work), len(free))
    view = ArrayView(np.array(free))
    binding = GreedyAgent("x", (strategy,)).plan([asked], view, Limits())[0].binding
    if binding is None:
        return
    runs = [list(run) for fits, run in groupby(free, lambda c: c > 0) if fits]
    longest = max((len(run) for run in runs), default=0)
    room = sum(min(c, most) for run in runs if len(run) >= lease for c in run)
    assert binding.needed is not None
    assert binding.free is not None
    if binding.kind == "capacity":
        assert binding.at is not None
        assert (binding.needed, binding.free) == (1, free[binding.at])
        assert binding.free < binding.needed
    elif binding.kind == "lease":
        assert (binding.needed, binding.free) == (lease * 1000, longest * 1000)
        assert longest < lease
        assert binding.at is not None
        assert free[binding.at] == 0
    elif binding.kind == "work":
        assert (binding.needed, binding.free) == (work * 1000, room * 1000)
        assert room < work
    else:
        assert binding.kind == "shape"
        assert (binding.needed, binding.free) == (work * 1000, room * 1000)
        assert room >= work


@pytest.mark.parametrize(
    ("kind", "count", "most"), [("malleable", 500, 0.53), ("workflows", 100, 0.4)]
)
def test_half_the_falls_of_gree(kind: str, count: int, most: float) -> None:
    """On malleable and workflow mixes GREE-L accepts no less than GREE and falls about half as far.

    The bounds leave capacity for one seed; the bench `greedy_quality` has the means.
    """
    mix = Mix(count, kind=kind, machines=400, seed=3)
    requests, cluster = requests_of(mix), cluster_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    sizes = np.array([size_of(one.graph, cluster.reference) for one in requests])
    values, falls = {}, {}
    for name in ("gree", "gree-l"):
        agent = agent_named(name)
        assert isinstance(agent, GreedyAgent)
        batch = agent.place(requests, view, Limits())
        values[name] = sizes[batch.out.status[:, OUTCOME] == PLACED].sum()
        falls[name] = batch_falls(batch, requests)
    assert values["gree-l"] >= values["gree"]
    assert falls["gree-l"] <= most * falls["gree"]
