"""A policy on counts, where some admissions that were found no longer fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.policy import RequestLimits, Scope
from planner.optimization.feasible_part import FeasiblePart, feasible_part
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions
from planner.optimization.result import OptimizeScope as Movable
from planner.optimization.undo import replay
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse
from planner.workload.reload import metrics_of
from tests.builders import a_request, ask, commit
from tests.planner.adaptation.events import small_cluster, violations

_SLOW = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
_SLOT = st.tuples(st.integers(0, 3), st.integers(1, 6))


def _source(slot: tuple[int, int]) -> str:
    """Return a request of some machines that has one place only: one of four slots."""
    start, height = 4 * slot[0], slot[1]
    return f"window(atom(<1 cpu>, {height}, {height}, 4, {4 * height}), {start}, {start + 4})"


def _plan(most: int) -> Plan:
    cluster = small_cluster()
    policy = RequestLimits("few", Scope("*", None), max_count=most)
    return Plan(replace(cluster, policies=(policy,)), cluster.grid())


def _found(plan: Plan, slots: list[tuple[int, int]]) -> list[Admit]:
    """Return admissions of what was refused, each where it alone can be."""
    found = []
    for index, slot in enumerate(slots):
        request = a_request(f"r{index}", _source(slot)).on(plan.cluster)
        [result] = agent_named("gree").plan([request], plan.view(), Limits())
        commit(plan, Refuse(request, Code.CAPACITY, "no capacity"))
        found.append(Admit(request, result, "optimized", anew=True))
    return found


def _post(plan: Plan, name: str, slot: tuple[int, int]) -> None:
    ask(plan, a_request(name, _source(slot)).on(plan.cluster), agent_named("earliest"))


def _fitting(plan: Plan, changes: list[Admit], *, elsewhere: bool) -> FeasiblePart:
    if elsewhere:
        return replay(plan.copy(), changes, 0)
    return feasible_part(plan, changes)


def _ids(found: FeasiblePart) -> set[str]:
    return {one.request.id for one in found.kept if isinstance(one, Admit)}


def _fits(plan: Plan, changes: tuple[Admit, ...]) -> bool:
    return not changes or plan.prepare(changes, plan.version, joint=True).record is not None


def test_an_optimisation_counts_no_value_that_a_policy_keeps_out() -> None:
    """Two find a place, one may come in: its value alone is told, and why the other stays out."""
    plan = _plan(1)
    _found(plan, [(0, 6), (1, 6)])
    effort = OptimizeOptions(Limits(work=40, seed=1), solver="")
    found = optimize(plan, None, Movable(admit_refused=True), effort)
    assert len([one for one in found.changes if isinstance(one, Admit)]) == 1
    assert [one.code for one in found.left_out] == [Code.COUNT_LIMIT]
    commit(plan, *found.changes)
    assert found.value == pytest.approx(metrics_of(plan).value) == pytest.approx(4 * 6 / 3600)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_who_drops_out_for_capacity_uses_up_no_count(elsewhere: bool) -> None:
    """One more may stand; the first has no room any more, so the second, with room, comes in."""
    plan = _plan(2)
    changes = _found(plan, [(0, 6), (1, 6)])
    _post(plan, "new", (0, 1))
    found = _fitting(plan, changes, elsewhere=elsewhere)
    assert _ids(found) == {"r1"}
    assert [(one.id, one.code) for one in found.left_out] == [("r0", Code.CAPACITY)]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_one_too_many_is_reported_by_its_policy(elsewhere: bool) -> None:
    """One more may stand and both have room: one comes in, the count keeps the other out."""
    plan = _plan(2)
    changes = _found(plan, [(0, 6), (1, 6)])
    _post(plan, "new", (3, 1))
    found = _fitting(plan, changes, elsewhere=elsewhere)
    assert _ids(found) == {"r0"}
    assert [(one.id, one.code) for one in found.left_out] == [("r1", Code.COUNT_LIMIT)]
    assert "policy few allows 2" in found.left_out[0].detail


@_SLOW
@given(
    st.lists(_SLOT, min_size=1, max_size=4),
    st.lists(_SLOT, max_size=3),
    st.integers(1, 4),
    st.booleans(),
)
def test_no_one_is_left_out_for_whom_capacity_and_count_are_there(
    slots: list[tuple[int, int]], posts: list[tuple[int, int]], most: int, elsewhere: bool
) -> None:
    """What is kept is feasible, and no one who is left out can be added to it."""
    plan = _plan(most)
    changes = _found(plan, slots)
    for index, post in enumerate(posts):
        _post(plan, f"n{index}", post)
    found = _fitting(plan, changes, elsewhere=elsewhere)
    kept = tuple(one for one in found.kept if isinstance(one, Admit))
    assert len(kept) + len(found.left_out) == len(changes)
    assert _fits(plan, kept)
    for one in changes:
        assert one.request.id in _ids(found) or not _fits(plan, (*kept, one))
    if kept:
        commit(plan, *kept)
    assert violations(plan) == []
