"""The cluster file given at a start: the Plan changes to it, unless it was offered before."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from planner.files import cluster_to_json
from service.commits.changes.commands import QueuedChange, Reconfiguration
from service.problems import ProblemDocument

logger = logging.getLogger("agenda.service")

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from service.commits.group_commit import GroupCommit
    from service.replication.replica import Replica


def adopt_offered_cluster(replica: Replica, committer: GroupCommit) -> None:
    """Change to the cluster of the file given at this start, unless it was offered before."""
    offered = replica.offered
    if offered is None or not replica.is_new_offer():
        return
    with replica.newest() as plan:
        before = plan.cluster
    same = cluster_to_json(before) == cluster_to_json(offered)
    if not same:
        job = QueuedChange(Reconfiguration(offered, None), time.perf_counter())
        committer.run([job])
        if isinstance(job.answers[0], ProblemDocument):
            why = job.answers[0].detail
            logger.error("the cluster file is not taken up, the Plan stays on its cluster: %s", why)
            return
        logger.info(
            "the Plan changed to the cluster file of this start: %s", _said(before, offered)
        )
    replica.note_offer()


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
