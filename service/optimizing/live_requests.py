"""The requests that a live Plan remembers, as a workload, and the cluster they lie within."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine
from planner.plan.plan import Plan
from planner.reservations.reservation import Refusal, Reservation


def whole_cluster(plan: Plan) -> Cluster:
    """Return a Plan's cluster with a horizon from the origin to the end of what is planned."""
    return replace(plan.cluster, horizon_ms=plan.grid.horizon_ms)


def lines_of_plan(plan: Plan, since_ms: int = 0) -> Iterator[WorkloadLine]:
    """Yield the requests that a Plan remembers as lines of a workload, refused ones too."""
    known: list[Reservation | Refusal] = [*plan.reservations(), *plan.refusals]
    for one in known:
        if one.submitted_ms >= since_ms:
            yield WorkloadLine(
                one.id,
                one.expression,
                one.tenant,
                one.queue,
                one.submitted_ms,
                one.weight,
                one.priority,
                promise=one.promise,
            )
