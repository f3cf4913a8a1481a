"""Executions that wait for others to succeed, for their slots, and for a pause after a failure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState
from tests.builders import a_cluster
from tests.dispatch.cycle.world import World, a_world, an_application

_FOUR = a_cluster().machines("plain", 4, cpu=1).build()

_Q, _R, _C, _F = (
    ExecutionState.QUEUED,
    ExecutionState.RUNNING,
    ExecutionState.COMPLETED,
    ExecutionState.FAILED,
)


def fail(world: World, name: str, at_s: int) -> None:
    """Let a core of one that runs fail."""
    world.backend.end((name, "m", 0), at_s * 1000, failed=True)


@pytest.mark.parametrize(
    ("end", "after"), [("done", (_C, _R)), ("fails", (_F, _F)), ("killed", (_C, _F))]
)
def test_one_starts_when_what_it_needs_has_succeeded(
    end: str, after: tuple[ExecutionState, ExecutionState]
) -> None:
    """It fails where that does not; until then it waits, though machines are free."""
    world = a_world(_FOUR)
    second = world.submit(an_application("second"), needs=("first",))
    world.submit(an_application("first"), 1)
    world.tick(1)
    assert (world.state("first"), world.state("second")) == (_R, _Q)
    assert second.reason == "it waits for first to succeed"
    if end == "done":
        world.backend.end(("first", "m", 0), 2_000)
    elif end == "fails":
        fail(world, "first", 2)
    else:
        world.table.kill("first", 2_000)
    world.tick(3)
    world.tick(4)

    assert world.state("second") is after[1]
    if end == "fails":
        assert second.reason == "first failed: core component 'm' failed"


def test_a_failure_is_retried_as_often_as_said_after_growing_pauses() -> None:
    """Then it fails, and says how many attempts it had."""
    world = a_world(_FOUR)
    execution = world.submit(an_application("job", retries=2, backoff_ms=10_000))
    world.tick(0)
    starts = [0]
    for at_s in range(1, 60):
        if world.state("job") is _R:
            fail(world, "job", at_s)
        world.tick(at_s)
        if execution.started_ms is not None and execution.started_ms // 1000 != starts[-1]:
            starts.append(execution.started_ms // 1000)

    assert starts == [0, 11, 32]
    assert (world.state("job"), execution.retries_used) == (_F, 2)
    assert execution.reason == "core component 'm' failed; it was the last of 3 attempts"


def test_one_that_awaits_its_slot_starts_with_it_and_goes_on_after_it() -> None:
    """It is not served before its slot, and what came too late uses what is free."""
    world = a_world(_FOUR, "window(atom(<1 cpu>, 1, 1, 10, 10), 20, 30)")
    for name in ("early", "late"):
        needs = ("g",) if name == "late" else ()
        world.submit(an_application(name, reservation="r1"), needs=needs).awaits_slot = True
    world.submit(an_application("g"))
    world.tick(10)
    assert (world.state("early"), world.state("late")) == (_Q, _Q)
    world.tick(20)
    assert (world.state("early"), world.state("late")) == (_R, _Q)
    late = world.table.get("late")
    assert late is not None
    assert late.reason == "late: its slot has begun, and it waits for g to succeed"
    world.backend.end(("g", "m", 0), 22_000)
    world.tick(22)
    assert world.state("late") is _R


@settings(max_examples=60)
@given(
    st.lists(st.frozensets(st.integers(0, 5), max_size=3), min_size=2, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12),
)
def test_no_order_of_ends_starts_one_before_what_it_needs(
    needs: list[frozenset[int]], ends: list[tuple[int, bool]]
) -> None:
    """In every history: what runs has had all that it needs; what needs a failure has failed."""
    world = a_world(_FOUR)
    before = [sorted(one for one in mine if one < place) for place, mine in enumerate(needs)]
    names = [f"e{place}" for place in range(len(needs))]
    for place, name in reversed(list(enumerate(names))):
        world.submit(an_application(name), needs=tuple(names[one] for one in before[place]))
    for at_s, (place, succeeds) in enumerate(ends, 1):
        world.tick(at_s)
        name = names[place % len(names)]
        if world.state(name) is _R:
            if succeeds:
                world.backend.end((name, "m", 0), at_s * 1000)
            else:
                fail(world, name, at_s)
        world.tick(at_s)
        state = {one: world.state(one) for one in names}
        for index, one in enumerate(names):
            needed = [state[names[other]] for other in before[index]]
            if state[one] not in (_Q, _F):
                assert all(other is _C for other in needed)
            if any(other is _F for other in needed):
                assert state[one] in FINAL_EXECUTION_STATES


@pytest.mark.parametrize(("cpu", "state"), [(1, _C), (2, ExecutionState.REJECTED)])
def test_what_was_over_before_is_known_to_what_needs_it(cpu: int, state: ExecutionState) -> None:
    """One submitted after the end of what it needs starts, or fails with its reason."""
    world = a_world(_FOUR)
    world.submit(an_application("first", cpu=cpu))
    world.tick(0)
    if cpu == 1:
        world.backend.end(("first", "m", 0), 1_000)
    world.tick(1)
    assert world.state("first") is state
    second = world.submit(an_application("second"), 1, needs=("first",))
    world.tick(2)

    assert second.needs == ()
    assert world.state("second") is (_R if cpu == 1 else _F)
    assert cpu == 1 or second.reason.startswith("first was rejected: ")
