"""Windows as long as what is in them, whose bounds lie between two steps of the grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.oracle.satisfaction import check
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START

STEP_MS = 60_000
GRID = TimeGrid(STEP_MS, 1440)


@pytest.mark.parametrize(
    "text",
    [
        "window(atom(<1 cpu>, 1, 1, 30m, 30m), +10h, +10h30m)",
        "deadline(atom(<1 cpu>, 1, 4, 30m, 2h), +30m)",
        "window(order(atom(<1 cpu>, 1, 1, 10m, 10m), atom(<1 cpu>, 1, 1, 15m, 15m), gap=5m),"
        " +1h, +1h30m)",
        "window(any(atom(<1 cpu>, 1, 1, 1h, 1h), atom(<2 cpu>, 1, 1, 30m, 30m)), +1h, +1h30m)",
    ],
)
@pytest.mark.parametrize("submitted", [0, 1, 20_000, STEP_MS - 1])
def test_a_window_as_long_as_the_work_is_accepted_between_steps(text: str, submitted: int) -> None:
    """It begins with the next step, and a note says so where that is later than written."""
    graph = compile_source(text, CompileContext(GRID, submitted))
    row = graph.vertices[-1]
    assert row[END] - row[START] == 30
    assert any("as long as" in note for note in graph.notes) == (submitted > 0)


def test_a_window_that_is_shorter_than_the_work_names_the_step() -> None:
    """Work of 30m30s needs 31 steps, and the window has 29."""
    text = "window(atom(<1 cpu>, 1, 1, 30m30s, 30m30s), +10h, +10h30m30s)"
    with pytest.raises(RdlError, match="whole steps of 1m"):
        compile_source(text, CompileContext(GRID, 20_000))


@given(st.integers(0, 2 * STEP_MS), st.integers(1, 3), st.integers(-1, 1), st.integers(0, 4))
def test_the_oracle_and_the_compiler_accept_the_same_starts(
    submitted: int, length: int, more: int, start: int
) -> None:
    """An atom of `length` steps in a window of `length` steps, give or take a second."""
    window = f"+{STEP_MS // 1000}s, +{STEP_MS * (length + 1) // 1000 + more}s"
    lease = length * STEP_MS // 1000
    text = f"window(atom(<1 cpu>, 1, 1, {lease}, {lease}), {window})"
    expected = _starts(text, submitted)
    rows = {"0": [(start, start + length, 1)]}
    found = check(read_source(text), GRID, submitted, rows, {})
    assert (found is None) == (start in expected)


def _starts(text: str, submitted: int) -> range:
    """Return the starts that the compiler leaves to the only atom."""
    try:
        graph = compile_source(text, CompileContext(GRID, submitted))
    except RdlError:
        return range(0)
    row = graph.vertices[-1]
    return range(int(row[START]), int(row[END]) - int(row[4]) + 1)


def test_a_first_run_that_no_longer_fits_names_the_anchor() -> None:
    """Half an hour before the window ends, a run of an hour can only begin with the next period."""
    of = "window(atom(<1 cpu>, 1, 1, 1h, 1h), 0h, 6h)"
    context = CompileContext(TimeGrid(STEP_MS, 3 * 1440), 330 * STEP_MS)
    with pytest.raises(RdlError, match="write anchor= at the next one"):
        compile_source(f"every(1d, {of}, times=2, anchor=0, same_offset=false)", context)
    graph = compile_source(f"every(1d, {of}, times=2, anchor=1d)", context)
    assert graph.vertices[graph.atoms[0], START] == 1440


def test_until_counts_whole_periods() -> None:
    """The window of the third period ends at `until`, the period does not."""
    of = "window(atom(<1 cpu>, 1, 1, 1h, 1h), 2h, 4h)"
    context = CompileContext(TimeGrid(STEP_MS, 5 * 1440))
    graph = compile_source(f"every(1d, {of}, until=2d4h)", context)
    assert len(graph.shifts) - 1 == 2
