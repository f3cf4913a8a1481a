"""What still fits of an optimisation on a Plan that has moved on: valid, and no one loses."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.policy import CapacityOverTime
from planner.cluster.policy import Scope as PolicyScope
from planner.optimization.feasible_part import FeasiblePart, feasible_part
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.optimization.undo import replay
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Cancel, Change, Update
from planner.reservations.state import State
from tests.builders import a_cluster, a_request, ask, commit
from tests.planner.adaptation.events import plans, violations

_SLOW = settings(max_examples=15)
_SEARCH = OptimizeOptions(Limits(work=40, seed=1), solver="")
_POST = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 18))


def _changes(plan: Plan) -> tuple[Change, ...]:
    return optimize(plan, None, OptimizeScope(admit_refused=True), _SEARCH).changes


def _post(plan: Plan, name: str, post: tuple[int, int, int]) -> bool:
    height, steps, start = post
    end = plan.grid.horizon
    text = f"window(atom(<1 cpu>, {height}, {height}, {steps}, {height * steps}), {start}, {end})"
    prepared = ask(plan, a_request(name, text).on(plan.cluster), agent_named("earliest"))
    return prepared.record is not None and plan.reservation(name) is not None


def _holders(plan: Plan) -> dict[str, tuple[bool, str]]:
    """Return whether each holds all it asked for, begun or not, and what that was."""
    whole = (State.ACCEPTED, State.ACTIVE)
    return {one.id: (one.state in whole, one.expression) for one in plan.reservations()}


def _took(plan: Plan, found: FeasiblePart) -> None:
    if found.kept:
        prepared = plan.prepare(found.kept, plan.version, joint=True)
        assert prepared.record is not None, prepared.conflicts
        plan.apply(prepared.record)


@_SLOW
@given(plans(), st.lists(_POST, max_size=4), st.data())
def test_a_partial_apply_is_valid_and_no_one_loses(
    plan: Plan, posts: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """After posts and cancellations the part kept is committed; all who held something still do."""
    changes = _changes(plan)
    for index, post in enumerate(posts):
        _post(plan, f"n{index}", post)
    for one in list(plan.reservations()):
        if data.draw(st.integers(0, 5)) == 0:
            commit(plan, Cancel(one.id))
    elsewhere = data.draw(st.booleans())
    frozen = data.draw(st.integers(0, 6)) if elsewhere else 0
    found = replay(plan.copy(), changes, frozen) if elsewhere else feasible_part(plan, changes)
    whole = bool(changes) and plan.prepare(changes, plan.version, joint=True).record is not None
    # Elsewhere all may find a place though not all fit where they were to be.
    assert (not found.left_out) == (whole or not changes) or (elsewhere and not found.left_out)
    assert len(found.kept) + len(found.left_out) == len(changes)
    made = {one.request.id for one in found.kept if isinstance(one, Admit | Update)}
    assert [one.index for one in found.left_out] == [
        index
        for index, one in enumerate(changes)
        if isinstance(one, Admit | Update) and one.request.id not in made
    ]
    before = _holders(plan)
    _took(plan, found)
    assert violations(plan) == []
    after = _holders(plan)
    assert {id_: after[id_] for id_ in before} == before
    assert after.keys() - before.keys() == {
        one.request.id for one in found.kept if isinstance(one, Admit)
    }


@_SLOW
@given(plans(), st.lists(_POST, min_size=1, max_size=4))
def test_no_one_is_left_out_who_could_come_in(
    plan: Plan, posts: list[tuple[int, int, int]]
) -> None:
    """No admission that is left out fits alongside the part that is kept."""
    changes = _changes(plan)
    for index, post in enumerate(posts):
        _post(plan, f"n{index}", post)
    found = feasible_part(plan, changes)
    for one in found.left_out:
        if isinstance(changes[one.index], Admit):
            more = (*found.kept, changes[one.index])
            assert plan.prepare(more, plan.version, joint=True).record is None
            assert one.detail


def _two_pairs() -> tuple[Plan, tuple[Change, ...]]:
    """Return a Plan with two pairs as in `two_in_the_way`, and changes that let both come in."""
    cluster = a_cluster().horizon(40).machines("m", 2, cpu=1).build()
    plan = Plan(cluster, cluster.grid())
    for name, start in (("x", 0), ("y", 20)):
        for index, first in ((1, start + 4), (2, start + 6)):
            text = f"window(atom(<1 cpu>, 2, 2, 4, 8), {first}, {start + 12})"
            ask(plan, a_request(f"{name}{index}", text).on(cluster))
    changes = optimize(
        plan,
        None,
        OptimizeScope(admit_refused=True),
        OptimizeOptions(Limits(work=300, seed=1), solver=""),
    ).changes
    assert {one.request.id for one in changes if isinstance(one, Admit)} == {"x2", "y2"}
    return plan, changes


def _names(found: FeasiblePart) -> set[str]:
    kept = (one for one in found.kept if isinstance(one, Admit | Update))
    return {one.request.id for one in kept}


def test_who_needs_a_place_that_stays_taken_drops_out_with_it() -> None:
    """Somebody came where `y1` is to move: it stays, so `y2` does not come in; both say why."""
    plan, changes = _two_pairs()
    assert _post(plan, "new", (1, 2, 24))
    found = feasible_part(plan, changes)
    assert _names(found) == {"x1", "x2"}
    codes = {one.id: (one.code.value, bool(one.detail)) for one in found.left_out}
    assert codes == {"y1": ("capacity", True), "y2": ("capacity", True)}
    _took(plan, found)
    assert violations(plan) == []


def test_who_finds_another_place_frees_capacity_nevertheless() -> None:
    """Somebody came where `y1` is to move, and beside it there is room: it goes there instead."""
    cluster = a_cluster().horizon(24).machines("m", 2, cpu=1).build()
    plan = Plan(cluster, cluster.grid())
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 2, 14)").on(cluster))
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 6, 12), 8, 14)").on(cluster))
    changes = _changes(plan)
    assert len(changes) == 2
    [move] = [one for one in changes if isinstance(one, Update)]
    start = int(move.result.rows[0, 0])
    new = (2, 1, 2) if start < 4 else (2, 1, 7)
    assert _post(plan, "new", new)
    assert plan.prepare(changes, plan.version, joint=True).record is None
    assert feasible_part(plan, changes).kept == ()
    found = replay(plan.copy(), changes, 0)
    assert (_names(found), found.left_out) == ({"a", "b"}, ())
    _took(plan, found)
    assert violations(plan) == []
    assert replay(plan.copy(), (), 0) == FeasiblePart()


def test_a_move_that_helps_no_one_any_more_is_not_made() -> None:
    """The request that was to come in is gone: who was to capacity for it stays where it is."""
    plan, changes = _two_pairs()
    refused = next(one for one in changes if isinstance(one, Admit) and one.request.id == "y2")
    commit(plan, replace(refused, result=_elsewhere(plan, refused)))
    found = replay(plan.copy(), changes, 0)
    assert _names(found) == {"x1", "x2"}
    details = {one.id: one.detail for one in found.left_out}
    assert "frees capacity for nothing" in details["y1"]
    assert details.keys() == {"y1", "y2"}


def _elsewhere(plan: Plan, refused: Admit) -> PlacementResult:
    """Move what comes in to the end of the horizon, where no one is."""
    rows = refused.result.rows + np.array([8, 8, 0])
    return replace(refused.result, rows=rows)


def test_who_is_gone_is_reported_and_the_others_come() -> None:
    """A reservation that was cancelled needs no move; the one that waited for it comes in."""
    plan, changes = _two_pairs()
    commit(plan, Cancel("y1"))
    found = feasible_part(plan, changes)
    assert _names(found) == {"x1", "x2", "y2"}
    assert [(one.id, one.code.value) for one in found.left_out] == [("y1", "conflict")]
    assert "revision" in found.left_out[0].detail


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_averages_are_kept_too(share: float) -> None:
    """Under a window average a change drops out where the average no longer has capacity for it."""
    cluster = a_cluster().horizon(24).machines("m", 4, cpu=1).build()
    average = CapacityOverTime("avg", PolicyScope("*", None), None, Decimal(str(share)), 6_000)
    plan = Plan(replace(cluster, policies=(average,)), cluster.grid())
    waits = a_request("w", "window(atom(<1 cpu>, 2, 2, 6, 12), 0, 6)").on(plan.cluster)
    result = agent_named("gree").plan([waits], plan.view(), Limits())[0]
    assert result.placed
    change = Admit(waits, result, "gree")
    assert feasible_part(plan, [change]).kept == (change,)
    taken = a_request("t", "window(atom(<1 cpu>, 1, 2, 6, 12), 0, 6)").on(plan.cluster)
    assert ask(plan, taken, agent_named("earliest")).record is not None
    left = feasible_part(plan, [change]).left_out
    assert [one.code.value for one in left] == ["capacity_over_time"]
