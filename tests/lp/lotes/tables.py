"""The published machines and classes (LoTES Tables 1 and 2), as facts for tests."""

from __future__ import annotations

import numpy as np

from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations


def google() -> LotesInstance:
    """Ten configurations, 12,583 machines, four classes."""
    machines = MachineConfigurations.of(
        [6732, 3863, 1001, 795, 126, 52, 5, 5, 3, 1],
        [
            [0.50, 0.50],
            [0.50, 0.25],
            [0.50, 0.75],
            [1.00, 1.00],
            [0.25, 0.25],
            [0.50, 0.12],
            [0.50, 0.03],
            [0.50, 0.97],
            [1.00, 0.50],
            [1.00, 0.06],
        ],
    )
    classes = JobClasses.of(
        [0.23, 0.46, 0.30, 0.01],
        [[0.02, 0.01], [0.02, 0.03], [0.07, 0.03], [0.20, 0.06]],
        [0.03, 0.04, 0.04, 0.03],
    )
    return LotesInstance.of(machines, classes)


def single(count: int, capacity: float, requests: list[float]) -> LotesInstance:
    """One configuration of one resource; classes arrive equally, one job a minute each slot."""
    machines = MachineConfigurations.of([count], [[capacity]], resources=["cores"])
    share = [1.0] * len(requests)
    classes = JobClasses.of(share, [[r] for r in requests], [1 / 60] * len(requests))
    return LotesInstance.of(machines, classes)


def instances(seed: int) -> LotesInstance:
    """A random instance of 1 to 4 configurations, 1 to 5 classes, 1 to 3 resources."""
    rng = np.random.default_rng(seed)
    j, k, size = rng.integers(1, 5), rng.integers(1, 6), rng.integers(1, 4)
    machines = MachineConfigurations.of(
        rng.integers(1, 20, j),
        rng.uniform(0.3, 1.0, (j, size)),
        resources=[f"r{i}" for i in range(size)],
    )
    request = rng.uniform(0.02, 0.3, (k, size)) * (rng.uniform(size=(k, size)) < 0.8)
    request[:, 0] = np.maximum(request[:, 0], 0.02)
    classes = JobClasses.of(rng.uniform(0.1, 1.0, k), request, rng.uniform(0.1, 1.0, k))
    return LotesInstance.of(machines, classes, speed=rng.uniform(0.5, 1.5, (j, k)))
