"""Changes of the cluster, each tried on a copy of the Plan; a server start may cause one.

A record is applied by every process and at every later start. So its effects are first tried on a
copy of the Plan: the profile, the next step, and the dispatcher's view of the machines. A cluster
that fails there is an error for one client, not a record that stops all processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import options_of
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster
from planner.cluster.cost import excesses
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.cluster_writer import difference
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Change, Reconfigure
from planner.plan.records.commit_records import CommitRecord
from planner.promise import PromiseLevel
from service.commits.commands import Answer, Reconfiguration
from service.commits.replica import Replica
from service.problems import ApiError, ProblemDocument, detail_of

logger = logging.getLogger("agenda.service")

#: Error code of a cluster that cannot be planned.
UNPLANNABLE = "unplannable_cluster"


def too_costly(plan: Plan, cluster: Cluster) -> ProblemDocument | None:
    """Return why a Plan cannot use a cluster because of its size, or None."""
    last = plan.now + cluster.horizon_ms // plan.grid.step_ms
    beyond = excesses(cluster, plan.ledger.first, max(last, plan.grid.horizon))
    errors = tuple(ApiError(one.message, UNPLANNABLE, one.pointer, fix=one.fix) for one in beyond)
    return ProblemDocument(UNPLANNABLE, detail_of(errors), errors) if errors else None


def try_cluster(replica: Replica, cluster: Cluster) -> ProblemDocument | None:
    """Return why the Plan cannot use a cluster, or None; only a copy is changed."""
    with replica.newest() as plan:
        refused = too_costly(plan, cluster)
        if refused is not None or cluster.step_ms != plan.grid.step_ms:
            return refused  # another step length is a conflict, and reported as one
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
    """Return whether two descriptions differ only in outages for a dispatcher."""
    return one.machines == other.machines and options_of(one) == options_of(other)


def _try(twin: Plan, cluster: Cluster, *, dispatch: bool) -> None:
    """Do with a copy everything that processes do with the Plan; raise any error."""
    _apply(twin, Reconfigure(cluster))
    if twin.cluster != cluster:
        raise ValueError("reading it back gives another cluster")
    horizon = twin.now + cluster.horizon_ms // twin.grid.step_ms
    _apply(twin, Advance(twin.now + 1, max(horizon, twin.grid.horizon) + 1))
    twin.view().arrays()
    now_ms = twin.grid.ms(twin.now)
    directive = PlanFollower(twin).follow(now_ms)
    if dispatch:
        pool = MachinePool(cluster)
        Dispatcher(options_of(cluster)).run_cycle(directive, ExecutionTable(pool), pool)


def _apply(twin: Plan, change: Change) -> None:
    """Apply a change as a process does when it reads it from the log."""
    prepared = twin.prepare([change], twin.version)
    if prepared.record is None:
        raise ValueError(prepared.conflicts[0].detail)
    body = msgspec.json.encode(prepared.record.to_json())
    twin.apply(CommitRecord.from_json(msgspec.json.decode(body)))


def adopt_offered_cluster(
    replica: Replica, change: Callable[[Reconfiguration], Answer], *, keeps_taken: bool
) -> None:
    """Change to the cluster file given at this start, unless it was offered before.

    Parameters
    ----------
    change
        Makes the change and returns its answer.
    keeps_taken
        Whether the server reads from Kubernetes what others take of machines.
    """
    if replica.offered is None or replica.offered == replica.last_offer():
        return
    with replica.newest() as plan:
        before = plan.cluster
    merged = _with_outages(replica.offered, replica.last_offer(), before)
    try:
        wanted = cluster_from_json(
            merged, "the cluster file", level=PromiseLevel.PLACED, present=before
        )
    except FileError as error:
        logger.error("the Plan keeps its cluster; the cluster file was not applied: %s", error)
        return
    taken = before.taken if keeps_taken else wanted.taken
    wanted = replace(wanted, origin=before.origin, taken=taken)
    if cluster_to_json(before) != cluster_to_json(wanted):
        answer = change(Reconfiguration(wanted, None))
        if isinstance(answer, ProblemDocument):
            why = answer.detail
            logger.error("the Plan keeps its cluster; the cluster file was not applied: %s", why)
            return
        made = difference(cluster_to_json(before), cluster_to_json(wanted))
        logger.info("the Plan changed to the cluster file of this start: %s", "; ".join(made))
    replica.note_offer()


def _with_outages(
    offered: Mapping[str, Any], last: Mapping[str, Any], before: Cluster
) -> dict[str, Any]:
    """Return a cluster file with the outages that the Plan should have.

    The file adds, changes and ends outages where it differs from the previous file; all others stay
    as they are in the Plan, including outages and changes that were posted.
    """
    present = {one["id"]: one for one in cluster_to_json(before).get("outages", ())}
    former = {one["id"]: one for one in last.get("outages", ())}
    entries: list[Any] = []
    for entry in offered.get("outages", ()):
        unchanged = former.pop(entry["id"], None) == entry
        there = present.pop(entry["id"], None)
        entries += [entry] if not unchanged else [there] if there is not None else []
    entries += [entry for id_, entry in present.items() if id_ not in former]
    return dict(offered) | {"outages": entries}
