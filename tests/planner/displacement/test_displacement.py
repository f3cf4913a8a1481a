"""Displacement on Plans small enough to follow by hand."""

from __future__ import annotations

import pytest

from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Cancel
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.state import State
from tests.builders import RequestBuilder, a_cluster, a_plan, a_request, commit
from tests.planner.adaptation.events import adapt_now, violations
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
    return a_plan(cluster).holding(*(one.on(cluster) for one in asked)).build()


def _urgent(plan: Plan, source: str, priority: int = 5) -> RequestBuilder:
    return a_request("urgent", source).priority(priority)


def test_a_displaced_reservation_with_capacity_elsewhere_is_moved() -> None:
    """The displaced one goes to another time in its window, and its history names the request."""
    plan = _plan(a_request("low", gang(4, 4, 2, 24)))
    request = _urgent(plan, gang(4, 18, 6, 24)).on(plan.cluster)
    assert fates(displace_now(plan, request)) == {"low": "moved"}
    low, urgent = plan.reservation("low"), plan.reservation("urgent")
    assert low is not None
    assert urgent is not None
    assert low.state is State.ACCEPTED
    assert low.atoms[0].rows.tolist() == [[2, 6, 4]]
    assert low.history[-1].detail == "displaced by urgent, of higher priority"
    assert urgent.history[-1].detail == "displaced 1 reservation"
    assert violations(plan) == []


def test_what_fits_nowhere_else_is_degraded_and_told_with_offers() -> None:
    """The reason names the request that displaced it, and an offer names another time."""
    plan = _plan(a_request("low", gang(4, 4, 2, 8)))
    request = _urgent(plan, gang(4, 4, 2, 6)).on(plan.cluster)
    assert fates(displace_now(plan, request)) == {"low": "degraded"}
    low = plan.reservation("low")
    assert low is not None
    assert low.state is State.DEGRADED
    assert low.degradation is not None
    assert low.degradation.reason == "displaced by urgent, of higher priority"
    assert low.degradation.offers
    assert violations(plan) == []


@pytest.mark.parametrize("priority", [0, -1])
def test_equal_or_higher_priority_is_never_displaced(priority: int) -> None:
    """A request of the same priority, or a lower one, displaces nothing."""
    plan = _plan(a_request("there", gang(4, 4, 0, 4)))
    assert found_for(plan, _urgent(plan, gang(4, 4, 0, 4), priority).on(plan.cluster)) is None


def test_nothing_is_displaced_where_it_fits_without() -> None:
    """A request with capacity alongside all others displaces nothing."""
    plan = _plan(a_request("low", gang(4, 4, 0, 4)))
    assert fates(found_for(plan, _urgent(plan, gang(4, 4, 0, 24)).on(plan.cluster))) == {}


def test_nothing_is_displaced_where_it_would_not_fit_anyway() -> None:
    """Where one of its own priority is in the way, those of less priority stay."""
    plan = _plan(
        a_request("equal", gang(2, 4, 0, 4)).priority(5), a_request("low", gang(2, 4, 0, 4))
    )
    assert found_for(plan, _urgent(plan, gang(4, 4, 0, 4)).on(plan.cluster)) is None


def test_the_least_priority_goes_first() -> None:
    """Of two that would each free capacity, that of less priority is displaced."""
    plan = _plan(
        a_request("middle", gang(2, 4, 2, 6)).priority(3),
        a_request("least", gang(2, 4, 2, 6)).priority(1).weight(9),
    )
    assert fates(displace_now(plan, _urgent(plan, gang(2, 4, 2, 6)).on(plan.cluster))) == {
        "least": "degraded"
    }


def test_of_one_priority_the_least_value_goes_then_the_newest() -> None:
    """Weight decides; where it is equal, the one that came last goes."""
    plan = _plan(
        a_request("old", gang(1, 4, 2, 6)),
        a_request("worth", gang(1, 4, 2, 6)).weight(3),
        a_request("new", gang(1, 4, 2, 6)),
        machines=3,
    )
    assert fates(displace_now(plan, _urgent(plan, gang(1, 4, 2, 6)).on(plan.cluster))) == {
        "new": "degraded"
    }


def test_one_large_goes_instead_of_two_small() -> None:
    """Of one priority the fewest are displaced, though they are worth more."""
    plan = _plan(
        a_request("small-1", gang(1, 4, 2, 6)),
        a_request("small-2", gang(1, 4, 2, 6)),
        a_request("large", gang(2, 4, 2, 6)).weight(9),
    )
    assert fates(displace_now(plan, _urgent(plan, gang(2, 4, 2, 6)).on(plan.cluster))) == {
        "large": "degraded"
    }


