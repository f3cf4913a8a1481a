"""Machines choose among the classes that wait, as LoTES 4.3 says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bench.papers.machines.measures import SimulationOptions
from bench.papers.machines.simulator import MachineSimulator
from bench.papers.machines.workload import JobChunk
from dispatch.cycle.options import DispatchOptions, options_of
from dispatch.entitlements.follower import PlanFollower
from dispatch.machines.placement.state import Machines
from lp.lotes.dispatch_table import DispatchTable
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import plan_lotes
from planner.cluster.cluster import Cluster
from planner.cluster.dispatch_policy import DispatchPolicy, complete_words
from tests.builders import a_cluster, a_plan, a_request
from tests.dispatch.cycle.world import World, an_application


@dataclass
class FixedTable:
    """A table that never changes, for the follower."""

    table: DispatchTable | None

    def table_at(self, plan: object, now_ms: int) -> tuple[DispatchTable | None, int]:
        """Return it."""
        del plan, now_ms
        return self.table, int(self.table is not None)


class GivenDraws:
    """The roulette of each job, given from outside."""

    def __init__(self) -> None:
        self.next = 0.0

    def random(self) -> float:
        """Return the draw of the job that arrives."""
        return self.next


def by_class() -> DispatchOptions:
    """Return what `order = "lotes"` asks for."""
    words = DispatchPolicy(**complete_words({"order": "lotes"}))
    cluster = a_cluster().machines("m", 1, cpu=1).build()
    return options_of(Cluster(**{**_fields(cluster), "dispatch": words}))


def _fields(cluster: Cluster) -> dict[str, Any]:
    names = [
        name for name in cluster.__dataclass_fields__ if cluster.__dataclass_fields__[name].init
    ]
    return {name: getattr(cluster, name) for name in names}


def a_class_world(
    cluster: Cluster, table: DispatchTable | None, *requests: str, options: Any = None
) -> World:
    """Return a world that follows a table."""
    held = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(requests, 1)]
    plan = a_plan(cluster).holding(*held).build()
    world = World(cluster, plan, options or by_class())
    world.follower = PlanFollower(plan, tables=FixedTable(table), stop_grace_ms=5_000)
    return world


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


def job(name: str, cpu: int = 1, **rest: Any) -> Any:
    """Return an application of one core; the first letter of its name is its class."""
    return an_application(name, cpu=cpu, job_class=name[0], **rest)


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


@pytest.mark.parametrize("seed", range(6))
def test_starts_and_machines_are_those_of_the_compiled_simulator(seed: int) -> None:
    """Job by job: a crowded little cluster, arrivals and ends one at a time."""
    rng = np.random.default_rng(seed)
    groups = [(f"g{j}", int(rng.integers(1, 4)), int(rng.integers(4, 11))) for j in range(3)]
    builder = a_cluster()
    for name, count, cpu in groups:
        builder = builder.machines(name, count, cpu=cpu)
    cluster, largest = builder.build(), max(cpu for _, _, cpu in groups)
    mean = rng.integers(1, 5, 3)
    classes = JobClasses.of(
        rng.uniform(0.2, 1, 3),
        mean[:, None] / largest,
        rng.integers(1, 4, 3),
        names=["A", "B", "C"],
    )
    configurations = MachineConfigurations.of(
        [count for _, count, _ in groups], [[cpu / largest] for _, _, cpu in groups],
        resources=cluster.resources, names=[name for name, _, _ in groups],
    )  # fmt: skip
    table = plan_lotes(LotesInstance.of(configurations, classes)).table
    size, most_ms = 100, 1_500_000 // sum(count for _, count, _ in groups)
    kind = rng.choice(3, size=size, p=classes.share / classes.share.sum())
    cpu = np.clip(mean[kind] + rng.integers(-1, 3, size), 1, largest)
    arrival_ms = np.cumsum(rng.integers(1, most_ms, size)) * 2
    run_ms = rng.integers(500_000, 9_000_000, size) * 2 + 1
    draw = rng.random(size)

    simulator = MachineSimulator(
        Machines.of_table(table), np.ones(table.wheel.shape), "lotes", table,
        SimulationOptions(record=True, horizon_h=10_000.0),
    )  # fmt: skip
    jobs = JobChunk.of(arrival_ms / 3.6e6, cpu[:, None] / largest, run_ms / 3.6e6, kind)
    simulator.feed(jobs, draw, until_h=10_000.0)
    wanted = simulator.result()

    draws, options = GivenDraws(), by_class()
    world = a_class_world(cluster, table, options=options)
    world.loop.dispatcher._rng = draws  # type: ignore[assignment]
    ends_ms: dict[str, int] = {}
    coming = list(range(size))
    while coming or ends_ms:
        first = min(ends_ms.values(), default=2**62)
        if coming and arrival_ms[coming[0]] < first:
            number = coming.pop(0)
            now_ms, draws.next = int(arrival_ms[number]), float(draw[number])
            application = job(f"{'ABC'[kind[number]]}{number}", int(cpu[number]))
            world.table.submit(application.name, application, now_ms)
        else:
            now_ms = first
            for name in [name for name, end_ms in ends_ms.items() if end_ms == first]:
                del ends_ms[name]
                world.table.finish(name, now_ms)
        world.tick(now_ms / 1000)
        for row in world.table.assignment().rows:
            if row.execution not in ends_ms:
                ends_ms[row.execution] = now_ms + int(run_ms[int(row.execution[1:])])
                number = int(row.execution[1:])
                assert world.pool.number_of(row.machine) == wanted.machine[number]
                assert now_ms == pytest.approx(wanted.start_h[number] * 3.6e6, abs=0.5)
    assert not [one for one in world.table if not one.is_over]
    assert (np.nan_to_num(wanted.start_h) * 3.6e6 - arrival_ms > 1).sum() > 10  # many have waited
