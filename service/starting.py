"""What a process does between its Plan and its first client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from planner.files import cluster_to_json
from service.commands import Job, Reconfiguration, Rendered

if TYPE_CHECKING:
    from service.committer import Committer
    from service.replica import Replica


def adopt_offered_cluster(replica: Replica, committer: Committer) -> None:
    """Change to the cluster of the file given at this start, unless it was offered before."""
    offered = replica.offered
    if offered is None or not replica.is_new_offer():
        return
    with replica.newest() as plan:
        same = cluster_to_json(plan.cluster) == cluster_to_json(offered)
    if not same:
        command = Reconfiguration(offered, None)
        committer.run([Job(command, lambda _: Rendered(200, b""), time.perf_counter())])
    replica.note_offer()
