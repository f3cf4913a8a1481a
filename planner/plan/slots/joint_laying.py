"""Machines for many holdings at once: by begin, before any of them is given up.

Where bundles are of one shape, or fill a machine, whatever totals hold is laid so: a machine that
is free where a bundle begins is free from then on (interval colouring).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.plan.slots.slot_batch import SlotBatch
from planner.plan.slots.slots_in_force import occurrence_pieces
from planner.reservations.reservation import AtomAllocation
from planner.reservations.slots import Slots, no_slots, sort_slots
from rdl.resources import Resources


class WantedSlots(NamedTuple):
    """Atoms of one holding that want slots.

    Attributes
    ----------
    atoms
        With their rows; what slots they have does not count.
    leases
        Steps of a lease by atom path (`planner.reservations.holding.leases_of`).
    """

    atoms: Sequence[AtomAllocation]
    leases: Mapping[str, int]


class _Piece(NamedTuple):
    """Bundles of an atom that begin and end together."""

    number: int
    atom: AtomAllocation
    share: float
    row: NDArray[np.int64]


def lay_by_begin(
    batch: SlotBatch, wanted: Mapping[int, WantedSlots], nominal: Resources
) -> dict[int, tuple[Slots, ...]]:
    """Return the slots of each atom of the holdings that find machines, taken.

    Parameters
    ----------
    batch
        What machines have left.
    wanted
        Number -> what wants slots, none of which has begun.
    nominal
        All machines together: bundles that begin together are laid by their share of it.
    """
    found = {
        number: {one.path: [no_slots()] for one in own.atoms} for number, own in wanted.items()
    }
    for piece in sorted(_pieces(wanted, nominal), key=_turn):
        number, atom = piece.number, piece.atom
        if number not in found:
            continue
        beside = np.concatenate(found[number][atom.path])
        lease = wanted[number].leases[atom.path] if atom.rule.handover else 0
        slots = batch.lay(atom, piece.row, lease, beside)
        if slots is not None:
            found[number][atom.path].append(slots)
            continue
        given = found.pop(number)
        for one in wanted[number].atoms:
            batch.change([(np.concatenate(given[one.path]), one.bundle)], -1)
    return {
        number: tuple(sort_slots(np.concatenate(parts)) for parts in own.values())
        for number, own in found.items()
    }


def _pieces(wanted: Mapping[int, WantedSlots], nominal: Resources) -> Iterator[_Piece]:
    for number, own in wanted.items():
        for atom in own.atoms:
            share = atom.bundle.dominant_share(nominal)
            for row in occurrence_pieces(atom):
                yield _Piece(number, atom, share, row[None])


def _turn(piece: _Piece) -> tuple[float, ...]:
    """Return the key of an order: by begin, then the largest bundles, then the longest."""
    start, end, _ = piece.row[0].tolist()
    return start, -piece.share, start - end
