"""Virtual assignments: the deltas between two make the second of the first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.backends.in_memory import InMemoryBackend
from dispatch.executions.assignment import AssignmentRow, Op, VirtualAssignment

_rows = st.builds(
    AssignmentRow,
    st.sampled_from("xyz"),
    st.sampled_from(["core", "more"]),
    st.integers(0, 2),
    st.sampled_from(["m-0", "m-1"]),
    st.integers(0, 9),
    st.booleans(),
)
_assignments = st.lists(_rows, max_size=8, unique_by=lambda row: row.key).map(VirtualAssignment.of)


@given(_assignments, _assignments)
def test_deltas_make_the_second_of_the_first(
    before: VirtualAssignment, after: VirtualAssignment
) -> None:
    """Applied in order they place every component where it is wanted; none if nothing moves."""
    backend = InMemoryBackend(["m-0", "m-1"])
    assert backend.apply(VirtualAssignment().deltas_to(before), 0) == ()
    deltas = before.deltas_to(after)
    assert backend.apply(deltas, 5) == ()
    assert {row.key: row.machine for row in backend.state().rows} == {
        row.key: row.machine for row in after.rows
    }
    assert before.deltas_to(before) == ()
    freeing = [delta.op in (Op.STOP, Op.SHRINK) for delta in deltas]
    assert freeing == sorted(freeing, reverse=True)


def test_ops_tell_leaving_from_shrinking_and_starting_from_growing() -> None:
    """x loses one of two, y leaves, z comes."""

    def row(execution: str, index: int) -> AssignmentRow:
        return AssignmentRow(execution, "w", index, "m-0", 0, covered=False)

    before = VirtualAssignment.of([row("x", 0), row("x", 1), row("y", 0)])
    after = VirtualAssignment.of([row("x", 0), row("x", 2), row("z", 0)])
    ops = [(delta.op, delta.execution) for delta in before.deltas_to(after)]
    assert ops == [(Op.STOP, "y"), (Op.SHRINK, "x"), (Op.START, "z"), (Op.GROW, "x")]


def test_a_component_is_on_one_machine() -> None:
    """Two machines for one component are an error; the other errors are the backend's."""
    row = AssignmentRow("x", "w", 0, "m-0", 0, covered=True)
    with pytest.raises(ValueError, match="on m-0 and on m-1"):
        VirtualAssignment.of([row, AssignmentRow("x", "w", 0, "m-1", 0, covered=True)])
