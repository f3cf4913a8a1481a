"""The queue of ends: buckets of time to come before a heap, whatever the times are like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.machines.measures import SimulationOptions
from bench.papers.machines.simulator import MachineSimulator
from bench.papers.machines.workload import JobChunk
from dispatch.machines.placement.kernels import choices, forest
from dispatch.machines.placement.state import Machines
from tests.papers.machines.reference import Reference
from tests.papers.machines.scenes import scene

SHAPES = ("equal", "none", "exponential", "heavy", "two kinds", "shrinking")
JOBS = 3_000


def drawn_hours(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Processing times of 3,000 jobs."""
    if shape == "equal":
        return np.full(JOBS, 0.5)
    if shape == "none":
        return np.zeros(JOBS)
    if shape == "heavy":
        return rng.lognormal(0.0, 5.0, JOBS)
    if shape == "two kinds":
        return rng.choice([1e-9, 1e6], JOBS)
    exponential = rng.exponential(1.0, JOBS)
    # From a thousand hours to a millionth: the width fitted at first is wrong soon.
    return exponential * np.logspace(3, -6, JOBS) if shape == "shrinking" else exponential


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(SHAPES), st.integers(0, 10**6), st.sampled_from([0.001, 1.0, 1000.0]))
def test_every_job_ends_at_its_time(shape: str, seed: int, span_h: float) -> None:
    """At any moment those have ended whose start and time are over, and no other."""
    rng = np.random.default_rng(seed)
    arrival = np.sort(rng.uniform(0, span_h, JOBS))
    hours = drawn_hours(shape, rng)
    end = arrival + hours
    kinds = np.zeros(JOBS, dtype=np.int64)
    jobs = JobChunk.of(arrival, np.zeros((JOBS, 2)), hours, kinds)
    one = Machines(np.array([1]), np.ones((1, 2)))
    simulator = MachineSimulator(one, np.ones((1, 1)), "greedy")
    looks = np.unique(np.concatenate([rng.choice(end, 8), rng.uniform(0, span_h, 4)]))
    fed = 0
    for look in looks:
        due = int(np.searchsorted(arrival, look, side="right"))
        part = JobChunk(*(column[fed:due] for column in _columns(jobs)))
        simulator.feed(part, np.zeros(due - fed), float(look))
        found, fed = simulator.result(), due
        over = int((end[:due] <= look).sum())
        assert (found.ended, found.running_now) == (over, due - over)
        ran = np.minimum(end[:due], look) - arrival[:due]
        assert found.running_mean * look == pytest.approx(ran.sum(), rel=1e-9, abs=1e-9)


def _columns(jobs: JobChunk) -> tuple[np.ndarray, ...]:
    return jobs.arrival_h, jobs.request, jobs.hours, jobs.job_class


@pytest.mark.parametrize("seed", [2, 3])
def test_queues_of_ends_that_grow_keep_the_order(seed: int) -> None:
    """Thousands at a time, memory enlarged on the way, equal ends: the scan's machines still."""
    result, speed, jobs, draw = scene(seed, 300)
    # Ten copies of the crowd, on ten times as large machines.
    many = JobChunk.of(
        np.repeat(jobs.arrival_h, 10),
        np.repeat(jobs.request, 10, axis=0) / 10,
        np.repeat(jobs.hours, 10) * 3,
        np.repeat(jobs.job_class, 10),
    )
    draws = np.repeat(draw, 10)
    machines = Machines.of_table(result.table)
    options = SimulationOptions(record=True, horizon_h=10_000.0)
    simulator = MachineSimulator(machines, speed, "lotes", result.table, options)
    simulator.feed(many, draws, until_h=10_000.0)
    reference = Reference(machines, speed, "lotes", result.table, 0)
    reference.run(many, draws)
    assert simulator._slots.long.shape[0] > 1024
    assert simulator.result().machine.tolist() == reference.machine


def test_kernels_of_different_files_are_stale_together() -> None:
    """An edit of one file of kernels also compiles those again that contain its functions."""

    def stamp(kernel: object) -> object:
        return kernel._cache._impl.locator.get_source_stamp()  # type: ignore[attr-defined]

    assert stamp(choices.place_job) == stamp(forest.forest_rebuild)
