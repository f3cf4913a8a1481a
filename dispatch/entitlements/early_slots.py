"""Slots that begin early because components start late: on their own machine, where it has room."""

from __future__ import annotations

from collections.abc import Sequence

from dispatch.entitlements.directive import ActiveSlot, AtomShare, Entitlement
from dispatch.entitlements.early_start import take
from dispatch.entitlements.slot_rows import SlotRows
from planner.cluster.cluster import Cluster
from rdl.resources import Resources


class MachineLeft:
    """What the slots of an instant leave of every machine that is up."""

    def __init__(
        self, cluster: Cluster, away: frozenset[str], planned: Sequence[Entitlement]
    ) -> None:
        self._left = {
            name: dict(group.resources)
            for group in cluster.machines
            for name in group.machine_names()
            if name not in away
        }
        for entitlement in planned:
            for share in entitlement.atoms:
                for slot in share.slots or ():
                    self.take(slot.machine, share.bundle, slot.bundles)

    def count_room(self, machine: str | None, bundle: Resources) -> int:
        """Return how many bundles a machine has room for."""
        left = self._left.get(machine or "", {})
        return max(0, min((left.get(kind, 0) // n for kind, n in bundle.items()), default=0))

    def take(self, machine: str | None, bundle: Resources, count: int) -> None:
        """Take bundles from a machine."""
        if machine in self._left:
            take(self._left[machine], {kind: n * count for kind, n in bundle.items()})


def with_early_slots(
    planned: Entitlement | None,
    rows: SlotRows,
    atoms: Sequence[tuple[str, Resources, str | None]],
    step: int,
    leads: Sequence[int],
    left: MachineLeft,
    room: dict[str, int],
) -> tuple[AtomShare, ...]:
    """Return the shares of a reservation with what begins on each machine within its lead.

    As much as fits beside all slots of now, and in `room` beside all entitlements; both are
    lowered. Nothing is returned where nothing is early.
    """
    shares = {} if planned is None else {share.path: share for share in planned.atoms}
    added = False
    for atom, early in enumerate(_rises(rows, step, leads)):
        path, bundle, label = atoms[atom]
        for slot in early:
            fits = min((room.get(kind, 0) // n for kind, n in bundle.items()), default=0)
            count = min(slot.bundles, left.count_room(slot.machine, bundle), max(fits, 0))
            if count:
                before = shares.get(path, AtomShare(path, 0, bundle, label, ()))
                slots = (*(before.slots or ()), slot._replace(bundles=count))
                shares[path] = AtomShare(path, before.bundles + count, bundle, label, slots)
                left.take(slot.machine, bundle, count)
                take(room, {kind: n * count for kind, n in bundle.items()})
                added = True
    return tuple(shares.values()) if added else ()


def _rises(rows: SlotRows, step: int, leads: Sequence[int]) -> list[list[ActiveSlot]]:
    """Return by atom what each machine holds more within the lead than now."""
    here = rows.at(step)
    found: list[list[ActiveSlot]] = [[] for _ in leads]
    for atom, lead in enumerate(leads):
        mine = rows.slots[rows.atom == atom]
        starts = mine[(mine[:, 0] > step) & (mine[:, 0] <= step + lead), 0]
        known = _by_machine(here.get(atom, ()))
        for start in sorted(set(starts.tolist())):
            then = rows.at(start).get(atom, ())
            for machine, count in _by_machine(then).items():
                more = count - known.get(machine, 0)
                if machine is not None and more > 0:
                    end = max(slot.end for slot in then if slot.machine == machine)
                    found[atom].append(ActiveSlot(machine, more, start, end))
                    known[machine] = count
    return found


def _by_machine(slots: Sequence[ActiveSlot]) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for slot in slots:
        found[slot.machine] = found.get(slot.machine, 0) + slot.bundles
    return found
