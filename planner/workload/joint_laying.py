"""Machines for all requests of a batch at once: by begin, before any of them is given up.

Where bundles are of one shape, or fill a machine, whatever totals hold is laid so: a machine that
is free where a bundle begins is free from then on (interval colouring).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.slots.slot_batch import SlotBatch
from planner.plan.slots.slots_in_force import occurrence_pieces
from planner.request import Request
from planner.reservations.holding import holding_of, leases_of
from planner.reservations.reservation import AtomAllocation
from planner.reservations.slots import Slots, no_slots, sort_slots


class _LaidPiece(NamedTuple):
    """Bundles of an atom that begin and end together."""

    request: int
    atom: AtomAllocation
    share: float
    row: NDArray[np.int64]


def lay_by_begin(
    plan: Plan, placed: Sequence[tuple[Request, PlacementResult]]
) -> dict[int, tuple[Slots, ...]]:
    """Return the slots of each atom of those that find machines, by place.

    Parameters
    ----------
    plan
        Its room is used and left as it was.
    placed
        Requests that are promised machines, with where agents placed them on totals.
    """
    batch = SlotBatch(plan.room, plan.cluster.nominal, plan.now)
    leases = [leases_of(request.graph) for request, _ in placed]
    atoms = [holding_of(*one).atoms for one in placed]
    found = {number: {one.path: [no_slots()] for one in own} for number, own in enumerate(atoms)}
    try:
        for piece in sorted(_pieces(plan, atoms), key=_turn):
            number, atom = piece.request, piece.atom
            if number not in found:
                continue
            beside = np.concatenate(found[number][atom.path])
            lease = leases[number][atom.path] if atom.rule.handover else 0
            slots = batch.lay(atom, piece.row, lease, beside)
            if slots is not None:
                found[number][atom.path].append(slots)
                continue
            given = found.pop(number)
            for one in atoms[number]:
                batch.change([(np.concatenate(given[one.path]), one.bundle)], -1)
    finally:
        batch.close()
    return {
        number: tuple(sort_slots(np.concatenate(parts)) for parts in own.values())
        for number, own in found.items()
    }


def _pieces(plan: Plan, atoms: Sequence[Sequence[AtomAllocation]]) -> Iterator[_LaidPiece]:
    for number, own in enumerate(atoms):
        for atom in own:
            share = atom.bundle.dominant_share(plan.cluster.nominal)
            for row in occurrence_pieces(atom):
                yield _LaidPiece(number, atom, share, row[None])


def _turn(piece: _LaidPiece) -> tuple[float, ...]:
    """Return the key of an order: by begin, then the largest bundles, then the longest."""
    start, end, _ = piece.row[0].tolist()
    return start, -piece.share, start - end
