"""Holds in the Plan: who may accept or end one and when, and that records alone make them again."""

from __future__ import annotations

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import Code
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Cancel, Change
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import AcceptHold, EndHold, Hold
from planner.reservations.state import State
from tests.builders import a_cluster, a_request

_CLUSTER = a_cluster().machines("plain", 4, cpu=1).origin("2026-01-05T00:00:00Z").build()
_HOLD = Hold(30_000, "ann")


def _held(*, note: str = "") -> tuple[Plan, list[CommitRecord]]:
    """Return a Plan in which all machines are held until second 30, and its records."""
    plan = Plan(_CLUSTER, _CLUSTER.grid())
    records: list[CommitRecord] = []
    source = "window(atom(<1 cpu>, 4, 4, 10, 40), 100, 110)"
    request = a_request("h", source).on(_CLUSTER)
    agent = agent_named("earliest")
    result = agent.plan([request], plan.snapshot(), Limits())[0]
    _commit(plan, records, Admit(request, result, agent.name, note=note, hold=_HOLD))
    return plan, records


def _commit(plan: Plan, records: list[CommitRecord], change: Change, at_ms: int = 0) -> bool:
    """Make a change if it can be made; return whether it was."""
    prepared = plan.prepare([change], plan.version, at_ms=at_ms)
    if prepared.record is None:
        assert prepared.conflicts[0].code is Code.CONFLICT
        return False
    # What processes share is the written form.
    record = CommitRecord.from_json(prepared.record.to_json())
    plan.apply(record)
    records.append(record)
    return True


def test_it_is_accepted_before_its_end_only() -> None:
    """At its last instant it cannot be accepted any more; before it can, once."""
    plan, records = _held()
    assert not _commit(plan, records, AcceptHold("h"), at_ms=30_000)
    assert _commit(plan, records, AcceptHold("h"), at_ms=29_999)
    assert not _commit(plan, records, AcceptHold("h"), at_ms=29_999)
    found = plan.reservation("h")
    assert found is not None
    assert (found.state, found.revision) == (State.ACCEPTED, 2)


def test_it_runs_out_at_its_end_only() -> None:
    """Who releases what has run out does not end one that has not, nor one that was accepted."""
    plan, records = _held()
    over = EndHold("h", "over", when_over=True)
    assert not _commit(plan, records, over, at_ms=29_999)
    assert _commit(plan, records, over, at_ms=30_000)
    assert plan.table.state(0) is State.CANCELLED
    assert (plan.ledger.free[0] == 4000).all()
    plan, records = _held()
    assert _commit(plan, records, AcceptHold("h"), at_ms=1)
    assert not _commit(plan, records, over, at_ms=60_000)


@pytest.mark.parametrize("change", [Cancel("h"), Advance(200), EndHold("h", "released")])
def test_what_is_over_is_held_no_more(change: Change) -> None:
    """Cancelled, run to its end or released: there is nothing to accept."""
    plan, records = _held()
    assert _commit(plan, records, change, at_ms=10)
    assert plan.table.holds == {}
    assert not _commit(plan, records, AcceptHold("h"), at_ms=11)


def test_records_and_checkpoints_keep_it() -> None:
    """A replay of the records as they are written, and a state saved, have the same holds."""
    plan, records = _held(note="asked again")
    twin = Plan.replay(_CLUSTER, _CLUSTER.grid(), records)
    saved = read_checkpoint(take_checkpoint(plan).encode())
    for other in (twin, saved, plan.copy()):
        assert other.table.holds == {0: _HOLD}
        found = other.reservation("h")
        assert found is not None
        assert [(one.what, one.detail) for one in found.history] == [
            ("admitted", ""),
            ("accepted", "asked again"),
        ]


def test_a_copy_shares_no_holds() -> None:
    """What is ended on a copy stays held in the Plan."""
    plan, _ = _held()
    twin = plan.copy()
    assert _commit(twin, [], EndHold("h", "tried"), at_ms=1)
    assert plan.table.holds == {0: _HOLD}
