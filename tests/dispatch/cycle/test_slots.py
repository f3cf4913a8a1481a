"""Slots: covered components run on their machines, and best effort is cleared from those alone."""

from __future__ import annotations

from dataclasses import replace

from dispatch.accounts.promises import shortfall
from planner.cluster.cluster import Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Reconfigure
from planner.promise import PromiseLevel
from service.dispatching.documents import status_of
from tests.builders import a_cluster, commit
from tests.dispatch.cycle.slot_world import (
    SlotWorld,
    a_slot_world,
    promised_machines,
    relocate,
    reserve,
    slots_of,
)
from tests.dispatch.cycle.world import an_application

_TEN = a_cluster().step("1m").horizon("1h").machines("m", 4, cpu=10).build()
_SIX = "window(atom(<6 cpu>, 4, 4, 3m, 12m), 0s, 12m)"
_EIGHT = "window(atom(<8 cpu>, 2, 2, 3m, 6m), 0s, 12m)"


def test_gangs_of_six_and_eight_cores_share_four_machines_of_ten() -> None:
    """The example that totals cannot keep: each runs in its slots to its end, none broken."""
    world = a_slot_world(_TEN, [_SIX, _EIGHT, _EIGHT, _SIX])
    for number, (count, cpu) in enumerate([(4, 6), (2, 8), (2, 8), (4, 6)]):
        gang = an_application(f"e{number}", count, cpu=cpu, reservation=f"r{number}")
        world.submit(gang)
    world.submit(an_application("rest", 1, 20))
    served: dict[str, int] = {}
    for second in range(12 * 60):
        world.tick(second)
        for row in world.table.assignment().rows:
            if row.covered and row.component == "m":
                served[row.execution] = served.get(row.execution, 0) + 1
    world.slots.end()
    assert served == {"e0": 4 * 180, "e1": 2 * 180, "e2": 2 * 180, "e3": 4 * 180}
    assert (world.slots.counts.kept, world.slots.counts.broken) == (12, 0)


def test_a_slot_clears_its_own_machine_alone_before_it_begins() -> None:
    """Four seconds ahead best effort has left machine 0; on the others it stays to the end."""
    world = a_slot_world(
        a_cluster().machines("m", 3, cpu=4).build(), ["window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)"]
    )
    machine = f"m-{slots_of(world.plan, 'r0')[0][3]}"
    world.submit(an_application("core", 1, 20))
    for second in range(20):
        world.tick(second)
    before = {row.key: row for row in world.table.assignment().rows}
    world.submit(an_application("covered", 1, cpu=4, reservation="r0"))
    for second in range(20, 26):
        world.tick(second)
    after = {row.key: row for row in world.table.assignment().rows}
    assert not [row for row in after.values() if row.machine == machine]
    assert {key for key in before if before[key].machine != machine} <= after.keys()
    world.tick(30)
    assert [row.machine for row in world.table.assignment().rows if row.covered] == [machine]


def test_one_that_started_early_elsewhere_stays_as_best_effort_until_its_capacity_is_wanted() -> (
    None
):
    """Its slot begins and it is not moved; when another slot needs its machine, it moves."""
    cluster = a_cluster().machines("m", 2, cpu=4).build()
    world = a_slot_world(
        cluster,
        [
            "window(atom(<4 cpu>, 1, 1, 60, 60), 20, 80)",
            "window(atom(<4 cpu>, 1, 1, 30, 30), 50, 80)",
        ],
    )
    mine, other = (f"m-{slots_of(world.plan, name)[0][3]}" for name in ("r0", "r1"))
    assert mine != other
    world.submit(an_application("blocks", 1, cpu=4))
    world.tick(0)
    world.table.kill("blocks", 0)
    elsewhere = world.submit(an_application("early", 1, cpu=4, reservation="r0"))
    world.pool.lose(mine)
    world.tick(1)
    assert [held.machine for held in elsewhere.parts[0].held] == [other]
    world.pool.bring_back(mine)
    for second in range(2, 45):
        cycle = world.tick(second)
        assert not cycle.deltas
    assert not any(row.covered for row in world.table.assignment().rows)
    world.submit(an_application("next", 1, cpu=4, reservation="r1"), 45)
    for second in range(45, 55):
        world.tick(second)
    assert [held.machine for held in elsewhere.parts[0].held] == [mine]
    assert world.held("next") == [1]


def test_a_promise_of_totals_gives_way_to_a_slot_and_runs_elsewhere() -> None:
    """A pooled reservation's work stands on the machine of a slot when that begins."""
    plan = Plan(promised_machines(a_cluster().machines("m", 2, cpu=4).build()), _grid())
    assert reserve(plan, "r0", "window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)")
    pooled = "window(atom(<4 cpu>, 1, 1, 60, 60), 0, 60)"
    assert reserve(plan, "r1", pooled, PromiseLevel.POOLED)
    world = SlotWorld(plan.cluster, plan)
    slot = f"m-{slots_of(plan, 'r0')[0][3]}"
    free = next(name for name in world.pool.names if name != slot)
    world.pool.lose(free)
    totals = world.submit(an_application("totals", 1, cpu=4, reservation="r1"))
    world.tick(0)
    assert [held.machine for held in totals.parts[0].held] == [slot]
    world.pool.bring_back(free)
    world.tick(31)
    world.submit(an_application("placed", 1, cpu=4, reservation="r0"), 32)
    world.tick(32)
    assert world.held("placed") == [1]
    assert [held.machine for held in totals.parts[0].held] == [free]
    assert world.slots.counts.broken == 0


