"""The cluster file given at a start: the Plan changes to it, unless it was offered before."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.promise import PromiseLevel
from service.commits.changes.commands import QueuedChange, Reconfiguration
from service.problems import ProblemDocument

logger = logging.getLogger("agenda.service")

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from service.commits.group_commit import GroupCommit
    from service.replication.replica import Replica


def adopt_offered_cluster(replica: Replica, committer: GroupCommit) -> None:
    """Change to the cluster of the file given at this start, unless it was offered before."""
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
        logger.error("the Plan stays on its cluster, the cluster file is not adopted: %s", error)
        return
    wanted = replace(wanted, origin=before.origin)
    if cluster_to_json(before) != cluster_to_json(wanted):
        job = QueuedChange(Reconfiguration(wanted, None), time.perf_counter())
        committer.run([job])
        if isinstance(job.answers[0], ProblemDocument):
            why = job.answers[0].detail
            logger.error("the Plan stays on its cluster, the cluster file is not adopted: %s", why)
            return
        logger.info("the Plan changed to the cluster file of this start: %s", _said(before, wanted))
    replica.note_offer()


def _with_outages(
    offered: Mapping[str, Any], last: Mapping[str, Any], before: Cluster
) -> dict[str, Any]:
    """Return a cluster file with the outages that the Plan is to have.

    The file adds, changes and ends outages where it differs from the file before it; all others
    stay as they are in the Plan: those that were posted, and what was posted about those of files.
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


def _said(before: Cluster, now: Cluster) -> str:
    """Return what a cluster file changed: counts of machines, and which other tables."""
    old = {group.name: group.count for group in before.machines}
    new = {group.name: group.count for group in now.machines}
    names = [name for name in {**old, **new} if old.get(name, 0) != new.get(name, 0)]
    counts = [f"{name} from {old.get(name, 0)} to {new.get(name, 0)} machines" for name in names]
    ours, theirs = cluster_to_json(before), cluster_to_json(now)
    tables = {**ours, **theirs}.keys() - {"machines"}
    others = sorted(name for name in tables if ours.get(name) != theirs.get(name))
    return ", ".join([*counts, *others]) or "machines"
