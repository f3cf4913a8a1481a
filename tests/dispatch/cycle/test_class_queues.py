"""Machines choose among the classes that wait, as LoTES 4.3 says."""

from __future__ import annotations

from typing import Any

import numpy as np

from dispatch.entitlements.follower import PlanFollower
from lp.lotes.dispatch_table import DispatchTable
from tests.builders import a_cluster
from tests.dispatch.cycle.class_world import FixedTable, a_class_world, job
from tests.dispatch.cycle.world import World, an_application

#: Two machines of 4 CPUs in a group each. On `left` run two of A and one of B, on `right` one of B
#: and two of C; A and C have no target on the other.
PAIR = a_cluster().machines("left", 1, cpu=4).machines("right", 1, cpu=4).build()


def pair_table() -> DispatchTable:
    """Return the table of `PAIR` for classes of 1, 2 and 1 CPUs."""
    return DispatchTable(
        configurations=("left", "right"), classes=("A", "B", "C"), resources=("cpu",),
        capacity=np.array([[1.0], [1.0]]),
        configuration_of=np.array([0, 1], dtype=np.int32), bin_of=np.array([0, 1], dtype=np.int32),
        bins=np.array([[2, 1, 0], [0, 1, 2]], dtype=np.int32),
        wheel=np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]),
        requests=np.array([[0.25], [0.5], [0.25]]), scale=np.array([0.25]), arrival_rate=1.0,
    )  # fmt: skip


def a_full_pair(options: Any = None) -> World:
    """Fill both machines: `left` with four of A, `right` with four of C."""
    world = a_class_world(PAIR, pair_table(), options=options)
    for number in range(4):
        world.submit(job(f"A{number}"), number)
        world.submit(job(f"C{number}"), number)
    world.tick(5)
    assert machines(world) == {
        **{f"A{n}": "left-0" for n in range(4)},
        **{f"C{n}": "right-0" for n in range(4)},
    }
    return world


def machines(world: World) -> dict[str, str]:
    """Return the machine of each execution that has one."""
    return {row.execution: row.machine for row in world.table.assignment().rows}


def ends(world: World, *names: str, at_s: int) -> None:
    """End executions and tick."""
    for name in names:
        world.table.finish(name, at_s * 1000)
    world.tick(at_s)


def test_a_machine_takes_the_class_that_is_furthest_below_its_target() -> None:
    """On `left` four of A run, target two; B has none of one, so it goes before the older A."""
    world = a_full_pair()
    world.submit(job("A9"), 6)
    world.submit(job("B9", 2), 7)
    world.tick(8)
    assert not machines(world).keys() & {"A9", "B9"}
    ends(world, "A0", "A1", at_s=9)
    assert machines(world)["B9"] == "left-0"
    assert "A9" not in machines(world)


def test_a_class_that_does_not_fit_lets_the_next_start() -> None:
    """One CPU is free: B, which is furthest below, needs two; the oldest A starts."""
    world = a_full_pair()
    world.submit(job("B9", 2), 6)
    world.submit(job("A8"), 7)
    world.submit(job("A9"), 8)
    world.tick(8)
    ends(world, "A0", at_s=9)
    assert machines(world)["A8"] == "left-0"
    assert not machines(world).keys() & {"A9", "B9"}


def test_a_machine_idles_rather_than_take_a_class_without_a_target_there() -> None:
    """C has no target on `left`: it waits for `right`, though an arrival may take `left`."""
    world = a_full_pair()
    world.submit(job("C9"), 6)
    world.tick(6)
    ends(world, "A0", at_s=7)
    assert "C9" not in machines(world)
    world.submit(job("C8"), 8)
    world.tick(8)
    assert machines(world)["C8"] == "left-0"  # 4.3.1: all remaining machines
    waiting = world.table.get("C9")
    assert waiting is not None
    assert waiting.reason == "it waits in the queue of C"
    ends(world, "C0", at_s=9)
    assert machines(world)["C9"] == "right-0"


def test_the_score_counts_what_was_started_just_now() -> None:
    """Three CPUs come free on `left`: B (1 below), then A twice where its score is the highest."""
    world = a_full_pair()
    for number, name in enumerate(("A7", "A8", "B7", "B8")):
        world.submit(job(name, 2 if name[0] == "B" else 1), 6 + number)
    world.tick(9)
    ends(world, "A0", "A1", "A2", at_s=10)
    # Scores of A and B: 1 and 1, so A (the lower number); 0 and 1, so B; then nothing fits.
    assert sorted(machines(world).keys() & {"A7", "A8", "B7", "B8"}) == ["A7", "B7"]


