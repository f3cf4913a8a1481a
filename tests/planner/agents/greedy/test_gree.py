"""GREE over whole requests: every operator, gaps, and what it says when it refuses."""

from __future__ import annotations

import random
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.agents import bench_agent
from planner.agent import Limits
from planner.agents import AGENT_NAMES
from planner.placement import Code, PlacementResult
from rdl.compile.shapes import is_reachable, shortest_length
from tests.planner.exact_atom import is_allocation
from tests.planner.graphs import (
    ArrayView,
    Piece,
    all_of,
    any_of,
    atom,
    every,
    graph_of,
    heights,
    order,
    request,
    use,
    within,
)

#: All but the printed rule, which gives nothing a complete agent promises.
_COMPLETE = [name for name in AGENT_NAMES if name.startswith(("gree", "aligned", "earliest"))]
_AGENTS = ["gree-paper", *_COMPLETE]


def _plan(name: str, piece: Piece, free: list[int] | int, horizon: int) -> PlacementResult:
    row = np.full(horizon, free) if isinstance(free, int) else np.array(free)
    return bench_agent(name).plan([request(piece, horizon)], ArrayView(row), Limits())[0]


def _span(result: PlacementResult, vertex: int, horizon: int) -> tuple[int, int]:
    held = np.flatnonzero(heights(result, vertex, horizon))
    return int(held[0]), int(held[-1]) + 1


@pytest.mark.parametrize("name", ["gree", "gree-paper"])
def test_the_example_of_the_paper(name: str) -> None:
    """Rayon's figure 9 lands on [320,560) x 10, [560,680) x 20, [680,800) x 15."""
    piece = order(atom(1, 10, 240, 2400), atom(1, 20, 120, 2400), atom(1, 15, 120, 1800))
    result = _plan(name, within(0, 800, piece), 100, 800)
    assert [rows.tolist() for _, rows in result.atoms()] == [
        [[320, 560, 10]],
        [[560, 680, 20]],
        [[680, 800, 15]],
    ]


def test_earliest_is_the_example_mirrored() -> None:
    """The earliest agent starts the same example at 0 and leaves no step between stages."""
    piece = order(atom(1, 10, 240, 2400), atom(1, 20, 120, 2400), atom(1, 15, 120, 1800))
    result = _plan("earliest", within(0, 800, piece), 100, 800)
    assert [rows.tolist() for _, rows in result.atoms()] == [
        [[0, 240, 10]],
        [[240, 360, 20]],
        [[360, 480, 15]],
    ]


