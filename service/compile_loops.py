"""Compile loops once, so that no user waits for it: `python -m service.compile_loops` (make setup).

Compiled code is cached next to the sources or in NUMBA_CACHE_DIR; a second run takes seconds.
`--demo` compiles only the loops of the demo, `--all` also those of the exact planner.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.plan.plan import Plan
    from planner.request import Request

#: Requests of every kind, for more than the capacity of two four-core machines in two hours.
_MIX = (
    "window(atom(<1 cpu>, 1, 4, 2m, 120m), 0, 60m)",
    "window(atom(<2 cpu, 1 GiB memory>, 1, 2, 10m, 60m), 10m, 90m)",
    "window(atom(<4 cpu>, 2, 2, 40m, 40m), 0, 100m)",
    "window(order(atom(<1 cpu>, 1, 4, 5m, 60m), atom(<2 cpu>, 2, 2, 20m, 40m)), 0, 120m)",
    "window(any(atom(<4 cpu>, 2, 2, 60m, 60m), atom(<4 cpu>, 1, 1, 90m, 90m)), 0, 120m)",
    "window(all(atom(<3 cpu>, 1, 1, 30m, 30m), atom(<1 cpu>, 4, 4, 30m, 30m)), 20m, 120m)",
    "every(40m, window(atom(<2 cpu>, 1, 2, 10m, 10m), 0, 20m), times=3)",
)
#: Requests of which most fit on one of the machines.
_FEW = (
    "window(atom(<1 cpu>, 2, 2, 20m, 40m), 0, 60m)",
    "window(atom(<3 cpu>, 1, 1, 30m, 30m), 0, 60m)",
    "window(atom(<1 cpu>, 1, 3, 10m, 90m), 0, 90m)",
    "window(atom(<1 cpu>, 2, 2, 20m, 40m, spread=1), 30m, 90m)",
)


def warm_exact_loops() -> None:
    """Load the exact planner's own loops, which call none of the greedy agents' loops."""
    from planner.agents.exact.build import build_problem
    from planner.agents.exact.parallel import load_loops

    plan, requests = _problem(_MIX)
    load_loops(build_problem(requests, plan.view()))


def warm_exact() -> None:
    """Plan a few requests, which do not all fit, with the exact planner."""
    from planner.agent import Limits
    from planner.agents.exact.agent import EXACT

    plan, requests = _problem(_MIX)
    EXACT.solve(requests, plan.view(), Limits(work=20, gap=0.0))


def _problem(texts: tuple[str, ...]) -> tuple[Plan, list[Request]]:
    """Return requests, and an empty Plan of two machines."""
    from planner.cluster.cluster import Cluster, MachineGroup
    from planner.files.workload_file import WorkloadLine
    from planner.plan.plan import Plan
    from planner.workload.compile import compile_workload
    from rdl.resources import CPU, MEMORY, Resources

    machines = MachineGroup("m", 2, Resources.of({CPU: 4000, MEMORY: 8 * 1024}))
    cluster = Cluster(60_000, 120 * 60_000, (machines,))
    lines = [WorkloadLine(f"r{number}", text) for number, text in enumerate(texts)]
    workload = compile_workload(lines, cluster)
    return Plan(cluster, workload.grid), list(workload.requests)


def warm_placement() -> None:
    """Run the placement loops of a server's dispatcher."""
    import numpy as np

    from dispatch.loop import load_kernels
    from dispatch.machines.placement.strategy import MachinePlacement, PlacedJob
    from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
    from lp.lotes.pipeline import plan_lotes

    load_kernels()
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


def warm_dispatcher() -> None:
    """Do the same, including the loops for a takeover and for requeues by Slurm."""
    from dispatch.pool.claims import Claim, ClaimPart
    from dispatch.pool.scheduler import ElasticScheduler

    warm_placement()
    pool = ElasticScheduler({"cpu": 4})
    pool.adopt(Claim("a", (ClaimPart(1, (1,)),), (ClaimPart(2, (1,)),)), 0.0)
    pool.resize("a", [1], 1.0)
    pool.requeue("a", 2.0)
    pool.depart("a", 3.0)
    pool.replace_joined((), [Claim("b", (), (ClaimPart(1, (1,)),), tier=1)], 4.0)
    pool.replace_joined(["b"], (), 5.0)


def warm_planner() -> None:
    """Load the loops of all agents."""
    from planner.workload.warm_up import load_kernels

    load_kernels()


def warm_relocation() -> None:
    """Lose machines and relocate, with loops of `warm_planner` and `warm_machines`."""
    from dataclasses import replace

    import numpy as np

    from planner.adaptation.relocation import relocate
    from planner.agent import Limits
    from planner.agents import agent_named
    from planner.cluster.cluster import Outage
    from planner.machines.board import MachineBoard
    from planner.plan.records.changes import Admit, Change, Reconfigure
    from planner.reservations.slots import slots_of
    from rdl.resources import CPU, Resources

    plan, requests = _problem(_FEW)
    # Two slots of one machine each: the second displaces the first.
    board = MachineBoard(plan.cluster, (0, 6), 1, [(Resources.of({CPU: 4000}), None)])
    board.stand(slots_of([[0, 4, 1, 0]]), np.zeros(1, dtype=np.int64), np.ones(1, dtype=bool), 1)
    board.insert((0, 4, 1), 0, None, 8)
    agent = agent_named("gree-l")
    results = agent.plan(requests, plan.snapshot(), Limits())
    pairs = zip(requests, results, strict=True)
    admit: list[Change] = [Admit(asked, got, agent.name) for asked, got in pairs if got.placed]
    lost = Outage("m", (0,), 0, 60 * 60_000, "loss")
    for changes in (admit, [Reconfigure(replace(plan.cluster, outages=(lost,)))]):
        prepared = plan.prepare(changes, plan.version)
        assert prepared.record is not None
        plan.apply(prepared.record, prepared.takings)
    relocate(plan)


def warm_machines() -> None:
    """Load the loops of a Plan with promises on machines."""
    from planner.machines.warm_up import load_machine_kernels

    load_machine_kernels()


def main() -> None:
    """Compile the requested loops on two cores, and print the time taken.

    No two parts that run concurrently call the same loop: both would compile it. Parts that call
    loops of several others come last.
    """
    began = time.perf_counter()
    waves = [[warm_planner, warm_dispatcher, warm_machines], [warm_relocation]]
    if "--demo" in sys.argv[1:]:
        # The two longest first. The last one begins when two of the others are done, whose loops it
        # calls.
        waves = [[warm_planner, warm_machines, warm_placement, warm_relocation]]
    if "--all" in sys.argv[1:]:
        first = [warm_planner, warm_exact_loops, warm_dispatcher, warm_machines]
        waves = [first, [warm_relocation, warm_exact]]
    # New processes, not copies: numba's threads do not outlive a fork.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for wave in waves:
            for done in [pool.submit(part) for part in wave]:
                done.result()
    if sys.stderr.isatty():
        sys.stderr.write(f"kernels ready in {time.perf_counter() - began:.1f} s\n")


if __name__ == "__main__":
    main()
