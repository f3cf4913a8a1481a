"""MachineWatch: machines whose executor is silent are outages of the Plan, until it is back.

So that what was promised on them is moved, or its owner told: the adapter answers an outage however
it came about (Rayon, section 5.1, step 5).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from planner.cluster.cluster import Cluster, Outage
from service.commits.changes.commands import AdaptationCommand, ClusterAnswer, Reconfiguration
from service.commits.screening.revision_check import cluster_tag
from service.planning.planner import Planner
from service.problems import ApiProblemError, ProblemDocument
from service.replication.replica import Replica

logger = logging.getLogger("agenda.service")

#: For how long a lost machine counts as away; it comes back when its executor reports.
LOST_MS: Final = 365 * 24 * 3_600_000


class MachineWatch:
    """Keeps the outages of the Plan in line with which executors report.

    Parameters
    ----------
    planner, replica
        What changes the Plan, and the Plan.
    """

    def __init__(self, planner: Planner, replica: Replica) -> None:
        self._planner = planner
        self._replica = replica
        self._refused = ""

    def follow(self, lost: Mapping[str, int], reporting: Container[str], now_ms: int) -> bool:
        """Add and end outages; return whether the Plan shows machines as they are.

        Parameters
        ----------
        lost
            Machines whose executor is lost, and since when.
        reporting
            Machines whose executor reports.
        now_ms
            Now, in ms from the origin.
        """
        with self._replica.newest() as plan:
            cluster = plan.cluster
        wanted = outages_with_losses(cluster, lost, reporting, now_ms)
        if wanted == cluster.outages:
            return True
        try:
            return self._change(cluster, wanted)
        except ApiProblemError as error:
            logger.warning("lost machines are no outages yet: %s", error)
            return False

    def _change(self, cluster: Cluster, wanted: tuple[Outage, ...]) -> bool:
        changed = Reconfiguration(replace(cluster, outages=wanted), cluster_tag(cluster))
        answer = self._planner.change(changed)[0]
        if not isinstance(answer, ClusterAnswer):
            assert isinstance(answer, ProblemDocument)
            if answer.detail != self._refused:
                logger.warning("lost machines are no outages yet: %s", answer.detail)
            self._refused = answer.detail
            return False
        self._refused = ""
        self._planner.change(AdaptationCommand(answer.version))
        return True


def outages_with_losses(
    cluster: Cluster, lost: Mapping[str, int], reporting: Container[str], now_ms: int
) -> tuple[Outage, ...]:
    """Return the outages of a cluster with those of lost machines.

    Those of machines that report end, whoever added them, so that none stays by mistake.
    """
    outages = list(cluster.outages)
    for name, since_ms in lost.items():
        outage = outage_of(cluster, name, since_ms)
        if outage not in outages:
            outages.append(outage)
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    found: list[Outage] = []
    for outage in outages:
        if not _is_loss_of(outage, reporting):
            found.append(outage)
        elif outage.start_ms < now_ms:
            found.append(replace(outage, end_ms=now_ms))
    return tuple(found)


def _is_loss_of(outage: Outage, machines: Container[str]) -> bool:
    """Return whether an outage looks as those of `outage_of`, and is of one of some machines."""
    lasts = outage.end_ms - outage.start_ms == LOST_MS
    alone = outage.kind == "loss" and len(outage.indices) == 1
    return lasts and alone and f"{outage.machines}-{outage.indices[0]}" in machines


def outage_of(cluster: Cluster, machine: str, since_ms: int) -> Outage:
    """Return the outage of a machine that is lost since an instant."""
    group, _, index = machine.rpartition("-")
    start_ms = since_ms // cluster.step_ms * cluster.step_ms
    return Outage(group, (int(index),), start_ms, start_ms + LOST_MS, "loss")