@st.composite
def _stages(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Return 2 to 4 atoms of reachable work."""
    found = []
    for _ in range(draw(st.integers(2, 4))):
        most, lease = draw(st.integers(1, 8)), draw(st.integers(1, 8))
        least = draw(st.integers(1, most))
        work = draw(st.integers(least * lease, 6 * most * lease))
        if not is_reachable(least, most, 1, lease, work):
            work = most * lease
        found.append((least, most, lease, work))
    return found


@pytest.mark.parametrize("name", _COMPLETE)
@settings(max_examples=100)
@given(stages=_stages(), slack=st.sampled_from([0.0, 0.1, 0.3, 1.5]))
def test_chains_on_an_empty_cluster(
    name: str, stages: list[tuple[int, int, int, int]], slack: float
) -> None:
    """Where capacity is the greatest height, no chain that the checker accepts is refused."""
    alone = sum(shortest_length(g, h, 1, lease, work) for g, h, lease, work in stages)
    horizon = int(alone * (1 + slack))
    piece = order(*(atom(*stage) for stage in stages))
    result = _plan(name, piece, max(stage[1] for stage in stages), horizon)
    assert result.placed
    before = 0
    for vertex, (least, most, lease, work) in enumerate(stages):
        assert is_allocation(least, most, lease, work, heights(result, vertex, horizon))
        start, end = _span(result, vertex, horizon)
        assert start >= before
        before = end


@st.composite
def _trees(draw: st.DrawFn, depth: int = 3) -> Piece:
    """Return a random tree without largest gaps."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        most, lease = draw(st.integers(1, 5)), draw(st.integers(1, 4))
        least = draw(st.integers(1, most))
        work = draw(st.integers(least * lease, 4 * most * lease))
        if not is_reachable(least, most, 1, lease, work):
            work = most * lease
        return atom(least, most, lease, work)
    children = [draw(_trees(depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return order(*children, gap=(draw(st.integers(0, 3)), -1))
    if kind == 1:
        return all_of(*children)
    if kind == 2:
        return any_of(*children)
    return graph_of(children, [(0, len(children) - 1)])


@pytest.mark.parametrize("name", _COMPLETE)
@settings(max_examples=80)
@given(piece=_trees(), slack=st.integers(0, 10))
def test_accepts_what_the_checker_accepts(name: str, piece: Piece, slack: int) -> None:
    """With capacity for all atoms at once, a window of the critical path is enough."""
    shortest = int(request(piece, 10_000).graph.vertices[-1, 4])
    assert _plan(name, piece, 5 * 60, shortest + slack).placed
    assert _plan(name, piece, 5 * 60, shortest + slack).code is None
    if shortest > 1:
        assert not _plan(name, within(0, shortest - 1, piece), 300, shortest).placed


def _chain_exists(
    lengths: list[int], tall: list[int], gap: tuple[int, int], free: list[int]
) -> bool:
    """Return whether rigid stages with gaps between them fit, by trying all starts."""

    def search(stage: int, earliest: int, latest: int) -> bool:
        if stage == len(lengths):
            return True
        for start in range(earliest, min(latest, len(free) - lengths[stage]) + 1):
            end = start + lengths[stage]
            if min(free[start:end]) < tall[stage]:
                continue
            if search(stage + 1, end + gap[0], end + gap[1]):
                return True
        return False

    return search(0, 0, len(free))


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_largest_gaps_of_gang_chains(lengths: list[int], data: st.DataObject) -> None:
    """Leapfrog: rigid chains with largest gaps are refused only when no placement exists."""
    tall = [data.draw(st.integers(1, 3)) for _ in lengths]
    low = data.draw(st.integers(0, 2))
    gap = (low, low + data.draw(st.integers(0, 2)))
    horizon = sum(lengths) + gap[1] * 3 + data.draw(st.integers(0, 8))
    free = data.draw(st.lists(st.integers(0, 4), min_size=horizon, max_size=horizon))
    piece = order(*(atom(h, h, d, h * d) for h, d in zip(tall, lengths, strict=True)), gap=gap)
    for name in ("gree", "earliest", "gree-l"):
        result = _plan(name, piece, free, horizon)
        assert result.placed == _chain_exists(lengths, tall, gap, free)
        if not result.placed:
            continue
        spans = [_span(result, vertex, horizon) for vertex in range(len(lengths))]
        for (_, end), (start, _) in pairwise(spans):
            assert gap[0] <= start - end <= gap[1]


def test_siblings_gangs_first() -> None:
    """Of siblings that compete, a narrow gang is not shut out by a malleable one."""
    # Capacity 3: the gang of 3 needs two whole columns, the other atom fits in what is left.
    piece = all_of(atom(3, 3, 2, 6), atom(1, 3, 1, 6))
    assert _plan("gree", piece, 3, 4).placed


def test_siblings_seldom_block_each_other() -> None:
    """Sets of 2-4 siblings that some order of placing fits are refused in few cases (1.3)."""
    rng = random.Random(5)
    refused = feasible = 0
    for _ in range(300):
        capacity, pieces = 6, []
        for _ in range(rng.randint(2, 3)):
            most, lease = rng.randint(1, 6), rng.randint(1, 4)
            least = most if rng.random() < 0.4 else 1
            pieces.append(atom(least, most, lease, most * lease * rng.randint(1, 2)))
        area = sum(piece.numbers[3] for piece in pieces)
        horizon = max(6, -(-area * 14 // (10 * capacity)))
        placed = _plan("gree", all_of(*pieces), capacity, horizon).placed
        any_order = placed or any(
            _one_by_one([pieces[i] for i in turn], capacity, horizon)
            for turn in _turns(len(pieces))
        )
        feasible += any_order
        refused += any_order and not placed
    assert feasible > 150
    assert refused / feasible < 0.03


def _turns(count: int) -> list[tuple[int, ...]]:
    return [turn for turn in product(range(count), repeat=count) if len(set(turn)) == count]


def _one_by_one(pieces: list[Piece], capacity: int, horizon: int) -> bool:
    asked = [request(piece, horizon, f"r{i}") for i, piece in enumerate(pieces)]
    view = ArrayView(np.full(horizon, capacity))
    return all(result.placed for result in bench_agent("gree").plan(asked, view, Limits()))


@pytest.mark.parametrize("name", _COMPLETE)
def test_any_takes_the_first_that_fits(name: str) -> None:
    """The first option is taken where it fits, the second where only that does."""
    piece = any_of(atom(2, 2, 4, 8), atom(1, 1, 2, 2))
    assert _plan(name, piece, 2, 4).choices == ((2, 0),)
    assert _plan(name, piece, 2, 3).choices == ((2, 1),)
    assert _plan(name, piece, 1, 9).choices == ((2, 1),)


@pytest.mark.parametrize("name", _COMPLETE)
def test_any_is_retried_for_what_precedes(name: str) -> None:
    """An option that leaves no free capacity for what precedes is given up for the next."""
    # Either option fits at the end, but only the short one leaves the gang its three columns.
    later = any_of(atom(1, 1, 3, 3), atom(1, 1, 1, 1))
    piece = order(atom(2, 2, 3, 6), later)
    free = [2, 2, 2, 1, 0, 1, 1, 1]
    result = _plan(name, within(0, 8, piece), free, 8)
    assert result.placed
    tight = _plan(name, piece, [0, 2, 2, 2, 1, 0], 6)
    assert tight.choices == ((3, 1),)


def test_many_choices_are_bounded() -> None:
    """Ten choices of two, each of which can only be its second option, are all found."""
    options = [any_of(atom(9, 9, 1, 9), atom(1, 1, 1, 1)) for _ in range(10)]
    result = _plan("gree", all_of(*options), 8, 12)
    assert result.placed
    assert {option for _, option in result.choices} == {1}


def test_every_and_order_inside() -> None:
    """A recurring chain holds in every period, on the minimum over its periods."""
    piece = every((0, 10, 20), order(atom(2, 2, 3, 6), atom(1, 1, 2, 2)))
    free = [2] * 30
    free[8:10] = [0, 0]
    free[15:17] = [1, 1]
    for name in _COMPLETE:
        asked = request(piece, 30)
        result = bench_agent(name).plan([asked], ArrayView(np.array(free)), Limits())[0]
        assert result.placed, name
        assert (use([result], [asked]) <= np.array(free)).all()
        assert _span(result, 0, 10)[1] <= _span(result, 1, 10)[0]


@settings(max_examples=60)
@given(piece=_trees(), free=st.lists(st.integers(0, 9), min_size=25, max_size=25))
def test_never_over_capacity_and_repeatable(piece: Piece, free: list[int]) -> None:
    """Batches stay within what is free, and the same batch gives the same rows again."""
    asked = [request(piece, 25, f"r{i}", priority=i % 2) for i in range(4)]
    for name in _AGENTS:
        view = ArrayView(np.array(free))
        results = bench_agent(name).plan(asked, view, Limits())
        again = bench_agent(name).plan(asked, view, Limits())
        assert (use(results, asked) <= view.free[0]).all()
        assert [r.rows.tolist() for r in results] == [r.rows.tolist() for r in again]
        assert [r.choices for r in results] == [r.choices for r in again]


def test_priority_is_taken_first() -> None:
    """The larger priority is placed first, and results keep the order of the input."""
    low, high = request(atom(1, 1, 2, 2), 2, "low"), request(atom(1, 1, 2, 2), 2, "high", 5)
    results = bench_agent("gree").plan([low, high], ArrayView(np.array([1, 1])), Limits())
    assert [result.placed for result in results] == [False, True]


def test_refusal_names_what_was_short() -> None:
    """A refusal tells the atom, the step with least free, and both amounts."""
    result = _plan("gree", atom(3, 4, 3, 9), [4, 4, 2, 4, 4], 5)
    assert result.code is Code.CAPACITY
    assert result.binding is not None
    assert (result.binding.kind, result.binding.at) == ("capacity", 2)
    assert (result.binding.resource, result.binding.needed, result.binding.free) == ("cpu", 3, 2)


def test_refusal_by_fit() -> None:
    """Where machines hold fewer bundles than are free in the pool, the refusal says fit."""
    view = ArrayView(np.full(5, 100), fit=2)
    result = bench_agent("gree").plan([request(atom(3, 4, 1, 9), 5)], view, Limits())[0]
    assert result.binding is not None
    assert (result.binding.kind, result.binding.needed, result.binding.free) == ("fit", 3, 2)


def test_stopped_run_says_so() -> None:
    """Requests not reached before the stop are refused with time_limit, the view untouched."""
    asked = [request(atom(1, 1, 1, 1), 3)] * 3
    view = ArrayView(np.array([9, 9, 9]))
    results = bench_agent("gree").plan(asked, view, Limits(stop=lambda: True))
    assert {result.code for result in results} == {Code.TIME_LIMIT}


def test_unknown_agent() -> None:
    """A misspelt agent is an error that names the nearest."""
    with pytest.raises(ValueError, match="gree-l"):
        bench_agent("greel")
