"""Quotas on applications in a cycle: who waits, who shrinks, who is stopped, and who never is."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.cycle.options import DispatchOptions, LineOptions
from dispatch.executions.states import ExecutionState
from dispatch.pool.ordering import ordering_named
from planner.cluster.policy import ApplicationQuota, Scope
from tests.builders import a_cluster
from tests.dispatch.cycle.world import World, a_world, an_application

_TEN = a_cluster().machines("plain", 10, cpu=1).build()


def _quota(cpu: int | None = None, **more: Any) -> ApplicationQuota:
    scope = Scope(more.pop("tenant", "*"), more.pop("queue", None))
    limit = () if cpu is None else (("cpu", cpu * 1000),)
    return ApplicationQuota(more.pop("name", "share"), scope, limit, **more)


def _a_world(*quotas: ApplicationQuota, source: str = "") -> World:
    return a_world(_TEN, *([source] if source else []), options=DispatchOptions(quotas=quotas))


def _reason(world: World, name: str) -> str:
    found = world.table.get(name)
    assert found is not None
    return found.reason


def test_cores_beyond_a_quota_wait_and_say_so() -> None:
    """Four cores of a tenant's five run: two more wait, though machines are free."""
    world = _a_world(_quota(5))
    world.submit(an_application("a", 4), tenant="ads")
    world.submit(an_application("b", 2), tenant="ads")
    world.submit(an_application("c", 2), tenant="web")
    world.tick(0)
    assert [world.held(name) for name in "abc"] == [[4], [0], [2]]
    assert (
        _reason(world, "b") == "policy 'share' leaves tenant 'ads' 1 cpu; its cores ask for 2 cpu"
    )
    world.table.finish("a", 1000)
    world.tick(1)
    assert (world.held("b"), _reason(world, "b")) == ([2], "")


def test_no_one_of_an_account_passes_the_first_that_waits() -> None:
    """A large one is not kept waiting for ever by small ones of the same tenant that come later."""
    world = _a_world(_quota(5))
    for number, (name, cores) in enumerate((("a", 4), ("large", 5), ("small", 1))):
        world.submit(an_application(name, cores), number, tenant="ads")
    world.tick(2)
    assert (world.held("large"), world.held("small")) == ([0], [0])
    assert (
        _reason(world, "small")
        == "it waits behind 'large', which policy 'share' leaves no free capacity"
    )
    world.table.finish("a", 3000)
    world.tick(3)
    assert (world.held("large"), world.held("small")) == ([5], [0])


def test_one_that_exceeds_a_lowered_quota_alone_keeps_no_one_waiting() -> None:
    """It says why it waits; those after it run."""
    world = _a_world(_quota(3))
    world.submit(an_application("large", 4), 0, tenant="ads")
    world.submit(an_application("small", 2), 1, tenant="ads")
    world.tick(1)
    assert (world.held("large"), world.held("small")) == ([0], [2])
    assert "its cores ask for 4 cpu" in _reason(world, "large")


def test_of_those_that_a_quota_counts_the_higher_priority_goes_first() -> None:
    """A later one of higher priority is let in, and the one that only waited stands back."""
    line = LineOptions(ordering_named("priority"))
    world = a_world(_TEN, options=DispatchOptions(line=line, quotas=(_quota(5),)))
    for name in ("web", "other"):
        world.submit(an_application(name, 5), 0, tenant=name)
    world.submit(an_application("low", 4), 1, tenant="ads")
    world.tick(1)
    world.submit(an_application("high", 4, priority=3), 2, tenant="ads")
    world.tick(2)
    assert "policy 'share' leaves tenant 'ads' 1 cpu" in _reason(world, "low")
    world.table.finish("web", 3000)
    world.tick(3)
    assert (world.held("high"), world.held("low")) == ([4], [0])


def test_elastic_components_stop_at_the_quota() -> None:
    """Five cores are allowed; a second one of the tenant takes elastic ones back for its core."""
    world = _a_world(_quota(5))
    first = world.submit(an_application("a", 1, 6), 0, tenant="ads")
    world.tick(0)
    assert world.held("a") == [1, 4]
    assert first.parts[1].quota == "policy 'share' lets no more of it run without a reservation"
    world.submit(an_application("b", 2, 3), 1, tenant="ads")
    world.tick(1)
    world.tick(2)
    assert (world.held("a"), world.held("b")) == ([1, 2], [2, 0])


def test_covered_components_count_in_no_quota() -> None:
    """Six covered cores under a quota of one: they run, and so does one core of best effort."""
    rectangle = "window(atom(<1 cpu>, 6, 6, 60, 360), 0, 60)"
    world = _a_world(_quota(1), source=rectangle)
    world.submit(an_application("owner", 4, 5, reservation="r1"), 0)
    world.submit(an_application("guest", 1), 0)
    world.tick(0)
    assert (world.held("owner"), world.held("guest")) == ([4, 2], [1])


