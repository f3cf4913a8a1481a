"""Laws of slots, on random Plans of machines, executions, outages and losses."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.cycle.options import DispatchOptions
from planner.cluster.cluster import Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from planner.promise import PromiseLevel
from tests.builders import a_cluster, commit
from tests.dispatch.cycle.slot_world import SlotWorld, promised_machines, relocate, reserve
from tests.dispatch.cycle.world import an_application

_END_S = 60


@st.composite
def slot_worlds(draw: st.DrawFn) -> SlotWorld:
    """A few machines, up to five reservations that have slots on them, and a strategy."""
    cores = draw(st.integers(3, 6))
    base = a_cluster().machines("m", draw(st.integers(2, 4)), cpu=cores)
    if draw(st.booleans()):
        base = base.machines("n", draw(st.integers(1, 2)), labels=("gpu",), cpu=cores + 1)
    cluster = promised_machines(base.build())
    plan = Plan(cluster, cluster.grid())
    for number in range(draw(st.integers(1, 5))):
        height, lease = draw(st.integers(1, 3)), draw(st.sampled_from([5, 10, 20]))
        gang, cpu = draw(st.integers(1, height)), draw(st.integers(1, cores))
        work = height * lease * draw(st.integers(1, 2))
        start = draw(st.integers(0, 15))
        source = f"window(atom(<{cpu} cpu>, {gang}, {height}, {lease}, {work}), {start}, {_END_S})"
        reserve(plan, f"r{number}", source)
    policy = draw(st.sampled_from(["best_fit", "greedy", "spread", "tetris"]))
    return SlotWorld(cluster, plan, options=DispatchOptions(policy))


def _submit(world: SlotWorld, draw: st.DataObject, now_s: int) -> None:
    """Submit best effort, or work of the size of a reservation's bundles."""
    number = len(world.table)
    name = draw.draw(st.sampled_from([None, *(one.id for one in world.plan.reservations())]))
    cpu = draw.draw(st.integers(1, 3))
    if name is not None:
        reservation = world.plan.reservation(name)
        assert reservation is not None
        cpu = reservation.atoms[0].bundle["cpu"] // 1000
    core, elastic = draw.draw(st.integers(1, 2)), draw.draw(st.integers(0, 3))
    world.submit(an_application(f"e{number}", core, elastic, cpu=cpu, reservation=name), now_s)


def _take_away(world: SlotWorld, draw: st.DataObject, now_s: int) -> None:
    """Let an outage begin, and give its slots other machines if there is capacity."""
    group = draw.draw(st.sampled_from(world.plan.cluster.machines))
    outage = Outage(group.name, (group.count - 1,), now_s * 1000, (now_s + 15) * 1000)
    outages = (*world.plan.cluster.outages, outage)
    commit(world.plan, Reconfigure(replace(world.plan.cluster, outages=outages)))
    names = world.plan.cluster.machine_names
    gone = names.index(f"{group.name}-{group.count - 1}")
    for reservation in list(world.plan.reservations()):
        for other in range(len(names)):
            if other != gone:
                commit(world.plan, relocate(world.plan, reservation.id, now_s, {gone: other}))


def _act(world: SlotWorld, draw: st.DataObject, now_s: int) -> None:
    """Let one random thing happen."""
    action = draw.draw(st.sampled_from(["submit", "submit", "kill", "lose", "back"]))
    alive = [one for one in world.table if not one.is_over]
    if action == "submit":
        _submit(world, draw, now_s)
    elif action == "kill" and alive:
        world.table.kill(draw.draw(st.sampled_from(alive)).id, now_s * 1000)
    elif action in ("lose", "back"):
        name = draw.draw(st.sampled_from(world.pool.names))
        change = world.backend.lose if action == "lose" else world.backend.restore
        change(name, now_s * 1000)


@settings(max_examples=40)
@given(slot_worlds(), st.data())
def test_no_slot_is_broken_whatever_runs_around_it(world: SlotWorld, data: st.DataObject) -> None:
    """Covered work stands in its slots and is not stopped, machines hold no more than they have."""
    outage_s = data.draw(st.sampled_from([None, 12, 25]))
    for second in range(_END_S):
        if second % 4 == 0:
            for _ in range(data.draw(st.integers(0, 2))):
                _act(world, data, second)
        if second == outage_s:
            _take_away(world, data, second)
        world.tick(second)
    world.slots.end()
    assert world.slots.counts.broken == 0, world.slots.broken


@settings(max_examples=25)
@given(slot_worlds(), st.data())
def test_a_second_tick_and_a_restart_change_nothing(world: SlotWorld, data: st.DataObject) -> None:
    """What is covered where depends on the Plan, the instant and what stands."""
    for number in range(data.draw(st.integers(1, 6))):
        _submit(world, data, number)
    start = data.draw(st.integers(0, 40))
    for second in range(start, start + data.draw(st.integers(1, 12))):
        world.tick(second)
    assert world.tick(second).deltas == ()
    groups = [part for execution in world.table for part in execution.parts]
    if all(len(part.held) == part.covered + part.granted for part in groups):
        world.restart()
        assert world.tick(second).deltas == ()


def test_promises_of_totals_and_slots_share_the_machines() -> None:
    """Pooled work is covered alongside slots, and no slot waits for it."""
    cluster = promised_machines(a_cluster().machines("m", 3, cpu=4).build())
    plan = Plan(cluster, cluster.grid())
    assert reserve(plan, "p", "window(atom(<1 cpu>, 1, 4, 10, 120), 0, 60)", PromiseLevel.POOLED)
    for number in range(4):
        reserve(plan, f"r{number}", "window(atom(<3 cpu>, 1, 2, 10, 40), 0, 60)")
    world = SlotWorld(cluster, plan)
    world.submit(an_application("totals", 1, 3, reservation="p"))
    for number in range(4):
        world.submit(an_application(f"s{number}", 1, 1, cpu=3, reservation=f"r{number}"))
    for second in range(_END_S):
        world.tick(second)
    world.slots.end()
    assert world.slots.counts.kept > 0
    assert world.slots.counts.broken == 0


def test_work_that_began_ahead_of_its_slot_elsewhere_keeps_no_capacity_there() -> None:
    """Four of five cores run, the slot of `r` is on the other machine: the last starts at once."""
    cluster = promised_machines(a_cluster().machines("m", 2, cpu=3).build())
    plan = Plan(cluster, cluster.grid())
    assert reserve(plan, "r", "window(atom(<2 cpu>, 1, 1, 10, 20), 38, 60)")
    world = SlotWorld(cluster, plan)
    for number, (cpu, more) in enumerate([(1, {}), (2, {"reservation": "r"}), (1, {}), (1, {})]):
        world.submit(an_application(f"e{number}", cpu=cpu, **more), number)
    world.tick(35)
    assert [world.held(f"e{number}") for number in range(4)] == [[1]] * 4
    assert world.tick(35).deltas == ()
