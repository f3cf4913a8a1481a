"""Policies: exact over every window, at any time of day, for whom they name, and no further."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.profile import window_use
from planner.cluster.policy import Quota, Scope
from planner.placement import Code
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Conflict, Outcome, Reconfigure, Update
from tests.builders import ClusterBuilder, RequestBuilder, a_cluster, a_plan, a_request, ask, commit

GREE = agent_named("gree")


def _four(horizon: int = 20) -> ClusterBuilder:
    return a_cluster().horizon(horizon).machines("m", 4, cpu=1)


def _block(id_: str, height: int, start: int, end: int, tenant: str = "ads") -> RequestBuilder:
    """Exactly `height` cores on [start, end)."""
    length = end - start
    text = f"window(atom(<1 cpu>, {height}, {height}, {length}, {height * length}), {start}, {end})"
    return a_request(id_, text).tenant(tenant)


def _put(plan: Plan, builder: RequestBuilder) -> Outcome:
    """Commit a block where it was asked, whatever any agent would say of policies."""
    request = builder.on(plan.cluster, plan.grid)
    bare = _four(plan.grid.horizon).build()
    result = GREE.plan([request], Plan(bare, plan.grid).view(), Limits())[0]
    assert result.placed
    return commit(plan, Admit(request, result, "gree")).outcomes[0]


def _code(outcome: Outcome) -> Code | None:
    return outcome.code if isinstance(outcome, Conflict) else None


def _plan(builder: ClusterBuilder) -> Plan:
    cluster = builder.build()
    return Plan(cluster, cluster.grid())


def test_a_scope_counts_each_one_or_all_together() -> None:
    """A name, "*" for each separately, None for all."""
    assert Scope("ads").key("ads", "q") == ("ads", None)
    assert Scope("ads").key("ml", "q") is None
    assert Scope("*").key("ml", "q") == ("ml", None)
    assert Scope().key("ml", "q") == (None, None)
    assert Scope("*", "q").key("ml", "q") == ("ml", "q")
    assert Scope("*", "q").key("ml", "p") is None


def test_no_tenant_holds_more_than_its_instant_share() -> None:
    """Half of four cores is two, for each tenant separately."""
    plan = _plan(_four().policy("capacity_over_time", tenant="*", instant=0.5))
    assert _code(_put(plan, _block("a", 2, 0, 5))) is None
    assert _code(_put(plan, _block("b", 1, 4, 6))) is Code.CAPACITY_OVER_TIME
    assert _code(_put(plan, _block("c", 1, 5, 6))) is None
    assert _code(_put(plan, _block("d", 2, 0, 5, "ml"))) is None


def test_a_scope_of_all_together_adds_tenants_up() -> None:
    """Without a tenant the policy counts everybody's use as one."""
    plan = _plan(_four().policy("capacity_over_time", instant=0.75))
    assert _code(_put(plan, _block("a", 2, 0, 5))) is None
    assert _code(_put(plan, _block("b", 2, 0, 5, "ml"))) is Code.CAPACITY_OVER_TIME
    assert _code(_put(plan, _block("c", 1, 0, 5, "ml"))) is None


@pytest.mark.parametrize("start", [0, 1, 7, 15])
def test_a_quarter_for_exactly_a_quarter_of_the_time_is_kept(start: int) -> None:
    """All four cores for 5 of 20 steps is exactly 25 % of the window, at any start; one step more
    anywhere in reach of the same window is too much."""
    plan = _plan(_four(60).policy("capacity_over_time", tenant="*", average=0.25, window=20))
    assert _code(_put(plan, _block("a", 4, start, start + 5))) is None
    for at in (start + 5, start + 19):
        assert _code(_put(plan, _block(f"b{at}", 1, at, at + 1))) is Code.CAPACITY_OVER_TIME
    assert _code(_put(plan, _block("c", 4, start + 20, start + 25))) is None


