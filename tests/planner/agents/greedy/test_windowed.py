"""One atom under window averages: as exact as asking every window again, at any length of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agents.greedy.kernels.window_limits import UNBOUND, WindowLimits, WindowTask, too_much
from planner.agents.greedy.kernels.windowed import fit_within
from tests.planner.exact_atom import is_allocation


@dataclass(frozen=True)
class Asked:
    """An atom of multiples, what may be held, and what averages leave."""

    limits: WindowLimits
    may: list[int]
    task: WindowTask

    def used(self, heights: list[int], j: int, place: int) -> int:
        """What heights use of a window."""
        start = place - int(self.limits.windows[j]) + 1
        return int(self.limits.units[j]) * sum(heights[max(start, 0) : place + 1])

    def places(self, j: int) -> range:
        """Places of the windows that touch the atom's columns."""
        return range(len(self.may) + int(self.limits.windows[j]) - 1)

    def kept(self, heights: list[int]) -> bool:
        """Whether heights keep every average in every window."""
        return all(
            self.used(heights, j, place) <= self.limits.room[j, place]
            for j in range(len(self.limits.windows))
            for place in self.places(j)
        )

    def fitted(self) -> tuple[int, list[int]]:
        """(work left, heights) of the compiled loops."""
        heights = np.full(len(self.may), 77)
        left = fit_within(self.limits, np.array(self.may), heights, self.task)
        return int(left), heights.tolist()


@st.composite
def asked(draw: st.DrawFn, least: int = 3, lease: int = 5) -> Asked:
    """Atoms of up to 12 columns under one or two averages, windows shorter and longer than them."""
    n = draw(st.integers(1, 12))
    least, lease = draw(st.integers(1, least)), draw(st.integers(1, min(n, lease)))
    may = draw(st.lists(st.sampled_from([0, least, least + 1, 6, 6, 6]), min_size=n, max_size=n))
    windows = draw(st.lists(st.integers(1, n + 3), min_size=1, max_size=2))
    room = np.full((len(windows), n + max(windows) - 1), UNBOUND, dtype=np.int64)
    units = [draw(st.sampled_from([1, 3])) for _ in windows]
    for j, window in enumerate(windows):
        whole = draw(st.integers(1, 4)) * window * units[j]
        some = st.one_of(st.just(0), st.just(0), st.integers(0, whole))
        size = n + window - 1
        room[j, :size] = whole - np.array(draw(st.lists(some, min_size=size, max_size=size)))
    work = draw(st.integers(least * lease, max(least * lease, 3 * n)))
    return Asked(
        WindowLimits(np.array(windows), np.array(units), room), may, WindowTask(least, lease, work)
    )


def _allowed(one: Asked, heights: list[int], begin: int, end: int, top: int) -> int:
    """The height that every window, asked again, allows on top of [begin, end)."""
    for j in range(len(one.limits.windows)):
        for place in one.places(j):
            start = place - int(one.limits.windows[j]) + 1
            overlap = min(end, place + 1) - max(begin, start)
            if overlap > 0:
                left = int(one.limits.room[j, place]) - one.used(heights, j, place)
                top = min(top, max(0, left) // (overlap * int(one.limits.units[j])))
    return top


def _window_by_window(one: Asked) -> tuple[int, list[int]]:
    """The rule as it is said: every lease and every column asks all windows again."""
    n, (least, lease, left) = len(one.may), one.task
    heights = [0] * n
    for end in range(n, lease - 1, -1):
        begin = end - lease
        room = min(one.may[u] - heights[u] for u in range(begin, end))
        height = _allowed(one, heights, begin, end, min(room, left // lease))
        if height >= least:
            for u in range(begin, end):
                heights[u] += height
            left -= height * lease
    for columns, side in ((range(1, n), -1), (range(n - 2, -1, -1), 1)):
        for u in columns:
            add = min(min(one.may[u], heights[u + side]) - heights[u], left)
            add = _allowed(one, heights, u, u + 1, add) if add > 0 else 0
            if add > 0 and (heights[u] > 0 or add >= least):
                heights[u] += add
                left -= add
    return left, heights


@settings(max_examples=200)
@given(asked())
def test_one_pass_is_as_exact_as_asking_every_window(one: Asked) -> None:
    """Queues and jumps give the very heights of the rule that looks at all windows each time."""
    assert one.fitted() == _window_by_window(one)


@settings(max_examples=150, deadline=None)
@given(asked())
def test_what_is_fitted_keeps_averages_and_leases(one: Asked) -> None:
    """No window is broken, nothing stands where it may not, and whole works are allocations."""
    left, heights = one.fitted()
    assert one.kept(heights)
    assert sum(heights) + left == one.task.work
    assert all(held <= may for held, may in zip(heights, one.may, strict=True))
    if left == 0:
        least, lease, work = one.task
        assert is_allocation(least, 10**6, lease, work, heights)


def _most_work(one: Asked) -> int:
    """The most that leases of a step can hold: R, from each column on, relaxed to a fixed point.

    With R(n) = 0, R(u) <= R(u + 1) + may(u), R(v) <= R(v + W) + capacity and R never rising, the
    greatest solution is a shortest path (Bellman and Ford).
    """
    n = len(one.may)
    held = [0 if u == n else 10**9 for u in range(n + 1)]
    for _ in range(n + 2):
        for u in range(n):
            held[u] = min(held[u], held[u + 1] + one.may[u])
            for j in range(len(one.limits.windows)):
                window, unit = int(one.limits.windows[j]), int(one.limits.units[j])
                for place in one.places(j):
                    start = place - window + 1
                    if max(start, 0) <= u:
                        room = int(one.limits.room[j, place]) // unit
                        held[u] = min(held[u], held[min(place + 1, n)] + room)
    return held[0]


@settings(max_examples=150)
@given(asked(least=1, lease=1))
def test_leases_of_a_step_are_fitted_wherever_they_fit(one: Asked) -> None:
    """Without longer leases nothing that fits is refused: the work left is what no one can hold."""
    left, _heights = one.fitted()
    assert left == max(0, one.task.work - _most_work(one))


@settings(max_examples=150, deadline=None)
@given(asked())
def test_windows_side_by_side_prove_a_refusal(one: Asked) -> None:
    """Where they leave too little, even leases of a step could not hold the work."""
    if too_much(one.limits, len(one.may), one.task.work):
        assert _most_work(one) < one.task.work


@pytest.mark.parametrize("window", [500, 5_000])
def test_many_columns_under_a_rough_average_are_fitted_whole(window: int) -> None:
    """Beyond the cells read for leases at any column, what is placed still keeps every window."""
    rng, n, lease = np.random.default_rng(window), 5_000, 400
    use = np.concatenate([[0], np.cumsum(rng.integers(0, 30, n + 2 * window))])
    room = 40 * window - (use[window:] - use[:-window])[: n + window - 1]
    limits = WindowLimits(np.array([window]), np.array([1]), room.reshape(1, -1))
    one = Asked(limits, [60] * n, WindowTask(1, lease, int(0.9 * room.min() / window * n)))
    left, heights = one.fitted()
    held = np.concatenate([[0], np.cumsum(heights)])
    ends = np.arange(1, n + window)
    used = held[np.minimum(ends, n)] - held[np.maximum(ends - window, 0)]
    assert left == 0
    assert (used <= room).all()
    least, lease, work = one.task
    assert is_allocation(least, 10**6, lease, work, heights)
