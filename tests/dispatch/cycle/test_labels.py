"""Labels in the Plan and labels of machines, and what strategies look at alongside them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.cycle.options import DispatchOptions
from dispatch.machines.placement.policy import Policy
from tests.builders import a_cluster, a_plan, a_request, ask
from tests.dispatch.cycle.world import World, an_application

_POLICIES: list[Policy] = ["best_fit", "greedy", "spread", "tetris", "lotes"]


def _world(policy: Policy, plain: int, fast: int, *wanted: tuple[int, str | None]) -> World:
    """Fast machines first, each of one core; gangs of this many from 10 to 60 s."""
    builder = a_cluster().machines("fast", fast, labels=("ssd",), cpu=1)
    cluster = builder.machines("plain", plain, cpu=1).build()
    plan = a_plan(cluster).build()
    for number, (count, label) in enumerate(wanted):
        on = "" if label is None else f', on="{label}"'
        text = f"window(atom(<1 cpu>, {count}, {count}, 50, {count * 50}{on}), 10, 60)"
        ask(plan, a_request(f"r{number}", text).on(cluster))
    return World(cluster, plan, DispatchOptions(policy))


@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("guests", [0, 3])
def test_who_needs_no_label_leaves_the_machines_that_carry_one(policy: Policy, guests: int) -> None:
    """Two anywhere come before two on ssd, of which there are two: all four run.

    Also where elastic components of a guest are in the way on the machines without labels.
    """
    world = _world(policy, 2, 2, (2, None), (2, "ssd"))
    if guests:
        world.submit(an_application("guest", 1, guests))
    world.tick(0)
    world.submit(an_application("anywhere", 2, reservation="r0"), 10)
    world.tick(10)
    world.submit(an_application("fast", 2, labels=("ssd",), reservation="r1"), 11)
    assert not world.tick(11).below
    assert (world.held("anywhere"), world.held("fast")) == ([2], [2])


@pytest.mark.parametrize("policy", _POLICIES)
def test_cores_without_cover_leave_machines_without_labels_too(policy: Policy) -> None:
    """Who is entitled to two anywhere gets the two plain ones, though a core of a guest is there.

    An elastic component on a machine with a label would be easier to clear away.
    """
    world = _world(policy, 2, 2, (2, None), (2, "ssd"))
    world.submit(an_application("guest0", 1, 1))
    world.submit(an_application("guest1"))
    world.tick(0)
    world.submit(an_application("anywhere", 2, reservation="r0"), 10)
    world.tick(10)
    world.submit(an_application("fast", 2, labels=("ssd",), reservation="r1"), 11)
    assert not world.tick(11).below
    assert (world.held("anywhere"), world.held("fast")) == ([2], [2])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(_POLICIES),
    st.integers(1, 4),
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, "ssd"])), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=2),
    st.randoms(use_true_random=False),
)
def test_what_is_entitled_to_a_label_finds_its_machines(
    policy: Policy,
    plain: int,
    fast: int,
    wanted: list[tuple[int, str | None]],
    guests: list[int],
    order: object,
) -> None:
    """Whoever comes first: where the Plan has room for all, label by label, all of them run."""
    world = _world(policy, plain, fast, *wanted)
    for number, elastic in enumerate(guests):
        world.submit(an_application(f"guest{number}", 1, elastic))
    world.tick(0)
    numbers = [n for n in range(len(wanted)) if world.plan.table.number_of(f"r{n}") is not None]
    order.shuffle(numbers)  # type: ignore[attr-defined]
    for at, number in enumerate(numbers):
        count, label = wanted[number]
        labels = () if label is None else (label,)
        one = an_application(f"e{number}", count, labels=labels, reservation=f"r{number}")
        world.submit(one, 10 + at)
        assert not world.tick(10 + at).below


def test_spread_looks_at_memory_wherever_it_stands_among_the_resources() -> None:
    """Beside gpu, memory is the third: the machine with more of it is taken, not the one of gpu."""
    builder = a_cluster().machines("gpus", 1, cpu=4, gpu=4, memory=10)
    cluster = builder.machines("roomy", 1, cpu=4, gpu=1, memory=100).build()
    world = World(cluster, a_plan(cluster).build(), DispatchOptions("spread"))
    world.submit(an_application("one"))
    world.tick(0)
    assert [row.machine for row in world.table.assignment().rows] == ["roomy-0"]
