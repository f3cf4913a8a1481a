"""After every event the Plan is valid, the past is as it was, and no more is lost than need be."""

from __future__ import annotations

from hypothesis import given, settings

from planner.adaptation.adapter import adapt
from planner.adaptation.repair import Repair, yarn_rule
from planner.adaptation.result import Effect
from planner.agent import Limits
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from planner.replanning.draft_plan import DraftPlan, shortage_of
from planner.reservations.state import State
from tests.builders import commit
from tests.planner.adaptation.events import (
    EVENTS,
    happen,
    past_rows,
    plans,
    violations,
    with_outages,
)

_SLOW = settings(max_examples=40)


@_SLOW
@given(plans(), EVENTS)
def test_the_plan_is_valid_after_every_event(plan: Plan, events: list[tuple[str, object]]) -> None:
    """The validator and the oracle find nothing; what is past never changes."""
    assert violations(plan) == []
    for event in events:
        before = past_rows(plan)
        found = happen(plan, event)
        after = past_rows(plan)
        if event[0] == "lose":
            assert after == before
        if not found.short:
            assert not shortage_of(plan.ledger).counts
            assert violations(plan) == []


@_SLOW
@given(plans(), EVENTS)
def test_what_degraded_comes_back_or_says_why(plan: Plan, events: list[tuple[str, object]]) -> None:
    """Every degraded or failed reservation has a reason; every other keeps its whole promise."""
    for event in events:
        found = happen(plan, event)
        for one in found.affected:
            known = plan.reservation(one.id)
            assert known is not None
            state = {Effect.DEGRADED: State.DEGRADED, Effect.FAILED: State.FAILED}.get(one.fate)
            assert state is None or (known.state is state and one.reason)
            assert known.degradation is None or known.degradation.reason
    # With all machines back, what can be held is held: nothing waits that would fit alone.
    happen(plan, ("lose", ()))
    again = adapt(plan, Limits(work=0))
    assert not again.of(Effect.RESTORED)
    assert not again.of(Effect.DEGRADED)


@_SLOW
@given(plans(), EVENTS)
def test_no_more_value_is_dropped_than_yarns_rule_drops(
    plan: Plan, events: list[tuple[str, object]]
) -> None:
    """Where nothing has started, every value dropped here is dropped by YARN's rule too."""
    losses = next((what for kind, what in events if kind == "lose"), ((4, 2, 20),))
    assert isinstance(losses, tuple)
    commit(plan, Reconfigure(with_outages(plan.cluster, *losses)))
    repair = Repair(plan, DraftPlan.of(plan))
    yarn = sum(one.value for one in yarn_rule(repair.base, repair.hit))
    found = adapt(plan, Limits(work=10, seed=3))
    assert found.cost.dropped <= yarn + 1e-6
    dropped = sum(one.value for one in found.of(Effect.DEGRADED))
    assert abs(dropped - found.cost.dropped) <= 1e-5
