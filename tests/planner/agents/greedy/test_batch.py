"""Packing, answers as views, growth, and window averages."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.batch import Batch, taking_order
from planner.agents.greedy.kernels.codes import BLOCKS, COMPACT, HEADROOM, LOWEST, OUTCOME, PLACED
from planner.placement import Code
from planner.request import Request
from planner.view import AverageSlack, Demand
from rdl.resources import Resources
from tests.planner.exact_atom import is_allocation
from tests.planner.graphs import ArrayView, all_of, atom, every, heights, order, request, within


@dataclass
class AverageView(ArrayView):
    """A view with one average: at most `allowed` bundle-steps in any `window` steps."""

    window: int = 1
    allowed: int = 1 << 40
    before: list[int] = field(default_factory=list)

    @property
    def averages(self) -> AverageSlack:
        """Slack of the one limit; `before` is what is used at each step already."""
        steps = self.free.shape[1]
        used = np.array(self.before or [0] * steps, dtype=np.int64)
        total = np.concatenate([[0], np.cumsum(used)])
        taus = np.arange(-self.window, steps)
        inside = total[np.clip(taus + self.window, 0, steps)] - total[np.clip(taus, 0, steps)]
        return AverageSlack(
            np.array([self.window]),
            (self.allowed - inside).reshape(1, -1),
            self.window,
            (("mean", "cpu"),),
        )

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return what the bundle takes; every bundle counts 1 a step."""
        if bundle not in self._known:
            plain = ArrayView.demand(self, bundle, label, tenant, queue)
            self._known[bundle] = Demand(plain.rows, plain.amounts, plain.fit, (0,), (1,))
        return self._known[bundle]


def _batch(requests: list[Request], view: ArrayView) -> Batch:
    batch = Batch.of(requests, view)
    batch.place(taking_order(requests), np.array([BLOCKS, COMPACT]))
    return batch


def test_view_is_never_changed() -> None:
    """Planning works on a copy: the view's array is read-only and stays so."""
    view = ArrayView(np.full(10, 4))
    agent_named("gree").plan([request(atom(1, 4, 2, 20), 10)], view, Limits())
    assert (view.free == 4).all()


def test_results_are_read_only_views() -> None:
    """Rows of a result cannot be written."""
    result = agent_named("gree").plan(
        [request(atom(1, 4, 2, 20), 10)], ArrayView(np.full(10, 4)), Limits()
    )[0]
    with pytest.raises(ValueError, match="read-only"):
        result.rows[0, 0] = 1


def test_batch_equals_one_by_one() -> None:
    """A batch gives what the same requests give one after the other on what is left."""
    free = np.array([5, 3, 6, 2, 5, 5, 4, 6, 6, 1, 5, 5])
    requests = [
        request(within(i, 8 + i, order(atom(1, 3, 2, 4 + i % 2), atom(2, 2, 1, 2))), 12, f"r{i}")
        for i in range(4)
    ]
    together = agent_named("gree").plan(requests, ArrayView(free), Limits())
    left = free.copy()
    for one, expected in zip(requests, together, strict=True):
        alone = agent_named("gree").plan([one], ArrayView(left), Limits())[0]
        assert alone.rows.tolist() == expected.rows.tolist()
        for start, end, bundles in alone.rows.tolist():
            left[start:end] -= bundles


def test_outputs_grow() -> None:
    """A request of thousands of rows is placed whole although the arrays start small."""
    steps = 30_000
    free = np.where(np.arange(steps) % 2 == 0, 1, 2)
    result = agent_named("gree").plan(
        [request(atom(1, 2, 1, int(free.sum())), steps)], ArrayView(free), Limits()
    )[0]
    assert result.placed
    assert len(result.rows) == steps


def test_several_resources_and_bundles() -> None:
    """Each bundle takes its own amounts from its own rows."""
    pair = Resources.of({"cpu": 2, "memory": 3})
    single = Resources.of({"memory": 1})
    piece = all_of(atom(1, 9, 1, 4, bundle=pair), atom(1, 9, 1, 2, bundle=single))
    view = ArrayView(np.array([[8, 8], [8, 8]]), ("cpu", "memory"))
    batch = _batch([request(piece, 2)], view)
    assert batch.out.status[0, OUTCOME] == PLACED
    assert (batch.profile.free >= 0).all()
    assert batch.profile.free.sum() == 32 - 4 * 5 - 2


def _window_use(held: list[int], window: int) -> int:
    padded = [0] * window + held + [0] * window
    return max(sum(padded[a : a + window]) for a in range(len(padded)))


@settings(max_examples=300, deadline=None)
@given(
    free=st.lists(st.integers(0, 5), min_size=4, max_size=14),
    numbers=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 20)),
    window=st.integers(1, 8),
    allowed=st.integers(0, 20),
    strategy=st.sampled_from([BLOCKS, COMPACT, LOWEST, HEADROOM]),
    early=st.booleans(),
)
def test_averages_are_kept(
    free: list[int],
    numbers: tuple[int, int, int],
    window: int,
    allowed: int,
    strategy: int,
    early: bool,
) -> None:
    """Nothing that is placed uses more than the average allows in any window position."""
    most, lease, work = numbers
    work = max(work, lease)
    view = AverageView(np.array(free), window=window, allowed=allowed)
    requests = [request(atom(1, most, lease, work), len(free), f"r{i}") for i in range(3)]
    results = GreedyAgent("x", (strategy,), early).plan(requests, view, Limits())
    total = [0] * len(free)
    for result in results:
        held = heights(result, 0, len(free))
        if result.placed:
            assert is_allocation(1, most, lease, work, held)
        total = [a + b for a, b in zip(total, held, strict=True)]
    assert _window_use(total, window) <= allowed
    assert all(x <= c for x, c in zip(total, free, strict=True))


@pytest.mark.parametrize("name", ["gree", "gree-l", "aligned", "earliest"])
def test_exactly_the_average_is_kept(name: str) -> None:
    """All of the cluster for exactly a quarter of the window fits a quarter on average."""
    view = AverageView(np.full(40, 8), window=16, allowed=8 * 4)
    piece = order(atom(8, 8, 4, 32), atom(8, 8, 4, 32), gap=(12, -1))
    assert agent_named(name).plan([request(piece, 40)], view, Limits())[0].placed
    more = agent_named(name).plan([request(within(0, 16, atom(8, 8, 5, 40)), 40)], view, Limits())
    assert more[0].code is Code.CAPACITY_OVER_TIME
    assert more[0].binding is not None
    assert (more[0].binding.policy, more[0].binding.free) == ("mean", 32)


@pytest.mark.parametrize("name", ["gree", "gree-l", "aligned", "earliest"])
def test_work_is_spread_over_windows(name: str) -> None:
    """Work that no one window may hold is spread over several, and not refused."""
    view = AverageView(np.full(40, 8), window=10, allowed=20)
    result = agent_named(name).plan([request(atom(1, 8, 2, 60), 40)], view, Limits())[0]
    assert result.placed
    assert _window_use(heights(result, 0, 40), 10) <= 20


def test_averages_see_every_occurrence() -> None:
    """Two occurrences in one window count together."""
    piece = every((0, 6), atom(1, 4, 2, 4))
    tight = AverageView(np.full(12, 4), window=12, allowed=7)
    roomy = AverageView(np.full(12, 4), window=12, allowed=8)
    assert not agent_named("gree").plan([request(piece, 12)], tight, Limits())[0].placed
    assert agent_named("gree").plan([request(piece, 12)], roomy, Limits())[0].placed
