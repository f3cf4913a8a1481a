"""Quotas that lend: what a tenant has not asked for in time may be promised to its cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance
from planner.policy_use import policy_series, policy_use
from planner.reclaim import may_reclaim
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.adaptation.events import violations
from tests.planner.displacement.small_plans import displace_now, fates, found_for
from tests.planner.plan.plan_json import plan_json

HORIZON = 24
LEND = 6


def _quota(
    name: str, own: int, limit: int | None = None, *, by: str = "tenant", **more: Any
) -> dict[str, Any]:
    """Return a quota of a tenant of that name on cores, in the cohort "lab"."""
    entry = {"type": "quota", "name": f"{name}-quota", by: name, "guarantee": {"cpu": own}}
    entry |= {"cohort": "lab", "lend": LEND}
    return entry | ({} if limit is None else {"limit": {"cpu": limit}}) | more


def _cluster(*policies: dict[str, Any], cores: int = 64, **more: Any) -> Cluster:
    return cluster_from_json(
        {
            "step": 1,
            "horizon": HORIZON,
            "machines": [{"name": "m", "count": cores, "resources": {"cpu": 1}}],
            "policies": list(policies),
            **more,
        }
    )


def _plan(*policies: dict[str, Any], **more: Any) -> Plan:
    cluster = _cluster(*policies, **more)
    return Plan(cluster, cluster.grid())


def _take(plan: Plan, tenant: str, cores: int, start: int, end: int, queue: str = "") -> bool:
    """Ask for cores on [start, end); return whether they are promised."""
    length = end - start
    text = f"window(atom(<1 cpu>, {cores}, {cores}, {length}, {cores * length}), {start}, {end})"
    request = a_request(f"r{len(plan.table)}-{plan.version}", text).tenant(tenant)
    if queue:
        request = request.queue(queue)
    built = request.submitted(plan.now).on(plan.cluster, plan.grid)
    return ask(plan, built).record is not None and plan.reservation(built.id) is not None


class TestDocumentedCohorts:
    """Kueue's documented cohorts, told in cores of a Plan; each instant less than six ahead."""

    def test_unused_quota_of_another_is_borrowed(self) -> None:
        """Team a has 9 and b 12: while b has nothing, a gets up to 21 and not 22."""
        plan = _plan(_quota("a", 9), _quota("b", 12))
        assert not _take(plan, "a", 22, 0, 3)
        assert _take(plan, "a", 21, 0, 3)
        assert not _take(plan, "b", 1, 0, 3)
        assert _take(plan, "b", 12, 3, 6)

    def test_a_borrowing_limit_is_the_limit_of_the_quota(self) -> None:
        """9 of its own and 1 borrowed at most: 10, however much b leaves."""
        plan = _plan(_quota("a", 9, 10), _quota("b", 12))
        assert not _take(plan, "a", 11, 0, 3)
        assert _take(plan, "a", 10, 0, 3)
        assert _take(plan, "b", 11, 0, 3)
        assert not _take(plan, "b", 1, 0, 3)

    def test_a_shared_quota_that_nobody_uses_is_for_all(self) -> None:
        """A quota of a tenant without requests: two others with nothing of their own share it."""
        plan = _plan(_quota("spare", 8), _quota("a", 0), _quota("b", 0))
        assert _take(plan, "a", 5, 0, 4)
        assert not _take(plan, "b", 4, 0, 4)
        assert _take(plan, "b", 3, 0, 4)

    def test_each_resource_is_borrowed_by_itself(self) -> None:
        """Memory that is left does not help who lacks cores; tenants outside are not counted."""
        machines = [{"name": "m", "count": 20, "resources": {"cpu": 1, "memory": "1 GiB"}}]
        own = {"guarantee": {"cpu": 4, "memory": "4 GiB"}}
        plan = _plan(_quota("a", 0, **own), _quota("b", 4), machines=machines)
        text = "window(atom(<1 cpu, 1 GiB memory>, {n}, {n}, 2, {w}), 0, 2)"
        five = a_request("five", text.format(n=5, w=10)).tenant("b").on(plan.cluster)
        ask(plan, five)
        refusal = plan.refusal("five")
        assert refusal is not None
        assert refusal.binding is not None
        assert (refusal.binding.resource, refusal.binding.policy) == ("memory", "b-quota")
        assert _take(plan, "b", 8, 0, 2)
        assert _take(plan, "c", 12, 0, 2)


