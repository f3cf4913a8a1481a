"""The rules for one atom, against the exact answer."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import (
    BLOCKS,
    COMPACT,
    HEADROOM,
    HEADROOM_ONLY,
    LEVEL,
    LOWEST,
    PAPER,
)
from rdl.compile.shapes import is_reachable
from tests.planner.exact_atom import fits, is_allocation
from tests.planner.graphs import ArrayView, atom, every, heights, request, use

_COMPLETE = {"blocks": BLOCKS, "compact": COMPACT, "lowest": LOWEST, "headroom": HEADROOM}
_ALL = {**_COMPLETE, "paper": PAPER, "only": HEADROOM_ONLY, "level": LEVEL}


@st.composite
def _atoms(draw: st.DrawFn) -> tuple[int, int, int, int, list[int]]:
    """Return g, h, lease, reachable work and free capacity."""
    most = draw(st.integers(1, 5))
    least = draw(st.integers(1, most))
    lease = draw(st.integers(1, 4))
    free = draw(st.lists(st.integers(0, 6), min_size=1, max_size=11))
    work = draw(st.integers(least * lease, max(least * lease, most * len(free))))
    if not is_reachable(least, most, 1, lease, work):
        work = least * lease
    return least, most, lease, work, free


@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("strategy", list(_ALL))
@settings(max_examples=120)
@given(case=_atoms())
def test_placed_is_an_allocation(
    strategy: str, early: bool, case: tuple[int, int, int, int, list[int]]
) -> None:
    """Whatever is placed is an allocation of the atom under what is free."""
    least, most, lease, work, free = case
    agent = GreedyAgent(strategy, (_ALL[strategy],), early)
    asked = request(atom(least, most, lease, work), len(free))
    result = agent.plan([asked], ArrayView(np.array(free)), Limits())[0]
    if result.placed:
        held = heights(result, 0, len(free))
        assert is_allocation(least, most, lease, work, held)
        assert all(x <= c for x, c in zip(held, free, strict=True))


def _refused(strategy: int, kind: str, profile: str, count: int) -> tuple[int, int]:
    """Return (refused though satisfiable, satisfiable) of random small atoms."""
    rng = random.Random(11)
    agent = GreedyAgent("x", (strategy,))
    refused = satisfiable = 0
    for _ in range(count):
        steps, most, lease = rng.randint(1, 11), rng.randint(1, 5), rng.randint(1, 4)
        least = {"one": 1, "gang": most, "any": rng.randint(1, most)}[kind]
        free = [most] * steps
        if profile == "light":
            for _ in range(rng.randint(1, 2)):
                free[rng.randrange(steps)] = rng.randint(0, most)
        if profile == "heavy":
            free = [rng.randint(0, most + 1) for _ in range(steps)]
        work = rng.randint(least * lease, max(least * lease, most * steps))
        if not is_reachable(least, most, 1, lease, work):
            continue
        if not fits(least, most, lease, work, free):
            continue
        satisfiable += 1
        asked = request(atom(least, most, lease, work), steps)
        result = agent.plan([asked], ArrayView(np.array(free)), Limits())[0]
        refused += not result.placed
    return refused, satisfiable


@pytest.mark.parametrize("strategy", list(_COMPLETE))
@pytest.mark.parametrize("kind", ["one", "gang", "any"])
def test_complete_on_an_empty_cluster(strategy: str, kind: str) -> None:
    """On an empty cluster every satisfiable atom is placed (greedy.md 1.2: 0 of 12,600)."""
    refused, satisfiable = _refused(_COMPLETE[strategy], kind, "empty", 500)
    assert satisfiable > 200
    assert refused == 0


@pytest.mark.parametrize(
    ("profile", "kind", "most"),
    [
        ("light", "one", 0.002),
        ("light", "gang", 0.005),
        ("light", "any", 0.012),
        ("heavy", "one", 0.012),
        ("heavy", "gang", 0.01),
        ("heavy", "any", 0.05),
    ],
)
def test_refusals_on_a_rugged_profile(profile: str, kind: str, most: float) -> None:
    """Refusals of satisfiable atoms stay in the neighbourhood of greedy.md's table 1.2."""
    refused, satisfiable = _refused(BLOCKS, kind, profile, 1500)
    assert satisfiable > 150
    assert refused / satisfiable <= most


def test_the_printed_rule_refuses_much() -> None:
    """The printed rule refuses more than a quarter even on an empty cluster, so it is no agent."""
    refused, satisfiable = _refused(PAPER, "any", "empty", 500)
    assert refused / satisfiable > 0.25


