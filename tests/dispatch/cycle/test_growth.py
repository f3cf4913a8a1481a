"""Growth: only from what is idle, within its caps, and gone in the tick in which others come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.cycle.options import DispatchOptions, GrowthOptions, GrowthRule
from planner.cluster.dispatch_policy import GROWTHS
from planner.cluster.policy import ApplicationQuota, Scope
from tests.builders import a_cluster
from tests.dispatch.cycle.world import World, a_world, an_application

_ALL = GrowthOptions(GrowthRule.MAX_PARALLELISM)


def _world(*sources: str, growth: GrowthOptions = _ALL, machines: int = 10) -> World:
    cluster = a_cluster().machines("m", machines, cpu=1).build()
    options = DispatchOptions("best_fit", growth=growth)
    return a_world(cluster, *sources, options=options)


def test_it_grows_into_all_that_is_idle_and_no_further_than_it_says() -> None:
    """Ten cores hold one core, two elastic ones and as many more as `grow` says."""
    for grow, held in ((0, 2), (3, 5), (100, 9)):
        world = _world()
        world.submit(an_application("a", 1, 2, grow=grow))
        world.tick(0)
        assert world.held("a") == [1, held]


def test_what_is_grown_is_gone_in_the_tick_in_which_another_comes() -> None:
    """An execution that comes runs at once with all it asked for; growth takes what is left."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    world.submit(an_application("b", 2, 3), 1)
    world.tick(1)
    assert world.held("b") == [2, 3]
    assert world.held("a") == [1, 4]
    assert world.table.get("a").parts[1].growth == 2  # type: ignore[union-attr]


def test_while_an_execution_waits_nothing_is_grown() -> None:
    """One that is too large to start alongside those that run keeps others from growing."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=100))
    world.submit(an_application("b", 10))
    world.tick(0)
    assert world.held("b") == [0]
    assert world.held("a") == [1, 2]


def test_never_against_a_promise() -> None:
    """The capacity of a reservation is free when it begins, and its work starts in that tick."""
    world = _world("window(atom(<1 cpu>, 6, 6, 100, 600), 100, 200)")
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    world.tick(99)
    assert world.held("a") == [1, 9]
    world.submit(an_application("b", 6, reservation="r1"), 100)
    world.tick(100)
    assert world.held("b") == [6]
    assert world.held("a") == [1, 3]


def test_large_machines_are_cleared_of_what_has_grown() -> None:
    """Where totals would do and no machine has room, growth leaves, asked-for components stay."""
    cluster = a_cluster().machines("m", 2, cpu=4).build()
    world = a_world(cluster, options=DispatchOptions("best_fit", growth=_ALL))
    world.submit(an_application("a", 1, 1, grow=100))
    world.tick(0)
    assert world.held("a") == [1, 7]
    world.submit(an_application("b", 1, cpu=4), 1)
    world.tick(1)
    assert world.held("b") == [1]
    assert world.held("a") == [1, 3]


@pytest.mark.parametrize(
    ("growth", "held"),
    [
        (GrowthOptions(GrowthRule.NONE), 2),
        (GrowthOptions(GrowthRule.MAX_PARALLELISM), 9),
        (GrowthOptions(GrowthRule.GLOBAL_CAP, below=0.6), 5),
        (GrowthOptions(GrowthRule.GLOBAL_CAP, below=0.1), 2),
        (GrowthOptions(GrowthRule.RELATIVE_SIZE, times=2), 4),
        (GrowthOptions(), 8),
    ],
)
def test_the_policies_of_the_paper(growth: GrowthOptions, held: int) -> None:
    """As far as it says, below a share of the machines, or to a multiple of what was requested."""
    world = _world(growth=growth)
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    assert world.held("a") == [1, held]


def test_under_the_cap_others_push_growth_back() -> None:
    """What others hold counts in the share: growth goes back as they come."""
    world = _world(growth=GrowthOptions(GrowthRule.GLOBAL_CAP, below=0.6))
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    world.submit(an_application("b", 2), 1)
    world.tick(1)
    assert (world.held("a"), world.held("b")) == ([1, 3], [2])


def test_two_grow_in_turn() -> None:
    """Idle capacity is shared one by one, the oldest first."""
    world = _world()
    world.submit(an_application("a", 1, 1, grow=100))
    world.submit(an_application("b", 1, 1, grow=100))
    world.tick(0)
    assert (world.held("a"), world.held("b")) == ([1, 4], [1, 4])


def test_an_execution_under_a_quota_on_amounts_does_not_grow() -> None:
    """A quota says how much a tenant may take; growth is not for getting round it."""
    quota = ApplicationQuota("few", Scope("ads"), (("cpu", 4000),))
    cluster = a_cluster().machines("m", 10, cpu=1).build()
    world = a_world(cluster, options=DispatchOptions("best_fit", quotas=(quota,), growth=_ALL))
    world.submit(an_application("a", 1, 2, grow=100), tenant="ads")
    world.submit(an_application("b", 1, 2, grow=100), tenant="web")
    world.tick(0)
    assert (world.held("a"), world.held("b")) == ([1, 2], [1, 6])


def test_one_whose_components_end_by_themselves_grows_no_more() -> None:
    """The work runs out: what runs continues, nothing is started instead of what has ended."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=3))
    world.tick(0)
    world.backend.end(("a", "w", 0), 1000)
    world.tick(1)
    assert world.held("a") == [1, 4]
    world.tick(2)
    assert world.held("a") == [1, 4]


