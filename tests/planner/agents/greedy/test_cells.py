"""Searching by cells and stacking without reading columns: the same places, found sooner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.papers.agents import bench_agent
from planner.agent import Limits
from planner.agents.greedy.agent import LazyResults, place_single
from planner.agents.greedy.batch import Batch
from planner.agents.greedy.kernels.codes import BLOCKS, HEADROOM, LOWEST
from planner.capacity.block_index import BLOCK, INDEXED_FROM, block_minima
from planner.view import ProfileArrays
from tests.planner.graphs import ArrayView, atom, heights, request, within

_STEPS = INDEXED_FROM + 40
_AGENTS = ("gree", "gree-l", "aligned", "aligned-early", "earliest", "headroom", "level")


@dataclass
class LendingView(ArrayView):
    """An `ArrayView` that lends its array and the least of each block."""

    def arrays(self) -> ProfileArrays:
        """Return arrays that are typed writable, as a ledger's are."""
        none = np.zeros((0, 0), dtype=np.int64)
        free = self.free.copy()
        return ProfileArrays(free, block_minima(free), none, none.copy())


def _rugged(seed: int, most: int, pieces: int) -> NDArray[np.int64]:
    """Return a profile of plateaus, some of them one step long, some empty."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(_STEPS - 1, size=pieces, replace=False)) + 1
    values = rng.integers(most // 2, most + 1, pieces + 1)
    values[rng.random(pieces + 1) < 0.1] = 0
    return np.repeat(values, np.diff(np.concatenate([[0], cuts, [_STEPS]])))


@st.composite
def _asked(draw: st.DrawFn) -> Any:
    """Return an atom whose blocks are longer than two cells, in a window of many."""
    most = draw(st.integers(1, 30))
    least = draw(st.sampled_from([1, most, max(1, most - 1)]))
    multiple = draw(st.sampled_from([1, 1, 2]))
    lease = draw(st.integers(1, 400))
    work = multiple * least * lease * draw(st.integers(1, 4))
    if least == 1:
        work += multiple * draw(st.integers(0, 300))
    start = draw(st.integers(0, _STEPS - 2500))
    piece = atom(least * multiple, most * multiple, lease, work, multiple)
    return within(start, start + draw(st.integers(4 * lease + 300, 2500)), piece)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 999), pieces=st.sampled_from([0, 3, 40, 600]), piece=_asked())
def test_the_index_changes_no_answer(seed: int, pieces: int, piece: Any) -> None:
    """Every agent places an atom, or says why not, as it does on a copy that has no index."""
    free = _rugged(seed, 40, pieces)
    asked = request(piece, _STEPS)
    for name in _AGENTS:
        agent = bench_agent(name)
        (lent,) = agent.plan([asked], LendingView(free), Limits())
        (copied,) = agent.plan([asked], ArrayView(free), Limits())
        assert lent.code == copied.code, name
        assert lent.rows.tolist() == copied.rows.tolist(), name
        assert lent.binding == copied.binding, name


@pytest.mark.parametrize("strategy", [LOWEST, HEADROOM])
@pytest.mark.parametrize("early", [False, True])
def test_a_block_starts_and_ends_inside_cells(strategy: int, early: bool) -> None:
    """A hole in the profile that begins and ends inside blocks is filled to its last column."""
    free = np.zeros(_STEPS, dtype=np.int64)
    begin, end = 3 * BLOCK - 7, 9 * BLOCK + 5
    free[begin:end] = 2
    piece = within(10, 900, atom(1, 4, 200, 2 * (end - begin)))
    asked = request(piece, _STEPS)
    found = place_single(asked, LendingView(free), (strategy,), early=early)
    assert found is not None
    assert found.placed
    assert found.rows.tolist() == [[begin, end, 2]]


def _by_definition(c: list[int], least: int, most: int, lease: int, work: int) -> list[int] | None:
    """Return whole leases from the right, lengthened, or None where work is left (1.1)."""
    x = [0] * len(c)
    left = work
    for end in range(len(c), lease - 1, -1):
        room = min(min(most, c[u]) - x[u] for u in range(end - lease, end))
        height = min(room, left // lease)
        if height >= least:
            left -= height * lease
            for u in range(end - lease, end):
                x[u] += height
    for columns, side in ((range(1, len(c)), -1), (range(len(c) - 2, -1, -1), 1)):
        for u in columns:
            add = min(min(c[u], most, x[u + side]) - x[u], left)
            if add > 0 and (x[u] > 0 or add >= least):
                x[u] += add
                left -= add
    return x if left == 0 else None


@settings(max_examples=150, deadline=None)
@given(
    c=st.lists(st.integers(0, 9), min_size=4, max_size=30).map(
        lambda values: [max(value, 4) if value else 0 for value in values]
    ),
    numbers=st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 6), st.integers(0, 40)),
)
def test_stacking_is_as_it_is_defined(c: list[int], numbers: tuple[int, int, int, int]) -> None:
    """GREE's first shape, stacked at once if there is capacity for it, is that of the rule."""
    least, above, lease, more = numbers
    work = least * lease + more
    expected = _by_definition(c, least, least + above, lease, work)
    if expected is None:
        return
    asked = request(atom(least, least + above, lease, work), len(c))
    found = place_single(asked, LendingView(np.array(c)), (BLOCKS,), early=False)
    assert found is not None
    assert found.placed
    assert heights(found, 0, len(c)) == expected


def test_a_batch_placed_again_knows_what_is_free() -> None:
    """The second run of a batch on what was free places as the first: its index is its own."""
    requests = [request(within(0, 3000, atom(1, 8, 400, 3200)), _STEPS, f"r{i}") for i in range(9)]
    first = Batch.of(requests, ArrayView(np.full(_STEPS, 10)))
    free, slack = first.profile.free.copy(), first.averages.slack.copy()
    told = []
    for _ in range(2):
        batch = first.again(free, slack)
        batch.place(np.arange(9), np.array([LOWEST]))
        told.append([one.rows.tolist() for one in LazyResults(batch, requests)])
    assert told[0] == told[1]