def test_above_its_entitlement_an_execution_counts() -> None:
    """Nobody else of the tenant runs: one elastic component above the cover is allowed, not two."""
    rectangle = "window(atom(<1 cpu>, 6, 6, 60, 360), 0, 60)"
    world = _a_world(_quota(1), source=rectangle)
    world.submit(an_application("owner", 4, 5, reservation="r1"), 0)
    world.tick(0)
    assert world.held("owner") == [4, 3]


def test_a_quota_of_a_queue_counts_that_queue_alone() -> None:
    """The queue `night` may hold two cores; another queue is not bounded."""
    world = _a_world(_quota(2, tenant=None, queue="night"))
    world.submit(an_application("a", 3), queue="night")
    world.submit(an_application("b", 3), queue="default")
    world.tick(0)
    assert (world.held("a"), world.held("b")) == ([0], [3])


def test_what_has_run_too_long_is_reported_and_then_stopped() -> None:
    """Sixty seconds are allowed: told at 60 s, stopped with the reason a grace of 5 s later."""
    world = _a_world(_quota(max_run_ms=60_000))
    execution = world.submit(an_application("a", 2, 3), 0, tenant="ads")
    world.tick(0)
    world.tick(59)
    assert execution.reason == ""
    world.tick(60)
    assert (world.held("a"), "stopped in a moment" in execution.reason) == ([2, 3], True)
    world.tick(65)
    assert (world.held("a"), execution.state) == ([0, 0], ExecutionState.KILLED)
    assert execution.reason == "it has run for the 1m that policy 'share' allows"


def test_time_under_cover_is_not_counted() -> None:
    """Covered for 100 s it may run another 60 s as best effort, and then its grace."""
    rectangle = "window(atom(<1 cpu>, 2, 2, 100, 200), 0, 100)"
    world = _a_world(_quota(max_run_ms=60_000), source=rectangle)
    execution = world.submit(an_application("owner", 2, reservation="r1"), 0)
    for at_s in (0, 70, 99, 100, 160, 164):
        world.tick(at_s)
        assert world.held("owner") == [2]
    world.tick(165)
    assert execution.state is ExecutionState.KILLED


@pytest.mark.parametrize("quotas", [(), (_quota(2),)])
def test_quotas_changed_at_run_time_stop_no_core(quotas: tuple[ApplicationQuota, ...]) -> None:
    """From a quota of five to none or to two: cores stay, elastic components follow."""
    world = _a_world(_quota(5))
    world.submit(an_application("a", 3, 4), 0, tenant="ads")
    world.tick(0)
    assert world.held("a") == [3, 2]
    world.loop.dispatcher.set_options(DispatchOptions(quotas=quotas))
    cycle = world.tick(1)
    assert world.held("a") == [3, 0 if quotas else 4]
    assert not cycle.requeued


def test_a_run_time_lowered_at_run_time_is_reported_before_it_stops_anybody() -> None:
    """An hour has passed when one minute becomes the limit: told first, stopped a grace later."""
    world = _a_world()
    execution = world.submit(an_application("a", 2), 0, tenant="ads")
    world.tick(0)
    world.tick(3600)
    world.loop.dispatcher.set_options(DispatchOptions(quotas=(_quota(max_run_ms=60_000),)))
    world.tick(3601)
    world.tick(3602)
    assert (world.held("a"), "stopped in a moment" in execution.reason) == ([2], True)
    world.tick(3607)
    assert execution.state is ExecutionState.KILLED


def test_who_was_notified_and_may_run_on_is_reported_no_longer() -> None:
    """The limit goes within the grace: the reason goes with it."""
    world = _a_world(_quota(max_run_ms=60_000))
    execution = world.submit(an_application("a", 2), 0, tenant="ads")
    world.tick(0)
    world.tick(60)
    world.loop.dispatcher.set_options(DispatchOptions())
    world.tick(70)
    assert (world.held("a"), execution.reason) == ([2], "")


def test_reasons_follow_a_change_of_quotas() -> None:
    """Who waited for a quota waits for capacity once the quota is gone, and says so."""
    world = _a_world(_quota(5))
    world.submit(an_application("web", 5), 0, tenant="web")
    world.submit(an_application("a", 4), 0, tenant="ads")
    world.submit(an_application("b", 4), 1, tenant="ads")
    world.tick(1)
    assert "'share'" in _reason(world, "b")
    world.loop.dispatcher.set_options(DispatchOptions())
    world.tick(2)
    assert _reason(world, "b") == "it waits in the line for capacity"
