"""The validator holds plans against the policies of their cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup
from planner.cluster.policy import (
    ApplicationQuota,
    CapacityOverTime,
    Policy,
    Quota,
    RequestLimits,
    Scope,
)
from planner.validation.policies import largest_integral
from planner.validation.validate import validate
from tests.planner.plan_documents import CORE, FIVE, SECOND, cluster, document, faults, reservation


def over_time(**limits: Any) -> CapacityOverTime:
    return CapacityOverTime("share", limits.pop("scope", Scope(tenant="*")), **limits)


def policy_faults(policy: Policy, *held: dict[str, Any], on: Cluster | None = None) -> list[Any]:
    """Return what the validator says of one policy, where and how much."""
    base = on or cluster()
    found = validate(document(*held), cluster=replace(base, policies=(policy,)))
    return [(v.rule, v.where, v.at, v.amount, v.limit) for v in found]


def half(name: str, start: int, **rest: Any) -> dict[str, Any]:
    """Return a reservation of five cores for ten steps."""
    rows = {"": [[start, start + 10, 5]]}
    return reservation(name, "atom(<1 cpu>, 1, 5, 10, 50)", rows, **rest)


def test_instant_share() -> None:
    """Each tenant holds at most half at once; two tenants may hold all."""
    policy = over_time(instant=Decimal("0.5"))
    assert policy_faults(policy, half("a", 0), half("b", 0, tenant="ml")) == []
    found = policy_faults(policy, half("a", 0), half("b", 8))
    assert found == [("policy", "policy:share ads", 8, 10_000, 5000)]
    together = over_time(instant=Decimal("0.5"), scope=Scope())
    both = policy_faults(together, half("a", 0), half("b", 0, tenant="ml"))
    assert both == [("policy", "policy:share", 0, 10_000, 5000)]
    named = over_time(instant=Decimal("0.4"), scope=Scope(tenant="ml", queue="default"))
    assert policy_faults(named, half("a", 0)) == []


@pytest.mark.parametrize("start", [0, 3, 47, 90])
def test_average_share_is_kept_exactly_at_any_start(start: int) -> None:
    """Half of the cluster for exactly half of the window is a quarter of it, wherever it lies."""
    exact = over_time(average=Decimal("0.25"), window_ms=20 * SECOND)
    assert policy_faults(exact, half("a", start)) == []
    less = over_time(average=Decimal("0.2499"), window_ms=20 * SECOND)
    assert len(policy_faults(less, half("a", start))) == 1


def test_average_share_slides() -> None:
    """[0, 10) and [15, 25) at half: a window of 20 that starts at 5 holds 5 + 10 steps of them."""
    policy = over_time(average=Decimal("0.25"), window_ms=20 * SECOND)
    found = policy_faults(policy, half("a", 0), half("b", 15))
    # 15 steps x 5,000 millicores against 0.25 x 20 x 10,000; from step 0 the window holds 15 too.
    assert found == [("policy", "policy:share ads", 0, 75_000, 50_000)]
    assert policy_faults(policy, half("a", 0), half("b", 20)) == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 15))
def test_largest_integral_by_every_window(used: list[int], window: int) -> None:
    """At every half step, on the grid or off it, no window holds more than what is found."""
    found, start = largest_integral(np.array(used), window * 2, 2)

    def integral(first: int) -> int:
        return sum(used[t // 2] for t in range(first, first + 2 * window) if 0 <= t < 2 * len(used))

    assert found == max(integral(t) for t in range(-2 * window, 2 * len(used)))
    assert found == integral(start)


def test_quota_at_times_of_day() -> None:
    """On weekdays from 8 to 10 in Paris, 2 cores: 7 to 9 UTC in January."""
    hourly = Cluster(
        3600 * SECOND,
        72 * 3600 * SECOND,
        (MachineGroup("m", 10, CORE),),
        origin=datetime(2026, 1, 9, tzinfo=UTC),  # a Friday
    )
    quota = Quota(
        "day",
        Scope(),
        (("cpu", 2000),),
        time(8),
        time(10),
        frozenset(range(5)),
        "Europe/Paris",
    )
    broken = []
    for hour in range(72):
        held = reservation(
            "r", "atom(<1 cpu>, 1, 3, 1h, 3h)", {"": [[hour * 3600, (hour + 1) * 3600, 3]]}
        )
        plan = document(held, step_s=3600)
        found = validate(plan, cluster=replace(hourly, policies=(quota,)))
        broken += [hour for v in found if v.rule == "policy"]
    assert broken == [7, 8]


def test_quota_at_night_runs_past_midnight() -> None:
    """From 22:00 to 06:00 on Fridays: Friday night, its Saturday morning too, nothing else."""
    night = Quota("night", Scope(), (("cpu", 2000),), time(22), time(6), frozenset({4}), "UTC")
    hourly = Cluster(
        3600 * SECOND,
        72 * 3600 * SECOND,
        (MachineGroup("m", 10, CORE),),
        origin=datetime(2026, 1, 9, tzinfo=UTC),
        policies=(night,),
    )
    whole = reservation("r", "atom(<1 cpu>, 3, 3, 72h, 216h)", {"": [[0, 72 * 3600, 3]]})
    found = validate(document(whole, step_s=3600), cluster=hourly)
    assert [v.detail for v in found] == [
        "3000 of cpu at step 22, 1000 above 2000; exceeded over steps [22, 30)"
    ]


def test_limits() -> None:
    """Windows, leads and counts, each against its limit."""
    asked = "window(atom(<1 cpu>, 1, 5, 10, 50), 20, 60)"
    held = reservation("a", asked, {"0": [[20, 30, 5]]}, submitted=10)
    at_limit = RequestLimits("l", Scope(), 40 * SECOND, 10 * SECOND, 10 * SECOND, 1)
    assert policy_faults(at_limit, held) == []
    for tighter, amount in (
        ({"max_window_ms": 39 * SECOND}, 40 * SECOND),
        ({"min_lead_ms": 11 * SECOND}, 10 * SECOND),
        ({"max_lead_ms": 9 * SECOND}, 10 * SECOND),
        ({"max_count": 0}, 1),
    ):
        (found,) = policy_faults(replace(at_limit, **tighter), held)
        assert (found[0], found[3]) == ("policy", amount), tighter


@pytest.mark.parametrize(
    ("asked", "atoms", "seconds", "lead"),
    [
        (f"order(window({FIVE}, 20, 40), window({FIVE}, 50, 70))", {"0.0": 20, "1.0": 50}, 50, 20),
        (f"window(order({FIVE}, window({FIVE}, 30, 40)), 5, 100)", {"0.0": 5, "0.1.0": 30}, 35, 5),
        (f"every(30s, window({FIVE}, 5, 20), times=2)", {"0@0.0": 5, "0@1.0": 35}, 45, 5),
    ],
)
def test_the_window_of_a_request_is_what_all_its_windows_leave(
    asked: str, atoms: dict[str, int], seconds: int, lead: int
) -> None:
    """Windows inside and recurrences count: the limits that just allow it, and just do not."""
    rows = {path: [[start, start + 10, 5]] for path, start in atoms.items()}
    held = reservation("a", asked, rows)
    exact = RequestLimits("l", Scope(), seconds * SECOND, lead * SECOND, lead * SECOND)
    assert policy_faults(exact, held) == []
    for tighter in (
        {"max_window_ms": seconds * SECOND - 1},
        {"min_lead_ms": lead * SECOND + 1},
        {"max_lead_ms": lead * SECOND - 1},
    ):
        assert len(policy_faults(replace(exact, **tighter), held)) == 1, tighter


def test_a_best_effort_session_has_no_window() -> None:
    """Nothing is promised to a void, so no limit on windows can be broken by it."""
    asked = reservation("v", "window(void(<1 cpu>, 5), 10, 90)", {})
    assert policy_faults(RequestLimits("l", Scope(), SECOND, 50 * SECOND, SECOND), asked) == []


def test_policies_of_today_need_not_hold_for_what_stands() -> None:
    """A lowered policy evicts no one: the check of policies can be left out."""
    lowered = replace(cluster(), policies=(over_time(instant=Decimal("0.1")),))
    assert faults(document(half("a", 0)), lowered, policies=False) == []


def test_a_quota_on_applications_bounds_no_plan() -> None:
    """Reservations are under policies of their own, whatever applications may take."""
    policy = ApplicationQuota("none", Scope(tenant="*"), (("cpu", 0),), max_count=0, max_run_ms=1)
    assert policy_faults(policy, half("a", 0), half("b", 8)) == []