def test_further_ahead_nobody_borrows_until_time_comes() -> None:
    """At 10 s a has its 4 only; once that is less than six ahead it has what b left."""
    plan = _plan(_quota("a", 4), _quota("b", 4))
    assert not _take(plan, "a", 5, 10, 12)
    assert not _take(plan, "a", 5, 5, 7)
    assert _take(plan, "b", 1, 10, 12)
    commit(plan, Advance(5, HORIZON + 5))
    assert not _take(plan, "a", 5, 10, 12)
    commit(plan, Advance(6, HORIZON + 6))
    assert not _take(plan, "a", 8, 10, 12)
    assert _take(plan, "a", 7, 10, 12)
    assert not _take(plan, "b", 1, 10, 12)


def test_refusals_say_what_is_guaranteed_and_what_the_cohort_has() -> None:
    """By the quota where it is too early, by the cohort where all of it is taken."""
    plan = _plan(_quota("a", 4, 7), _quota("b", 4))
    for start, words in (
        (10, "within policy a-quota at 10s from the origin, where least is free; it guarantees "
             "4 cpu, and at times less than 6s ahead up to 7 cpu with what cohort lab has left"),
        (0, "within policy cohort lab at the origin, where least is free; the quotas of the cohort "
            "have 8 cpu together, borrowed amounts included"),
    ):  # fmt: skip
        if start == 0:
            assert _take(plan, "b", 4, 0, 2)
        text = f"window(atom(<1 cpu>, 5, 5, 2, 10), {start}, {start + 2})"
        request = a_request(f"r{start}", text).tenant("a").on(plan.cluster)
        ask(plan, request)
        refusal = plan.refusal(request.id)
        assert refusal is not None
        assert refusal.code is Code.QUOTA
        assert words in refusal.detail, refusal.detail


def test_use_is_shown_against_guarantee_and_limit() -> None:
    """Five of a guarantee of four: one is borrowed, and seven are the most."""
    plan = _plan(_quota("a", 4, 7), _quota("b", 4))
    assert _take(plan, "a", 5, 0, 2)
    (use,) = policy_use(plan, plan.cluster.policies[0])
    assert (use.tenant, use.used, use.guarantee, use.limit) == ("a", 5000, 4000, 7000)