def test_a_refused_average_names_its_window() -> None:
    """Where the window starts, what was asked of it and what was left."""
    plan = _plan(_four().policy("capacity_over_time", name="fair", average=0.25, window=10))
    _put(plan, _block("a", 2, 0, 4))
    outcome = _put(plan, _block("b", 1, 4, 8))
    assert isinstance(outcome, Conflict)
    binding = outcome.binding
    assert binding is not None
    assert (binding.policy, binding.resource) == ("fair", "cpu")
    assert (binding.needed, binding.free) == (3000, 2000)


def test_a_quota_holds_at_its_times_of_day_only() -> None:
    """One core from 08:00 to 18:00 on Mondays in Paris (07:00 to 17:00 UTC), free at night."""
    plan = _plan(
        _four("48h")
        .step("1h")
        .origin("2026-01-05T00:00:00Z")
        .policy(
            "quota",
            name="day",
            tenant="ads",
            limit={"cpu": 1},
            start="08:00",
            end="18:00",
            days=["mon"],
            zone="Europe/Paris",
        )
    )

    def put(id_: str, start: int, end: int, tenant: str = "ads") -> Code | None:
        text = f"atom(<1 cpu>, 2, 2, {end - start}h, {2 * (end - start)}h)"
        request = a_request(id_, f"window({text}, {start}h, {end}h)").tenant(tenant)
        compiled = request.on(plan.cluster, plan.grid)
        bare = _four("48h").step("1h").build()
        result = GREE.plan([compiled], Plan(bare, plan.grid).view(), Limits())[0]
        return _code(commit(plan, Admit(compiled, result, "gree")).outcomes[0])

    assert put("night", 0, 7) is None
    assert put("early", 6, 8) is Code.QUOTA
    assert put("late", 16, 18) is Code.QUOTA
    assert put("evening", 17, 24) is None
    assert put("tuesday", 24, 47) is None
    assert put("other", 8, 10, "ml") is None


def test_a_quota_of_nothing_forbids_the_resource() -> None:
    """A zero in a quota counts."""
    plan = _plan(_four().policy("quota", tenant="ads", limit={"cpu": 0}))
    assert _code(_put(plan, _block("a", 1, 0, 1))) is Code.QUOTA
    assert _code(_put(plan, _block("b", 1, 0, 1, "ml"))) is None


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-28T23:00:00Z", 23), ("2026-10-24T22:00:00Z", 25)]
)
def test_a_civil_day_may_have_23_or_25_hours(day: str, hours: int) -> None:
    """The quota of a day in Paris when the clock changes is as long as that day."""
    quota = Quota("q", Scope(), (("cpu", 1),), days=frozenset({6}), zone="Europe/Paris")
    origin = datetime.fromisoformat(day)
    spans = quota.intervals(origin, 0, 3 * 86_400_000)
    assert spans == [(0, hours * 3_600_000)]


def test_a_time_that_does_not_exist_is_the_end_of_the_gap() -> None:
    """02:30 on 29 March 2026 in Paris is skipped; the quota starts at 03:00, 01:00 UTC."""
    from datetime import time

    quota = Quota("q", Scope(), (("cpu", 1),), time(2, 30), time(4), zone="Europe/Paris")
    origin = datetime(2026, 3, 29, tzinfo=UTC)
    assert quota.intervals(origin, 0, 12 * 3_600_000) == [(3_600_000, 7_200_000)]


def test_an_interval_past_midnight_belongs_to_the_day_it_starts_on() -> None:
    """22:00 to 06:00 on Mondays reaches into Tuesday, not into Monday's morning."""
    from datetime import time

    quota = Quota("q", Scope(), (("cpu", 1),), time(22), time(6), frozenset({0}))
    monday = datetime(2026, 1, 5, tzinfo=UTC)
    hour = 3_600_000
    assert quota.intervals(monday, 0, 48 * hour) == [(22 * hour, 30 * hour)]


