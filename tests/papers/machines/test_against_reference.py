"""The compiled loop against a plain one that scans: same machine, same start, every job."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.machines.measures import SimulationOptions
from bench.papers.machines.simulator import MachineSimulator
from dispatch.machines.placement.policy import POLICIES
from dispatch.machines.placement.state import Machines
from tests.papers.machines.reference import Reference
from tests.papers.machines.scenes import scene


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
