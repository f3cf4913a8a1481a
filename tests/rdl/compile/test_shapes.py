"""Shapes: reachable work and shortest lengths are exactly what enumeration finds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.shapes import (
    greatest_reachable,
    is_reachable,
    least_reachable,
    round_up,
    shape,
    shortest_length,
)
from rdl.oracle.atoms import least_work, shortest_lease
from tests.rdl.brute_force import shortest_lengths

STEPS = 10


def _small() -> list[tuple[int, int, int]]:
    return [(g, h, lease) for g in (1, 2, 3) for h in range(g, 5) for lease in (1, 2, 3, 4)]


@pytest.mark.parametrize(("g", "h", "lease"), _small())
def test_reachable_work_and_shortest_length_are_exact(g: int, h: int, lease: int) -> None:
    """A work fits in 10 steps iff its shortest length is at most 10, and enumeration agrees."""
    exact = shortest_lengths(g, h, 1, lease, STEPS)

    found = {
        work: shortest_length(g, h, 1, lease, work)
        for work in range(1, h * STEPS + 1)
        if is_reachable(g, h, 1, lease, work)
    }

    assert {work: d for work, d in found.items() if d <= STEPS} == exact


@pytest.mark.parametrize(("g", "h", "multiple"), [(2, 4, 2), (1, 4, 2), (3, 6, 3), (3, 7, 2)])
def test_multiples_are_bundles_of_bundles(g: int, h: int, multiple: int) -> None:
    """With multiple = k exactly the works are reachable that heights divisible by k reach."""
    exact = shortest_lengths(g, h, multiple, 2, STEPS)

    reachable = [w for w in range(1, max(exact) + 1) if is_reachable(g, h, multiple, 2, w)]

    assert [w for w in reachable if shortest_length(g, h, multiple, 2, w) <= STEPS] == sorted(exact)


@pytest.mark.parametrize(("g", "h", "lease"), _small())
def test_nearest_works_are_the_nearest(g: int, h: int, lease: int) -> None:
    """The least reachable at or above, and the greatest at or below, skip none in between."""
    works = [w for w in range(1, 80) if is_reachable(g, h, 1, lease, w)]
    for wanted in range(1, 60):
        above = least_reachable(g, h, 1, lease, wanted)
        below = greatest_reachable(g, h, 1, lease, wanted)

        assert above == min(w for w in works if w >= wanted)
        assert below == max((w for w in works if w <= wanted), default=None)


atoms = st.tuples(
    st.integers(1, 40), st.integers(0, 60), st.integers(1, 4), st.integers(1, 25)
).map(lambda n: (n[0] * n[2], (n[0] + n[1]) * n[2], n[2], n[3]))


@given(atoms, st.integers(1, 20_000))
def test_a_shape_holds_the_work_in_the_shortest_length(
    atom: tuple[int, int, int, int], wanted: int
) -> None:
    """`shape` keeps heights, multiple and leases, sums to the work and is as short as promised."""
    g, h, multiple, lease = atom
    work = least_reachable(*atom, wanted)

    heights = shape(*atom, work)

    assert work >= wanted
    assert sum(heights) == work
    assert all(g <= x <= h and x % multiple == 0 for x in heights)
    assert len(heights) == shortest_length(*atom, work)
    assert shortest_lease([(t, t + 1, x) for t, x in enumerate(heights)]) >= lease


@given(atoms, st.integers(1, 20_000))
def test_the_oracle_asks_for_the_same_work(atom: tuple[int, int, int, int], wanted: int) -> None:
    """The oracle's own derivation of the least reachable work agrees, far beyond enumeration."""
    g, h, multiple, lease = atom

    own = least_work(-(-g // multiple), h // multiple, lease, -(-wanted // multiple))

    assert least_reachable(*atom, wanted) == own * multiple
    assert round_up(atom[:3], lease, wanted)[0] == own * multiple


def test_a_remainder_that_no_rectangle_holds() -> None:
    """g=2, h=3, l=2, w=7 is 2, 3, 2: one bundle changes hands in the middle."""
    assert shape(2, 3, 1, 2, 7) == [2, 3, 2]


def test_a_gang_rises_to_whole_steps() -> None:
    """Four bundles at once hold only multiples of four, and at least a lease of them."""
    assert least_reachable(4, 4, 1, 3, 1) == 12
    assert least_reachable(4, 4, 1, 3, 13) == 16
    assert greatest_reachable(4, 4, 1, 3, 15) == 12
    assert greatest_reachable(4, 4, 1, 3, 11) is None


def test_wide_atoms_are_answered_at_once() -> None:
    """Two thousand million bundles and a lease of a million steps take no loop over either."""
    g, lease = 2**31 - 9, 10**6

    work = least_reachable(g, g + 8, 1, lease, g * lease + lease * 3 // 2)

    assert is_reachable(g, g + 8, 1, lease, work)


@pytest.mark.parametrize("numbers", [(0, 1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (3, 3, 2, 1)])
def test_numbers_that_are_no_atom_are_refused(numbers: tuple[int, int, int, int]) -> None:
    """Zero bundles, multiples or leases, and a range without a multiple, raise with a reason."""
    with pytest.raises(ValueError, match=r"at least 1|divisible"):
        least_reachable(*numbers, 5)


def test_a_shape_of_unreachable_work_is_refused() -> None:
    """There is no shape for three bundle-steps of a pair."""
    with pytest.raises(ValueError, match="cannot hold exactly 3"):
        shape(2, 2, 1, 1, 3)
