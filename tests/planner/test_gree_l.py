"""GREE-L: flat, in shared intervals, at most half the preemption."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.generator import Mix, cluster_of, requests_of
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.atom_placer import GreedyAgent
from planner.agents.portfolio import preemption_of
from planner.kernels import OUTCOME, PLACED
from planner.placement import PlacementResult
from planner.plan import Plan
from planner.value import size_of
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
def test_a_plain_atom_falls_once_where_a_rectangle_exists(
    works: list[int], free: list[int]
) -> None:
    """What is placed as one block falls by its greatest height and never inside."""
    for work in works:
        result = _plan(atom(1, 8, 1, work), free)
        held = heights(result, 0, 20)
        rectangle = any(
            (b - a) * min(free[a:b]) >= work and work >= b - a
            for a in range(20)
            for b in range(a + 1, 21)
        )
        assert result.placed or not rectangle
        if rectangle:
            falls = sum(max(0, x - y) for x, y in zip(held, [*held[1:], 0], strict=True))
            assert falls == max(held)


@pytest.mark.parametrize(
    ("kind", "count", "most"), [("malleable", 500, 0.53), ("workflows", 100, 0.4)]
)
def test_half_the_preemption_of_gree(kind: str, count: int, most: float) -> None:
    """On malleable and workflow mixes GREE-L accepts no less than GREE and preempts about half.

    The bounds leave room for one seed; the bench `greedy_quality` has the means.
    """
    mix = Mix(count, kind=kind, machines=400, seed=3)
    requests, cluster = requests_of(mix), cluster_of(mix)
    view = Plan(cluster, cluster.grid()).snapshot()
    sizes = np.array([size_of(one.graph, cluster.nominal) for one in requests])
    values, falls = {}, {}
    for name in ("gree", "gree-l"):
        agent = agent_named(name)
        assert isinstance(agent, GreedyAgent)
        batch = agent.place(requests, view, Limits())
        values[name] = sizes[batch.out.status[:, OUTCOME] == PLACED].sum()
        falls[name] = preemption_of(batch)
    assert values["gree-l"] >= values["gree"]
    assert falls["gree-l"] <= most * falls["gree"]
