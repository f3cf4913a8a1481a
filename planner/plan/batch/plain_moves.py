"""Relocations that only put bundles which have not begun on other machines, at the same times.

Most of those that follow a loss are such. Neither leases nor what has begun can be hurt by them, so
that all of a joint batch are judged at once: a few calls for each kind of bundle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from planner.cluster.cluster import Cluster
from planner.plan.draft import Draft
from planner.plan.records.changes import Relocate
from planner.plan.slots.slot_faults import stays_of
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.slots import NOWHERE, Slots, slots_of
from rdl.resources import Resources

#: Slots of one bundle.
_Kind = dict[Resources, list[list[int]]]


class PlainMoves:
    """The plain relocations of one joint batch.

    Parameters
    ----------
    now
        The present step.
    """

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._now = now
        self._labels = [group.labels for group in cluster.machines for _ in range(group.count)]
        self._left: _Kind = {}
        self._came: dict[str, _Kind] = {}
        self._short: set[str] = set()

    def __contains__(self, id_: object) -> bool:
        return id_ in self._came

    def add(self, change: Relocate, before: Holding) -> bool:
        """Note a relocation of what is promised machines; False, and nothing done, if not plain."""
        if len(change.slots) != len(before.atoms):
            return False
        if change.id in self._came:
            return False
        left: _Kind = {}
        came: _Kind = {}
        for atom, slots in zip(before.atoms, change.slots, strict=True):
            moved = self._moved(atom, slots)
            if moved is None:
                return False
            left.setdefault(atom.bundle, []).extend(moved[0])
            came.setdefault(atom.bundle, []).extend(moved[1])
        for bundle, rows in left.items():
            self._left.setdefault(bundle, []).extend(rows)
        self._came[change.id] = came
        return True

    def _moved(
        self, atom: AtomAllocation, after: Slots
    ) -> tuple[list[list[int]], list[list[int]]] | None:
        """Return the slots that an atom leaves and those it comes to; None if that is not plain."""
        if atom.slots is None or atom.rule.binds:
            return None
        counts: Counter[tuple[int, int, int]] = Counter()
        times: Counter[tuple[int, int]] = Counter()
        for sign, slots in ((1, after), (-1, atom.slots)):
            for start, end, bundles, machine in slots.tolist():
                counts[start, end, machine] += sign * bundles
                times[start, end] += sign * bundles
        if any(times.values()) or int(after[:, 2].min(initial=1)) < 1:
            return None
        left: list[list[int]] = []
        came: list[list[int]] = []
        for (start, end, machine), bundles in counts.items():
            if bundles and (start < self._now or (bundles > 0 and not self._may(atom, machine))):
                return None
            if bundles:
                (came if bundles > 0 else left).append([start, end, abs(bundles), machine])
        return None if _cuts_a_stay(atom.slots, left) else (left, came)

    def _may(self, atom: AtomAllocation, machine: int) -> bool:
        """Return whether bundles of an atom may be on a machine."""
        there = NOWHERE < machine < len(self._labels)
        return there and (atom.label is None or atom.label in self._labels[machine])

    def leave(self, draft: Draft) -> None:
        """Release what all of them leave."""
        draft.change_slots([(slots_of(slots), bundle) for bundle, slots in self._left.items()], -1)

    def come(self, draft: Draft) -> None:
        """Take what they come to, wherever there is capacity; who finds none is `short`."""
        mark, together = draft.savepoint(), self._together()
        for slots, bundle in together:
            if not draft.room.fits(slots, bundle):
                break
            draft.change_slots([(slots, bundle)], 1)
        else:
            return
        draft.roll_back(mark)
        for id_, kinds in self._came.items():
            own = draft.savepoint()
            for bundle, rows in kinds.items():
                if not draft.room.fits(slots_of(rows), bundle):
                    draft.roll_back(own)
                    self._short.add(id_)
                    break
                draft.change_slots([(slots_of(rows), bundle)], 1)

    def _together(self) -> Sequence[tuple[Slots, Resources]]:
        """Return what all come to, by bundle."""
        kinds: dict[Resources, list[Slots]] = {}
        for came in self._came.values():
            for bundle, rows in came.items():
                kinds.setdefault(bundle, []).append(slots_of(rows))
        return [(np.concatenate(slots), bundle) for bundle, slots in kinds.items()]

    def is_short(self, id_: str) -> bool:
        """Return whether there was no free capacity for one."""
        return id_ in self._short


def _cuts_a_stay(before: Slots, left: Sequence[list[int]]) -> bool:
    """Return whether a slot that is left continues in another of its machine."""
    machines = {machine for *_, machine in left}
    beside = before[np.isin(before[:, 3], list(machines))]
    if len(beside) == len(machines):
        return False
    stays = {(start, end, machine) for start, end, _, machine in stays_of(beside)}
    return any((start, end, machine) not in stays for start, end, _, machine in left)
