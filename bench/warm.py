"""Compile kernels once, so that no user waits for it: `python -m bench.warm` (make setup).

Compiled code is cached beside the sources or in NUMBA_CACHE_DIR; a second run takes a second.
`--all` compiles the simulators' kernels too, which only tests and experiments need.
"""

from __future__ import annotations

import sys
import time


def warm_planner() -> None:
    """Plan and commit two requests on a real Plan; what differs between agents is data."""
    from planner.agents import agent_named
    from planner.cluster import Cluster, MachineGroup
    from planner.files.workload_file import WorkloadLine
    from planner.plan_file import plan_workload
    from planner.workload import compile_workload
    from rdl.resources import Resources

    machine = MachineGroup("plain", 4, Resources.of({"cpu": 4000, "memory": 8192}))
    cluster = Cluster(step_ms=60_000, horizon_ms=86_400_000, machines=(machine,))
    texts = (
        "window(atom(<1 cpu>, 1, 8, 10m, 2h), 0, 4h)",
        "window(order(atom(<1 cpu>, 2, 8, 10m, 2h), atom(<1 cpu>, 4, 4, 30m, 2h), gap=0..1h),"
        " 0, 8h)",
    )
    lines = [WorkloadLine(f"w{index}", text) for index, text in enumerate(texts)]
    workload = compile_workload(lines, cluster)
    # One signature serves every greedy agent.
    for name in ("gree", "gree-l"):
        plan_workload(cluster, workload, agent_named(name))


def warm_simulators() -> None:
    """Run the smallest simulation of each kind."""
    from bench.lotes_sim import run
    from dispatch.simulation.experiments.zoe_example import zoe_example

    zoe_example()
    run(small=True)


def main() -> None:
    """Compile what was asked for and say how long it took."""
    began = time.perf_counter()
    warm_planner()
    if "--all" in sys.argv[1:]:
        warm_simulators()
    if sys.stderr.isatty():
        print(f"kernels ready in {time.perf_counter() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
