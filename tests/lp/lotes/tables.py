"""The published machines and classes (LoTES Tables 1 and 2), as facts for tests."""

from __future__ import annotations

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
