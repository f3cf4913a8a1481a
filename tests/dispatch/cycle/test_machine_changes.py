"""Machines that are described again, and components that none of them can ever hold."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.applications.application import Application, Component
from dispatch.executions.states import ExecutionState
from planner.cluster.cluster import Cluster
from rdl.resources import Resources
from tests.builders import a_cluster
from tests.dispatch.cycle.application_strategies import applications
from tests.dispatch.cycle.world import a_world, an_application

_TWO = a_cluster().machines("plain", 2, cpu=4).build()


def _with_elastic(count: int, resources: dict[str, int], *labels: str) -> Application:
    core = Component("m", 1, True, Resources.of({"cpu": 1000}))
    more = Component("w", count, False, Resources.of(resources), labels=frozenset(labels))
    return Application("greedy", (core, more))


@pytest.mark.parametrize(
    "greedy",
    [
        _with_elastic(7, {"cpu": 8000}),
        _with_elastic(7, {"cpu": 1000}, "gpu"),
        _with_elastic(7, {"cpu": 1000, "gpu": 1}),
    ],
)
def test_elastic_components_that_can_never_run_hold_no_capacity(greedy: Application) -> None:
    """Too large, for labels or of a kind that no machine has: they wait, the next in line runs."""
    world = a_world(_TWO)
    first = world.submit(greedy)
    world.submit(an_application("next", 1, 6), 1)
    world.tick(1)
    assert (world.held("greedy"), world.held("next")) == ([1, 0], [1, 6])
    assert first.parts[1].limit
    assert not first.parts[0].limit


def test_elastic_components_beyond_what_machines_hold_are_not_waited_for() -> None:
    """Two machines of four hold two of three cores: the rest of both is for the next in line.

    One that ends by itself is followed by the third, which had no place.
    """
    world = a_world(_TWO)
    first = world.submit(an_application("first", 1, 5, elastic_cpu=3))
    world.submit(an_application("next", 1), 1)
    world.tick(1)
    assert (world.held("first"), world.held("next")) == ([1, 2], [1])
    assert first.parts[1].limit == "all machines together hold 2 of 5 'w'"
    world.backend.end(("first", "w", 0), 2_000)
    world.tick(2)
    assert world.held("first") == [1, 2]


def test_cores_that_machines_never_hold_together_are_rejected() -> None:
    """Four of three cores are twelve, as much as three machines of four have; each holds one."""
    world = a_world(a_cluster().machines("plain", 3, cpu=4).build())
    first = world.submit(an_application("first", 4, cpu=3))
    world.submit(an_application("next", 1), 1)
    world.tick(1)
    assert first.state is ExecutionState.REJECTED
    assert first.reason == "all machines together hold 3 of 4 'm'"
    assert world.held("next") == [1]
    each = Resources.of({"cpu": 2000})
    both = Application("both", (Component("m", 3, True, each), Component("n", 4, True, each)))
    assert world.submit(both).reason == "its cores ask for more cpu than all machines have"


def test_what_can_never_run_any_more_is_rejected() -> None:
    """A kind of resource goes: who asks for it is rejected and off, the others run on."""
    world = a_world(a_cluster().machines("p", 2, cpu=4, gpu=1).build())
    asked = Component("m", 1, True, Resources.of({"gpu": 1}))
    world.submit(Application("learner", (asked,)))
    world.submit(an_application("other"))
    world.tick(0)
    world.change(a_cluster().machines("p", 2, cpu=4).build(), 1)
    world.tick(1)
    learner = world.table.get("learner")
    assert learner is not None
    assert learner.state is ExecutionState.REJECTED
    assert learner.reason == "'m' asks for gpu, which no machine offers"
    assert world.held("other") == [1]


def test_who_loses_a_core_with_its_machine_waits_again() -> None:
    """Three machines become two: the application of three cores is out, the one of two comes in."""
    world = a_world(a_cluster().machines("plain", 3, cpu=4, memory=8).build())
    world.submit(an_application("two", 2, cpu=4))
    world.submit(an_application("more", 1, cpu=4))
    world.tick(0)
    world.change(a_cluster().machines("plain", 2, cpu=4, memory=8).build(), 1)
    world.tick(1)
    assert (world.held("two"), world.held("more")) == ([2], [0])
    world.change(a_cluster().machines("plain", 3, cpu=4, memory=8).build(), 2)
    world.tick(2)
    assert (world.held("two"), world.held("more")) == ([2], [1])


def test_what_a_cleared_machine_has_left_is_given_away_in_the_same_tick() -> None:
    """A core clears two cores of another's elastic component and takes one: the rest is used."""
    small = a_cluster().machines("big", 1, cpu=1).machines("gpu", 1, ("gpu",), cpu=1)
    world = a_world(small.build())
    world.submit(an_application("e0", 1, 2, elastic_cpu=2, labels=("gpu",)), 0)
    world.submit(an_application("e1", 1, 1, labels=("gpu",)), 1)
    world.submit(an_application("e2", 1, labels=("gpu",)), 2)
    world.tick(6)
    large = a_cluster().machines("big", 1, cpu=2).machines("gpu", 2, ("gpu",), cpu=3)
    world.change(large.build(), 9)
    world.tick(9)
    assert [world.held(name) for name in ("e0", "e1", "e2")] == [[1, 1], [1, 1], [1]]
    assert world.tick(9).deltas == ()