def _grid():  # type: ignore[no-untyped-def]
    return a_cluster().machines("m", 2, cpu=4).build().grid()


def test_what_is_lent_goes_where_a_slot_begins_last() -> None:
    """Three equal machines, slots at 20 s and 200 s: best effort takes the one without any."""
    world = a_slot_world(
        a_cluster().machines("m", 3, cpu=4).build(),
        [
            "window(atom(<4 cpu>, 1, 1, 20, 20), 20, 40)",
            "window(atom(<3 cpu>, 1, 1, 20, 20), 200, 220)",
            "window(atom(<4 cpu>, 1, 1, 20, 20), 200, 220)",
        ],
    )
    taken = {f"m-{slots_of(world.plan, f'r{number}')[0][3]}" for number in range(3)}
    first, second = (world.submit(an_application(name, 1, cpu=4)) for name in ("a", "b"))
    world.tick(0)
    soonest = f"m-{slots_of(world.plan, 'r0')[0][3]}"
    assert len(taken) >= 2
    used = {held.machine for one in (first, second) for held in one.parts[0].held}
    assert soonest not in used


def test_an_early_start_takes_the_machine_of_its_own_slot() -> None:
    """Work of a later reservation that starts early need not move when its slot begins."""
    world = a_slot_world(
        a_cluster().machines("m", 4, cpu=4).build(),
        ["window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)"],
    )
    early = world.submit(an_application("early", 1, cpu=4, reservation="r0"))
    world.tick(0)
    machine = f"m-{slots_of(world.plan, 'r0')[0][3]}"
    assert [held.machine for held in early.parts[0].held] == [machine]
    assert not any(world.tick(second).deltas for second in range(1, 40))
    assert all(row.covered for row in world.table.assignment().rows)


def test_a_component_larger_than_the_slots_of_a_machine_is_notified() -> None:
    """The reservation holds four cores on each of two machines; six are in no slot."""
    world = a_slot_world(
        a_cluster().machines("m", 2, cpu=6).build(), ["window(atom(<4 cpu>, 2, 2, 60, 120), 0, 60)"]
    )
    large = world.submit(an_application("large", 1, cpu=6, reservation="r0"))
    small = world.submit(an_application("small", 1, cpu=4, reservation="r0"))
    world.tick(0)
    assert (large.parts[0].covered, small.parts[0].covered) == (0, 1)
    assert "has less on each of its machines" in large.parts[0].uncovered
    assert status_of(large)["components"][0]["reason"] == large.parts[0].uncovered
    assert small.parts[0].uncovered == ""
    world.tick(61)
    assert large.parts[0].uncovered == ""


def test_a_lost_machine_covers_nothing_until_the_slot_has_another() -> None:
    """Its work continues as best effort if there is capacity, and is covered after the move."""
    world = a_slot_world(
        a_cluster().machines("m", 2, cpu=4).build(), ["window(atom(<4 cpu>, 1, 1, 60, 60), 0, 60)"]
    )
    slot = slots_of(world.plan, "r0")[0][3]
    covered = world.submit(an_application("covered", 1, cpu=4, reservation="r0"))
    world.tick(0)
    world.backend.lose(f"m-{slot}", 10_000)
    for second in range(10, 14):
        world.tick(second)
    assert [held.machine for held in covered.parts[0].held] == [f"m-{1 - slot}"]
    assert not any(row.covered for row in world.table.assignment().rows)
    outage = Outage("m", (slot,), 10_000, 800_000)
    commit(world.plan, Reconfigure(replace(world.plan.cluster, outages=(outage,))))
    commit(world.plan, relocate(world.plan, "r0", 13, {slot: 1 - slot}))
    world.tick(14)
    assert all(row.covered for row in world.table.assignment().rows)
    for second in range(15, 62):
        world.tick(second)
    assert (world.slots.counts.broken, world.slots.counts.lost) == (0, 1)


def test_a_component_that_the_slots_cannot_cover_leaves_them_broken() -> None:
    """Two cores are no slot of one: the reservation is below its entitlement while they wait."""
    cluster = a_cluster().machines("m", 1, cpu=4).build()
    world = a_slot_world(cluster, ["window(atom(<1 cpu>, 1, 1, 10, 10), 2, 12)"])
    world.submit(an_application("fill", 4))
    world.submit(an_application("large", 1, cpu=2, reservation="r0"))
    below = set()
    for second in range(14):
        world.tick(second)
        if shortfall(world.directive, world.table).reservations:
            below.add(second)
    assert below == set(range(2, 12))
    assert (world.slots.counts.kept, world.slots.counts.broken) == (0, 1)


def test_labels_count_where_machines_are_lent() -> None:
    """Slots begin on some machine, and best effort that needs a label stays off the others."""
    cluster = a_cluster().machines("a", 2, cpu=4).machines("b", 1, ("gpu",), cpu=4).build()
    world = a_slot_world(cluster, ["window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)"])
    world.submit(an_application("first", 1, 3, cpu=4, labels=("gpu",)))
    world.tick(0)
    assert {row.machine for row in world.table.assignment().rows} == {"b-0"}
