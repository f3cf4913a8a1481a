"""Use of policies, held against sums over all rows of all reservations."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.plan.plan import Plan
from planner.plan.records.changes import Advance
from planner.policy_use import AVERAGE, INSTANT, RESERVATIONS, PolicyUse, policy_series, policy_use
from planner.reservations.state import LIVE
from tests.builders import a_cluster, a_plan, a_request, ask, commit

STEPS = 40


def _cluster() -> Any:
    cluster = a_cluster().step("1s").horizon(f"{STEPS}s").origin("2026-01-05T23:59:50Z")
    cluster = cluster.machines("m", 4, cpu=4, memory="4 GiB").queue("batch")
    cluster = cluster.policy("quota", name="each", tenant="*", limit={"cpu": 12})
    cluster = cluster.policy(
        "quota", name="night", tenant="ads", limit={"cpu": 10}, start="00:00", end="00:01"
    )
    cluster = cluster.policy(
        "capacity_over_time", name="share", queue="batch", instant=0.9, average=0.8, window="5s"
    )
    cluster = cluster.policy("limits", name="many", tenant="*", max_count=9)
    return cluster.policy(
        "agent", name="agents", agent="*", limit={"cpu": 15}, max_count=20
    ).build()


def _plan(draw: st.DrawFn) -> Plan:
    plan = a_plan(_cluster()).build()
    for number in range(draw(st.integers(0, 6))):
        height, length = draw(st.integers(1, 4)), draw(st.integers(1, 8))
        start = draw(st.integers(0, STEPS - length))
        work = height * length
        text = f"window(atom(<1 cpu>, {height}, {height}, {length}, {work}), {start}, {STEPS})"
        request = a_request(f"r{number}", text).tenant(draw(st.sampled_from(["ads", "web"])))
        request = request.queue(draw(st.sampled_from(["default", "batch"])))
        made = request.if_possible(plan.cluster)
        if made is not None:
            ask(plan, made)
    commit(plan, Advance(draw(st.integers(0, 12)), STEPS + 12))
    return plan


def _held(plan: Plan, keeps: Any) -> np.ndarray[Any, Any]:
    """Return thousandths of cores at each step, from the reservations themselves."""
    use = np.zeros(STEPS + 12, dtype=np.int64)
    for one in plan.reservations():
        if keeps(one):
            for atom in one.atoms:
                for start, end, bundles in atom.all_rows().tolist():
                    use[start:end] += bundles * dict(atom.bundle.items())["cpu"]
    return use


def _of(found: list[PolicyUse], measure: str) -> Iterator[PolicyUse]:
    return (one for one in found if one.measure == measure and one.resource in (None, "cpu"))


@given(st.composite(_plan)())
def test_use_and_peak_are_what_reservations_hold(plan: Plan) -> None:
    now = plan.now
    for policy in plan.cluster.policies:
        found = policy_use(plan, policy)
        for use in _of(found, INSTANT):

            def counts(one: Any, use: PolicyUse = use) -> bool:
                return (
                    use.tenant in (None, one.tenant)
                    and use.queue in (None, one.queue)
                    and use.agent in (None, one.agent)
                )

            held = _held(plan, counts)
            assert use.used == held[now]
            later = held[now:]
            if policy.name == "night":  # midnight is ten seconds after the origin
                later = np.where(np.arange(now, len(held)) >= 10, later, 0)
                assert use.applies == (now >= 10)
            assert (use.peak, use.peak_at) == (later.max(), now + int(later.argmax()))
        for use in _of(found, AVERAGE):
            held = _held(plan, lambda one: one.queue == "batch")
            padded = np.concatenate([np.zeros(5, dtype=np.int64), held, np.zeros(5, np.int64)])
            windows = np.convolve(padded, np.ones(5, dtype=np.int64))[4 : 4 + len(held) + 5]
            present = now + 1 - 5 + 5  # the column of the window that ends with this step
            assert use.used * 5 == windows[present]
            assert use.peak * 5 == windows[present:].max()
            assert use.limit == Fraction(4, 5) * 16_000
        for use in _of(found, RESERVATIONS):
            live = [
                one
                for one in plan.reservations()
                if one.state in LIVE
                and use.tenant in (None, one.tenant)
                and use.agent in (None, one.agent)
            ]
            assert use.used == len(live)


@given(st.composite(_plan)())
def test_a_count_over_time_is_of_reservations_that_have_not_ended(plan: Plan) -> None:
    finish = {one.id: _finish(one) for one in plan.reservations() if one.state in LIVE}
    for policy in plan.cluster.policies:
        for series in policy_series(plan, policy):
            if series.measure != RESERVATIONS:
                continue
            live = [
                finish[one.id]
                for one in plan.reservations()
                if one.id in finish and series.tenant in (None, one.tenant)
            ]
            expected = [
                sum(end > step or (end <= plan.now == step) for end in live)
                for step in range(plan.now, plan.now + len(series.used))
            ]
            assert series.used.tolist() == expected
            assert set(series.limits.tolist()) == {series.limit}


def _finish(reservation: Any) -> int:
    """Return the step after the last that a reservation holds."""
    return max(int(end) for atom in reservation.atoms for _, end, _ in atom.all_rows().tolist())


def test_named_accounts_are_there_before_anybody_uses_them() -> None:
    plan = a_plan(_cluster()).build()
    (night,) = (one for one in plan.cluster.policies if one.name == "night")
    (use,) = policy_use(plan, night)
    assert (use.tenant, use.limit, use.used, use.peak, use.applies) == ("ads", 10_000, 0, 0, False)


def test_the_fullest_account_comes_first() -> None:
    plan = a_plan(_cluster()).build()
    for name, height in (("web", 2), ("ads", 3)):
        text = f"window(atom(<1 cpu>, {height}, {height}, 5, {5 * height}), 0, 5)"
        assert ask(plan, a_request(name, text).tenant(name).on(plan.cluster)).record is not None
    (each,) = (one for one in plan.cluster.policies if one.name == "each")
    assert [(one.tenant, one.used) for one in policy_use(plan, each)] == [
        ("ads", 3000), ("web", 2000),
    ]  # fmt: skip