def test_what_was_killed_follows_the_machines_too_until_it_is_off() -> None:
    """Killed, with a machine gone and a kind of resource more before the next tick: off, forgotten,
    and no one else is disturbed."""
    world = a_world(a_cluster().machines("plain", 2, cpu=4).build())
    world.submit(an_application("killed", 5))
    world.submit(an_application("other", 1), 1)
    world.tick(1)
    world.table.kill("killed", 2_000)
    world.change(a_cluster().machines("plain", 1, cpu=8, memory=8).build(), 2)
    world.tick(2)
    assert world.state("killed") is ExecutionState.KILLED
    assert world.held("other") == [1]
    world.table.forget("killed")


def test_who_has_a_reservation_leaves_a_smaller_machine_last() -> None:
    """Older best effort goes before newer work under a reservation, core and elastic."""
    cluster = a_cluster().machines("plain", 1, cpu=4).build()
    world = a_world(cluster, "window(atom(<1 cpu>, 2, 2, 60, 120), 0, 60)")
    world.submit(an_application("guest", 1, 1))
    world.tick(0)
    world.submit(an_application("owner", 1, 1, reservation="r1"), 1)
    world.tick(1)
    assert (world.held("owner"), world.held("guest")) == ([1, 1], [1, 1])
    world.change(a_cluster().machines("plain", 1, cpu=2).build(), 2)
    cycle = world.tick(2)
    assert {delta.execution for delta in cycle.deltas} == {"guest"}
    assert (world.held("owner"), world.held("guest")) == ([1, 1], [0, 0])


@st.composite
def _clusters(draw: st.DrawFn) -> Cluster:
    labels = draw(st.sampled_from([(), ("gpu",)]))
    big = a_cluster().machines("big", draw(st.integers(1, 3)), cpu=draw(st.integers(1, 4)))
    return big.machines("gpu", draw(st.integers(1, 3)), labels, cpu=draw(st.integers(1, 3))).build()


@settings(max_examples=40, deadline=None)
@given(st.lists(_clusters(), min_size=2, max_size=4), st.data())
def test_the_laws_hold_across_changes_of_the_machines(
    clusters: list[Cluster], data: st.DataObject
) -> None:
    """Fewer, smaller or other machines: none over-committed, labels obeyed, cores whole."""
    world = a_world(clusters[0], "window(atom(<1 cpu>, 1, 2, 10, 40), 0, 60)")
    for number in range(data.draw(st.integers(1, 6))):
        world.submit(data.draw(applications(number)), number)
    world.tick(6)
    for index, cluster in enumerate(clusters[1:]):
        world.change(cluster, 8 + index)
        world.tick(8 + index)
        assert world.tick(8 + index).deltas == ()
