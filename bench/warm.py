"""Compile kernels once, so that no user waits for it: `python -m bench.warm` (make setup).

Compiled code is cached beside the sources or in NUMBA_CACHE_DIR; a second run takes a second.
`--demo` compiles what the demo calls alone, `--all` the exact planner's too.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.request import Request


def warm_exact_loops() -> None:
    """Load what is the exact planner's own: none of it calls a loop of the greedy agents."""
    from bench.workloads.exact_shapes import lumpy
    from planner.agents.exact.build import build_problem
    from planner.agents.exact.warm_up import load_block_loops, load_loops
    from planner.plan.plan import Plan

    cluster, requests = _a_mix()
    load_loops(build_problem(requests, Plan(cluster, cluster.grid()).view()))
    cluster, gangs = lumpy(1, 1.2)
    load_block_loops(build_problem(gangs[:4], Plan(cluster, cluster.grid()).view()))


def warm_exact() -> None:
    """Plan a few requests that do not all fit with the exact planner."""
    from bench.cases.exact.runs import warm

    warm(*_a_mix())


def _a_mix(requests: int = 12) -> tuple[Cluster, list[Request]]:
    """Return a small cluster and requests of every kind for twice what it has."""
    from bench.workloads.generator import Mix, cluster_of, requests_of

    mix = Mix(requests=requests, steps=96, machines=40, kind="mixed", load=2.0)
    return cluster_of(mix), requests_of(mix)


def warm_dispatcher() -> None:
    """Take what a service calls of the core/elastic pool and of placement through its paces."""
    import numpy as np

    from bench.cases.dispatch.dispatch_whole import run
    from dispatch.machines.placement.strategy import MachinePlacement, PlacedJob
    from dispatch.pool.claims import Claim, ClaimPart
    from dispatch.pool.scheduler import ElasticScheduler
    from dispatch.warm_up import load_kernels
    from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
    from lp.lotes.pipeline import plan_lotes

    load_kernels()
    run(small=True)
    pool = ElasticScheduler({"cpu": 4})
    pool.adopt(Claim("a", (ClaimPart(1, (1,)),), (ClaimPart(2, (1,)),)), 0.0)
    pool.resize("a", [1], 1.0)
    pool.requeue("a", 2.0)
    pool.depart("a", 3.0)
    machines = MachineConfigurations.of([2], [[1.0]], resources=["cpu"])
    classes = JobClasses.of([1.0], [[0.25]], [1.0])
    placement = MachinePlacement.of_table(plan_lotes(LotesInstance.of(machines, classes)).table)
    for allowed in (None, np.ones(2, dtype=np.bool_)):
        job = PlacedJob(np.array([0.25]), draw=0.5, allowed=allowed)
        machine = placement.choose(job)
        assert machine is not None
        placement.count_start(machine, job)
        placement.count_end(machine, job)
        placement.set_open(machine, is_open=True)


def warm_service_dispatch() -> None:
    """Load what a server's dispatcher calls, and then what its promises on machines call."""
    from dispatch.warm_up import load_kernels

    load_kernels()
    warm_machines()


def warm_planner() -> None:
    """Load what every agent calls."""
    from planner.workload.warm_up import load_kernels

    load_kernels()


def warm_relocation() -> None:
    """Lose machines and relocate, after the planner and the machine room, whose loops it calls."""
    from bench.cases.machines.repack import run

    run(small=True)


def warm_machines() -> None:
    """Load what a Plan with promises on machines calls."""
    from planner.machines.warm_up import load_machine_kernels

    load_machine_kernels()


def main() -> None:
    """Compile what was asked for, a part on each of two cores, and say how long it took.

    No two parts that run side by side call the same loop: both would compile it. What calls loops
    of several comes last.
    """
    began = time.perf_counter()
    waves = [[warm_planner, warm_dispatcher, warm_machines], [warm_relocation]]
    if "--demo" in sys.argv[1:]:
        waves = [[warm_planner, warm_service_dispatch]]
    if "--all" in sys.argv[1:]:
        first = [warm_planner, warm_exact_loops, warm_dispatcher, warm_machines]
        waves = [first, [warm_relocation, warm_exact]]
    # New processes, not copies: numba's threads do not outlive a fork.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for wave in waves:
            for done in [pool.submit(part) for part in wave]:
                done.result()
    if sys.stderr.isatty():
        print(f"kernels ready in {time.perf_counter() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