def test_what_runs_now_stays_unless_the_policy_says_otherwise() -> None:
    """With `running` also one that has begun is displaced; its past stays."""
    for running, wanted in ((False, None), (True, {"low": "degraded"})):
        plan = _plan(a_request("low", gang(4, 8, 0, 8)), running=running)
        commit(plan, Advance(2))
        found = displace_now(plan, _urgent(plan, gang(4, 4, 2, 8)).on(plan.cluster))
        assert (None if found is None else fates(found)) == wanted
        assert violations(plan) == []
    low = plan.reservation("low")
    assert low is not None
    assert low.atoms[0].rows.tolist() == [[0, 2, 4]]


def test_a_policy_of_a_queue_lets_only_its_requests_displace() -> None:
    """A request of another queue is refused as before."""
    builder = a_cluster().horizon(HORIZON).machines("m", 4, cpu=1).queue("default").queue("urgent")
    cluster = builder.policy("displacement", queue="urgent").build()
    plan = a_plan(cluster).holding(a_request("low", gang(4, 4, 2, 6)).on(cluster)).build()
    asked = _urgent(plan, gang(4, 4, 2, 6))
    assert found_for(plan, asked.on(cluster)) is None
    assert fates(found_for(plan, asked.queue("urgent").on(cluster))) == {"low": "degraded"}


def test_another_tenants_request_has_no_name_in_the_reason() -> None:
    """The reason has the id of a request of the same tenant, and of no other."""
    plan = _plan(
        a_request("own", gang(2, 4, 2, 24)).tenant("a"),
        a_request("other", gang(2, 4, 2, 24)).tenant("b"),
    )
    displace_now(plan, _urgent(plan, gang(4, 18, 6, 24)).tenant("a").on(plan.cluster))
    told = {one.id: one.history[-1].detail for one in plan.reservations() if one.id != "urgent"}
    assert told == {
        "own": "displaced by urgent, of higher priority",
        "other": "displaced by a request of another tenant, of higher priority",
    }


def test_a_quota_of_a_tenant_is_capacity_too() -> None:
    """Under a quota a tenant's request displaces that tenant's own reservation, no other's."""
    builder = a_cluster().horizon(HORIZON).machines("m", 4, cpu=1).policy("displacement")
    cluster = builder.policy("quota", tenant="a", limit={"cpu": 2}).build()
    plan = a_plan(cluster).holding(
        a_request("mine", gang(2, 4, 2, 6)).tenant("a").on(cluster),
        a_request("other", gang(2, 4, 2, 6)).tenant("b").on(cluster),
    )
    urgent = a_request("urgent", gang(2, 4, 2, 6)).tenant("a").priority(1).on(cluster)
    assert fates(found_for(plan.build(), urgent)) == {"mine": "degraded"}


def test_a_request_that_displaced_is_not_moved_for_what_it_displaced() -> None:
    """A displaced one comes back when room comes free, not at the cost of a higher priority."""
    plan = _plan(a_request("low", gang(4, 4, 2, 8)), a_request("late", gang(4, 4, 8, 12)))
    displace_now(plan, _urgent(plan, gang(4, 4, 2, 12)).on(plan.cluster))
    lost = next(one.id for one in plan.reservations() if one.state is State.DEGRADED)
    before = plan.reservation("urgent")
    adapt_now(plan)
    after = plan.reservation("urgent")
    assert before is not None
    assert after is not None
    assert (after.revision, after.atoms[0].rows.tolist()) == (1, before.atoms[0].rows.tolist())
    commit(plan, Cancel("urgent"))
    adapt_now(plan)
    back = plan.reservation(lost)
    assert back is not None
    assert back.state is State.ACCEPTED


def test_the_log_alone_makes_the_same_plan_again() -> None:
    """The record of a displacement, written and read, is applied to the same state."""
    plan = _plan(a_request("low", gang(4, 4, 2, 24)), a_request("lost", gang(2, 2, 6, 8)))
    before = plan.copy()
    found = found_for(plan, _urgent(plan, gang(4, 18, 6, 24)).on(plan.cluster))
    assert found is not None
    record = plan.prepare(found.changes, found.based_on, joint=True).record
    assert record is not None
    plan.apply(record)
    before.apply(CommitRecord.from_json(record.to_json()))
    grid = plan.grid
    assert [one.to_json(grid) for one in plan.reservations()] == [
        one.to_json(grid) for one in before.reservations()
    ]
    assert (plan.ledger.free == before.ledger.free).all()
