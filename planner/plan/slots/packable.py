"""Packable promises: at every step some packing of their bundles is in what slots leave.

A packing is sought by first fit, the largest bundles first; where it finds none there may be one
all the same, so what it grants is true and what it refuses may be too careful.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.machines.room import MachineRoom, PackingPlaces
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.rows import add_up, dense
from planner.reservations.slots import MachineRule
from rdl.resources import Resources

I64 = NDArray[np.int64]

#: Bundles that stand by the same rules; those with a spread are one atom's.
_Kind: TypeAlias = tuple[Resources, str | None, MachineRule, bytes]


class Unpacked(NamedTuple):
    """A step at which no packing was found: of a kind, `found` of `needed` bundles."""

    step: int
    bundle: Resources
    label: str | None
    needed: int
    found: int


class PackedBundles:
    """What packable reservations hold at each step, by kind of bundle.

    Parameters
    ----------
    first, horizon
        The steps that are looked at: [first, horizon).
    """

    def __init__(self, first: int, horizon: int) -> None:
        self.first, self.horizon = first, horizon
        self._counts: dict[_Kind, I64] = {}

    def copy(self) -> PackedBundles:
        """Return the same, for changes of its own."""
        twin = PackedBundles(self.first, self.horizon)
        twin._counts = {kind: counts.copy() for kind, counts in self._counts.items()}
        return twin

    def add(self, holding: Holding, sign: int = 1) -> None:
        """Count what a packable reservation holds; -1 takes it off again."""
        for atom in holding.atoms:
            rows = atom.all_rows()
            if not len(rows):
                continue
            kind = _kind_of(atom)
            counts = self._counts.setdefault(kind, self._zeros())
            counts += sign * dense(rows, self.first, len(counts))
            if not counts.any():
                del self._counts[kind]

    def _zeros(self) -> I64:
        return np.zeros(self.horizon - self.first, dtype=np.int64)

    def shortage(self, holding: Holding, room: MachineRoom, nominal: Resources) -> Unpacked | None:
        """Return the first step of a holding at which no packing was found, or None.

        Parameters
        ----------
        room
            What slots leave.
        nominal
            The whole cluster, which tells large bundles from small ones.
        """
        if not self._counts:
            return None
        rows = [atom.all_rows() for atom in holding.atoms if len(atom.rows)]
        if not rows:
            return None
        kinds = sorted(self._counts, key=lambda one: -one[0].dominant_share(nominal))
        counts = np.stack([self._counts[kind] for kind in kinds])
        places = [room.packing_places(*kind[:3]) for kind in kinds]
        known: tuple[I64, I64] | None = None
        for start, end, _ in add_up(np.concatenate(rows)).tolist():
            for step in range(max(start, self.first), min(end, self.horizon)):
                now = counts[:, step - self.first]
                if not now.any():
                    continue
                left = room.free_at(step)
                if known is not None and (known[0] == now).all() and (known[1] == left).all():
                    continue
                known = now, left
                missing = _first_fit(left, places, now)
                if missing is not None:
                    index, found = missing
                    bundle, label = kinds[index][:2]
                    return Unpacked(step, bundle, label, int(now[index]), found)
        return None


def packed_bundles(holdings: Iterable[Holding], first: int, horizon: int) -> PackedBundles:
    """Return what holdings of packable reservations take."""
    packed = PackedBundles(first, horizon)
    for holding in holdings:
        packed.add(holding)
    return packed


def _kind_of(atom: AtomAllocation) -> _Kind:
    # Bundles of different atoms may stand together however the spread of each is.
    own = b"" if not atom.rule.spread else atom.path.encode() + atom.all_rows().tobytes()
    return atom.bundle, atom.label, atom.rule._replace(handover=True), own


def _first_fit(left: I64, places: Sequence[PackingPlaces], counts: I64) -> tuple[int, int] | None:
    """Return the first kind of which not all bundles fit, and how many do; None where all do.

    Machines are tried in the order of the places, then the fullest first.
    """
    missing = None
    for fullest_first in (False, True):
        missing = _fill(left.copy(), places, counts, fullest_first=fullest_first)
        if missing is None:
            return None
    return missing


def _fill(
    left: I64, places: Sequence[PackingPlaces], counts: I64, *, fullest_first: bool
) -> tuple[int, int] | None:
    for index, (place, count) in enumerate(zip(places, counts.tolist(), strict=True)):
        if not count:
            continue
        fit = place.fit(left)
        order = np.argsort(fit, kind="stable") if fullest_first else np.arange(len(fit))
        fit = place.spread_out(fit, order)[order]
        taken = np.clip(count - (np.cumsum(fit) - fit), 0, fit)
        if taken.sum() < count:
            return index, int(taken.sum())
        machines = place.machines[order]
        for resource, amount in place.amounts.tolist():
            left[machines, resource] -= amount * taken
    return None
