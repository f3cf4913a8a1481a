"""The compiled loop against a plain one that scans: same machine, same start, every job."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.machines.placement.policy import POLICIES
from dispatch.machines.placement.state import Machines
from dispatch.simulation.machine_level.measures import SimulationOptions
from dispatch.simulation.machine_level.simulator import MachineSimulator
from dispatch.simulation.machine_level.workload import JobChunk
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import LotesResult, plan_lotes
from tests.dispatch.simulation.machine_level.reference import Reference


def scene(seed: int, largest: int = 40) -> tuple[LotesResult, np.ndarray, JobChunk, np.ndarray]:
    """A crowded little cluster: requests on a grid make ties, whole hours make equal times."""
    rng = np.random.default_rng(seed)
    groups, classes = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    machines = MachineConfigurations.of(
        rng.integers(1, largest, groups), rng.integers(4, 11, (groups, 2)) / 10
    )
    mean = rng.integers(1, 6, (classes, 2)) / 10
    job_classes = JobClasses.of(rng.uniform(0.2, 1, classes), mean, rng.integers(1, 4, classes))
    speed = rng.choice([0.0, 0.5, 1.0], size=(groups, classes), p=[0.1, 0.3, 0.6])
    speed[0] = np.maximum(speed[0], 0.5)
    result = plan_lotes(LotesInstance.of(machines, job_classes, speed=speed))
    count = 350
    kind = rng.choice(classes, size=count, p=job_classes.share)
    grid = rng.random() < 0.5
    noise = rng.integers(-1, 3, (count, 2)) / 10 if grid else rng.normal(0, 0.1, (count, 2))
    request = np.clip(mean[kind] + noise, 0.0, 1.2)
    hours = job_classes.time_h[kind] * (1.0 if grid else rng.exponential(1.0, count))
    rate = machines.machines * 3.0
    arrival = np.cumsum(rng.exponential(1 / rate, count))
    if grid:
        arrival = np.floor(arrival * 4) / 4
    return result, speed, JobChunk.of(arrival, request, hours, kind), rng.random(count)


def compare(seed: int, policy: str, sample: int = 0, largest: int = 40) -> None:
    result, speed, jobs, draw = scene(seed, largest)
    machines = Machines.of_table(result.table)
    table = result.table if policy == "lotes" else None
    options = SimulationOptions(record=True, sample=sample, horizon_h=10_000.0)
    simulator = MachineSimulator(machines, speed, policy, table, options)  # type: ignore[arg-type]
    simulator.feed(jobs, draw, until_h=10_000.0)
    found = simulator.result()
    reference = Reference(machines, speed, policy, table, sample)
    reference.run(jobs, draw)
    assert found.machine.tolist() == reference.machine
    assert found.start_h == pytest.approx(np.array(reference.start), nan_ok=True)
    assert found.refused + found.started + found.still_waiting == found.arrived


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_every_choice_is_the_scans(policy: str, seed: int) -> None:
    """Indexes, bit sets and heaps change nothing: machine and start of each job are the scan's."""
    compare(seed, policy)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6))
def test_sampled_machines_are_the_scans(seed: int) -> None:
    """The sampling option of section 5.2 looks at the same machines as the scan."""
    compare(seed, "lotes", sample=3)


@pytest.mark.parametrize("policy", ["lotes", "greedy"])
def test_more_machines_than_a_block_of_blocks(policy: str) -> None:
    """The same with hundreds of machines a configuration, several levels of blocks."""
    for seed in range(3):
        compare(seed, policy, largest=400)
