"""MachineWatch: tells the Plan of lost machines, and of those that others reserve or use.

So promises on them are moved, or their owners notified: the adapter handles lost capacity whatever
the cause (Rayon, section 5.1, step 5).
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.cluster.calendar import LOST_MS, WINDOW_MS, lost_at_once, lost_now
from planner.cluster.cluster import RESERVED, SPARE, Cluster, MachineGroup, Outage, Taken
from planner.plan.plan import Plan
from planner.plan.table_columns import LEVEL_NUMBERS
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE
from planner.reservations.state import LIVE, STATE_NUMBERS, State
from service.commits.commands import ClusterAnswer, Reconfiguration
from service.commits.planner import Planner
from service.commits.replica import Replica
from service.commits.screening import cluster_tag
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


def outages_with_reserved(
    cluster: Cluster, spans: Iterable[ForeignSpan], now_ms: int
) -> tuple[Outage, ...]:
    """Return the outages of a cluster with those of machines that others have reserved.

    Outages of the kind ``reserved`` without a span end now, or are removed; others stay.

    Parameters
    ----------
    spans
        Times in ms from the origin. A span that began earlier is an outage from now on; a machine
        is down for the whole step in which it is taken, so that a later check finds the same
        outage.
    now_ms
        Now, in ms from the origin.
    """
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    wanted: dict[str, dict[tuple[int, int], str]] = {}
    for one in spans:
        if one.end > now_ms:
            start_ms = one.start // cluster.step_ms * cluster.step_ms
            wanted.setdefault(one.machine, {})[start_ms, one.end] = one.reservation
    kept: list[Outage] = []
    for outage in cluster.outages:
        if outage.kind != RESERVED or outage.end_ms <= now_ms:
            kept.append(outage)
            continue
        stay: list[int] = []
        over: list[int] = []
        for index in outage.indices:
            mine = wanted.get(f"{outage.machines}-{index}", {})
            span = _match(outage, mine, now_ms)
            if span is None:
                over.append(index)
            else:
                del mine[span]
                stay.append(index)
        if stay:
            kept.append(replace(outage, indices=tuple(stay)))
        if over and outage.start_ms < now_ms:
            kept.append(replace(outage, indices=tuple(over), end_ms=now_ms))
    return (*kept, *_outages_of(wanted, cluster, now_ms))


def _match(outage: Outage, spans: Iterable[tuple[int, int]], now_ms: int) -> tuple[int, int] | None:
    """Return the span of a machine that matches an outage; one that has begun continues."""
    for start_ms, end_ms in spans:
        begun = outage.start_ms <= now_ms and start_ms <= now_ms
        if end_ms == outage.end_ms and (begun or start_ms == outage.start_ms):
            return start_ms, end_ms
    return None


def _outages_of(
    spans: Mapping[str, Mapping[tuple[int, int], str]], cluster: Cluster, now_ms: int
) -> list[Outage]:
    """Return one outage for all machines of a group with the same times and reason."""
    counts = cluster.sizes()
    alike: dict[tuple[str, int, int, str], set[int]] = {}
    for name, mine in spans.items():
        group, _, index = name.rpartition("-")
        if int(index) < counts.get(group, 0):
            for (start_ms, end_ms), why in mine.items():
                kind = (group, max(start_ms, now_ms), end_ms, why)
                alike.setdefault(kind, set()).add(int(index))
    return [
        Outage(group, tuple(sorted(indices)), start_ms, end_ms, RESERVED, reason=_in_words(why))
        for (group, start_ms, end_ms, why), indices in sorted(alike.items())
    ]


def _in_words(why: str) -> str:
    """Return the holder of the machines in Slurm: the name of a reservation, or ``job 7``."""
    return f"in Slurm: {why}" if why else ""


# Best effort runs on them. When a machine is lost, a spare one of its group accepts promises in the
# same change, so that the promises on the lost machine have a place immediately. No promise is
# displaced by a spare machine: it begins when the promises on it, and those that may be on any
# machine, have ended. There are no spare machines while a promise waits for capacity.


def outages_with_spares(plan: Plan, cluster: Cluster, now_ms: int) -> tuple[Outage, ...]:
    """Return the outages of a cluster, including those of spare machines by its policy.

    Parameters
    ----------
    plan
        The Plan with its promises.
    cluster
        The Plan's cluster, with the new outages except those of spare machines.
    now_ms
        Now, in ms from the origin.
    """
    spares = [one for one in cluster.outages if one.kind == SPARE]
    if not spares and not cluster.dispatch.spare:
        return cluster.outages
    others = replace(cluster, outages=tuple(one for one in cluster.outages if one.kind != SPARE))
    now_ms = now_ms // cluster.step_ms * cluster.step_ms
    found: list[Outage] = []
    for group in cluster.machines:
        wanted = _wanted(plan, others, group, now_ms)
        mine = _standing(spares, others, group, now_ms)
        found += mine[max(0, len(mine) - wanted) :]
        found += _more(plan, others, group, [one.indices[0] for one in mine], now_ms)[
            : max(0, wanted - len(mine))
        ]
    found.sort(key=lambda one: (one.machines, one.start_ms, one.indices))
    return (*others.outages, *found)


def _wanted(plan: Plan, cluster: Cluster, group: MachineGroup, now_ms: int) -> int:
    """Return how many machines of a group should be spare now; at most half of them."""
    share = cluster.dispatch.spare
    if not share or (plan.table.meta["state"] == STATE_NUMBERS[State.DEGRADED]).any():
        return 0
    expected = lost_at_once(cluster, group.name, now_ms, share)
    return min(max(0, expected - len(lost_now(cluster, group.name, now_ms))), group.count // 2)


def _standing(
    spares: Sequence[Outage], cluster: Cluster, group: MachineGroup, now_ms: int
) -> list[Outage]:
    """Return the spare machines of a group that are in no other outage, oldest first."""
    away = _away(cluster, group, now_ms)
    mine = [one for one in spares if one.machines == group.name and one.end_ms > now_ms]
    mine = [one for one in mine if one.indices[0] not in away]
    return sorted(mine, key=lambda one: (one.start_ms, one.indices))


def _more(
    plan: Plan, cluster: Cluster, group: MachineGroup, taken: Sequence[int], now_ms: int
) -> list[Outage]:
    """Return a group's machines as spare ones, in order of when they become free."""
    away = _away(cluster, group, now_ms)
    free = _free_from(plan, now_ms)
    first = cluster.machine_names.index(f"{group.name}-0")
    indices = [n for n in range(group.count) if n not in away and n not in taken]
    indices.sort(key=lambda index: (int(free[first + index]), -index))
    starts = [max(now_ms, plan.grid.ms(int(free[first + index]))) for index in indices]
    return [
        Outage(group.name, (index,), start_ms, start_ms + LOST_MS, SPARE)
        for index, start_ms in zip(indices, starts, strict=True)
    ]


def _away(cluster: Cluster, group: MachineGroup, now_ms: int) -> set[int]:
    """Return the machines of a group that are in outages now."""
    return {
        index
        for one in cluster.outages_at(now_ms)
        if one.machines == group.name
        for index in one.indices
    }


def _free_from(plan: Plan, now_ms: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return int64[machines]: the step at which the last promise on each machine ends.

    A promise without a machine may be on any machine.
    """
    slots, _ = plan.table.slots_after(now_ms // plan.grid.step_ms)
    somewhere = slots[slots[:, 3] != NOWHERE]
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    anywhere = live & (meta["promise"] != LEVEL_NUMBERS[PromiseLevel.PLACED])
    ends = [meta["finish"][anywhere], slots[slots[:, 3] == NOWHERE, 1]]
    first = max((int(one.max(initial=0)) for one in ends), default=0)
    found = np.full(len(plan.cluster.machine_names), first, dtype=np.int64)
    np.maximum.at(found, somewhere[:, 3], somewhere[:, 1])
    return found
