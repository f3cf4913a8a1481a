"""Time of a reservation that passed while people's own job waited is found, and owed again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.accounts.missed_work import JobWait, MissedWork
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Close, Degrade
from planner.promise import PromiseLevel
from planner.reservations.state import State
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.planner.adaptation.events import adapt_now

#: Later than all that these tests judge.
SEEN_MS = 1_000_000

HELD, FREE = JobWait(0, may_run=False, seen_ms=SEEN_MS), JobWait(0, may_run=True, seen_ms=SEEN_MS)


def _plan(text: str = "window(atom(<1 cpu>, 2, 2, 20, 40), 0, 100)") -> Plan:
    """Return a plan that holds two machines for the first twenty of a hundred seconds."""
    cluster = a_cluster().horizon(200).machines("m", 4, cpu=1).build()
    cluster = replace(cluster, promise=PromiseLevel.PLACED)
    request = a_request("r", text).on(cluster)
    return a_plan(cluster).placed_by("earliest").holding(request).build()


def _due(plan: Plan, wait: JobWait, at_s: int) -> list[Degrade]:
    if at_s > plan.now:
        commit(plan, Advance(at_s))
    return _ask(MissedWork(), plan, {"r": wait}, at_s * 1000)


def _ask(missed: MissedWork, plan: Plan, waits: dict[str, JobWait], now_ms: int) -> list[Degrade]:
    return missed.due(plan, ExecutionTable(MachinePool(plan.cluster)), now_ms, waits)


@pytest.mark.parametrize("wait", [HELD, FREE])
def test_a_slot_that_is_over_while_its_job_waits_is_planned_again(wait: JobWait) -> None:
    """Held or bound: none of it was used, and the owner is notified when."""
    plan = _plan()
    (change,) = _due(plan, wait, 30)
    assert "not run from the origin to 20s from the origin" in change.reason
    assert not commit(plan, change).conflicts
    adapt_now(plan)
    found = plan.reservation("r")
    assert found is not None
    (rows,) = [atom.rows.tolist() for atom in found.atoms]
    assert [end - start for start, end, _ in rows] == [20]
    assert rows[0][0] >= 30
    assert _due(plan, wait, 31) == []


def test_a_slot_is_judged_by_what_was_seen_after_its_end() -> None:
    """Its job was seen to wait before that, and may have run since; a held one cannot have."""
    for may_run, count in ((True, 0), (False, 1)):
        seen = JobWait(0, may_run=may_run, seen_ms=19_000)
        assert len(_due(_plan(), seen, 30)) == count
        assert len(_due(_plan(), seen._replace(seen_ms=20_000), 30)) == 1
    assert _due(_plan(), JobWait(0, may_run=False, seen_ms=-1_000), 30) == []


def test_a_slot_that_continues_is_owed_to_a_job_that_was_not_let_run() -> None:
    """Eight seconds in: a held job needs a whole slot; a bound one may begin at any moment."""
    assert _due(_plan(), FREE, 8) == []
    assert len(_due(_plan(), HELD, 8)) == 1
    assert _due(_plan(), HELD, 4) == []


def test_a_slot_that_continues_is_kept_where_its_window_holds_no_other() -> None:
    """What is left of it is all that there is; that it was missed is reported when it is over."""
    plan = _plan("window(atom(<1 cpu>, 2, 2, 20, 40), 0, 25)")
    assert _due(plan, HELD, 8) == []
    (change,) = _due(plan, HELD, 25)
    commit(plan, change)
    adapt_now(plan)
    assert plan.table.state(0) is State.FAILED


def test_what_a_job_came_too_late_for_is_not_owed() -> None:
    """Submitted in the middle of its slot, or after it."""
    assert _due(_plan(), JobWait(10_000, may_run=False, seen_ms=SEEN_MS), 30) == []
    assert _due(_plan(), JobWait(25_000, may_run=False, seen_ms=SEEN_MS), 30) == []


def test_a_reservation_that_its_owner_closed_is_owed_nothing() -> None:
    """And one that no one knows is none."""
    plan = _plan()
    commit(plan, Advance(5))
    revision = int(plan.table.meta[0]["revision"])
    commit(plan, Close("r", revision))
    assert _due(plan, HELD, 30) == []
    assert _ask(MissedWork(), plan, {"other": HELD}, 30_000) == []


def test_runs_of_a_recurrence_are_left_alone() -> None:
    """Each has a time of its own."""
    plan = _plan("every(50s, window(atom(<1 cpu>, 2, 2, 20, 40), 0, 50), times=3)")
    assert _due(plan, HELD, 30) == []


def test_what_the_plan_did_not_take_is_not_asked_for_at_once() -> None:
    """Again after ten seconds."""
    plan, jobs = _plan(), MissedWork()
    commit(plan, Advance(30))
    assert [len(_ask(jobs, plan, {"r": HELD}, at_ms)) for at_ms in (30_000, 31_000, 41_000)] == [
        1, 0, 1,
    ]  # fmt: skip