@pytest.mark.parametrize(
    ("case", "free", "expected"),
    [
        # 11 of lease 4: two whole leases of 1 on the right would leave 3; height 2 then 1.
        ((1, 5, 2, 15), [5, 5, 5], [5, 5, 5]),
        # A gang takes full columns only.
        ((3, 3, 2, 9), [3, 3, 3, 3], [0, 3, 3, 3]),
        # One lease of 1 on the right end, then the tallest block left of it.
        ((1, 4, 2, 8), [4, 4, 4, 1, 1], [0, 3, 3, 1, 1]),
    ],
)
def test_by_hand(case: tuple[int, int, int, int], free: list[int], expected: list[int]) -> None:
    """Hand-derived placements of GREE."""
    least, most, lease, work = case
    asked = request(atom(least, most, lease, work), len(free))
    agent = GreedyAgent("gree", (BLOCKS,))
    result = agent.plan([asked], ArrayView(np.array(free)), Limits())[0]
    assert heights(result, 0, len(free)) == expected


@settings(max_examples=150, deadline=None)
@given(
    multiple=st.integers(1, 3),
    size=st.integers(1, 3),
    lease=st.integers(1, 3),
    blocks=st.integers(1, 5),
    free=st.lists(st.integers(0, 9), min_size=3, max_size=10),
    strategy=st.sampled_from(sorted(_ALL.values())),
)
def test_multiples(
    multiple: int, size: int, lease: int, blocks: int, free: list[int], strategy: int
) -> None:
    """With `multiple` the atom is placed as the one divided by it, on divided capacity."""
    work = blocks * lease * multiple
    asked = request(atom(multiple, size * multiple, lease, work, multiple), len(free))
    divided = request(atom(1, size, lease, work // multiple), len(free))
    agent = GreedyAgent("x", (strategy,))
    result = agent.plan([asked], ArrayView(np.array(free)), Limits())[0]
    plain = agent.plan([divided], ArrayView(np.array(free) // multiple), Limits())[0]
    assert result.placed == plain.placed
    assert heights(result, 0, len(free)) == [
        multiple * height for height in heights(plain, 0, len(free))
    ]


@settings(max_examples=150, deadline=None)
@given(
    shifts=st.sampled_from([(0, 6), (0, 5, 12), (0, 7, 13)]),
    free=st.lists(st.integers(0, 4), min_size=20, max_size=20),
    work=st.integers(1, 8),
    early=st.booleans(),
    strategy=st.sampled_from(sorted(_COMPLETE.values())),
)
def test_occurrences(
    shifts: tuple[int, ...], free: list[int], work: int, early: bool, strategy: int
) -> None:
    """An atom that recurs is placed as once on the minimum over its occurrences."""
    period = min(b - a for a, b in pairwise(shifts))
    least = max(2, work)
    asked = request(every(shifts, atom(1, 3, 2, least)), shifts[-1] + period)
    view = ArrayView(np.array(free)[: shifts[-1] + period])
    agent = GreedyAgent("x", (strategy,), early)
    result = agent.plan([asked], view, Limits())[0]
    folded = np.array([min(free[t + shift] for shift in shifts) for t in range(period)])
    once = agent.plan([request(atom(1, 3, 2, least), period)], ArrayView(folded), Limits())[0]
    assert result.placed == once.placed
    assert heights(result, 0, period) == heights(once, 0, period)
    assert (use([result], [asked]) <= np.maximum(view.free[0], 0)).all()


def test_over_committed_elsewhere() -> None:
    """Capacity that is already negative at one instant refuses nothing elsewhere."""
    free = np.array([5, 5, -3, 5, 5])
    result = GreedyAgent("gree", (BLOCKS,)).plan(
        [request(atom(1, 5, 2, 20), 5)], ArrayView(free), Limits()
    )[0]
    assert heights(result, 0, 5) == [5, 5, 0, 5, 5]


def test_large_amounts_do_not_overflow() -> None:
    """Amounts near 2^40 and a million steps stay inside 64 bits."""
    view = ArrayView(np.full(100_000, 1 << 40), fit=1 << 40)
    asked = request(atom(1, 1 << 39, 10, (1 << 39) * 90_000), 100_000)
    for strategy in _COMPLETE.values():
        result = GreedyAgent("x", (strategy,)).plan([asked], view, Limits())[0]
        rows = result.rows
        assert result.placed
        assert int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum()) == (1 << 39) * 90_000
