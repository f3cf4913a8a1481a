"""Sets of rigid gangs that the one generator does not make: lumpy, narrow, wide, and divided.

All on 1,440 steps of a minute; the first three on 25 machines of 16 containers. Lumpy: heights of
0.15 to 0.6 of the cluster (half of it at most), lengths of 30 to 150 steps, some 70 starts each; as
many as make up the load, a tenth of the machines away for two hours. Narrow: log-uniform heights up
to a third of the cluster, some 70 starts each, bundles of three kinds on two resources, the same
outage. Wide: lognormal areas (sigma 1.2), lengths up to 0.3 of the horizon, windows of 1.2 to 2.5
lengths that begin in the first 60 per cent of it, one bundle. `load` is work asked over capacity.
Divided: 96 machines hold all of it; dominant shares log-uniform up to an eighth of them, lengths of
30 to 310 steps, some 70 starts each, bundles of three kinds on two resources; then only one machine
in `k` is there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bench.workloads.generator import CONTAINERS, MACHINE
from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources

STEP_MS: Final = 60_000
STEPS: Final = 1440
REQUESTS: Final = 100
MACHINES: Final = 25
UNDIVIDED: Final = 96

_BUNDLES: Final = (
    Resources.of({"cpu": 1000, "memory": 2048}),
    Resources.of({"cpu": 2000, "memory": 2048}),
    Resources.of({"cpu": 1000, "memory": 4096}),
)


def _away(machines: int) -> Outage:
    """Return a tenth of the machines away for two hours."""
    return Outage("standard", tuple(range(machines // 10)), 600 * STEP_MS, 720 * STEP_MS)


@dataclass(frozen=True, slots=True)
class Gang:
    """Height, length, first step and first step past the window, bundle."""

    height: int
    length: int
    start: int
    end: int
    bundle: Resources = _BUNDLES[0]


def lumpy(seed: int, load: float) -> tuple[Cluster, list[Request]]:
    """Return gangs of which two or three run at once, with few starts, on two resources."""
    rng = np.random.default_rng(seed)
    capacity = CONTAINERS * MACHINES
    gangs = []
    for _ in range(REQUESTS):
        length, slack = int(rng.integers(30, 150)), int(rng.integers(20, 120))
        height = int(rng.uniform(0.15, 0.6) * capacity)
        start = int(rng.integers(0, STEPS - length - slack))
        gangs.append(Gang(height, length, start, start + length + slack, _BUNDLES[0]))
    lower = [replace(one, height=min(one.height, capacity // 2)) for one in gangs]
    return _set(lower[: _count_for(gangs, load)], None, (_away(MACHINES),))


def _count_for(gangs: list[Gang], load: float) -> int:
    """Return how many of the gangs, first come, make up the load."""
    work = np.cumsum([gang.height * gang.length for gang in gangs])
    return int(np.searchsorted(work, load * CONTAINERS * MACHINES * STEPS)) + 1


def narrow(seed: int, load: float) -> tuple[Cluster, list[Request]]:
    """Return lumpy gangs with few starts, on two resources with an outage."""
    rng = np.random.default_rng(seed)
    capacity = CONTAINERS * MACHINES
    gangs = []
    for _ in range(REQUESTS):
        height = max(1, int(np.exp(rng.uniform(np.log(4), np.log(capacity / 3)))))
        length = int(rng.integers(30, 300))
        slack = int(rng.integers(20, 120))
        start = int(rng.integers(0, STEPS - length - slack))
        gangs.append(Gang(height, length, start, start + length + slack, _drawn(rng)))
    return _set(gangs, load, (_away(MACHINES),))


def wide(seed: int, load: float) -> tuple[Cluster, list[Request]]:
    """Return gangs of lognormal areas with many starts."""
    rng = np.random.default_rng(seed)
    gangs = []
    for _ in range(REQUESTS):
        area = float(rng.lognormal(np.log(6000), 1.2))
        length = int(np.clip(rng.uniform(0.03, 0.3) * STEPS, 10, 0.3 * STEPS))
        height = int(np.clip(area / length, 1, CONTAINERS * MACHINES / 2))
        window = int(length * rng.uniform(1.2, 2.5))
        start = int(rng.uniform(0, 0.6) * STEPS)
        gangs.append(Gang(height, length, start, min(STEPS, max(start + length, start + window))))
    return _set(gangs, load, ())


def divided(seed: int, k: float) -> tuple[Cluster, list[Request]]:
    """Return gangs that all fit on 96 machines, and a k-th of those machines."""
    rng = np.random.default_rng(seed)
    machines = round(UNDIVIDED / k)
    everything = Resources.of({name: UNDIVIDED * amount for name, amount in MACHINE.items()})
    gangs = []
    for _ in range(REQUESTS):
        bundle = _drawn(rng)
        share = float(np.exp(rng.uniform(np.log(2 / (CONTAINERS * UNDIVIDED)), np.log(1 / 8))))
        height = max(1, int(share / bundle.dominant_share(everything)))
        length, slack = int(rng.integers(30, 310)), int(rng.integers(20, 120))
        start = int(rng.integers(0, STEPS - length - slack))
        gangs.append(Gang(height, length, start, start + length + slack, bundle))
    return _set(gangs, None, (_away(machines),), machines)


def _drawn(rng: np.random.Generator) -> Resources:
    return _BUNDLES[int(rng.integers(len(_BUNDLES)))]


def _set(
    gangs: list[Gang], load: float | None, outages: tuple[Outage, ...], machines: int = MACHINES
) -> tuple[Cluster, list[Request]]:
    """Scale heights to the load, where one is given, and compile."""
    group = MachineGroup("standard", machines, MACHINE)
    cluster = Cluster(STEP_MS, STEPS * STEP_MS, (group,), outages=outages)
    heights = [gang.height for gang in gangs]
    if load is not None:
        heights = _scaled(gangs, load * STEPS, cluster)
    context = cluster.context(cluster.grid(), 0)
    requests = []
    for index, (gang, height) in enumerate(zip(gangs, heights, strict=True)):
        length_ms = gang.length * STEP_MS
        atom = Atom(gang.bundle, height, height, length_ms, height * length_ms)
        window = Window(Offset(gang.start * STEP_MS), Offset(gang.end * STEP_MS), atom)
        graph = compile_expression(window, context)
        requests.append(Request(f"r{index}", f"t{index % 7}", "default", 0, 1.0, 0, graph))
    return cluster, requests


def _scaled(gangs: list[Gang], wanted: float, cluster: Cluster) -> list[int]:
    """Return heights, half of the cluster at most, that make up this many steps of all of it."""
    most = CONTAINERS * MACHINES // 2
    shares = [gang.bundle.dominant_share(cluster.nominal) for gang in gangs]
    factor = 1.0
    for _ in range(8):
        heights = [max(1, min(most, round(gang.height * factor))) for gang in gangs]
        work = [h * gang.length * s for h, gang, s in zip(heights, gangs, shares, strict=True)]
        factor *= wanted / sum(work)
    return heights
