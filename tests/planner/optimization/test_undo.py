"""An optimisation that is undone: back to the Plan before, as far as nothing has begun since."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.optimization.undo import inverse_of, requests_of, undo_changes
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Cancel, Change, Degrade, Relocate, Update
from planner.promise import PromiseLevel
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from tests.builders import commit
from tests.planner.adaptation.events import plans, violations
from tests.planner.optimization.small_plans import scattered, two_in_the_way

_SLOW = settings(max_examples=20)
#: What begins with the present step has begun.
_SCOPE = OptimizeScope(frozen_until=1, admit_refused=True)
_EFFORT = OptimizeOptions(Limits(work=25), solver="")


def _applied(plan: Plan) -> list[dict[str, Any]]:
    """Apply what an optimisation finds; return what takes it back, as it is recorded."""
    found = optimize(plan, None, _SCOPE, _EFFORT)
    if not found.changes:
        return []
    record = plan.prepare(found.changes, found.based_on, joint=True).record
    assert record is not None
    entries: list[dict[str, Any]] = json.loads(json.dumps(inverse_of(plan, record)))
    plan.apply(record)
    return entries


def _take(plan: Plan, changes: list[Change]) -> None:
    if changes:
        prepared = plan.prepare(changes, plan.version, joint=True)
        assert prepared.record is not None, prepared.conflicts
        plan.apply(prepared.record)


def _held(plan: Plan) -> dict[str, Any]:
    """Return what each reservation holds that holds something: rows and slots."""
    return {
        one.id: [one.state, one.agent, *plan.table.holding(number).to_json().items()]
        for number, one in enumerate(plan.reservations())
        if one.state is not State.CANCELLED
    }


@_SLOW
@given(st.sampled_from(PromiseLevel).flatmap(plans))
def test_applied_and_undone_all_hold_what_they_held(plan: Plan) -> None:
    """The same rows and slots, states and agents; who came in holds nothing; the Plan is valid."""
    before = _held(plan)
    entries = _applied(plan)
    changes, staying = undo_changes(plan, entries)
    assert staying == []
    _take(plan, changes)
    assert _held(plan) == before
    assert violations(plan) == []


@_SLOW
@given(st.sampled_from(PromiseLevel).flatmap(plans), st.integers(1, 12))
def test_what_has_begun_stays_and_the_plan_is_valid(plan: Plan, passed: int) -> None:
    """Some time later the rest goes back where it fits alongside what stays."""
    entries = _applied(plan)
    commit(plan, Advance(passed))
    changes, staying = undo_changes(plan, entries)
    assert len(changes) + len(staying) == len(entries)
    begun = {one["id"] for one in entries if one["first"] <= passed}
    assert {one.id for one in staying} == begun
    if changes:
        record = plan.prepare(changes, plan.version, joint=True).record
        if record is not None:
            plan.apply(record)
    assert violations(plan) == []


def test_machines_are_as_they_were() -> None:
    """Who only changed its machine has the one of before again."""
    plan = scattered(6)
    before = _held(plan)
    entries = _applied(plan)
    assert entries
    assert _held(plan) != before
    changes, staying = undo_changes(plan, entries)
    assert not staying
    _take(plan, changes)
    assert _held(plan) == before


def test_a_reservation_that_was_restored_is_degraded_again() -> None:
    """It holds what it held before, and waits for the rest."""
    plan, _ = two_in_the_way()
    nothing = Holding((), plan.now, plan.now)
    commit(plan, Degrade("a", 1, nothing, "machines were lost"))
    entries = _applied(plan)
    assert {one["id"]: one["change"] for one in entries} == {"a": "degrade", "b": "cancel"}
    changes, _ = undo_changes(plan, entries)
    _take(plan, changes)
    held = plan.reservation("a")
    assert held is not None
    assert (held.state, held.atoms) == (State.DEGRADED, ())


def test_what_was_compiled_before_is_not_compiled_again() -> None:
    """The changes are the same, and on other machines the requests are compiled for those."""
    plan, _ = two_in_the_way()
    entries = _applied(plan)
    compiled = requests_of(plan, entries)
    request = compiled.by_id["a"]
    assert list(compiled.by_id) == ["a"]
    (update,) = (one for one in undo_changes(plan, entries, compiled)[0] if isinstance(one, Update))
    assert update.request is request
    others = replace(compiled, cluster=replace(plan.cluster))
    (update,) = (one for one in undo_changes(plan, entries, others)[0] if isinstance(one, Update))
    assert update.request is not request


def _codes(plan: Plan, entries: list[dict[str, Any]]) -> dict[str, str]:
    return {one.id: one.code for one in undo_changes(plan, entries)[1]}


def test_why_a_reservation_stays() -> None:
    """What has begun, was changed or is gone since is named with a code, and the rest goes back."""
    plan, _ = two_in_the_way()
    entries = _applied(plan)
    assert {one["id"]: one["change"] for one in entries} == {"a": "update", "b": "cancel"}
    firsts = {one["id"]: one["first"] for one in entries}
    for now in range(1, 12):
        commit(plan, Advance(now))
        left = _codes(plan, entries)
        over = {one.id for one in plan.reservations() if one.state is State.COMPLETED}
        assert left == {
            id_: "gone" if id_ in over else "begun" for id_ in firsts if firsts[id_] <= now
        }
    plan, _ = two_in_the_way()
    entries = _applied(plan)
    commit(plan, Cancel("a"))
    assert _codes(plan, entries) == {"a": "gone"}
    assert _codes(plan, [{**entries[1], "revision": 7}, {**entries[0], "id": "zz"}]) == {
        entries[1]["id"]: "gone" if entries[1]["id"] == "a" else "changed",
        "zz": "gone",
    }


def test_machines_that_were_changed_again_stay() -> None:
    """A relocation has no revision: its slots say whether it stands as the optimisation left it."""
    plan = scattered(6)
    entries = [one for one in _applied(plan) if one["change"] == "relocate"]
    assert len(entries) == 1
    (change,), _ = undo_changes(plan, entries)
    assert isinstance(change, Relocate)
    plan.apply(plan.prepare([Cancel("c")], plan.version).record)  # type: ignore[arg-type]
    commit(plan, change)
    assert _codes(plan, entries) == {change.id: "changed"}
