"""Compile every kernel once, so that no user waits for it: `python -m bench.warm` (make setup).

Compiled code is cached beside the sources or in NUMBA_CACHE_DIR; a second run takes a second.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    """Plan and commit two requests on a real Plan; what differs between agents is data."""
    began = time.perf_counter()
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
    if sys.stderr.isatty():
        print(f"kernels ready in {time.perf_counter() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
