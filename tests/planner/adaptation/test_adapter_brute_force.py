"""On Plans small enough to try everything, the adapter drops the least value there is to drop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.adaptation.adapter import adapt
from planner.agent import Limits
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from tests.builders import a_request, ask, commit
from tests.planner.adaptation.events import small_cluster, with_outages

MACHINES, STEPS = 3, 8


@st.composite
def gangs(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """(height, length, start, end, weight) of a gang and its window."""
    height, length = draw(st.integers(1, MACHINES)), draw(st.integers(1, 3))
    start = draw(st.integers(0, STEPS - length))
    end = draw(st.integers(start + length, STEPS))
    return height, length, start, end, draw(st.sampled_from([1, 2, 5]))


def _least_dropped(asked: list[tuple[int, int, int, int, int]], up: list[int]) -> float:
    """Try every start of every gang, and dropping it."""
    best = float("inf")
    for starts in itertools.product(*(_starts(one) for one in asked)):
        used = [0] * STEPS
        dropped = 0.0
        for (height, length, _, _, weight), start in zip(asked, starts, strict=True):
            if start is None:
                dropped += weight * height * length / 3600
                continue
            for step in range(start, start + length):
                used[step] += height
        if dropped < best and all(u <= c for u, c in zip(used, up, strict=True)):
            best = dropped
    return best


def _starts(one: tuple[int, int, int, int, int]) -> Iterator[int | None]:
    _, length, start, end, _ = one
    yield None
    yield from range(start, end - length + 1)


@settings(max_examples=60)
@given(
    st.lists(gangs(), min_size=1, max_size=4),
    st.integers(1, MACHINES),
    st.integers(0, STEPS - 1),
    st.integers(1, STEPS),
)
def test_no_less_can_be_dropped(
    asked: list[tuple[int, int, int, int, int]], lost: int, start: int, length: int
) -> None:
    """The value dropped is the least over all starts of all gangs, and never below it."""
    cluster = small_cluster(MACHINES, STEPS)
    plan = Plan(cluster, cluster.grid())
    kept = []
    for index, one in enumerate(asked):
        height, steps, first, end, weight = one
        text = f"atom(<1 cpu>, {height}, {height}, {steps}, {height * steps})"
        request = a_request(f"r{index}", f"window({text}, {first}, {end})").weight(weight)
        ask(plan, request.on(cluster))
        if plan.reservation(f"r{index}") is not None:
            kept.append(one)
    until = min(STEPS, start + length)
    commit(plan, Reconfigure(with_outages(cluster, (lost, start, until))))
    up = [MACHINES - (lost if start <= step < until else 0) for step in range(STEPS)]
    least = _least_dropped(kept, up)
    found = adapt(plan, Limits(work=100, seed=1)).cost.dropped
    assert abs(found - least) < 1e-5
