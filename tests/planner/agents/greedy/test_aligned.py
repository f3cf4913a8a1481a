"""Aligned: the rectangle that leaves most headroom, late or early."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.agents import bench_agent
from planner.agent import Limits
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import HEADROOM_ONLY
from tests.planner.graphs import ArrayView, atom, heights, request


def _heights(name: str, free: list[int], work: int, most: int = 8, lease: int = 2) -> list[int]:
    view = ArrayView(np.array(free))
    asked = request(atom(1, most, lease, work), len(free))
    return heights(bench_agent(name).plan([asked], view, Limits())[0], 0, len(free))


def test_most_headroom_before_lowest() -> None:
    """A short place on high ground is taken before a long one on low ground."""
    assert _heights("aligned", [9, 9, 0, 4, 4, 4, 4], 8) == [4, 4, 0, 0, 0, 0, 0]


def test_late_and_early() -> None:
    """Equal places: the late variant takes the last, the early one the first."""
    free = [3, 3, 0, 3, 3]
    assert _heights("aligned", free, 2) == [0, 0, 0, 1, 1]
    assert _heights("aligned-early", free, 2) == [1, 1, 0, 0, 0]


@settings(max_examples=200, deadline=None)
@given(
    free=st.lists(st.integers(0, 6), min_size=1, max_size=9),
    lease=st.integers(1, 3),
    height=st.integers(1, 5),
    length=st.integers(1, 9),
)
def test_no_block_leaves_more(free: list[int], lease: int, height: int, length: int) -> None:
    """No full rectangle of the work leaves more headroom than the block taken."""
    work = height * max(length, lease)
    view = ArrayView(np.array(free))
    asked = request(atom(1, 5, lease, work), len(free))
    result = GreedyAgent("x", (HEADROOM_ONLY,)).plan([asked], view, Limits())[0]
    best = -1
    for a in range(len(free)):
        for b in range(a + lease, len(free) + 1):
            low, rest = divmod(work, b - a)
            if not rest and 1 <= low <= min(5, min(free[a:b])):
                best = max(best, min(free[a:b]) - low)
    assert result.placed or best < 0
    if result.placed:
        held = heights(result, 0, len(free))
        steps = [t for t, x in enumerate(held) if x]
        left = min(free[steps[0] : steps[-1] + 1]) - max(held)
        assert left >= best
