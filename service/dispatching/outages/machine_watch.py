"""MachineWatch: tells the Plan of lost machines, and of those that others reserve or use.

So promises on them are moved, or their owners notified: the adapter handles lost capacity whatever
the cause (Rayon, section 5.1, step 5).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import Final

from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.cluster.calendar import LOST_MS, WINDOW_MS
from planner.cluster.cluster import RESERVED, SPARE, Cluster, Outage, Taken
from service.commits.commands import ClusterAnswer, Reconfiguration
from service.commits.planner import Planner
from service.commits.replica import Replica
from service.commits.screening import cluster_tag
from service.dispatching.outages.reserved_outages import outages_with_reserved
from service.dispatching.outages.spare_outages import outages_with_spares
from service.problems import ApiProblemError, ProblemDocument

logger = logging.getLogger("agenda.service")

#: How long outages for others' reservations are listed after their end, ms: a busy Slurm has many.
_RESERVED_KEPT_MS: Final = 3_600_000

#: How long the watch waits for the repair after a change of machines.
_REPAIR_S: Final = 10.0


class MachineWatch:
    """Keeps the outages of the Plan in line with the reports of executors.

    Parameters
    ----------
    planner, replica
        The planner, which changes the Plan, and the Plan.
    """

    def __init__(self, planner: Planner, replica: Replica) -> None:
        self._planner = planner
        self._replica = replica
        self._refused = ""

    def follow(
        self,
        lost: Mapping[str, int],
        reporting: Container[str],
        now_ms: int,
        reserved: Iterable[ForeignSpan] | None = None,
        taken: Iterable[Taken] | None = None,
    ) -> bool:
        """Add and end outages; return whether the Plan matches the machines.

        Parameters
        ----------
        lost
            Machines with a lost executor or none, and since when.
        reporting
            Machines whose executor reports.
        now_ms
            Now, in ms from the origin.
        reserved
            Machines that others have reserved outside the Plan, with times in ms from the origin;
            None if unknown: then their outages do not change.
        taken
            What others use of single machines; None if unknown: then it does not change.
        """
        with self._replica.newest() as plan:
            cluster = plan.cluster
            wanted = outages_with_losses(cluster, lost, reporting, now_ms)
            if reserved is not None:
                wanted = outages_with_reserved(replace(cluster, outages=wanted), reserved, now_ms)
            wanted = outages_with_spares(plan, replace(cluster, outages=wanted), now_ms)
        kept = tuple(one for one in wanted if one.kind != SPARE or one in cluster.outages)
        less = cluster if taken is None else replace(cluster, taken=tuple(taken))
        try:
            changes = kept != cluster.outages or less.taken != cluster.taken
            if changes and not self._change(less, cluster_tag(cluster), kept, now_ms):
                return False
            if wanted != kept:  # outages of lost machines do not wait for spare ones
                self._add_spares(now_ms)
            return True
        except ApiProblemError as error:
            logger.warning("outages for machines that are down could not be added yet: %s", error)
            return False

    def _add_spares(self, now_ms: int) -> None:
        """Add spare machines, unless the Plan changes after they were chosen."""
        with self._replica.newest() as plan:
            cluster, version = plan.cluster, plan.version
            wanted = outages_with_spares(plan, cluster, now_ms)
        if wanted == cluster.outages:
            return
        changed = Reconfiguration(replace(cluster, outages=wanted), cluster_tag(cluster), version)
        answer = self._planner.change(changed)[0]
        if isinstance(answer, ClusterAnswer):
            self._planner.repair(answer.version, _REPAIR_S)

    def _change(self, cluster: Cluster, tag: str, outages: tuple[Outage, ...], now_ms: int) -> bool:
        wanted = replace(
            cluster,
            outages=without_old(outages, now_ms),
            absent=without_old(cluster.absent, now_ms),
        )
        answer = self._planner.change(Reconfiguration(wanted, tag))[0]
        if not isinstance(answer, ClusterAnswer):
            assert isinstance(answer, ProblemDocument)
            if answer.detail != self._refused:
                logger.warning(
                    "outages for machines that are down could not be added yet: %s", answer.detail
                )
            self._refused = answer.detail
            return False
        self._refused = ""
        self._planner.repair(answer.version, _REPAIR_S)
        return True


def without_old(outages: Iterable[Outage], now_ms: int) -> tuple[Outage, ...]:
    """Return outages without expired ones for losses and for others' reservations."""
    kept_ms = {"loss": WINDOW_MS, RESERVED: _RESERVED_KEPT_MS}
    return tuple(
        one for one in outages if one.kind not in kept_ms or one.end_ms > now_ms - kept_ms[one.kind]
    )


def outages_with_losses(
    cluster: Cluster, lost: Mapping[str, int], reporting: Container[str], now_ms: int
) -> tuple[Outage, ...]:
    """Return the outages of a cluster with those of lost machines.

    Loss outages of reporting machines end regardless of who added them, so that none stays by
    mistake.
    """
    known = {
        (one.machines, index) for one in cluster.outages if _is_loss(one) for index in one.indices
    }
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    found: list[Outage] = []
    for outage in (*cluster.outages, *_losses(cluster, lost, known)):
        back = tuple(
            index
            for index in (outage.indices if _is_loss(outage) else ())
            if f"{outage.machines}-{index}" in reporting
        )
        away = tuple(index for index in outage.indices if index not in back)
        if away:
            found.append(replace(outage, indices=away))
        if back and outage.start_ms < now_ms:
            found.append(replace(outage, indices=back, end_ms=now_ms))
    return tuple(found)


def _losses(
    cluster: Cluster, lost: Mapping[str, int], known: Container[tuple[str, int]]
) -> list[Outage]:
    """Return new outages for lost machines without one, one per group and step."""
    found: dict[tuple[str, int], list[int]] = {}
    for name, since_ms in lost.items():
        group, _, index = name.rpartition("-")
        if (group, int(index)) not in known:
            start_ms = since_ms // cluster.step_ms * cluster.step_ms
            found.setdefault((group, start_ms), []).append(int(index))
    return [
        Outage(group, tuple(sorted(indices)), start_ms, start_ms + LOST_MS, "loss")
        for (group, start_ms), indices in found.items()
    ]


def _is_loss(outage: Outage) -> bool:
    """Return whether an outage has the form of a lost machine's."""
    return outage.kind == "loss" and outage.end_ms - outage.start_ms == LOST_MS