def test_a_lowered_policy_evicts_no_one_and_blocks_growth() -> None:
    """What stands stays; the same again may be renegotiated; more may not."""
    plan = _plan(_four())
    request = _block("a", 3, 0, 5).on(plan.cluster)
    assert ask(plan, request).record is not None
    commit(plan, Reconfigure(_four().policy("capacity_over_time", tenant="*", instant=0.5).build()))
    held = plan.reservation("a")
    assert held is not None
    assert _code(_put(plan, _block("b", 1, 4, 6))) is Code.CAPACITY_OVER_TIME
    free = Plan(_four().build(), plan.grid).view()
    same = GREE.plan([request], free, Limits())[0]
    assert not commit(plan, Update("a", 1, request, same, "gree")).conflicts
    more = _block("a", 4, 0, 5).on(plan.cluster)
    result = GREE.plan([more], free, Limits())[0]
    assert commit(plan, Update("a", 2, more, result, "gree")).conflicts
    less = _block("a", 2, 0, 5).on(plan.cluster)
    result = GREE.plan([less], free, Limits())[0]
    assert not commit(plan, Update("a", 2, less, result, "gree")).conflicts


def test_a_full_average_can_be_renegotiated_to_itself() -> None:
    """The slack is taken with the old version removed."""
    plan = _plan(_four().policy("capacity_over_time", average=0.25, window=20))
    request = _block("a", 4, 3, 8).on(plan.cluster)
    free = Plan(_four().build(), plan.grid).view()
    result = GREE.plan([request], free, Limits())[0]
    commit(plan, Admit(request, result, "gree"))
    assert not commit(plan, Update("a", 1, request, result, "gree")).conflicts


def test_use_before_now_counts_in_windows_that_reach_back() -> None:
    """Rolling the horizon on forgets nothing that a window can still see."""
    plan = _plan(_four(30).policy("capacity_over_time", average=0.25, window=20))
    _put(plan, _block("a", 4, 0, 5))
    commit(plan, Advance(10, 40))
    assert _code(_put(plan, _block("b", 1, 19, 20))) is Code.CAPACITY_OVER_TIME
    assert _code(_put(plan, _block("c", 4, 20, 25))) is None
    assert _code(_put(plan, _block("d", 4, 36, 40))) is Code.CAPACITY_OVER_TIME


def test_a_window_longer_than_the_horizon_counts_nothing_outside() -> None:
    """Outside the horizon the use is 0, so 100 steps at 5 % leave 20 core-steps."""
    plan = _plan(_four(10).policy("capacity_over_time", average=0.05, window=100))
    assert _code(_put(plan, _block("a", 2, 0, 10))) is None
    assert _code(_put(plan, _block("b", 1, 3, 4))) is Code.CAPACITY_OVER_TIME


