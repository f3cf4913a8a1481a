"""Load the compiled loops before any timing, which would charge them to the first agent."""

from __future__ import annotations

from functools import cache

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.files.workload_file import WorkloadLine
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.workload.compile import compile_workload
from rdl.resources import CPU, Resources

_MINUTE_MS = 60_000
_TEXTS = (
    "atom(<1 cpu>, 1, 4, 2m, 20m)",
    "order(atom(<1 cpu>, 1, 4, 2m, 20m), atom(<1 cpu>, 2, 2, 5m, 10m), gap=0..1h)",
)


@cache
def load_kernels() -> None:
    """Plan one tiny request, then two, and commit them, once per process.

    Loads the planner's compiled loops from numba's cache in under a second; compiles those not yet
    cached, which takes about a minute. Greedy agents differ only in data, so one of them is enough.
    """
    machine = MachineGroup("m", 4, Resources.of({CPU: 4000}))
    cluster = Cluster(_MINUTE_MS, 240 * _MINUTE_MS, (machine,))
    lines = [WorkloadLine(f"w{index}", text) for index, text in enumerate(_TEXTS)]
    workload = compile_workload(lines, cluster)
    plan = Plan(cluster, workload.grid)
    agent = agent_named("gree-l")
    agent.plan(workload.requests[:1], plan.view(), Limits())
    results = agent.plan(workload.requests, plan.snapshot(), Limits())
    changes = [
        Admit(request, result, agent.name)
        for request, result in zip(workload.requests, results, strict=True)
    ]
    prepared = plan.prepare(changes, plan.version)
    assert prepared.record is not None
    plan.apply(prepared.record, prepared.takings)
