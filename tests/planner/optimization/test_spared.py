"""Losses that an optimisation found, on a Plan whose machines came back meanwhile: few are made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.shortage import takings_of
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.optimization.undo import replay
from planner.plan.plan import Plan
from planner.plan.records.changes import Change, Degrade, Reconfigure, Update
from planner.replanning.draft_plan import exceeds_machines
from planner.reservations.state import State
from tests.builders import a_request, ask, commit
from tests.planner.adaptation.events import plans, small_cluster, violations, with_outages

_SLOW = settings(max_examples=20)


def _lose(plan: Plan, lost: int, start: int = 0) -> None:
    """Take the last machines away from `start` on; no one answers to it yet."""
    cluster = with_outages(plan.cluster, *([(lost, start, 24)] if lost else ()))
    commit(plan, Reconfigure(cluster))


def _changes(plan: Plan) -> tuple[Change, ...]:
    effort = OptimizeOptions(Limits(work=20, seed=1), solver="")
    return optimize(plan, None, OptimizeScope(admit_refused=True), effort).changes


def _id(change: Change) -> str:
    assert isinstance(change, Degrade)
    return change.id


def _after(plan: Plan, changes: tuple[Change, ...]) -> Plan:
    twin = plan.copy()
    if changes:
        prepared = twin.prepare(changes, twin.version, joint=True)
        assert prepared.record is not None, prepared.outcomes
        twin.apply(prepared.record)
    return twin


def _degraded(plan: Plan) -> set[str]:
    return {one.id for one in plan.reservations() if one.state is State.DEGRADED}


@_SLOW
@given(plans(), st.integers(1, 6), st.integers(0, 12))
def test_no_one_is_degraded_once_all_machines_are_back(plan: Plan, lost: int, start: int) -> None:
    """Who was to lose keeps all, or moves; what was to use its room comes in only beside it."""
    _lose(plan, lost, start)
    changes = _changes(plan)
    _lose(plan, 0)
    found = replay(plan.copy(), changes, 0)
    assert not any(isinstance(one, Degrade) for one in found.kept)
    losses = {index for index, one in enumerate(changes) if isinstance(one, Degrade)}
    told = {one.index: one.detail for one in found.left_out}
    moved = {one.id for one in found.kept if isinstance(one, Update)}
    for index in losses:
        assert _id(changes[index]) in moved or "machines for it again" in told[index]
    assert len(told) + len(found.kept) == len(changes)
    after = _after(plan, found.kept)
    assert (_degraded(after), violations(after)) == (set(), [])


@_SLOW
@given(plans(), st.integers(2, 6), st.integers(0, 5), st.integers(0, 12))
def test_only_losses_that_are_needed_are_made(
    plan: Plan, lost: int, still: int, start: int
) -> None:
    """Some machines are back: all fits what there is, and not without any one of the losses.

    Moves may be left out too: a loss does not free capacity for them.
    """
    _lose(plan, lost, start)
    changes = _changes(plan)
    _lose(plan, min(still, lost), start)
    kept = replay(plan.copy(), changes, 0).kept
    assert violations(_after(plan, kept)) == []
    for loss in kept:
        if isinstance(loss, Degrade):
            others = tuple(one for one in kept if one is not loss)
            assert _unfit(plan, loss.id) or all(
                _over(plan, one) for one in _without_moves(plan, others)
            )


def _without_moves(plan: Plan, changes: tuple[Change, ...]) -> Iterator[tuple[Change, ...]]:
    """Yield the changes without each set of moves of what is not degraded."""
    moves = [one for one in changes if isinstance(one, Update) and one.id not in _degraded(plan)]
    for many in range(len(moves) + 1):
        for some in combinations(moves, many):
            yield tuple(one for one in changes if one not in some)


def _unfit(plan: Plan, id_: str) -> bool:
    number = plan.table.number_of(id_)
    assert number is not None
    pieces = takings_of(plan.table.holding(number), plan.ledger, *plan.table.scope(number))
    return exceeds_machines(plan.ledger, pieces)


def _over(plan: Plan, changes: tuple[Change, ...]) -> bool:
    """Return whether changes cannot be made, or leave machines short."""
    if not changes:
        return bool((plan.ledger.free < 0).any())
    if plan.prepare(changes, plan.version, joint=True).record is None:
        return True
    return bool((_after(plan, changes).ledger.free < 0).any())


def test_one_of_two_losses_is_spared_where_half_the_machines_are_back() -> None:
    """Two hold three of six machines each; none is left, then three: the costlier one keeps all."""
    plan = Plan(small_cluster(), small_cluster().grid())
    for name, weight in (("a", 1), ("b", 5)):
        request = a_request(name, "window(atom(<1 cpu>, 3, 3, 24, 72), 0, 24)").weight(weight)
        assert ask(plan, request.on(plan.cluster), agent_named("earliest")).record is not None
    _lose(plan, 6)
    changes = _changes(plan)
    assert [type(one) for one in changes] == [Degrade, Degrade]
    assert len(replay(plan.copy(), changes, 0).kept) == 2
    _lose(plan, 3)
    found = replay(plan.copy(), changes, 0)
    assert [one.id for one in found.kept if isinstance(one, Degrade)] == ["a"]
    assert [(one.id, one.code.value) for one in found.left_out] == [("b", "conflict")]


#: One request takes five of six machines, the others two or three at a time; weights alongside
#: them.
_FOUR = (
    ("window(atom(<1 cpu>, 3, 5, 3, 15), 0, 10)", 1),
    ("window(every(8, atom(<1 cpu>, 2, 3, 2, 6), times=2), 3, 24)", 2),
    ("window(every(8, atom(<1 cpu>, 2, 2, 1, 6), times=2, same_offset=false), 12, 24)", 2),
    ("window(any(atom(<1 cpu>, 2, 3, 2, 6), atom(<1 cpu>, 2, 3, 2, 12)), 6, 17)", 1),
)


@pytest.mark.parametrize("left", [(0, 1, 2, 3), (0, 1, 3)])
def test_no_loss_frees_capacity_for_a_move_that_is_of_no_use(left: tuple[int, ...]) -> None:
    """Five machines go, two come back: who was to lose keeps all; no move is in its way."""
    plan = Plan(small_cluster(), small_cluster().grid())
    for index in left:
        text, weight = _FOUR[index]
        request = a_request(f"r{index}", text).weight(weight)
        assert ask(plan, request.on(plan.cluster)).record is not None
    _lose(plan, 5, 8)
    changes = _changes(plan)
    assert "r1" in {one.id for one in changes if isinstance(one, Degrade)}
    _lose(plan, 3, 8)
    kept = replay(plan.copy(), changes, 0).kept
    assert not any(isinstance(one, Degrade) for one in kept)
    assert violations(_after(plan, kept)) == []
