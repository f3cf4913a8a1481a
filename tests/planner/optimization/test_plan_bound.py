"""The bound alongside a Plan that stands: never below what any plan of the same requests holds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import BoundError, Limits
from planner.agents import quick_bound as quick
from planner.agents.quick_bound import QuickBound
from planner.optimization import plan_bound
from planner.optimization.optimizer import optimize
from planner.optimization.plan_bound import PlanBound, RequestBook, bound_of, read_plan
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Reconfigure
from tests.builders import a_request, ask, commit
from tests.examples import some_of
from tests.planner.adaptation.events import plans, with_outages
from tests.planner.brute_force_plan import best_value
from tests.planner.optimization.small_plans import two_in_the_way
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests

_ROUNDING = 1e-6
_SLOW = settings(max_examples=12)
_EFFORT = OptimizeOptions(Limits(work=25, seed=1), solver="")


def _bound(plan: Plan, book: RequestBook | None = None) -> PlanBound:
    book = RequestBook() if book is None else book
    while True:
        reading = read_plan(plan, book)
        if reading is not None:
            return bound_of(reading, book)


def _asked(seed: int) -> Plan:
    """Return a Plan that was requested tiny requests, one by one."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for request in tiny_requests(seed):
        ask(plan, request)
    return plan


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_no_plan_of_full_enumeration_is_worth_more(seed: int) -> None:
    """Nor is the Plan itself worth more than all that was asked."""
    found = _bound(_asked(seed))
    assert found.bound is not None
    assert found.value is not None
    assert found.total is not None
    best = best_value(tiny_requests(seed), CAPACITY, HORIZON)
    assert found.value - _ROUNDING <= best <= found.bound + _ROUNDING
    assert found.bound <= found.total + _ROUNDING


@_SLOW
@given(plans(), st.integers(0, 8), st.integers(0, 3))
def test_no_better_plan_of_the_optimiser_is_worth_more(plan: Plan, now: int, lost: int) -> None:
    """Of Plans in which some have begun, and some are degraded by machines that are down."""
    if now:
        commit(plan, Advance(now))
    if lost:
        commit(plan, Reconfigure(with_outages(plan.cluster, (lost, 2, 20))))
    better = optimize(plan, None, OptimizeScope(plan.now, (), admit_refused=True), _EFFORT)
    found = _bound(plan)
    assert found.bound is not None
    assert better.value <= found.bound + _ROUNDING


def test_the_same_book_tells_the_same_later() -> None:
    """What is known of requests is read again where time, or one of them, has moved on."""
    plan, cluster = two_in_the_way()
    book = RequestBook()
    _bound(plan, book)
    commit(plan, Advance(1))
    assert _bound(plan, book) == _bound(plan)
    ask(plan, a_request("late", "window(atom(<1 cpu>, 1, 1, 2, 2), 2, 12)").on(cluster))
    assert _bound(plan, book) == _bound(plan)
    commit(plan, Reconfigure(with_outages(plan.cluster, (1, 2, 20))))
    assert _bound(plan, book) == _bound(plan)


def test_many_are_read_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for the Plan gets it in between; what is found is the same."""
    plan = _asked(3)
    whole = _bound(plan)
    monkeypatch.setattr(plan_bound, "_MOST_AT_ONCE", 1)
    book = RequestBook()
    assert read_plan(plan, book) is None
    assert _bound(plan, book) == whole


def test_too_many_are_reported_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted, and what is not known is null."""
    plan = _asked(3)
    whole = _bound(plan)
    monkeypatch.setattr(plan_bound, "MOST_REQUESTS", 1)
    told = _bound(plan).to_json()
    assert (told["held"], told["proof"]) == (whole.holders, "none")
    assert {told[name] for name in ("value", "bound", "gap", "better")} == {None}


def test_a_bound_below_the_plan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the two is wrong; that is never hidden."""
    plan, _ = two_in_the_way()
    monkeypatch.setattr(quick, "quick_bound", lambda *_: QuickBound(0.0, "columns"))
    with pytest.raises(BoundError, match="below the value"):
        _bound(plan)
