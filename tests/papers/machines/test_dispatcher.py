"""The dispatcher of the product starts what the compiled simulator of the paper starts."""

from __future__ import annotations

import numpy as np
import pytest

from bench.papers.machines.measures import SimulationOptions
from bench.papers.machines.simulator import MachineSimulator
from bench.papers.machines.workload import JobChunk
from dispatch.machines.placement.state import Machines
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import plan_lotes
from tests.builders import a_cluster
from tests.dispatch.cycle.class_world import a_class_world, by_class, job


class GivenDraws:
    """The roulette of each job, given from outside."""

    def __init__(self) -> None:
        self.next = 0.0

    def random(self) -> float:
        """Return the draw of the job that arrives."""
        return self.next


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
