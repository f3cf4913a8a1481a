"""Plan against plan: fates, spans and work moved."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.files import PlanDocument
from planner.workload.diff import ChangeKind, plan_diff, work_moved


def _held(id_: str, *rows: Sequence[int], state: str = "accepted") -> dict[str, Any]:
    atoms = [{"path": "", "bundle": {"cpu": 1}, "allocation": [list(row) for row in rows]}]
    return {"id": id_, "state": state, "choices": {}, "atoms": atoms}


def _refused(id_: str, code: str = "capacity") -> dict[str, Any]:
    return {"id": id_, "code": code}


def _document(*entries: dict[str, Any], accepted: int = 0) -> PlanDocument:
    held = tuple(one for one in entries if "code" not in one)
    refused = tuple(one for one in entries if "code" in one)
    return PlanDocument({}, 1, 1, "gree", "submitted", held, refused, {"accepted": accepted})


def test_a_plan_does_not_differ_from_itself() -> None:
    """Nothing to show, everything the same."""
    document = _document(_held("a", (0, 5, 2)), _refused("b"))
    diff = plan_diff(document, document)
    assert (diff.requests, diff.same) == ((), 2)


@pytest.mark.parametrize(
    ("before", "after", "fate"),
    [
        ([_refused("a")], [_held("a", (0, 5, 2))], ChangeKind.GAINED),
        ([_held("a", (0, 5, 2))], [_refused("a")], ChangeKind.LOST),
        ([], [_held("a", (0, 5, 2))], ChangeKind.ADDED),
        ([_held("a", (0, 5, 2))], [], ChangeKind.GONE),
        ([_held("a", (0, 5, 2))], [_held("a", (1, 6, 2))], ChangeKind.MOVED),
        ([_held("a", (0, 5, 2))], [_held("a", (0, 5, 1))], ChangeKind.MOVED),
        ([_held("a", (0, 5, 2))], [_held("a", (0, 5, 2), state="active")], ChangeKind.CHANGED),
        ([_refused("a")], [_refused("a", "quota")], ChangeKind.CHANGED),
        ([_held("a", (0, 5, 2))], [_held("a", (0, 2, 2), state="degraded")], ChangeKind.DEGRADED),
        ([_held("a", (0, 5, 2))], [_held("a", (0, 5, 2), state="degraded")], ChangeKind.DEGRADED),
        (
            [_held("a", state="degraded")],
            [_held("a", (0, 5, 2), state="active")],
            ChangeKind.RESTORED,
        ),
        (
            [_held("a", state="degraded")],
            [_held("a", (0, 5, 2), state="degraded")],
            ChangeKind.MOVED,
        ),
        ([_held("a", state="degraded")], [_held("a", state="cancelled")], ChangeKind.CHANGED),
        ([_held("a", (0, 5, 2))], [_held("a", (0, 2, 2), state="failed")], ChangeKind.LOST),
    ],
)
def test_each_fate_has_its_name(
    before: list[dict[str, Any]], after: list[dict[str, Any]], fate: ChangeKind
) -> None:
    """One request, two plans, one word."""
    diff = plan_diff(_document(*before), _document(*after))
    assert [one.fate for one in diff.requests] == [fate]
    assert diff.count(fate) == 1
    json.dumps(diff.to_json())


def test_work_moved_counts_what_is_held_again() -> None:
    """Two bundles shifted by one step: two bundle-seconds are new; standing and span are told."""
    diff = plan_diff(_document(_held("a", (0, 5, 2))), _document(_held("a", (1, 6, 2))))
    one = diff.requests[0]
    assert (one.moved, one.start_s, one.end_s) == (2, (0, 1), (5, 6))
    assert (one.before, one.after) == ("accepted", "accepted")


def test_metrics_stand_side_by_side() -> None:
    """Those that both plans state."""
    diff = plan_diff(_document(accepted=3), _document(accepted=5))
    assert diff.metrics["accepted"] == (3, 5)


_ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.integers(1, 4)), max_size=4)


@given(_ROWS, _ROWS)
def test_work_moved_is_the_sum_of_rises_at_each_step(
    old: list[tuple[int, int, int]], new: list[tuple[int, int, int]]
) -> None:
    """The sweep agrees with counting step by step."""

    def dense(rows: list[tuple[int, int, int]]) -> np.ndarray:
        held = np.zeros(20, dtype=np.int64)
        for start, length, bundles in rows:
            held[start : start + length] += bundles
        return held

    def spans(rows: list[tuple[int, int, int]]) -> list[list[int]]:
        return [[start, start + length, bundles] for start, length, bundles in rows]

    expected = int(np.maximum(dense(new) - dense(old), 0).sum())
    assert work_moved({"0": spans(old)}, {"0": spans(new)}) == expected