def test_the_limit_over_time_is_what_may_be_borrowed_when() -> None:
    """Up to the limit until six steps ahead, the guarantee only further on; each as accepted."""
    plan = _plan(_quota("a", 4, 7), _quota("b", 4))
    (series,) = policy_series(plan, plan.cluster.policies[0])
    assert series.limits.tolist() == [7000] * LEND + [4000] * (HORIZON - LEND)
    for step, limit in enumerate(series.limits.tolist()):
        fresh = _plan(_quota("a", 4, 7), _quota("b", 4))
        assert not _take(fresh, "a", limit // 1000 + 1, step, step + 1), step
        assert _take(fresh, "a", limit // 1000, step, step + 1), step
    commit(plan, Advance(3, HORIZON))
    (later,) = policy_series(plan, plan.cluster.policies[0])
    assert later.first == 3
    assert later.limits.tolist() == [7000] * LEND + [4000] * (HORIZON - 3 - LEND)


def _may_hold(use: Mapping[str, int], own: Mapping[str, int], most: Mapping[str, int]) -> bool:
    """Return whether accounts may hold so much at an instant that is near, told lender by lender.

    What each borrows must be what others leave, one core after the other.
    """
    left = sum(max(0, own[name] - use[name]) for name in own)
    borrowed = sum(max(0, use[name] - own[name]) for name in own)
    return borrowed <= left and all(use[name] <= most.get(name, 99) for name in own)


@pytest.mark.parametrize("own", [{"a": 2, "b": 1}, {"a": 0, "b": 2, "c": 1}])
@pytest.mark.parametrize("most", [{}, {"a": 2}, {"b": 3}])
def test_every_use_that_lenders_allow_is_accepted_and_no_other(
    own: dict[str, int], most: dict[str, int]
) -> None:
    """All ways to share a tiny cohort, in all orders of asking: exactly those by brute force."""
    limits = {name: max(own[name], most[name]) for name in most if name in own}
    quotas = [_quota(name, own[name], limits.get(name)) for name in own]
    for near, wanted in product((True, False), product(range(4), repeat=len(own))):
        use = dict(zip(own, wanted, strict=True))
        allowed = _may_hold(use, own, limits) if near else all(use[n] <= own[n] for n in own)
        for names in (list(own), list(own)[::-1]):
            plan = _plan(*quotas)
            start = 2 if near else 12
            asked = [_take(plan, n, use[n], start, start + 1) for n in names if use[n]]
            assert all(asked) == allowed, (use, near)


@st.composite
def _histories(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    quotas = []
    for name in names:
        own = draw(st.integers(0, 4))
        limit = draw(st.sampled_from([None, own, own + 2]))
        quotas.append(_quota(name, own, limit))
    events = []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.integers(0, 3)) == 0:
            events.append(("advance", draw(st.integers(1, 5))))
        else:
            events.append(
                (
                    "ask",
                    draw(st.sampled_from([*names, "other"])),
                    draw(st.integers(1, 6)),
                    draw(st.integers(0, 14)),
                    draw(st.integers(1, 4)),
                    draw(st.sampled_from(["gree", "earliest", "headroom", "gree-l"])),
                )
            )
    return quotas, events


@settings(max_examples=80)
@given(_histories())
def test_at_every_instant_a_cohort_holds_what_it_guarantees(
    drawn: tuple[list[dict[str, Any]], list[tuple[Any, ...]]],
) -> None:
    """While time passes: no sum is exceeded, nothing is lent too early, and no more is refused."""
    quotas, events = drawn
    plan = _plan(*quotas)
    for number, event in enumerate(events):
        if event[0] == "advance":
            commit(plan, Advance(plan.now + event[1], plan.grid.horizon + event[1]))
            continue
        _, tenant, height, ahead, length, agent = event
        start = plan.now + ahead
        atom = f"atom(<1 cpu>, 1, {height}, {length}, {height * length})"
        text = f"window({atom}, {start}, {start + length + 2})"
        builder = a_request(f"r{number}", text).tenant(tenant).submitted(plan.now)
        prepared = ask(plan, builder.on(plan.cluster, plan.grid), agent_named(agent))
        assert not prepared.conflicts, prepared.conflicts
    document = plan_json(plan)
    found = validate(document, cluster=plan.cluster, grid=plan.grid, now_s=float(plan.now))
    assert found == []
    fresh = Plan(plan.cluster, plan.cluster.grid())
    commit(fresh, Advance(plan.now, plan.grid.horizon))
    rows = [row for row, name in enumerate(plan.view().row_names) if name[0].startswith("quota")]
    for row in rows:
        what = plan.view().row_names[row]
        who = what[0].removeprefix("quota:").removesuffix("-quota")
        used = np.zeros(plan.grid.horizon, dtype=np.int64)
        for index in range(len(plan.table)):
            tenant = plan.table.scope(index)[0]
            if tenant == who or (who.startswith("cohort") and tenant != "other"):
                for allocation in plan.table.holding(index).atoms:
                    for first, last, bundles in allocation.rows.tolist():
                        used[first:last] += 1000 * bundles
        left = plan.view().free[row]
        own = {q["tenant"]: q["guarantee"]["cpu"] * 1000 for q in quotas}
        most = sum(own.values())
        if not who.startswith("cohort"):
            (limit,) = [
                q.get("limit", {"cpu": 99})["cpu"] * 1000 for q in quotas if q["tenant"] == who
            ]
            offered = np.full(plan.grid.horizon - plan.now, own[who])
            offered[:LEND] = min(most, limit)
        else:
            offered = np.full(plan.grid.horizon - plan.now, most)
        assert (left == offered - used[plan.now :]).all(), what


@pytest.mark.parametrize("agent", ["milp", "exact"])
def test_solvers_plan_within_what_is_lent(agent: str) -> None:
    """Two requests that need the whole cohort: near both borrow in turn, far neither can."""
    for start, count in ((0, 2), (12, 0)):
        plan = _plan(_quota("a", 2), _quota("b", 2), cores=4)
        requests = [
            a_request(f"r{t}", f"window(atom(<1 cpu>, 4, 4, 2, 8), {start}, {start + 5})")
            .tenant(t)
            .on(plan.cluster)
            for t in "ab"
        ]
        results = agent_named(agent).plan(requests, plan.view(), Limits(work=50, seed=1))
        assert sum(one.placed for one in results) == count


def test_what_lends_is_written_as_it_is_read() -> None:
    """Limits may be left out; guarantees of nothing are kept."""
    cluster = _cluster(_quota("a", 0), _quota("b", 4, 6))
    assert cluster_from_json(cluster_to_json(cluster)) == cluster
    assert cluster_to_json(cluster)["policies"][0] == {
        "type": "quota",
        "name": "a-quota",
        "tenant": "a",
        "guarantee": {"cpu": 0},
        "cohort": "lab",
        "lend": "6s",
    }


@pytest.mark.parametrize(
    ("policy", "pointer"),
    [
        ({"type": "quota", "tenant": "a"}, "/policies/0"),
        (_quota("a", 1) | {"tenant": "*"}, "/policies/0"),
        (_quota("a", 1) | {"queue": "default"}, "/policies/0"),
        (_quota("a", 3, 2), "/policies/0/limit/cpu"),
        (_quota("a", 1) | {"days": ["mon"]}, "/policies/0/days"),
        (_quota("a", 1) | {"lend": 5}, "/policies/1/lend"),
        (_quota("b", 1), "/policies/1"),
        (_quota("default", 1, by="queue"), "/policies/1"),
        ({key: v for key, v in _quota("a", 1).items() if key != "lend"}, "/policies/0"),
    ],
)
def test_a_quota_that_cannot_lend_names_its_place(policy: dict[str, Any], pointer: str) -> None:
    """With another quota of the cohort after it."""
    with pytest.raises(FileError) as caught:
        _cluster(policy | {"name": "first"}, _quota("b", 1))
    assert pointer in [one.pointer for one in caught.value.problems]


RULE = {"type": "displacement", "name": "may", "tenant": "b"}


class TestTakingBack:
    """With a displacement policy a tenant gets its guarantee from those that borrowed of it."""

    def _lent(self, *rules: dict[str, Any], priority: int = 9) -> Plan:
        """Return four cores each of a, b and c, where a holds 7 of 12 and c 5, near."""
        quotas = [_quota(name, 4) for name in "abc"]
        plan = _plan(*quotas, *rules, cores=12)
        for tenant, id_, cores in (("a", "a4", 4), ("a", "a3", 3), ("c", "c5", 5)):
            text = f"window(atom(<1 cpu>, {cores}, {cores}, 4, {4 * cores}), 1, {{end}})"
            builder = a_request(id_, text.format(end=5 if id_ != "a3" else 20))
            request = builder.tenant(tenant).priority(priority).on(plan.cluster)
            ask(plan, request, agent_named("earliest"))
            assert plan.reservation(id_) is not None
        return plan

    def _held(self, tenants: str, held: Sequence[tuple[str, str, int, int]]) -> Plan:
        """Return four cores for each tenant, with (tenant, id, cores, priority) held."""
        quotas = [_quota(name, 4) for name in tenants]
        plan = _plan(*quotas, RULE, cores=4 * len(tenants))
        for tenant, id_, cores, priority in held:
            text = f"window(atom(<1 cpu>, {cores}, {cores}, 4, {4 * cores}), 1, 5)"
            request = a_request(id_, text).tenant(tenant).priority(priority).on(plan.cluster)
            ask(plan, request, agent_named("earliest"))
            assert plan.reservation(id_) is not None
        return plan

    def _asked(self, plan: Plan, tenant: str, cores: int) -> Any:
        text = f"window(atom(<1 cpu>, {cores}, {cores}, 4, {4 * cores}), 1, 5)"
        return a_request("back", text).tenant(tenant).on(plan.cluster)

    def test_the_largest_borrower_gives_back_first_and_is_moved_or_told(self) -> None:
        """a borrows 3 of b's 4, c 1: of a's the least important goes, to another time."""
        plan = self._lent(RULE)
        found = displace_now(plan, self._asked(plan, "b", 3))
        assert fates(found) == {"a3": "moved"}
        moved = plan.reservation("a3")
        assert moved is not None
        assert moved.history[-1].detail == (
            "it had borrowed in cohort lab; a request of another tenant took back what is "
            "guaranteed by b-quota"
        )
        assert violations(plan) == []

    def test_who_finds_no_other_place_is_degraded_with_offers(self) -> None:
        """All four of b: no set leaves the others what is theirs; the fewest go, with an offer."""
        plan = self._lent(RULE)
        found = displace_now(plan, self._asked(plan, "b", 4))
        assert fates(found) == {"a4": "degraded"}
        lost = plan.reservation("a4")
        assert lost is not None
        assert lost.degradation is not None
        assert lost.degradation.offers
        assert violations(plan) == []

    @pytest.mark.parametrize(
        ("held", "wanted", "gone"),
        [
            ((("a", "a4", 4, 0), ("a", "a3", 3, 9)), 3, "a3"),
            ((("a", "a4", 4, 9), ("a", "a3", 3, 0)), 3, "a3"),
            # With either of two released no other may be, and it is not enough.
            ((("a", "a2", 2, 0), ("a", "b2", 2, 1), ("a", "a3", 3, 9)), 4, "a3"),
        ],
    )
    def test_who_gives_back_keeps_its_guarantee_if_some_set_leaves_it(
        self, held: tuple[tuple[str, str, int, int], ...], wanted: int, gone: str
    ) -> None:
        """Four each of a and b; priorities, which decide nothing here, would choose otherwise."""
        plan = self._held("ab", held)
        assert set(fates(displace_now(plan, self._asked(plan, "b", wanted)))) == {gone}
        assert violations(plan) == []

    def test_the_larger_share_gives_back_before_the_smaller_though_that_is_less_important(
        self,
    ) -> None:
        """a has borrowed three, c one, which would be enough for b and is worth less."""
        held = (("a", "a4", 4, 0), ("a", "a3", 3, 0), ("c", "c4", 4, 0), ("c", "c1", 1, 0))
        plan = self._held("abc", held)
        assert set(fates(displace_now(plan, self._asked(plan, "b", 1)))) == {"a3"}
        assert violations(plan) == []

    def test_nobody_takes_back_more_than_its_guarantee(self) -> None:
        """Five are more than b's four: nothing makes way."""
        plan = self._lent(RULE)
        assert found_for(plan, self._asked(plan, "b", 5)) is None
        assert may_reclaim(plan, [self._asked(plan, "b", 4)])

    @pytest.mark.parametrize(("tenant", "rules"), [("b", ()), ("other", (RULE,))])
    def test_without_a_policy_nothing_is_taken_back(
        self, tenant: str, rules: tuple[dict[str, Any], ...]
    ) -> None:
        """Nor by a tenant outside the cohort."""
        plan = self._lent(*rules)
        asked = self._asked(plan, tenant, 2)
        assert not may_reclaim(plan, [asked])
        assert found_for(plan, asked) is None
