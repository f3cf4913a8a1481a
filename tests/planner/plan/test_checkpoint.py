"""A Plan saved and restored is the same Plan."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from tests.planner.plan.plan_steps import CLUSTER, assert_same, step


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 8), max_size=25))
def test_restoring_gives_the_same_plan(actions: list[int]) -> None:
    """Whatever happened to a Plan, its state restores it, and both continue alike."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for number, action in enumerate(actions):
        step(plan, action, number)

    other = read_checkpoint(take_checkpoint(plan).encode())

    assert_same(plan, other)
    for action in (0, 8, 6, 4):
        step(plan, action, 100 + action)
        step(other, action, 100 + action)
    assert_same(plan, other)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 8), max_size=25), st.lists(st.integers(0, 8), max_size=6))
def test_a_copy_is_the_same_plan_and_shares_nothing(before: list[int], after: list[int]) -> None:
    """A copy holds the same, continues alike, and what happens to it leaves the Plan as it was."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    for number, action in enumerate(before):
        step(plan, action, number)
    restored = read_checkpoint(take_checkpoint(plan).encode())

    twin = plan.copy()

    assert_same(plan, twin)
    for number, action in enumerate((*after, 0, 6, 8)):
        step(twin, action, 100 + number)
    assert_same(plan, restored)
    for number, action in enumerate((*after, 0, 6, 8)):
        step(plan, action, 100 + number)
    assert_same(plan, twin)


def test_a_capture_stays_as_it_is() -> None:
    """What happens to the Plan after the capture is not in it."""
    plan = Plan(CLUSTER, CLUSTER.grid())
    step(plan, 0, 0)
    state = take_checkpoint(plan)
    step(plan, 6, 0)
    step(plan, 1, 1)

    other = read_checkpoint(state.encode())

    assert [one.state for one in other.reservations()] == ["accepted"]
    assert other.version == 1


def test_refuses_what_is_no_state() -> None:
    """Damaged bytes are an error, not a Plan."""
    with pytest.raises(ValueError, match="no state of a plan"):
        read_checkpoint(b"something else")
