"""Try a description of the cluster on a copy of the Plan before it is committed.

A record is applied by every process and at every later start. So what it makes is made once on a
copy of the Plan first: the profile, the step after it, and what the dispatcher keeps of machines. A
cluster that fails there is an error that one client is told, not a record that stops all.
"""

from __future__ import annotations

import logging

import msgspec

from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import options_of
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster
from planner.cluster.cost import excesses
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Change, Reconfigure
from planner.plan.records.commit_records import CommitRecord
from service.problems import ApiError, ProblemDocument, detail_of
from service.replication.replica import Replica

logger = logging.getLogger("agenda.service")

#: The code of a cluster that cannot be planned on.
UNPLANNABLE = "unplannable_cluster"


def too_costly(plan: Plan, cluster: Cluster) -> ProblemDocument | None:
    """Return why a Plan cannot go on with a cluster for what it costs, or None."""
    last = plan.now + cluster.horizon_ms // plan.grid.step_ms
    beyond = excesses(cluster, plan.ledger.first, max(last, plan.grid.horizon))
    errors = tuple(ApiError(one.message, UNPLANNABLE, one.pointer, fix=one.fix) for one in beyond)
    return ProblemDocument(UNPLANNABLE, detail_of(errors), errors) if errors else None


def try_cluster(replica: Replica, cluster: Cluster) -> ProblemDocument | None:
    """Return why the Plan cannot go on with a cluster, or None; only a copy is changed."""
    with replica.newest() as plan:
        refused = too_costly(plan, cluster)
        if refused is not None or cluster.step_ms != plan.grid.step_ms:
            return refused  # another step is a conflict, and told as one
        twin, same = plan.copy(), _dispatched_alike(cluster, plan.cluster)
    try:
        _try(twin, cluster, dispatch=not same)
    except Exception as error:
        logger.exception(
            "a description of the cluster was refused: a copy of the Plan failed on it"
        )
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ProblemDocument(UNPLANNABLE, f"a copy of the Plan failed on this cluster: {why}")
    return None


def _dispatched_alike(one: Cluster, other: Cluster) -> bool:
    """Return whether a dispatcher sees no difference between two descriptions, but for outages."""
    return one.machines == other.machines and options_of(one) == options_of(other)


def _try(twin: Plan, cluster: Cluster, *, dispatch: bool) -> None:
    """Make of a twin all that processes make of the Plan; raise what fails."""
    _apply(twin, Reconfigure(cluster))
    if twin.cluster != cluster:
        raise ValueError("it is read back as another one")
    horizon = twin.now + cluster.horizon_ms // twin.grid.step_ms
    _apply(twin, Advance(twin.now + 1, max(horizon, twin.grid.horizon) + 1))
    twin.view().arrays()
    now_ms = twin.grid.ms(twin.now)
    directive = PlanFollower(twin).follow(now_ms)
    if dispatch:
        pool = MachinePool(cluster)
        Dispatcher(options_of(cluster)).run_cycle(directive, ExecutionTable(pool), pool)


def _apply(twin: Plan, change: Change) -> None:
    """Apply a change as a process does that meets it in the log."""
    prepared = twin.prepare([change], twin.version)
    if prepared.record is None:
        raise ValueError(prepared.conflicts[0].detail)
    body = msgspec.json.encode(prepared.record.to_json())
    twin.apply(CommitRecord.from_json(msgspec.json.decode(body)))
