"""Leases and works of atoms against brute force: all matchings, all sums of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.expressions import (
    Atom,
)
from rdl.oracle.atoms import lease_and_work, least_work, shortest_lease
from rdl.time_grid import TimeGrid
from tests.rdl.oracle.asks import (
    SECOND,
    atom,
    is_sum_of_leases,
    rows_of,
)


def best_matching(heights: Sequence[int]) -> int:
    """Return the longest that the shortest lease can be over *all* matchings, bundle by bundle."""
    takes, releases = [], []
    for at, (before, after) in enumerate(pairwise((0, *heights, 0))):
        takes += [at] * max(0, after - before)
        releases += [at] * max(0, before - after)
    return max(
        min(release - take for take, release in zip(takes, order, strict=True))
        for order in set(permutations(releases))
    )


def test_fifo_is_the_best_of_all_matchings() -> None:
    """The shortest FIFO lease is the longest any matching of takes and releases can make it."""
    compared = 0
    for heights in product(range(4), repeat=5):
        if 0 < sum(max(0, b - a) for a, b in pairwise((0, *heights))) <= 5:
            assert shortest_lease(rows_of(heights)) == best_matching(heights), heights
            compared += 1
    assert compared > 500


def test_fifo_is_exact_for_bundles() -> None:
    """x keeps leases of l iff it is a sum of intervals of at least l, over every small x."""
    for heights in product(range(4), repeat=6):
        if any(heights):
            for lease in range(1, 5):
                kept = shortest_lease(rows_of(heights)) >= lease
                assert kept == is_sum_of_leases(heights, lease), (heights, lease)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any), st.integers(2, 5000))
def test_lease_does_not_depend_on_the_size_of_bundles(heights: list[int], factor: int) -> None:
    """All heights times n leave the shortest lease as it is: pairs count, not bundles."""
    taller = [height * factor for height in heights]
    assert shortest_lease(rows_of(heights)) == shortest_lease(rows_of(taller))


def reachable_works(minimum: int, maximum: int, lease: int, longest: int) -> set[int]:
    """Return all works up to g x longest, from every block of at most `longest` steps."""
    blocks = set()
    for length in range(lease, longest + 1):
        for heights in product(range(minimum, maximum + 1), repeat=length):
            if shortest_lease(rows_of(heights)) >= lease:
                blocks.add(sum(heights))
    limit = minimum * longest
    sums = {0}
    for total in range(1, limit + 1):
        if any(total - block in sums for block in blocks if block <= total):
            sums.add(total)
    return sums - {0}


@pytest.mark.parametrize("lease", [1, 2, 3])
def test_least_work_is_exact(lease: int) -> None:
    """The least reachable work is what enumeration of all blocks and their sums finds."""
    for maximum in range(1, 5):
        for minimum in range(1, maximum + 1):
            longest = 7 if maximum - minimum < 3 else 6
            works = reachable_works(minimum, maximum, lease, longest)
            for work in range(1, max(works) + 1):
                expected = min(w for w in works if w >= work)
                found = least_work(minimum, maximum, lease, work)
                assert found == expected, (minimum, maximum, lease, work)


@pytest.mark.parametrize(
    ("asked_for", "step", "lease", "work"),
    [
        (atom(2, 2, 90, 270), 60, 2, 6),  # 3 leases of 2 steps: a pair for 3 steps
        (atom(4, 4, 90, 270), 60, 2, 8),  # 3 leases of 2 steps, but four at once make 8, 12, ...
        (atom(1, 4, 90, 270), 60, 2, 6),  # 3 leases of 2 steps
        (atom(1, 4, 90, 271), 60, 2, 5),  # no whole number of leases: 271 / 60 up
        (atom(1, 4, 30, 270), 60, 1, 5),  # a lease below the step does not bind work
        (atom(2, 3, 2, 7), 1, 2, 7),
        (atom(2, 3, 3, 7), 1, 3, 8),  # 6, then 2 + 2 x 3 = 8
        (atom(4, 8, 10, 85, multiple=4), 1, 10, 88),
        (atom(1, 1, 1, 1), 60, 1, 1),
    ],
)
def test_lease_and_work_round_together(asked_for: Atom, step: int, lease: int, work: int) -> None:
    """What the grid asks of an atom, by hand."""
    assert lease_and_work(asked_for, step * SECOND) == (lease, work)


def test_joint_rounding_agrees_with_the_time_grid() -> None:
    """Before reachability, the oracle's own rounding is TimeGrid's."""
    for lease, work, step in product((1, 29, 30, 31, 60, 90, 125), range(1, 300, 7), (1, 30, 60)):
        grid = TimeGrid(step * SECOND, 10)
        rounded = grid.lease_and_work(lease * SECOND, work * SECOND)
        mine = lease_and_work(atom(1, 1_000_000, lease, work), step * SECOND)
        assert mine == (rounded.lease, max(rounded.work, rounded.lease))
