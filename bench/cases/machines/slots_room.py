"""`slots_room`: slots for one atom in the machine room, with capacity and on a full cluster.

Atoms come one by one; each is searched with the capacity that the pool leaves and taken where slots
are found. The first quarter of the work of the cluster is `room`, what comes after all of it has
been requested is `full`. Two shapes: `kinds` is that of the experiment on promise levels (many
bundles of 1-12 cores and 1-48 GiB on two kinds of machines, gangs among them), `mix` that of the
one generator (one small bundle, heights up to an eighth of the cluster). Times are processor time
of the thread, of the search alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.workloads.generator import BUNDLE, MACHINE, Mix, generate
from bench.workloads.server_memory import as_served
from planner.cluster.cluster import Cluster, MachineGroup
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from rdl.resources import Resources

NAME = "slots_room"

I64 = NDArray[np.int64]
_STEP_MS = 60_000
_KINDS = (
    Resources.of({"cpu": 32_000, "memory": 64 * 1024}),
    Resources.of({"cpu": 16_000, "memory": 128 * 1024}),
)


@dataclass(frozen=True, slots=True)
class MapSize:
    """A cluster, how much is asked of it, and how widely is searched."""

    machines: int
    steps: int
    load: float
    tries: int

    @property
    def name(self) -> str:
        """Machines by steps."""
        return f"{self.machines}x{self.steps}"


def run(small: bool) -> dict[str, object]:
    """Fill clusters of three sizes with atoms of two shapes."""
    sizes = [MapSize(20, 480, 1.3, 32), MapSize(130, 480, 0.3, 16)]
    if not small:
        sizes = [
            MapSize(460, 480, 1.3, 16),
            MapSize(4000, 480, 1.3, 4),
            MapSize(4000, 1440, 0.3, 4),
        ]
    shapes: dict[str, Callable[[MapSize], tuple[Cluster, list[SlotAtom]]]] = {
        "kinds": kinds,
        "mix": mix,
    }
    figures: dict[str, object] = {}
    for shape, draw in shapes.items():
        for size in sizes:
            figures[f"{shape}_{size.name}"] = _measure(size, *draw(size))
    return {"params": {size.name: f"{size.tries} tries" for size in sizes}, "figures": figures}


def kinds(size: MapSize) -> tuple[Cluster, list[SlotAtom]]:
    """Return two kinds of machines and atoms of many bundles, 20 a machine and 480 steps."""
    half = size.machines // 2
    groups = (
        MachineGroup("wide", half, _KINDS[0]),
        MachineGroup("deep", size.machines - half, _KINDS[1]),
    )
    cluster = Cluster(_STEP_MS, size.steps * _STEP_MS, groups)
    rng, nominal = np.random.default_rng(1), cluster.nominal
    each = 480 / 20 / size.machines
    atoms, asked = [], 0.0
    while asked < size.load * size.steps:
        amounts = {"cpu": 1000 * rng.integers(1, 13), "memory": 1024 * rng.integers(1, 49)}
        bundle = Resources.of({name: int(amount) for name, amount in amounts.items()})
        share, lease = bundle.dominant_share(nominal), int(rng.integers(5, 61))
        leases = max(1, round(each * rng.uniform(0.3, 1.7) / (share * lease)))
        width = min(leases, int(rng.integers(1, 9)))
        leases = width * max(1, round(leases / width))
        least = width if rng.random() < 0.4 else 1
        span = int(leases * lease // width * (1.1 + 2.9 * rng.random())) + 1
        start = int(rng.integers(0, max(1, size.steps - span)))
        end = min(start + span, size.steps)
        if leases * lease <= width * (end - start):
            atoms.append(SlotAtom(start, end, least, width, 1, lease, leases * lease, bundle))
            asked += share * leases * lease
    return cluster, atoms


def mix(size: MapSize) -> tuple[Cluster, list[SlotAtom]]:
    """Return identical machines and atoms of the one generator: small bundles, some very high."""
    group = MachineGroup("standard", size.machines, MACHINE)
    cluster = Cluster(_STEP_MS, size.steps * _STEP_MS, (group,))
    count = 5 * size.machines
    drawn = generate(Mix(count, size.steps, size.machines, "malleable", 1, size.load))
    drawn += generate(Mix(count, size.steps, size.machines, "gangs", 2, size.load))
    order = np.random.default_rng(1).permutation(len(drawn))[:count]
    atoms = []
    for asked in (drawn[index] for index in order):
        stage = asked.stages[0]
        numbers = (stage.least, stage.most, 1, stage.lease, stage.work)
        atoms.append(SlotAtom(asked.start, asked.end, *numbers, BUNDLE))
    return cluster, atoms


def _measure(size: MapSize, cluster: Cluster, atoms: Sequence[SlotAtom]) -> dict[str, object]:
    """Fill a cluster; return percentiles of the search in microseconds, and what was accepted."""
    room = MachineRoom(cluster, cluster.grid(), 0)
    whole = np.array([cluster.nominal[name] for name in cluster.resources], dtype=np.int64)
    pool = np.repeat(whole[:, None], size.steps, axis=1)
    best_of = min(size.tries, 4)
    times: dict[str, list[float]] = {"room": [], "full": []}
    accepted, refused, asked, pieces = 0, 0, 0.0, 0
    with as_served():
        for atom in atoms:
            amounts = np.array([atom.bundle[name] for name in cluster.resources])[:, None]
            free = (pool[:, atom.lo : atom.hi] // amounts).min(axis=0)
            asked += atom.work * atom.bundle.dominant_share(cluster.nominal) / size.steps
            if np.minimum(free, atom.most).sum() < atom.work:
                continue
            begin = time.thread_time()
            slots = room.search(atom, free, size.tries, best_of)
            took = 1e6 * (time.thread_time() - begin)
            if asked < 0.25 or asked > 1:
                times["room" if asked < 0.25 else "full"].append(took)
            accepted += slots is not None
            refused += slots is None
            for start, end, bundles, _ in [] if slots is None else slots.tolist():
                pool[:, start:end] -= bundles * amounts
                pieces += bundles
    told: dict[str, object] = {"mib": round(room.nbytes / 2**20, 1), "pieces": pieces}
    told["accepted"] = round(accepted / len(atoms), 3)
    told["refused_by_machines"] = refused
    for name, took_all in times.items():
        if len(took_all) > 20:
            told[f"{name}_us"] = _percentiles(took_all[10:])
    return told


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    values = np.percentile(times, (50, 90, 99, 100))
    return {
        name: round(float(value), 1)
        for name, value in zip(("p50", "p90", "p99", "max"), values, strict=True)
    }
