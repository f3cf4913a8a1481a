"""Step functions as rows, against the same functions step by step."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.reservations.reservation import Rows
from planner.reservations.rows import add_up, dense, merge, split, subtract, work_gained

_STEPS = 12

_ROW = st.tuples(st.integers(0, 8), st.integers(1, 4), st.integers(1, 3)).map(
    lambda row: [row[0], row[0] + row[1], row[2]]
)


def _rows(drawn: list[list[int]]) -> Rows:
    return np.array(drawn, dtype=np.int64).reshape(-1, 3)


#: Rows in any order, which may overlap; more than a few of them take another way.
rows_in_any_order = st.lists(_ROW, max_size=20).map(_rows)


def heights(rows: Rows) -> list[int]:
    """Return the bundles held at each step, counted one by one."""
    held = [0] * _STEPS
    for start, end, bundles in rows.tolist():
        for step in range(start, end):
            held[step] += bundles
    return held


def is_canonical(rows: Rows) -> bool:
    """Return whether rows are sorted, disjoint, above 0 and merged."""
    pairs = zip(rows.tolist(), rows.tolist()[1:], strict=False)
    apart = all(one[1] < two[0] or (one[1] == two[0] and one[2] != two[2]) for one, two in pairs)
    return apart and bool((rows[:, 2] > 0).all())


@given(rows_in_any_order, st.integers(0, _STEPS), st.integers(1, _STEPS))
def test_dense_is_the_height_of_each_step(rows: Rows, first: int, steps: int) -> None:
    """What lies before and after the steps is cut off, not moved in."""
    wanted = (heights(rows) + [0] * (2 * _STEPS))[first : first + steps]
    assert dense(rows, first, steps).tolist() == wanted


@given(rows_in_any_order)
def test_the_sum_is_canonical_and_the_same(rows: Rows) -> None:
    """Overlapping rows in any order become sorted, disjoint and merged ones."""
    total = add_up(rows)
    assert heights(total) == heights(rows)
    assert is_canonical(total)
    assert np.array_equal(merge(total), total)


@given(rows_in_any_order)
def test_many_rows_add_up_as_few_do(rows: Rows) -> None:
    """Two hundred times the same rows hold two hundred times as much, at the same steps."""
    few = add_up(rows)
    assert np.array_equal(add_up(np.tile(rows, (200, 1))), few * np.array([1, 1, 200]))


@given(rows_in_any_order, rows_in_any_order)
def test_the_difference_is_what_one_holds_more(rows: Rows, less: Rows) -> None:
    """Where the other holds more it is 0; its work is the work gained."""
    more = [max(0, a - b) for a, b in zip(heights(rows), heights(less), strict=True)]
    left = subtract(rows, less)
    assert heights(left) == more
    assert is_canonical(left)
    assert work_gained(rows, less) == sum(more)
    assert work_gained(rows, None) == sum(heights(rows))


@given(rows_in_any_order, st.integers(0, _STEPS))
def test_a_split_loses_nothing(rows: Rows, step: int) -> None:
    """What lies before a step, and what lies from it on, together are the rows."""
    past, rest = split(rows, step)
    assert heights(past)[step:] == [0] * (_STEPS - step)
    assert heights(rest)[:step] == [0] * step
    assert heights(np.concatenate([past, rest])) == heights(rows)
