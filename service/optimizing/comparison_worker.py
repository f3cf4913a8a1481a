"""The process that compares: ``python -m service.optimizing.comparison_worker``.

It plans the requests of a day with several agents, on its own copy of the Plan, and writes its row.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from planner.agent import Limits
from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine, read_line
from planner.plan.plan import Plan
from planner.workload.compare import compare
from planner.workload.compile import compile_workload
from planner.workload.warm_up import load_kernels
from service.optimizing.comparison_job import ComparisonJob
from service.optimizing.live_requests import lines_of_plan, whole_cluster
from service.optimizing.process import carry_out
from service.optimizing.reporter import Reporter
from service.replication.replica import Replica


def _compare(replica: Replica, document: dict[str, Any], reporter: Reporter) -> None:
    asked = ComparisonJob.from_json(document)
    load_kernels()
    replica.replay()
    with replica.newest() as plan:
        twin = plan.copy()
    reporter.enter("comparing", twin.version)
    cluster, lines = _day_of(twin, asked)
    compiled = compile_workload(lines, cluster)
    limits = Limits(time_s=asked.time_s, seed=asked.seed, stop=reporter.stop)
    found = compare(cluster, compiled, asked.agents, limits)
    result = {"based_on": twin.version, "requests": len(lines), **found.to_json()}
    why = reporter.why
    reporter.ended(
        "stopped" if why else "finished",
        why and f"{why}: what was done",
        msgspec.json.encode(result),
    )


def _day_of(plan: Plan, asked: ComparisonJob) -> tuple[Cluster, list[WorkloadLine]]:
    """Return the cluster and the requests to compare on."""
    if asked.workload is None:
        return whole_cluster(plan), list(lines_of_plan(plan, asked.since_ms))
    origin = plan.cluster.origin
    lines = [read_line(one, number, origin) for number, one in enumerate(asked.workload, 1)]
    return plan.cluster, lines


if __name__ == "__main__":
    sys.exit(carry_out(_compare))
