"""What the words of a dispatch policy make a dispatcher do, and that they change while it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.cycle.options import DispatchOptions, options_of
from dispatch.machines.placement.policy import POLICIES
from dispatch.pool.claims import GrantRule
from dispatch.pool.ordering import ORDERINGS
from planner.cluster.dispatch_policy import (
    BY_CLASS,
    ORDERS,
    PLACEMENTS,
    DispatchPolicy,
    complete_words,
)
from tests.builders import a_cluster
from tests.dispatch.cycle.world import World, a_world, an_application

_TEN = a_cluster().machines("plain", 10, cpu=1).build()


def _options(**words: object) -> DispatchOptions:
    placement = "lotes" if words.get("order") == BY_CLASS else "best_fit"
    policy = DispatchPolicy(**complete_words({"placement": placement, **words}))
    return options_of(replace(_TEN, dispatch=policy))


def _a_world(**words: object) -> World:
    return a_world(_TEN, options=_options(**words))


def test_the_cluster_file_has_a_word_for_each_order_and_strategy_and_no_other() -> None:
    """The planner's words and the dispatcher's names are the same."""
    assert sorted(ORDERS) == sorted([*ORDERINGS, BY_CLASS])
    assert sorted(PLACEMENTS) == sorted(POLICIES)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_serves(order: str) -> None:
    """Three applications fit and run, whatever goes first."""
    world = _a_world(order=order)
    for number, name in enumerate("abc"):
        application = an_application(name, 2, 1, size_ms=60_000)
        world.submit(application, number, tenant=name)
    world.tick(3)
    assert [world.held(name)[0] for name in "abc"] == [2, 2, 2]


def test_the_default_is_priority_then_interactive_then_the_oldest_with_preemption() -> None:
    """What a cluster without a dispatch table has always had."""
    options = options_of(_TEN)
    ordering = options.line.ordering
    assert (options.policy, ordering.name, options.quotas) == ("lotes", "fifo", ())
    assert ordering.by_priority
    assert ordering.preemptive
    assert options.line.interactive_first
    assert options.line.allocation is GrantRule.FLEXIBLE


def _runs_after_the_first_ends(world: World) -> str:
    """Two cores-only applications fill the cluster, two of which one fits wait; return that."""
    world.submit(an_application("a1", 5, size_ms=90_000), 0, tenant="a")
    world.submit(an_application("a2", 5, size_ms=90_000), 1, tenant="a")
    world.tick(1)
    world.submit(an_application("a3", 5, size_ms=60_000), 2, tenant="a")
    world.submit(an_application("b1", 5, size_ms=30_000), 3, tenant="b")
    world.tick(3)
    return _next(world)


def _next(world: World) -> str:
    world.table.finish("a1", 4000)
    world.tick(4)
    return next(name for name in ("a3", "b1") if world.held(name) == [5])


@pytest.mark.parametrize(
    ("order", "first"), [("fifo", "a3"), ("drf", "b1"), ("sjf", "b1"), ("srpt", "b1")]
)
def test_who_goes_first(order: str, first: str) -> None:
    """The oldest; the tenant with the least share; the shortest."""
    assert _runs_after_the_first_ends(_a_world(order=order)) == first


def test_a_change_of_order_counts_for_those_that_wait_already() -> None:
    """From fifo to shares while both wait: nothing that runs stops, and the other is next."""
    world = _a_world()
    world.submit(an_application("a1", 5), 0, tenant="a")
    world.submit(an_application("a2", 4, 1), 1, tenant="a")
    world.tick(1)
    world.submit(an_application("a3", 5), 2, tenant="a")
    world.submit(an_application("b1", 5), 3, tenant="b")
    world.tick(3)
    world.loop.dispatcher.set_options(_options(order="drf"))
    assert world.tick(3.5).deltas == ()
    assert _next(world) == "b1"


@pytest.mark.parametrize(("preempt", "expected"), [(True, [4]), (False, [0])])
def test_preemption_by_priority(preempt: bool, expected: list[int]) -> None:
    """Elastic components fill the cluster; a higher priority takes four of them, or waits."""
    world = _a_world(preempt=preempt)
    world.submit(an_application("batch", 1, 9), 0)
    world.tick(0)
    world.submit(an_application("urgent", 4, priority=5), 1)
    world.tick(1)
    world.tick(2)
    assert world.held("urgent") == expected
    assert world.held("batch") == [1, 9 - expected[0]]


def test_without_priorities_the_oldest_goes_first() -> None:
    """A priority says nothing if the policy does not go by it."""
    world = _a_world(by_priority=False)
    world.submit(an_application("full", 10), 0)
    world.tick(0)
    world.submit(an_application("old", 10), 1)
    world.submit(an_application("urgent", 10, priority=5), 2)
    world.tick(2)
    world.table.finish("full", 3000)
    world.tick(3)
    assert (world.held("old"), world.held("urgent")) == ([10], [0])


@pytest.mark.parametrize(
    ("words", "expected"),
    [({"reclaim": True}, [5]), ({"reclaim": False}, [0]), ({"allocation": "malleable"}, [0])],
)
def test_reclaim(words: dict[str, object], expected: list[int]) -> None:
    """Seven are held, three free: five cores take two elastic components back, or wait."""
    world = _a_world(**words)
    world.submit(an_application("first", 1, 6), 0)
    world.tick(0)
    world.submit(an_application("next", 5), 1)
    world.tick(1)
    world.tick(2)
    assert world.held("next") == expected


def test_a_change_of_strategy_moves_nothing_that_runs() -> None:
    """From best fit to spread: what is placed stays, what comes is spread."""
    cluster = a_cluster().machines("wide", 2, cpu=4).build()
    world = a_world(cluster, options=DispatchOptions("best_fit"))
    world.submit(an_application("a", 2), 0)
    world.tick(0)
    assert {row.machine for row in world.table.assignment().rows} == {"wide-0"}
    world.loop.dispatcher.set_options(DispatchOptions("spread"))
    assert world.tick(1).deltas == ()
    world.submit(an_application("b", 1), 2)
    world.tick(2)
    assert {row.machine for row in world.table.assignment().rows if row.execution == "b"} == {
        "wide-1"
    }