def test_more_may_end_by_themselves_than_were_requested() -> None:
    """Each leaves one less, down to none; the dispatcher continues, and others get the capacity."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=3))
    world.tick(0)
    for index in range(5):
        world.backend.end(("a", "w", index), 1000 * (index + 1))
        world.tick(index + 1)
        assert world.held("a") == [1, 4 - index]
    world.submit(an_application("b", 9, 0))
    world.tick(6)
    assert (world.held("a"), world.held("b")) == ([1, 0], [9])


def test_after_a_restart_of_the_dispatcher_it_stands_as_before() -> None:
    """What a new leader finds above what was requested it keeps where that is idle."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    world.restart()
    cycle = world.tick(1)
    assert world.held("a") == [1, 9]
    assert cycle.deltas == ()


def test_a_lost_machine_takes_growth_with_it() -> None:
    """Where machines go what was requested is placed again before anything grows."""
    world = _world()
    world.submit(an_application("a", 1, 2, grow=100))
    world.tick(0)
    world.backend.lose("m-0", 1000)
    world.tick(1)
    assert sum(world.held("a")) in (9, 10)
    world.tick(2)
    assert sum(world.held("a")) == 9


def test_the_words_of_the_cluster_file_are_those_of_the_dispatcher() -> None:
    """One list of rules, in the planner's words and the dispatcher's."""
    assert {rule.value for rule in GrowthRule} == set(GROWTHS)


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 6)),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_growth_changes_nothing_for_others(
    asked: list[tuple[int, int, int]], promise: bool
) -> None:
    """Every application has at every tick at least what it has where none may grow."""
    sources = ["window(atom(<1 cpu>, 4, 4, 4, 16), 3, 7)"] if promise else []
    worlds = [
        _world(*sources, growth=growth) for growth in (replace(_ALL, rule=GrowthRule.NONE), _ALL)
    ]
    for at_s, (core, elastic, grow) in enumerate(asked):
        for world in worlds:
            reservation = "r1" if promise and at_s == 2 else None
            application = an_application(
                f"a{at_s}", core, elastic, grow=grow, reservation=reservation
            )
            world.submit(application, at_s)
            world.tick(at_s)
        plain, grown = worlds
        for number in range(at_s + 1):
            without, beside = plain.held(f"a{number}"), grown.held(f"a{number}")
            assert beside[0] == without[0]
            assert sum(beside) >= sum(without)
