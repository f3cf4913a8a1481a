"""What an optimisation found survives being recorded, and tells where it means nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.optimization.codec import change_to_json, changes_from_json
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Cancel, Conflict, Reconfigure
from planner.plan.records.commit_records import CommitRecord
from tests.builders import commit
from tests.planner.adaptation.events import plans, with_outages
from tests.planner.optimization.small_plans import two_in_the_way

_SLOW = settings(max_examples=20)
_EFFORT = OptimizeOptions(Limits(work=25, seed=1), solver="")


@_SLOW
@given(plans(), st.integers(0, 3))
def test_changes_read_back_make_the_same_record(plan: Plan, lost: int) -> None:
    """Written as JSON and read on the same Plan, changes come to the very same commit record."""
    if lost:
        commit(plan, Reconfigure(with_outages(plan.cluster, (lost, 2, 20))))
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _EFFORT)
    written = json.loads(json.dumps([change_to_json(one) for one in found.changes]))
    read, conflicts = changes_from_json(written, plan)
    assert conflicts == []
    first = plan.prepare(found.changes, found.based_on, joint=True).record
    second = plan.prepare(read, found.based_on, joint=True).record
    assert (first is None) == (second is None) == (not found.changes)
    if first is not None and second is not None:
        assert first.to_json() == second.to_json()


def test_what_is_gone_is_a_conflict_that_names_it() -> None:
    """A refusal that is no longer kept, and a reservation that never was, cannot be changed."""
    plan, _ = two_in_the_way()
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _EFFORT)
    written = [change_to_json(one) for one in found.changes]
    assert sorted(one["change"] for one in written) == ["admit", "update"]
    plan.apply(_recorded(plan, written))
    read, conflicts = changes_from_json(written, plan)
    assert [(one.id, one.code) for one in conflicts] == [("b", Code.CONFLICT)]
    assert "refused requests" in conflicts[0].detail
    assert len(read) == 1  # `a` is still there; its revision says that it has moved on
    stale = plan.prepare(read, plan.version, joint=True)
    assert isinstance(stale.outcomes[0], Conflict)
    assert "revision" in stale.outcomes[0].detail
    unknown = [{**written[0], "change": "update", "id": "zz", "revision": 1, "cause": "x"}]
    assert "no such reservation" in changes_from_json(unknown, plan)[1][0].detail


def _recorded(plan: Plan, written: list[dict[str, Any]]) -> CommitRecord:
    read, _ = changes_from_json(written, plan)
    record = plan.prepare(read, plan.version, joint=True).record
    assert record is not None
    return record


def test_time_that_passed_under_a_change_is_a_conflict() -> None:
    """Rows that would change what is past by now do not fit any more, and the Plan says so."""
    plan, _ = two_in_the_way()
    found = optimize(plan, None, OptimizeScope(admit_refused=True), _EFFORT)
    written = [change_to_json(one) for one in found.changes]
    commit(plan, Advance(7))
    read, conflicts = changes_from_json(written, plan)
    assert not conflicts
    prepared = plan.prepare(read, found.based_on, joint=True)
    assert prepared.record is None
    assert any(one.code is Code.PAST_CHANGED for one in prepared.conflicts)


def test_only_what_the_optimiser_makes_is_written() -> None:
    """Other changes are refused instead of being written as something else."""
    with pytest.raises(TypeError, match="Cancel"):
        change_to_json(Cancel("a"))