def test_a_higher_priority_goes_before_any_class() -> None:
    """Within a level the table decides, between levels the priority."""
    world = a_full_pair()
    world.submit(job("B9", 2), 6)
    world.submit(job("A9", priority=5), 7)
    world.tick(8)
    ends(world, "A0", "A1", at_s=9)
    assert "A9" in machines(world)
    assert "B9" not in machines(world)


def test_covered_work_goes_first() -> None:
    """A reservation clears the machine of its slot, whatever waits in the queues of classes."""
    world = a_class_world(PAIR, pair_table(), "window(atom(<4 cpu>, 1, 1, 20, 20), 10, 30)")
    for number in range(4):
        world.submit(job(f"A{number}"), number)
        world.submit(job(f"C{number}"), number)
    world.submit(job("B9", 2), 5)
    world.submit(an_application("p", cpu=4, reservation="r1"), 5)
    world.tick(5)
    for now_s in range(6, 12):
        world.tick(now_s)
    assert world.held("p") == [1]
    assert "B9" not in machines(world)
    assert len(machines(world)) == 5  # of the eight that ran four wait again


def test_what_is_elastic_gives_way_to_cores_of_its_machine() -> None:
    """Elastic components fill what cores leave, and no longer when a class is below its target."""
    world = a_class_world(PAIR, pair_table())
    world.submit(job("A0", elastic=7), 0)
    world.tick(1)
    assert world.held("A0") == [1, 7]
    world.submit(job("B9", 2), 2)
    world.tick(2)
    assert world.held("B9") == [1]
    assert world.held("A0") == [1, 5]


def test_a_gang_starts_with_all_of_its_cores_or_none() -> None:
    """Its first core goes to the machine that asks, the others by the rule for arrivals."""
    world = a_full_pair()
    world.submit(an_application("gang", 3, job_class="B"), 6)
    world.tick(6)
    ends(world, "A0", "A1", at_s=7)
    assert world.held("gang") == [0]
    ends(world, "C0", at_s=8)
    assert world.held("gang") == [3]


def test_a_machine_that_comes_back_takes_what_waits() -> None:
    """Nothing has ended there, and yet its capacity is new."""
    world = a_full_pair()
    world.backend.lose("left-0", 6_000)
    world.tick(6)
    assert "left-0" not in machines(world).values()
    world.backend.restore("left-0", 7_000)
    world.tick(7)
    assert sorted(name for name, where in machines(world).items() if where == "left-0") == [
        "A0", "A1", "A2", "A3",
    ]  # fmt: skip


def test_without_a_table_all_wait_in_one_queue() -> None:
    """The oldest that fits starts."""
    world = a_class_world(PAIR, None)
    world.submit(job("A0", 4), 0)
    world.submit(job("A1", 4), 1)
    world.submit(job("B2", 3), 2)
    world.submit(job("C3"), 3)
    world.tick(4)
    assert world.held("B2") == world.held("C3") == [0]
    ends(world, "A0", at_s=5)
    assert machines(world) == {"A1": "right-0", "B2": "left-0", "C3": "left-0"}


def test_those_that_wait_are_queued_by_the_classes_of_a_new_table() -> None:
    """And every machine looks again."""
    world = a_full_pair()
    world.submit(job("C9"), 6)
    world.tick(6)
    ends(world, "A0", at_s=7)
    assert "C9" not in machines(world)
    other = pair_table()
    swapped = DispatchTable(**{
        **{name: getattr(other, name) for name in other.__dataclass_fields__},
        "bins": np.array([[0, 1, 2], [2, 1, 0]], dtype=np.int32), "wheel": other.wheel[::-1].copy(),
    })  # fmt: skip
    tables = FixedTable(swapped)
    tables.table_at = lambda plan, now_ms: (swapped, 2)  # type: ignore[method-assign]
    world.follower = PlanFollower(world.plan, tables=tables, stop_grace_ms=5_000)
    world.tick(8)
    assert machines(world)["C9"] == "left-0"
