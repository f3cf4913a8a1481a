"""The process that compares: ``python -m service.optimizing.comparison_worker``.

As `service.optimizing.worker`: one line of JSON says what to do, the Plan is read from the log, and
the process writes its row. The Plan is never changed.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

import msgspec

from planner.agent import Limits
from planner.cluster import Cluster
from planner.files.workload_file import WorkloadLine, read_line
from planner.plan.plan import Plan
from planner.workload.compare import compare
from planner.workload.compile import compile_workload
from planner.workload.warm_up import load_kernels
from service.clock import SystemClock
from service.config import ServiceConfig
from service.optimizing.comparison_job import ComparisonJob
from service.optimizing.live_requests import lines_of_plan, whole_cluster
from service.optimizing.reporter import Reporter
from service.replication.replica import Replica, open_replica

logger = logging.getLogger("agenda.optimizing")

#: How much this process stands back behind the server's own.
_NICE: Final = 10

#: Exit code where the row says what went wrong.
_FAILED: Final = 1


def main() -> int:
    """Carry out the one job that standard input names."""
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    os.nice(_NICE)
    job = msgspec.json.decode(sys.stdin.buffer.readline())
    replica = open_replica(ServiceConfig(database=job["database"]), SystemClock())
    clock = replica.store.host_clock(SystemClock())
    row = replica.store.optimizations.get(job["id"], clock.now_ms())
    if row is None:  # it was forgotten before it began
        replica.store.close()
        return 0
    reporter = Reporter(replica.store, row, clock)
    reporter.start()
    try:
        _compare(replica, ComparisonJob.from_json(job["asked"]), reporter)
    except Exception as failure:
        logger.exception("comparison %s failed", job["id"])
        reporter.ended("failed", f"{type(failure).__name__}: {failure}")
        return _FAILED
    finally:
        replica.store.close()
    return 0


def _compare(replica: Replica, asked: ComparisonJob, reporter: Reporter) -> None:
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
    sys.exit(main())
