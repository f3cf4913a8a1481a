"""Laws of every cycle, on random Plans, executions, instants and faults."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.cycle.options import DispatchOptions, LineOptions
from dispatch.executions.states import ExecutionState
from dispatch.pool.claims import GrantRule
from dispatch.pool.ordering import ordering_named
from planner.cluster.policy import ApplicationQuota, Scope
from tests.builders import a_cluster, a_plan, a_request, ask
from tests.dispatch.cycle.application_strategies import applications
from tests.dispatch.cycle.world import World, an_application

_CLUSTERS = [
    a_cluster().machines("plain", 8, cpu=1).build(),
    a_cluster().machines("big", 2, cpu=3).machines("gpu", 2, labels=("gpu",), cpu=2).build(),
]

#: Names of quotas and the queue that each counts.
_SCOPES = (("all", None), ("queue", "default"))


@st.composite
def worlds(draw: st.DrawFn, *, pooled: bool = False) -> World:
    """A cluster, a Plan of up to four random reservations, and a policy."""
    cluster = _CLUSTERS[0] if pooled else draw(st.sampled_from(_CLUSTERS))
    plan = a_plan(cluster).build()
    for number in range(draw(st.integers(0, 4))):
        height, lease = draw(st.integers(1, 4)), draw(st.sampled_from([5, 10, 20]))
        gang = draw(st.integers(1, height))
        start, work = draw(st.integers(0, 40)), height * lease * draw(st.integers(1, 3))
        text = f"window(atom(<1 cpu>, {gang}, {height}, {lease}, {work}), {start}, 120)"
        ask(plan, a_request(f"r{number}", text).on(cluster))
    return World(cluster, plan, draw(_options()))


@st.composite
def _options(draw: st.DrawFn) -> DispatchOptions:
    """A strategy, an ordering, and quotas of all together and of a queue."""
    ordering = ordering_named(
        draw(st.sampled_from(["fifo", "fifo-backfill", "sjf", "psjf", "drf"]))
    )
    policy = draw(st.sampled_from(["best_fit", "greedy", "spread", "tetris"]))
    allocation = draw(st.sampled_from(list(GrantRule)))
    quotas = tuple(
        ApplicationQuota(name, Scope(queue=queue), (("cpu", 1000 * draw(st.integers(1, 6))),))
        for name, queue in _SCOPES[: draw(st.integers(0, 2))]
    )
    by_class = draw(st.booleans()) and not ordering.preemptive
    line = LineOptions(ordering, by_class, allocation=allocation)
    return DispatchOptions(policy, line, quotas)


def _act(world: World, draw: st.DataObject, now_s: int) -> None:
    """Let one random thing happen."""
    action = draw.draw(
        st.sampled_from(
            ["submit", "submit", "submit", "finish", "kill", "fail", "lose", "back", "policy"]
        )
    )
    alive = [one for one in world.table if not one.is_over]
    if action == "submit":
        world.submit(draw.draw(applications(len(world.table))), now_s)
    elif action == "finish":
        running = [one for one in alive if one.state is ExecutionState.RUNNING]
        if running:
            world.table.finish(draw.draw(st.sampled_from(running)).id, now_s * 1000)
    elif action == "kill" and alive:
        world.table.kill(draw.draw(st.sampled_from(alive)).id, now_s * 1000)
    elif action == "fail":
        rows = world.backend.state().rows
        if rows:
            key = draw.draw(st.sampled_from(rows)).key
            world.backend.end(key, now_s * 1000, failed=draw.draw(st.booleans()))
    elif action == "policy":
        world.options = draw.draw(_options())
        world.loop.dispatcher.set_options(world.options)
    elif action in ("lose", "back"):
        name = draw.draw(st.sampled_from(world.pool.names))
        change = world.backend.lose if action == "lose" else world.backend.restore
        change(name, now_s * 1000)


@settings(max_examples=60, deadline=None)
@given(worlds(), st.data())
def test_the_laws_hold_after_every_cycle(world: World, data: st.DataObject) -> None:
    """Grants within demand, no machine over-committed, cover within entitlements, cores whole."""
    now_s = 0
    for _ in range(data.draw(st.integers(3, 14))):
        for _ in range(data.draw(st.integers(0, 2))):
            _act(world, data, now_s)
        world.tick(now_s)
        _check_quotas(world)
        now_s += data.draw(st.sampled_from([0, 1, 1, 4, 13]))


def _check_quotas(world: World) -> None:
    """Assert that elastic components run without cover only inside what quotas leave."""
    for quota in world.options.quotas:
        cores = elastic = 0
        for execution in world.table:
            if quota.scope.key(execution.tenant, execution.queue) is None:
                continue
            for part in execution.parts:
                use = max(len(part.held) - part.covered, 0) * part.component.resources["cpu"]
                cores, elastic = (
                    (cores + use, elastic) if part.component.core else (cores, elastic + use)
                )
        assert elastic == 0 or cores + elastic <= quota.limit[0][1]


@settings(max_examples=40, deadline=None)
@given(worlds(), st.data())
def test_a_second_tick_at_the_same_instant_changes_nothing(
    world: World, data: st.DataObject
) -> None:
    """What is done depends on Plan, instant and executions: again, or after a restart, nothing.

    Where machines have no free capacity for what the pool admitted, a restart may admit another
    first.
    """
    for number in range(data.draw(st.integers(1, 6))):
        world.submit(data.draw(applications(number)), number)
    now_s = data.draw(st.integers(0, 120))
    world.tick(now_s)
    assert world.tick(now_s).deltas == ()
    groups = [part for execution in world.table for part in execution.parts]
    if all(len(part.held) == part.covered + part.granted for part in groups):
        world.restart()
        assert world.tick(now_s).deltas == ()


def test_who_has_not_started_releases_before_those_who_run() -> None:
    """Capacity of an elastic component ahead of its cover is gone once a core comes into it.

    The core that came goes, not one that runs: two took turns with every tick.
    """
    plan = a_plan(_CLUSTERS[0]).build()
    for number, (lease, work, start) in enumerate([(5, 45, 37), (20, 60, 5)]):
        text = f"window(atom(<1 cpu>, {2 - number}, 3, {lease}, {work}), {start}, 120)"
        ask(plan, a_request(f"r{number}", text).on(_CLUSTERS[0]))
    world = World(_CLUSTERS[0], plan)
    world.submit(an_application("first", 2), 0)
    world.submit(an_application("ahead", 2, 3, reservation="r0"), 1)
    world.submit(an_application("stays", 2), 2)
    world.submit(an_application("waits", 2), 3)
    world.tick(100)
    assert (world.held("stays"), world.held("waits")) == ([2], [0])
    assert world.tick(100).deltas == ()
    world.restart()
    assert world.tick(100).deltas == ()