_BLOCKS = st.lists(
    st.tuples(st.integers(0, 18), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(_BLOCKS, st.integers(1, 12), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_averages_are_exact_over_every_window(
    blocks: list[tuple[int, int, int]], window: int, average: float
) -> None:
    """A block is taken exactly when, with it, no window of W steps at any start holds more than
    A W of nominal capacity: by enumeration."""
    plan = _plan(_four(24).policy("capacity_over_time", average=average, window=window))
    use = np.zeros(24 + 2 * window, dtype=np.int64)
    for number, (start, length, height) in enumerate(blocks):
        end = min(start + length, 24)
        trial = use.copy()
        trial[window + start : window + end] += 1000 * height
        capacity = trial.max() <= 4000
        sums = np.convolve(trial, np.ones(window, dtype=np.int64), "valid")
        fits = bool(capacity and sums.max() <= int(average * 4000 * window + 1e-9))
        outcome = _put(plan, _block(f"r{number}", height, start, end))
        assert (_code(outcome) is None) == fits
        if fits:
            use = trial


@settings(max_examples=100, deadline=None)
@given(_BLOCKS, st.integers(1, 30))
def test_what_windows_hold_is_exact_where_they_touch(
    blocks: list[tuple[int, int, int]], window: int
) -> None:
    """One row's trapezoid and many rows' sums agree with adding up step by step; windows that are
    left out hold nothing."""
    use = np.zeros(150, dtype=np.int64)
    for start, length, height in blocks:
        use[50 + start : 50 + start + length] += height
    rows = np.array([[s, s + n, h] for s, n, h in blocks], dtype=np.int64)
    first, held = window_use(rows, window)
    for tau in range(-40, 50):
        inside = int(use[50 + tau : 50 + tau + window].sum())
        index = tau - first
        assert (int(held[index]) if 0 <= index < len(held) else 0) == inside


def test_limits_are_reported_before_an_agent_looks() -> None:
    """Window, lead times and count, each with its code and policy."""
    cluster = (
        _four(100)
        .policy("limits", name="short", tenant="ads", max_window=10)
        .policy("limits", name="lead", tenant="ml", min_lead=5, max_lead=50)
        .policy("limits", name="few", tenant="*", queue="default", max_count=1)
        .build()
    )
    plan = Plan(cluster, cluster.grid())

    def code(builder: RequestBuilder) -> Code | None:
        answer = screen(plan, builder.on(cluster))
        return None if answer is None else answer.code

    assert code(_block("a", 1, 0, 11)) is Code.WINDOW_LIMIT
    assert code(_block("a", 1, 0, 10)) is None
    assert code(_block("a", 1, 4, 5, "ml")) is Code.LEAD_TIME
    assert code(_block("a", 1, 5, 6, "ml")) is None
    assert code(_block("a", 1, 51, 52, "ml")) is Code.LEAD_TIME
    ask(plan, _block("a", 1, 0, 3).on(cluster))
    assert code(_block("b", 1, 0, 3)) is Code.COUNT_LIMIT
    commit(plan, Advance(4))
    assert code(_block("b", 1, 0, 3)) is None


def test_the_count_limit_holds_inside_a_batch() -> None:
    """Two admissions of one commit are two."""
    cluster = _four().policy("limits", tenant="*", max_count=1).build()
    plan = Plan(cluster, cluster.grid())
    requests = [
        _block(id_, 1, 0, 3, tenant).on(cluster)
        for id_, tenant in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    results = GREE.plan(requests, plan.view(), Limits())
    changes = [Admit(r, one, "gree") for r, one in zip(requests, results, strict=True)]
    codes = [_code(one) for one in commit(plan, *changes).outcomes]
    assert codes == [None, Code.COUNT_LIMIT, None]


def test_queues_that_serve_best_effort_take_no_reservations() -> None:
    """Unknown queues neither; both are reported what there is."""
    cluster = _four().queue("batch").queue("scavenger", reservable=False).build()
    plan = Plan(cluster, cluster.grid())
    for queue, words in (("scavenger", "best-effort"), ("nowhere", "batch, scavenger")):
        answer = screen(plan, _block("a", 1, 0, 3).queue(queue).on(cluster))
        assert answer is not None
        assert words in answer.detail
    assert screen(plan, _block("a", 1, 0, 3).queue("batch").on(cluster)) is None


@pytest.mark.parametrize("kind", ["instant", "average"])
def test_agents_plan_within_what_policies_leave(kind: str) -> None:
    """What an agent places under a policy is never a conflict."""
    keys = {"instant": 0.5} if kind == "instant" else {"average": 0.5, "window": 6}
    cluster = _four(24).policy("capacity_over_time", tenant="*", **keys).build()
    plan = Plan(cluster, cluster.grid())
    rng = np.random.default_rng(5)
    for number in range(30):
        height, lease = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        start = int(rng.integers(0, 15))
        text = f"atom(<1 cpu>, 1, {height}, {lease}, {height * lease})"
        builder = a_request(f"r{number}", f"window({text}, {start}, {start + 9})")
        prepared = ask(plan, builder.tenant(f"t{number % 2}").on(cluster))
        assert not prepared.conflicts, prepared.conflicts
    assert 4 <= len(plan.table) < 30


def test_policy_rows_are_named_for_refusals() -> None:
    """An agent's refusal by an instant limit names policy, resource, needed and free."""
    cluster = _four().policy("quota", name="small", tenant="ads", limit={"cpu": 1}).build()
    plan = a_plan(cluster).build()
    ask(plan, _block("a", 2, 0, 5).on(cluster))
    refusal = plan.refusal("a")
    assert refusal is not None
    assert refusal.code is Code.QUOTA
    assert refusal.binding is not None
    assert (refusal.binding.policy, refusal.binding.needed, refusal.binding.free) == (
        "small",
        2000,
        1000,
    )
