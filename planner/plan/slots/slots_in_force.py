"""Which slots of a changed holding stay where they are, and what of it needs machines again.

What is past stays. What has begun continues where it runs, as long as it can; the oldest bundles
end first.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.machines.room import MachineRoom
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, subtract
from planner.reservations.slots import NOWHERE, MachineRule, Slots, pieces_of, slots_of
from rdl.resources import Resources


class SlotsInForce(NamedTuple):
    """Slots that continue, and the step until which each has had its machine so far.

    Attributes
    ----------
    slots, owned
        int64[k, 4] and int64[k].
    """

    slots: Slots
    owned: NDArray[np.int64]


def slots_in_force(rows: Rows, old: Slots, now: int) -> tuple[SlotsInForce, NDArray[np.int64]]:
    """Return what is past or runs now, on its machines, and the pieces that are to be laid."""
    pieces = pieces_of(rows)
    running = pieces[(pieces[:, 0] < now) & (pieces[:, 1] > now)]
    begun = old[(old[:, 0] < now) & (old[:, 1] > now)]
    past = old[old[:, 1] <= now]
    ended = pieces[(pieces[:, 0] < now) & (pieces[:, 1] <= now)]
    later = pieces[pieces[:, 0] >= now]
    goes_on, owned, over = _match(begun, running, now)
    kept = np.concatenate([past, goes_on, over])
    if len(ended) or len(running):
        held = add_up(kept[:, :3]) if len(kept) else rows[:0]
        wanted = add_up(pieces[pieces[:, 0] < now])
        missing = subtract(wanted, held) if len(held) else wanted
        if len(missing):  # of a reservation that had no machines before
            nowhere = np.full((len(missing), 1), NOWHERE, dtype=np.int64)
            kept = np.concatenate([kept, np.concatenate([missing, nowhere], axis=1)])
    ends = kept[:, 1].copy()
    ends[len(past) : len(past) + len(owned)] = owned
    return SlotsInForce(kept, ends), later


def _match(
    begun: Slots, running: NDArray[np.int64], now: int
) -> tuple[Slots, NDArray[np.int64], Slots]:
    """Give the ends of running pieces to begun slots, the oldest first.

    Returns
    -------
    goes_on, owned, over
        Those that continue, the ends that they had before, and bundles whose new rows end at `now`.
    """
    ends: list[list[int]] = [[end, count] for _, end, count in running.tolist()]
    goes_on: list[list[int]] = []
    owned: list[int] = []
    over: list[list[int]] = []
    # Those that the rows no longer hold at `now` are the oldest.
    spare = int(begun[:, 2].sum()) - sum(count for _, count in ends)
    for start, end, bundles, machine in begun.tolist():
        left = bundles
        if spare > 0:
            part = min(spare, left)
            over.append([start, now, part, machine])
            spare, left = spare - part, left - part
        while left and ends:
            part = min(left, ends[0][1])
            goes_on.append([start, ends[0][0], part, machine])
            owned.append(end)
            left -= part
            ends[0][1] -= part
            if not ends[0][1]:
                ends.pop(0)
    return slots_of(goes_on), np.array(owned, dtype=np.int64), slots_of(over)


def handover_step(slot: NDArray[np.int64], until: int, lease: int, now: int) -> int | None:
    """Return where a begun slot leaves its machine by `until`, a lease on either side; or None.

    A lease of 0 allows no handover.
    """
    step = min(until, int(slot[1]) - lease)
    return step if lease and step > now and step - int(slot[0]) >= lease else None


def stays_until(room: MachineRoom, slot: NDArray[np.int64], bundle: Resources, now: int) -> int:
    """Return the step until which a slot can stay on its machine: its start, if it cannot be there.

    One that has begun stays as long as there is capacity, or else until `now`; any other stays
    whole or not at all.
    """
    start, end, bundles, machine = slot.tolist()
    if machine != NOWHERE and room.fits(slots_of([max(start, now), end, bundles, machine]), bundle):
        return int(end)
    if start >= now or machine == NOWHERE:
        return int(max(start, now)) if start < now else int(start)
    low, high = now, end
    while high - low > 1:
        middle = (low + high) // 2
        if room.fits(slots_of([now, middle, bundles, machine]), bundle):
            low = middle
        else:
            high = middle
    return int(low)


def known_slots(
    before: Holding, after: Holding, *, every: bool = False
) -> dict[str, tuple[Rows, Slots]]:
    """Return rows and slots of each occurrence of `before`.

    No rows, unless those of `every` one are requested, where `after` asks other machines for it:
    what has not begun cannot stay as it is.
    """
    asked = {path: _asked_of(atom) for atom in after.atoms for path, _ in atom.occurrences()}
    return {
        path: (rows if every or asked.get(path) == _asked_of(atom) else rows[:0], slots)
        for atom in before.atoms
        for (path, rows), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
        if slots is not None
    }


def _asked_of(atom: AtomAllocation) -> tuple[Resources, str | None, MachineRule]:
    return atom.bundle, atom.label, atom.rule


def is_same(atom: AtomAllocation, known: dict[str, tuple[Rows, Slots]]) -> bool:
    """Return whether an atom holds in every occurrence what is known of it."""
    return all(
        path in known and equal_rows(rows, known[path][0]) for path, rows in atom.occurrences()
    )


def equal_rows(rows: Rows, others: Rows) -> bool:
    """Return whether two lists of rows are the same."""
    return rows.shape == others.shape and bool((rows == others).all())


def stay_or_move(before: Holding, after: Holding) -> list[tuple[Slots, Slots, Resources]]:
    """Return the slots of each atom of `after` that `before` has too, and the others.

    What `before` has once stays once, whatever atoms of the same bundle say.
    """
    known: Counter[tuple[Resources, tuple[int, ...]]] = Counter(
        (atom.bundle, tuple(slot))
        for atom in before.atoms
        if atom.slots is not None
        for slot in atom.slots.tolist()
    )
    found: list[tuple[Slots, Slots, Resources]] = []
    for atom in after.atoms:
        parts: tuple[list[list[int]], list[list[int]]] = ([], [])
        for slot in [] if atom.slots is None else atom.slots.tolist():
            key = (atom.bundle, tuple(slot))
            parts[0 if known[key] else 1].append(slot)
            known[key] -= known[key] > 0
        found.append((slots_of(parts[0]), slots_of(parts[1]), atom.bundle))
    return found


def occurrence_pieces(atom: AtomAllocation) -> NDArray[np.int64]:
    """Return the pieces of all occurrences of an atom; each occurrence ends on its own."""
    return np.concatenate(_pieces_by_occurrence(atom))


def joint_pieces(atom: AtomAllocation) -> list[NDArray[np.int64]]:
    """Return the pieces that machines are found for in one call: those of an occurrence each if
    all of its bundles are to be in one value of a domain, else all.
    """
    return [occurrence_pieces(atom)] if atom.rule.within is None else _pieces_by_occurrence(atom)


def _pieces_by_occurrence(atom: AtomAllocation) -> list[NDArray[np.int64]]:
    one = pieces_of(atom.rows)
    return [one + np.array([shift, shift, 0]) for shift in atom.shifts]
