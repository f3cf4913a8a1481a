"""Changes of reservations, and requests that come in together, displace others on small Plans."""

from __future__ import annotations

import pytest

from planner.plan.plan import Plan
from planner.plan.records.changes import Advance
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.state import State
from tests.builders import RequestBuilder, a_cluster, a_plan, a_request, commit
from tests.planner.adaptation.events import violations
from tests.planner.displacement.small_plans import (
    HORIZON,
    displace_now,
    displacing_cluster,
    fates,
    found_for,
    gang,
)


def _plan(*asked: RequestBuilder, machines: int = 4, running: bool = False) -> Plan:
    cluster = displacing_cluster(machines, running=running)
    plan = a_plan(cluster).placed_by("earliest")
    return plan.holding(*(one.on(cluster) for one in asked)).build()


def _rows(plan: Plan, id_: str) -> list[list[int]]:
    found = plan.reservation(id_)
    assert found is not None
    return [row for atom in found.atoms for row in atom.rows.tolist()]


def test_a_change_displaces_and_keeps_what_it_had_until_then() -> None:
    """Old and new rows swap in the record that moves the other one away."""
    plan = _plan(
        a_request("mine", gang(2, 4, 2, 6)).priority(5), a_request("low", gang(2, 4, 2, 24))
    )
    wider = a_request("mine", gang(4, 4, 2, 6)).priority(5).on(plan.cluster)
    assert fates(displace_now(plan, wider)) == {"low": "moved"}
    assert _rows(plan, "mine") == [[2, 6, 4]]
    mine = plan.reservation("mine")
    assert mine is not None
    assert (mine.revision, mine.history[-1].what) == (2, "renegotiated")
    assert mine.history[-1].detail == "displaced 1 reservation"
    assert violations(plan) == []


def test_a_change_that_fits_in_its_own_place_displaces_nothing() -> None:
    """What a reservation releases is capacity for its change."""
    plan = _plan(
        a_request("mine", gang(2, 4, 2, 24)).priority(5), a_request("low", gang(2, 8, 2, 10))
    )
    later = a_request("mine", gang(2, 8, 2, 10)).priority(5).on(plan.cluster)
    assert fates(found_for(plan, later)) == {}


@pytest.mark.parametrize("priority", [0, -1])
def test_a_change_of_the_same_priority_or_a_lower_one_displaces_nothing(priority: int) -> None:
    """It is refused, and leaves all as it was."""
    plan = _plan(a_request("mine", gang(2, 4, 2, 6)), a_request("there", gang(2, 4, 2, 6)))
    wider = a_request("mine", gang(4, 4, 2, 6)).priority(priority).on(plan.cluster)
    assert displace_now(plan, wider) is None
    assert _rows(plan, "mine") == _rows(plan, "there") == [[2, 6, 2]]


def test_a_change_that_raises_the_priority_does_not_displace_what_it_changes() -> None:
    """The reservation itself is below the priority that it asks for, and gives way to no one."""
    plan = _plan(a_request("mine", gang(2, 4, 2, 6)), a_request("low", gang(2, 4, 2, 6)))
    raised = a_request("mine", gang(4, 4, 2, 6)).priority(9).on(plan.cluster)
    assert fates(displace_now(plan, raised)) == {"low": "degraded"}
    assert _rows(plan, "mine") == [[2, 6, 4]]


def test_a_change_of_what_has_begun_keeps_its_past() -> None:
    """What was held before now stays, and only the rest takes the place of another one."""
    plan = _plan(
        a_request("mine", gang(2, 4, 0, 4)).priority(5), a_request("low", gang(4, 4, 4, 8))
    )
    commit(plan, Advance(2))
    longer = a_request("mine", gang(2, 8, 0, 8)).priority(5).on(plan.cluster)
    assert fates(displace_now(plan, longer)) == {"low": "degraded"}
    assert _rows(plan, "mine") == [[0, 8, 2]]
    assert violations(plan) == []


