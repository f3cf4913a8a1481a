"""Endless recurrences on a rolling horizon: new occurrences are held against what is free."""

from __future__ import annotations

from planner.agents import agent_named
from planner.files.cluster_file import cluster_from_json
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Close
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.reservation import Reservation
from planner.reservations.slots import NOWHERE
from planner.reservations.state import State
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.plan.plan_json import plan_json

#: Two cores in the first half of every twelve seconds.
DAILY = "every(12, window(atom(<2 cpu>, 1, 1, 6, 6), 0, 6))"

#: The third period ends after the horizon: what it will need may be given away.
HORIZON = 30


def _plan(*others: str, level: str = "placed", machines: int = 2) -> Plan:
    cluster = cluster_from_json(
        {
            "step": "1s",
            "horizon": f"{HORIZON}s",
            "max_period": "12s",
            "promises": {"level": level},
            "machines": [{"name": "m", "count": machines, "resources": {"cpu": 3}}],
        }
    )
    plan = Plan(cluster, cluster.grid())
    for number, source in enumerate((DAILY, *others)):
        ask(plan, a_request(f"r{number}", source).on(cluster), agent_named("gree-l"))
        assert plan.reservation(f"r{number}") is not None
    return plan


def _daily(plan: Plan) -> Reservation:
    held = plan.reservation("r0")
    assert held is not None
    return held


def _faults(plan: Plan) -> list[str]:
    found = validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid)
    return [one.detail for one in found]


def test_a_new_occurrence_gets_a_machine_at_once() -> None:
    """The record carries its slots, and says the same when it is read back."""
    plan = _plan()
    prepared = commit(plan, Advance(1, 36))
    slots = _daily(plan).atoms[0].slots
    assert slots is not None
    assert slots[:, :2].tolist() == [[0, 6], [12, 18], [24, 30]]
    assert NOWHERE not in slots[:, 3]
    assert _faults(plan) == []
    assert prepared.record is not None
    again = _plan()
    again.apply(CommitRecord.from_json(prepared.record.to_json()))
    assert plan_json(again) == plan_json(plan)


def test_a_new_occurrence_without_capacity_degrades_its_recurrence() -> None:
    """Another took the capacity before the period was whole: nothing is held twice."""
    for level in ("pooled", "placed"):
        plan = _plan("window(atom(<3 cpu>, 2, 2, 6, 12), 24, 30)", level=level)
        commit(plan, Advance(1, 36))
        daily = _daily(plan)
        assert daily.state is State.DEGRADED
        assert daily.degradation is not None
        assert "next occurrence has no capacity" in daily.degradation.reason
        assert [atom.rows.tolist() for atom in daily.atoms] == [[[0, 6, 1]], [[12, 18, 1]]]
        assert _faults(plan) == []


def test_a_new_occurrence_that_finds_no_machine_waits_for_one() -> None:
    """The pool has capacity, one core here and one there: the adapter is reported by the slot."""
    plan = _plan("window(atom(<2 cpu>, 2, 2, 6, 12), 24, 30)")
    commit(plan, Advance(1, 36))
    slots = _daily(plan).atoms[0].slots
    assert slots is not None
    assert slots[-1].tolist() == [24, 30, 1, NOWHERE]
    assert _daily(plan).state is State.ACTIVE


def test_a_closed_recurrence_is_requested_no_later_occurrences() -> None:
    """The horizon rolls on, and what was promised stays what it was at the close."""
    plan = _plan()
    commit(plan, Advance(13, 36))
    commit(plan, Close("r0"))
    commit(plan, Advance(14, 60))
    assert _daily(plan).state is State.COMPLETED
    assert _faults(plan) == []
