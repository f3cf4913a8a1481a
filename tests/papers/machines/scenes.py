"""Crowded little clusters drawn at random."""

from __future__ import annotations

import numpy as np

from bench.papers.machines.workload import JobChunk
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import LotesResult, plan_lotes


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