def test_what_was_displaced_may_ask_again_and_displace_in_its_turn() -> None:
    """A degraded reservation that is changed displaces those below it, never those above."""
    plan = _plan(
        a_request("middle", gang(4, 4, 2, 6)).priority(3), a_request("least", gang(4, 4, 8, 12))
    )
    displace_now(plan, a_request("urgent", gang(4, 4, 2, 6)).priority(5).on(plan.cluster))
    again = a_request("middle", gang(4, 4, 2, 12)).priority(3).on(plan.cluster)
    assert fates(displace_now(plan, again)) == {"least": "degraded"}
    middle = plan.reservation("middle")
    assert middle is not None
    assert middle.state is State.ACCEPTED
    assert _rows(plan, "urgent") == [[2, 6, 4]]
    assert violations(plan) == []


def test_a_batch_has_capacity_for_all_or_displaces_no_one() -> None:
    """Two gangs in one window displace both that are there; where one never fits, none."""
    plan = _plan(
        a_request("left", gang(2, 4, 2, 6)), a_request("right", gang(2, 4, 2, 6)), machines=4
    )
    one = a_request("one", gang(2, 4, 2, 6)).priority(1).on(plan.cluster)
    two = a_request("two", gang(2, 4, 2, 6)).priority(4).on(plan.cluster)
    more = a_request("more", gang(1, 4, 2, 6)).priority(4).on(plan.cluster)
    assert found_for(plan, one, two, more) is None
    assert fates(displace_now(plan, one, two)) == {"left": "degraded", "right": "degraded"}
    left = plan.reservation("left")
    assert left is not None
    assert left.degradation is not None
    assert left.degradation.reason == "displaced by two and 1 more of its batch, of higher priority"
    assert violations(plan) == []


def test_a_batch_is_as_strong_as_its_weakest_request() -> None:
    """Nobody gives way to a batch with a request of the same priority, or under no policy."""
    plan = _plan(a_request("there", gang(3, 4, 2, 6)).priority(2))
    strong = a_request("strong", gang(2, 4, 2, 6)).priority(9).on(plan.cluster)
    weak = a_request("weak", gang(1, 4, 2, 6)).priority(2).on(plan.cluster)
    assert found_for(plan, strong, weak) is None
    builder = a_cluster().horizon(HORIZON).machines("m", 4, cpu=1).queue("default").queue("urgent")
    cluster = builder.policy("displacement", queue="urgent").build()
    scoped = a_plan(cluster).holding(a_request("low", gang(4, 4, 2, 6)).on(cluster)).build()
    may = a_request("may", gang(2, 4, 2, 6)).queue("urgent").priority(1).on(cluster)
    may_not = a_request("may-not", gang(2, 4, 2, 6)).priority(1).on(cluster)
    assert found_for(scoped, may, may_not) is None
    assert fates(found_for(scoped, may)) == {"low": "degraded"}


def test_the_log_alone_makes_a_change_and_a_batch_again() -> None:
    """Records of both, written and read, are applied to the same state."""
    plan = _plan(
        a_request("mine", gang(2, 4, 2, 6)).priority(5),
        a_request("low", gang(2, 4, 2, 24)),
        a_request("lost", gang(2, 4, 6, 10)),
    )
    before, grid = plan.copy(), plan.grid
    wider = [a_request("mine", gang(4, 4, 2, 6)).priority(5).on(plan.cluster)]
    batch = [
        a_request(id_, gang(2, 4, 6, 10)).priority(5).on(plan.cluster) for id_ in ("one", "two")
    ]
    for asked in (wider, batch):
        found = found_for(plan, *asked)
        assert found is not None
        record = plan.prepare(found.changes, found.based_on, joint=True).record
        assert record is not None
        plan.apply(record)
        before.apply(CommitRecord.from_json(record.to_json()))
    assert [one.to_json(grid) for one in plan.reservations()] == [
        one.to_json(grid) for one in before.reservations()
    ]
    assert (plan.ledger.free == before.ledger.free).all()
