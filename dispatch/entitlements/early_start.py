"""Entitlements that begin early because components start late (Rayon 5.2, the adapter's bias).

A slot begins early on its own machine if that machine has capacity next to all current slots; all
early bundles fit next to all entitlements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatch.entitlements.directive import AtomShare, Entitlement
from dispatch.entitlements.slots import ActiveSlot, SlotRows
from planner.cluster.cluster import Cluster
from rdl.resources import Resources


class EarlyRoom:
    """Capacity that the entitlements of an instant leave free, per machine and in total.

    Parameters
    ----------
    cluster
        The machines.
    away
        Machines that are not up.
    planned
        Entitlements that take the capacity.
    """

    def __init__(
        self, cluster: Cluster, away: frozenset[str], planned: Sequence[Entitlement]
    ) -> None:
        self._machines = {
            name: dict(group.resources)
            for group in cluster.machines
            for name in group.machine_names()
            if name not in away
        }
        self._total: dict[str, int] = {}
        for amounts in self._machines.values():
            _add(self._total, amounts, 1)
        for entitlement in planned:
            for share in entitlement.atoms:
                for slot in share.slots:
                    self._take(slot, share.bundle)

    def take_fitting(self, slot: ActiveSlot, bundle: Resources) -> ActiveSlot | None:
        """Take as many bundles of a slot as fit, and return them; None if none does."""
        rooms = [self._total]
        if slot.machine is not None:
            rooms.append(self._machines.get(slot.machine, {}))
        fits = min(
            (room.get(kind, 0) // n for room in rooms for kind, n in bundle.items()), default=0
        )
        count = min(slot.bundles, fits)
        if count <= 0:
            return None
        found = slot._replace(bundles=count)
        self._take(found, bundle)
        return found

    def _take(self, slot: ActiveSlot, bundle: Resources) -> None:
        _add(self._total, bundle, -slot.bundles)
        if slot.machine in self._machines:
            _add(self._machines[slot.machine], bundle, -slot.bundles)


def _add(into: dict[str, int], amounts: Mapping[str, int], count: int) -> None:
    for kind, amount in amounts.items():
        into[kind] = into.get(kind, 0) + count * amount


def with_early(
    planned: Entitlement | None,
    rows: SlotRows,
    atoms: Sequence[tuple[str, Resources, str | None]],
    step: int,
    leads: Sequence[int],
    room: EarlyRoom,
) -> tuple[AtomShare, ...]:
    """Return the shares of a reservation with the slots that begin within each atom's lead.

    Only as much as fits in `room` is added, and subtracted from it. Empty if nothing is early.
    """
    shares = {} if planned is None else {share.path: share for share in planned.atoms}
    added = False
    for (path, bundle, label), early in zip(atoms, rows.rises(step, leads), strict=True):
        for slot in early:
            found = room.take_fitting(slot, bundle)
            if found is not None:
                known = shares.get(path, AtomShare(path, 0, bundle, label, ()))
                slots = (*known.slots, found)
                shares[path] = AtomShare(path, known.bundles + found.bundles, bundle, label, slots)
                added = True
    return tuple(shares.values()) if added else ()
