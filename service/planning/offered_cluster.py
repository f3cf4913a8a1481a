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
    from service.commits.group_commit import GroupCommit
    from service.replication.replica import Replica


def adopt_offered_cluster(replica: Replica, committer: GroupCommit) -> None:
    """Change to the cluster of the file given at this start, unless it was offered before."""
    offered = replica.offered
    if offered is None or not replica.is_new_offer():
        return
    with replica.newest() as plan:
        same = cluster_to_json(plan.cluster) == cluster_to_json(offered)
    if not same:
        job = QueuedChange(Reconfiguration(offered, None), time.perf_counter())
        committer.run([job])
        if isinstance(job.answers[0], ProblemDocument):
            why = job.answers[0].detail
            logger.error("the cluster file is not taken up, the Plan stays on its cluster: %s", why)
            return
    replica.note_offer()
