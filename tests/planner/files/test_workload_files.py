"""Workload files: good lines are read, bad ones are reported by their number."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from planner.files import FileError, FileProblem, WorkloadLine, read_line, read_workload
from planner.files.workload_file import LineError


def test_a_bad_line_loses_nothing_else(tmp_path: Path) -> None:
    """Good lines are read, each bad one is reported with its number."""
    path = tmp_path / "w.jsonl"
    path.write_text(
        '{"id": "a", "rdl": "x"}\n'
        "not json\n"
        "\n"
        '{"id": "b", "rdl": "x", "tennant": "t"}\n'
        '{"id": "a", "rdl": "x"}\n'
        '{"id": "c", "rdl": 7}\n'
        '{"id": "d", "rdl": "x", "submitted": "+5m"}\n'
        '{"id": "e", "rdl": "x", "submitted": "2m", "weight": 2, "priority": 3}\n'
    )
    problems: list[FileProblem] = []
    lines = list(read_workload(path, on_problem=problems.append))
    assert [line.id for line in lines] == ["a", "e"]
    assert (lines[1].submitted_ms, lines[1].weight, lines[1].priority) == (120_000, 2.0, 3)
    assert lines[1].line_number == 8
    assert [one.line for one in problems] == [2, 4, 5, 6, 7]
    assert "did you mean 'tenant'?" in str(problems[1])
    assert "was given on line 1" in str(problems[2])


@pytest.mark.parametrize("weight", ["1e400", "1e308", "-1", "true"])
def test_a_weight_is_a_plain_number(tmp_path: Path, weight: str) -> None:
    """A weight that makes values infinite is a bad line, not a plan that cannot be written."""
    path = tmp_path / "w.jsonl"
    path.write_text(f'{{"id": "a", "rdl": "x", "weight": {weight}}}\n')
    with pytest.raises(FileError) as caught:
        list(read_workload(path))
    assert caught.value.pointer == "/weight"


def test_without_a_listener_bad_lines_end_in_one_error(tmp_path: Path) -> None:
    """All good lines come first, then the error with every problem."""
    path = tmp_path / "w.jsonl"
    path.write_text('{"rdl": "x"}\n{"id": "a", "rdl": "x"}\n{"id": 3, "rdl": "x"}\n')
    seen: list[WorkloadLine] = []
    with pytest.raises(FileError) as caught:
        seen.extend(read_workload(path))
    assert [line.id for line in seen] == ["a"]
    assert [one.line for one in caught.value.problems] == [1, 3]


def test_an_instant_of_submission_needs_an_origin_and_counts_from_it() -> None:
    """Submissions may be RFC 3339 where the cluster has an origin."""
    value = {"id": "a", "rdl": "x", "submitted": "2026-01-05T00:01:00Z"}
    with pytest.raises(LineError, match="origin"):
        read_line(value)
    origin = datetime(2026, 1, 5, tzinfo=UTC)
    assert read_line(value, origin=origin).submitted_ms == 60_000
    with pytest.raises(LineError, match="before the cluster's origin"):
        read_line({**value, "submitted": "2026-01-04T00:00:00Z"}, origin=origin)


@pytest.mark.parametrize("raw", ["[" * 100_000, '{"id": "a", "rdl": NaN}', '"text"', "3"])
def test_hostile_lines_are_problems_not_crashes(tmp_path: Path, raw: str) -> None:
    """Deep nesting, NaN, and JSON that is no object."""
    path = tmp_path / "w.jsonl"
    path.write_text(raw + "\n")
    with pytest.raises(FileError):
        list(read_workload(path))


def test_a_line_written_is_the_line_read() -> None:
    """to_json and read_line are a round trip."""
    line = read_line(
        {"id": "a", "tenant": "t", "queue": "q", "submitted": 1.5, "rdl": {"x": 1}, "weight": 0}
    )
    assert read_line(line.to_json()) == line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"id": "a", "id": "b", "rdl": "all()"}', "the key 'id' is given twice"),
        (
            '{"id": "a", "rdl": {"graph": {"nodes": {"x": 1, "x": 2}}}}',
            "'x' is given twice",
        ),
        (r'{"id": "a\ud800", "rdl": "all()"}', "half of a character"),
    ],
)
def test_a_line_that_says_two_things_or_half_a_thing_is_left_out(
    tmp_path: Path, line: str, says: str
) -> None:
    """A key given twice would hide a job; half of a character could not be written to a plan."""
    path = tmp_path / "w.jsonl"
    path.write_text(f'{line}\n{{"id": "good", "rdl": "all()"}}\n')
    told: list[FileProblem] = []
    assert [one.id for one in read_workload(path, None, told.append)] == ["good"]
    assert [one.line for one in told] == [1]
    assert says in told[0].message
