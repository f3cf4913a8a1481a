"""Which leases work that ran above the entitlement makes unnecessary."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.accounts.credits import AtomRule, leases_of, spare_rows
from rdl.oracle.atoms import shortest_lease

Lists = list[list[int]]


def _rows(rows: Lists) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _heights(rows: np.ndarray, steps: int) -> list[int]:
    return [int(rows[(rows[:, 0] <= t) & (t < rows[:, 1]), 2].sum()) for t in range(steps)]


def test_the_latest_leases_go_first() -> None:
    """Four bundles for ten steps at leases of one: seven pay for the last and most before."""
    rule = AtomRule(1, 1, 1)
    assert spare_rows(_rows([[0, 10, 4]]), rule, 7, 0).tolist() == [[8, 9, 3], [9, 10, 4]]


def test_a_gang_goes_whole_or_not_at_all() -> None:
    """With g = h = 4 and leases of five, 19 pay for nothing and 20 for the last gang."""
    rule, rows = AtomRule(4, 1, 5), _rows([[0, 10, 4]])
    assert not len(spare_rows(rows, rule, 19, 0))
    assert spare_rows(rows, rule, 20, 0).tolist() == [[5, 10, 4]]
    assert spare_rows(rows, rule, 39, 0).tolist() == [[5, 10, 4]]


def test_leases_that_have_begun_stay() -> None:
    """A bundle is kept for its lease: what began before the step is not credited."""
    rule, rows = AtomRule(1, 1, 4), _rows([[0, 8, 2]])
    assert not len(spare_rows(rows, rule, 100, 5))
    assert spare_rows(rows, rule, 100, 4).tolist() == [[4, 8, 2]]


def test_the_first_lease_takes_what_whole_ones_leave_over() -> None:
    """Eleven steps at leases of four are seven and four, first in, first out."""
    assert leases_of(_rows([[0, 11, 2]]), 4) == [(7, 11, 2), (0, 7, 2)]
    assert leases_of(_rows([[0, 2, 1], [2, 3, 2], [3, 5, 1]]), 3) == [(2, 5, 1), (0, 3, 1)]


@st.composite
def _instances(draw: st.DrawFn) -> tuple[np.ndarray, AtomRule, int, int]:
    """Draw an atom of a few whole leases that is valid, a credit and a step."""
    minimum, multiple = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (3, 1)]))
    lease = draw(st.integers(1, 3))
    heights = np.zeros(12, dtype=np.int64)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, 7))
        end = start + lease + draw(st.integers(0, 2))
        heights[start:end] += draw(st.integers(1, 2)) * multiple * minimum // multiple
    heights = -(-heights // multiple) * multiple
    rows: Lists = []
    for t, height in enumerate(heights.tolist()):
        if height and rows and rows[-1][1] == t and rows[-1][2] == height:
            rows[-1][1] = t + 1
        elif height:
            rows.append([t, t + 1, height])
    # First in, first out may make a lease shorter than drawn: the atom's own is the shortest.
    rule = AtomRule(minimum, multiple, min(lease, shortest_lease(rows)))
    return _rows(rows), rule, draw(st.integers(0, 40)), draw(st.integers(0, 8))


def _all_prefixes(rows: np.ndarray, rule: AtomRule, credit: int, from_step: int) -> list[int]:
    """Try every number of single leases, latest first; return the heights left by the most."""
    single = [(s, e) for s, e, count in leases_of(rows, rule.lease) for _ in range(count)]
    best, left = _heights(rows, 20), _heights(rows, 20)
    for start, end in single:
        credit -= end - start
        if start < from_step or credit < 0:
            break
        for t in range(start, end):
            left[t] -= 1
        if all(h == 0 or (h >= rule.minimum and h % rule.multiple == 0) for h in left):
            best = list(left)
    return best


@settings(max_examples=300)
@given(_instances())
def test_as_many_leases_as_an_exhaustive_search_finds(
    instance: tuple[np.ndarray, AtomRule, int, int],
) -> None:
    """No longer run of latest leases can be paid for and leaves a valid atom."""
    rows, rule, credit, from_step = instance
    given_back = spare_rows(rows, rule, credit, from_step)
    left = [a - b for a, b in zip(_heights(rows, 20), _heights(given_back, 20), strict=True)]
    assert left == _all_prefixes(rows, rule, credit, from_step)


@settings(max_examples=300)
@given(_instances())
def test_what_is_left_and_what_goes_keep_leases_and_heights(
    instance: tuple[np.ndarray, AtomRule, int, int],
) -> None:
    """Work released never exceeds the credit; steps are 0 or at least g; leases stay whole."""
    rows, rule, credit, from_step = instance
    leases = leases_of(rows, rule.lease)
    assert sum((e - s) * n for s, e, n in leases) == sum((e - s) * n for s, e, n in rows.tolist())
    assert all(end - start >= rule.lease for start, end, _ in leases)
    given_back = spare_rows(rows, rule, credit, from_step)
    assert sum((e - s) * n for s, e, n in given_back.tolist()) <= credit
    assert all(start >= from_step for start in given_back[:, 0].tolist())
    left = np.array(_heights(rows, 20)) - np.array(_heights(given_back, 20))
    assert all(h == 0 or (h >= rule.minimum and h % rule.multiple == 0) for h in left.tolist())
    kept = [[t, t + 1, int(h)] for t, h in enumerate(left.tolist()) if h]
    for some in (kept, given_back.tolist()):
        assert not some or shortest_lease(some) >= rule.lease
