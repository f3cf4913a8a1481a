"""Slots: int64[k, 4] of (start, end, bundles, machine), the allocation of an atom on machines.

Steps are absolute, in [start, end); the slots of an atom cover all of its occurrences. They are
sorted, and together they make up its rows. Machine `NOWHERE` is a bundle that was promised and has
no machine: it was lost, or none was found.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Slots: TypeAlias = NDArray[np.int64]

#: The machine of a bundle that has none.
NOWHERE: Final = -1


class MachineRule(NamedTuple):
    """The rule of an atom for the machines of its bundles.

    Attributes
    ----------
    spread
        Maximum number of bundles of the atom on one machine, or in one domain, at the same time;
        0: no limit.
    domain
        The domain of `spread`, such as ``rack``; None counts by machine.
    handover
        Whether a bundle may change its machine between leases.
    within
        All bundles of one occurrence, as far as they are not over, are on machines of one value of
        this domain; None is any.
    is_shared
        Whether that is the value of all atoms of its `together`.
    values
        The bundles are in at most so many values of it.
    """

    spread: int = 0
    domain: str | None = None
    handover: bool = True
    within: str | None = None
    is_shared: bool = False
    values: int = 1

    @property
    def binds(self) -> bool:
        """Whether the machine of one bundle limits those of the others."""
        return self.spread > 0 or self.within is not None


#: The rule of an atom that asks nothing.
ANYWHERE: Final = MachineRule()


def no_slots() -> Slots:
    """Return slots of nothing."""
    return np.empty((0, 4), dtype=np.int64)


def slots_of(entries: object) -> Slots:
    """Return entries of four numbers each as slots, in the order given."""
    return np.array(entries, dtype=np.int64).reshape(-1, 4)


def sort_slots(slots: Slots) -> Slots:
    """Return slots by start, end and machine; slots that differ only in bundles are merged."""
    if len(slots) < 2:
        return slots
    ordered = slots[np.lexsort((slots[:, 3], slots[:, 1], slots[:, 0]))]
    same = (ordered[1:, [0, 1, 3]] == ordered[:-1, [0, 1, 3]]).all(axis=1)
    if not same.any():
        return ordered
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    joined = ordered[first]
    joined[:, 2] = np.add.reduceat(ordered[:, 2], first)
    return joined


def split_slots(slots: Slots, step: int) -> tuple[Slots, Slots]:
    """Return the parts of slots before and from `step` on."""
    past = slots[slots[:, 0] < step].copy()
    rest = slots[slots[:, 1] > step].copy()
    past[:, 1] = np.minimum(past[:, 1], step)
    rest[:, 0] = np.maximum(rest[:, 0], step)
    return sort_slots(past), sort_slots(rest)


def split_by_rows(slots: Slots, rows: NDArray[np.int64]) -> tuple[Slots, Slots]:
    """Return slots that make up `rows`, int64[m, 3] of (start, end, bundles), and the rest.

    Whole slots are taken first, then those that are cut once, so that the rest has the longest
    runs.

    Raises
    ------
    ValueError
        If slots hold less than `rows` somewhere.
    """
    held: list[list[int]] = slots.tolist()
    taken: list[list[int]] = []
    wanted: list[tuple[int, int, int]] = [tuple(row) for row in rows.tolist()]
    while wanted:
        start, end, bundles = wanted.pop()
        if start >= end or bundles <= 0:
            continue
        index = _slot_for(held, start, end)
        first, last, count, machine = held[index]
        part, until = min(bundles, count), min(last, end)
        taken.append([start, until, part, machine])
        left = [
            [first, last, count - part, machine],
            [first, start, part, machine],
            [until, last, part, machine],
        ]
        held[index : index + 1] = [one for one in left if one[0] < one[1] and one[2] > 0]
        wanted.append((until, end, part))
        wanted.append((start, end, bundles - part))
    return sort_slots(slots_of(taken)), sort_slots(slots_of(held))


def _slot_for(held: list[list[int]], start: int, end: int) -> int:
    """Return the index of the slot from which [start, end) is cut best."""
    best, chosen = None, -1
    for index, (first, last, _, machine) in enumerate(held):
        if first <= start < last:
            key = (machine != NOWHERE, last > end, first < start, -min(last, end), machine)
            if best is None or key < best:
                best, chosen = key, index
    if chosen < 0:
        raise ValueError(f"no slot holds a bundle at step {start}")
    return chosen


def pieces_of(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return int64[p, 3] of (start, end, bundles): from taking to release, the oldest first.

    Where rows rise, bundles start; where they fall, the oldest bundles end. Rows
    are sorted and disjoint, as those of one atom are.
    """
    if len(rows) == 1:
        return rows
    begun: deque[list[int]] = deque()
    pieces: dict[tuple[int, int], int] = {}
    height, last = 0, 0
    for start, end, bundles in [*rows.tolist(), (NO_STEP, NO_STEP, 0)]:
        if start > last and height:
            _release(begun, height, last, pieces)
            height = 0
        if bundles > height:
            begun.append([start, bundles - height])
        elif bundles < height:
            _release(begun, height - bundles, start, pieces)
        height, last = bundles, end
    found = [(start, end, count) for (start, end), count in sorted(pieces.items())]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


#: A step past every row.
NO_STEP: Final = 2**62


def _release(
    begun: deque[list[int]], count: int, step: int, pieces: dict[tuple[int, int], int]
) -> None:
    """Let the `count` bundles that were taken first end at a step."""
    while count:
        start, many = begun[0]
        part = min(many, count)
        pieces[start, step] = pieces.get((start, step), 0) + part
        count -= part
        if part == many:
            begun.popleft()
        else:
            begun[0][1] -= part
