"""What the promise levels are asked, and on which machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.cluster.cluster import Cluster, MachineGroup
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources

_STEP_MS = 60_000


@dataclass(frozen=True, slots=True)
class PromiseCase:
    """What bundles come on which machines.

    Attributes
    ----------
    cores, gib
        Most of either in one bundle.
    two_kinds
        Half of the machines with 32 cores and 64 GiB, half with 16 cores and 128 GiB; else all
        with 24 cores and 96 GiB.
    """

    cores: int
    gib: int
    two_kinds: bool = False


CASES = {
    "small bundles, machines alike": PromiseCase(3, 12),
    "large bundles, machines alike": PromiseCase(12, 48),
    "large bundles, two kinds of machines": PromiseCase(12, 48, two_kinds=True),
}


@dataclass(frozen=True, slots=True)
class PromiseOptions:
    """What is asked of which cluster.

    Attributes
    ----------
    machines
        How many; an even number.
    requests, horizon
        How many, with windows in so many steps of a minute.
    load
        Work asked for over what the scarcer resource can do.
    agent
        Who plans.
    """

    machines: int = 20
    requests: int = 400
    horizon: int = 480
    load: float = 1.2
    agent: str = "gree-l"
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


def promise_cluster(options: PromiseOptions, case: PromiseCase) -> Cluster:
    """Return the machines; as many cores and GiB in every case."""
    half = options.machines // 2
    cores = (32, 16) if case.two_kinds else (24, 24)
    gib = (64, 128) if case.two_kinds else (96, 96)
    wide, deep = (
        Resources.of({"cpu": 1000 * each, "memory": 1024 * more})
        for each, more in zip(cores, gib, strict=True)
    )
    return Cluster(
        step_ms=_STEP_MS,
        horizon_ms=options.horizon * _STEP_MS,
        machines=(
            MachineGroup("wide", half, wide),
            MachineGroup("deep", options.machines - half, deep),
        ),
    )


def draw_requests(
    options: PromiseOptions,
    cluster: Cluster,
    case: PromiseCase,
    random: np.random.Generator,
) -> list[tuple[Request, Atom]]:
    """Return atoms of up to so many cores and GiB, gangs among them, scaled to the load."""
    nominal = cluster.nominal
    found: list[tuple[Request, Atom]] = []
    budget = options.load * options.horizon
    each = budget / options.requests
    for index in range(options.requests):
        bundle = Resources.of(
            {
                "cpu": 1000 * int(random.integers(1, case.cores + 1)),
                "memory": 1024 * int(random.integers(1, case.gib + 1)),
            }
        )
        share = max(bundle[kind] / nominal[kind] for kind in ("cpu", "memory"))
        lease = int(random.integers(5, 61))
        size = each * float(random.uniform(0.3, 1.7))
        leases = max(1, round(size / (share * lease)))
        width = min(leases, int(random.integers(1, 9)) * (12 // case.cores))
        leases = width * max(1, round(leases / width))
        least = width if random.random() < 0.4 else 1
        atom = Atom(bundle, least, width, lease * _STEP_MS, leases * lease * _STEP_MS)
        request = _request(index, atom, options, cluster, random)
        if request is not None:
            found.append((request, atom))
    return found


def _request(
    index: int,
    atom: Atom,
    options: PromiseOptions,
    cluster: Cluster,
    random: np.random.Generator,
) -> Request | None:
    alone = atom.work_ms // (atom.maximum * _STEP_MS)
    span = int(alone * (1.1 + 2.9 * random.random())) + 1
    start = int(random.integers(0, max(1, options.horizon - span)))
    end = min(start + span, options.horizon)
    window = Window(Offset(start * _STEP_MS), Offset(end * _STEP_MS), atom)
    try:
        graph = compile_expression(window, CompileContext(cluster.grid()))
    except RdlError:  # wider than the horizon
        return None
    return Request(f"r{index}", "t", "default", 0, 1.0, 0, graph)


def work_of(atom: Atom, cluster: Cluster) -> float:
    """Return the work of an atom in steps of the whole cluster, by dominant share."""
    return atom.work_ms / _STEP_MS * atom.bundle.dominant_share(cluster.nominal)
