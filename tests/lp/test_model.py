"""LinearModel: blocks, bulk rows, and errors that say where."""

from __future__ import annotations

import numpy as np
import pytest

from lp.limits import SolveLimits
from lp.model import Entries, LinearModel
from lp.solver import solve
from tests.lp.models import furniture


def test_blocks_are_contiguous_and_rows_compressed() -> None:
    """Blocks follow each other; repeated positions add up; columns ascend inside a row."""
    model = LinearModel()
    first, second = model.add_block("first", 2), model.add_block("second", 3)
    assert (first.span, second.span) == (slice(0, 2), slice(2, 5))
    model.add_rows("rows", 2, Entries([1, 0, 1, 1], [4, 0, 2, 4], [1.0, 2.0, 3.0, 4.0]))
    arrays = model.assemble()
    assert arrays.starts.tolist() == [0, 1, 3]
    assert arrays.indices.tolist() == [0, 2, 4]
    assert arrays.values.tolist() == [2.0, 3.0, 5.0]
    assert arrays.blocks["second"] == slice(2, 5)


def test_arrays_are_read_only_and_follow_changes() -> None:
    """Assembled arrays cannot be written, and a later block appears in the next assembly."""
    model = furniture()
    arrays = model.assemble()
    with pytest.raises(ValueError, match="read-only"):
        arrays.cost[0] = 1.0
    assert model.assemble() is arrays
    model.add_block("more", 1)
    assert model.assemble().columns == 3


def test_violation_measures_bounds_rows_and_whole_numbers() -> None:
    """(5, 6) breaks 3x + 2y <= 18 by 9; (0.5, 0) is half a unit from whole."""
    arrays = furniture(integer=True).assemble()
    assert arrays.violation(np.array([5.0, 6.0])) == pytest.approx(9.0)
    assert arrays.violation(np.array([0.5, 0.0])) == pytest.approx(0.5)
    assert arrays.violation(np.array([2.0, 6.0])) == 0.0


def test_a_large_model_is_handed_over_in_bulk() -> None:
    """Half a million coefficients are assembled and passed well within a second.

    Of several times one is not kept waiting by a busy machine.
    """
    model = LinearModel()
    x = model.add_block("x", 100_000, cost=1.0, upper=1.0)
    rows = np.repeat(np.arange(50_000), 10)
    columns = np.arange(500_000) * 7 % 100_000
    model.add_rows("rows", 50_000, Entries(rows, x.indices[columns], np.ones(500_000)), lower=1.0)
    limits = SolveLimits(iterations=0, options={"presolve": "off", "solver": "simplex"})
    assert any(solve(model, limits).build_s < 1.0 for _ in range(5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.add_block("made", 1), "already has a variable block 'made'"),
        (lambda m: m.add_block("b", -1), "count -1"),
        (lambda m: m.add_block("b", 2, cost=[1.0, np.nan]), r"b\.cost\[1\]"),
        (lambda m: m.add_block("b", 2, cost=[1.0]), r"shape \(1,\): expected a number or \(2,\)"),
        (lambda m: m.add_block("b", 1, lower=2.0, upper=1.0), r"b\[0\]: lower bound 2\.0"),
        (lambda m: m.add_rows("r", 1, Entries([0], [2], [1.0])), "column index 2: expected 0 to 1"),
        (lambda m: m.add_rows("r", 1, Entries([1], [0], [1.0])), "row index 1: expected 0 to 0"),
        (lambda m: m.add_rows("r", 1, Entries([0], [2**32], [1.0])), "column index 4294967296"),
        (
            lambda m: m.add_rows("r", 1, Entries([0.5], [0], [1.0])),
            "r: row indices are of type float64: expected whole numbers",
        ),
        (lambda m: m.add_block("b", 2, integer=[True]), r"b\.integer has shape \(1,\)"),
        (lambda m: m.add_rows("r", 1, Entries([0], [0, 1], [1.0])), "2 column indices"),
        (
            lambda m: m.add_rows("r", 1, Entries([0], [0], [np.inf])),
            "coefficient 0 is not a finite",
        ),
    ],
)
def test_bad_input_says_where(change, message: str) -> None:  # type: ignore[no-untyped-def]
    """Every malformed block or row names itself, the position and what would be right."""
    with pytest.raises(ValueError, match=message):
        change(furniture())


def test_bad_limits_name_the_field() -> None:
    """Negative or missing limits are refused with their names."""
    with pytest.raises(ValueError, match="time_s is -1"):
        SolveLimits(time_s=-1)
    with pytest.raises(ValueError, match="nodes is -1"):
        SolveLimits(nodes=-1)
    with pytest.raises(ValueError, match="watchdog=True needs a finite time_s"):
        SolveLimits(watchdog=True)
