"""`real_days`: recorded days planned offline by each greedy agent, and judged by the validator.

The Facebook day of SWIM on 40, 24 and 16 machines (loads of about 0.43, 0.7 and 1.07), and the
log of the KTH SP2 as gangs. Seconds are processor time: planning with compiled kernels in memory,
best of three; compiling requests and validating the plan apart.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench.papers.agents import bench_agent
from bench.workloads.traces import SKIPPED, Day, kth_gangs, swim_day, traces_folder
from planner.cluster.cluster import Cluster
from planner.validation.validate import validate
from planner.value import size_of
from planner.workload.compile import CompiledWorkload, compile_workload
from planner.workload.plan import Planned, plan_from_nothing

NAME = "real_days"

AGENTS: Final = ("gree", "gree-paper", "gree-l", "aligned", "earliest", "portfolio")
MACHINES: Final = (40, 24, 16)
_ROUNDS: Final = 3


def run(small: bool) -> dict[str, object]:
    """Plan each day with each agent; figures by day, then by agent."""
    folder = traces_folder()
    params = {"agents": AGENTS, "swim_machines": MACHINES, "small": small}
    if folder is None:
        return {"params": params, "figures": SKIPPED}
    figures = {}
    for name, day in _days(folder, small):
        figures[name] = _figures_of(day)
    return {"params": params, "figures": figures}


def _days(folder: Path, small: bool) -> list[tuple[str, Day]]:
    limit = 150 if small else None
    counts = MACHINES[-1:] if small else MACHINES
    swim = [(f"swim_{count}", swim_day(folder, count, limit)) for count in counts]
    return [*swim, ("kth_gangs", kth_gangs(folder, limit))]


def _figures_of(day: Day) -> dict[str, object]:
    cluster, lines = day.cluster, day.lines
    began = time.process_time()
    workload = compile_workload(lines, cluster)
    compiled_s = time.process_time() - began
    asked = [line.id for line in lines]
    figures: dict[str, object] = {
        "requests": len(lines),
        "steps": cluster.grid().horizon,
        "not_compiled": len(workload.refusals),
        "load": round(_load(workload, cluster), 3),
        "compile_s": round(compiled_s, 2),
    }
    for name in AGENTS:
        agent = bench_agent(name)
        rounds = [
            plan_from_nothing(cluster, workload, agent, timer=time.process_time)
            for _ in range(_ROUNDS)
        ]
        best_ms = min(planned.metrics.runtime_ms for planned in rounds)
        planning = {"planning_s": round(best_ms / 1000, 3)}
        figures[name] = _judged(rounds[0], asked) | planning
    return figures


def _load(workload: CompiledWorkload, cluster: Cluster) -> float:
    """Return the work asked over what the machines could do until the horizon."""
    size = sum(size_of(request.graph, cluster.reference) for request in workload.requests)
    return 1000 * size / cluster.horizon_ms


def _judged(planned: Planned, asked: list[str]) -> dict[str, object]:
    """Return the figures of one plan.

    Raises
    ------
    AssertionError
        If the validator finds a promise that the plan breaks.
    """
    began = time.process_time()
    violations = validate(planned.document.to_json(), asked=asked)
    if violations:
        raise AssertionError(f"{len(violations)} violations, the first: {violations[0]}")
    metrics = planned.metrics
    codes = Counter(one.code.value for one in planned.results if one.code is not None)
    assert metrics.acceptance is not None
    return {
        "accepted": metrics.accepted,
        "acceptance": round(metrics.acceptance, 4),
        "refused": dict(sorted(codes.items())),
        "falls": metrics.falls,
        "falls_inner": metrics.falls_inner,
        "uniformity": None if metrics.uniformity is None else round(metrics.uniformity, 3),
        "validating_s": round(time.process_time() - began, 2),
        "violations": len(violations),
    }
