"""From an allocation to pieces, and from pieces to machines: at commit, or as time comes.

A piece is one bundle for as long as its lease lasts: what an allocation takes more at a step starts
there, and when it falls the oldest end (the order under which leases hold). A piece does not move.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.state import Machines
from dispatch.machines.placement.strategy import MachinePlacement, PlacedJob

Amounts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlotPiece:
    """One bundle of a reservation in steps [start, end); amounts by resource."""

    reservation: str
    start: int
    end: int
    amounts: tuple[int, ...]


def pieces_of(reservation: str, rows: Amounts, amounts: tuple[int, ...]) -> list[SlotPiece]:
    """Return the pieces of one atom's rows, int64[m, 3] of start, end and bundles."""
    changes: dict[int, int] = {}
    for start, end, bundles in rows.tolist():
        changes[start] = changes.get(start, 0) + bundles
        changes[end] = changes.get(end, 0) - bundles
    running: deque[int] = deque()
    found: list[SlotPiece] = []
    for step in sorted(changes):
        for _ in range(-changes[step]):
            found.append(SlotPiece(reservation, running.popleft(), step, amounts))
        running.extend([step] * max(changes[step], 0))
    return sorted(found, key=lambda piece: (piece.start, piece.end))


def is_packable(capacity: Amounts, pieces: Iterable[SlotPiece], steps: Sequence[int]) -> bool:
    """Return whether first fit, largest first, packs what runs at each of `steps`.

    What it cannot pack counts as not packable, though another packing may exist. `capacity` is
    int64[machines, resources].
    """
    held = list(pieces)
    whole = capacity.sum(axis=0)
    ordered = sorted(held, key=lambda piece: -float((np.array(piece.amounts) / whole).max()))
    for step in steps:
        left = capacity.copy()
        for piece in ordered:
            if not piece.start <= step < piece.end:
                continue
            fits = np.flatnonzero((left >= piece.amounts).all(axis=1))
            if not fits.size:
                return False
            left[fits[0]] -= piece.amounts
    return True


class SlotBook:
    """What every machine holds at every step: bundles get their machine at commit and keep it.

    Parameters
    ----------
    capacity
        int64[machines, resources].
    horizon
        Steps.
    """

    def __init__(self, capacity: Amounts, horizon: int) -> None:
        self.left = np.repeat(capacity[:, None, :], horizon, axis=1)

    def place(self, pieces: Sequence[SlotPiece]) -> list[int] | None:
        """Give every piece a machine, the fullest it fits on; None, and nothing, if one finds none.

        Largest pieces, by amounts times length, choose first.
        """
        whole = self.left.max(axis=(0, 1))
        order = sorted(range(len(pieces)), key=lambda one: -_area(pieces[one], whole))
        chosen = [-1] * len(pieces)
        for index in order:
            piece = pieces[index]
            least = self.left[:, piece.start : piece.end].min(axis=1)
            fits = np.flatnonzero((least >= piece.amounts).all(axis=1))
            if not fits.size:
                for done in order:
                    if chosen[done] >= 0:
                        self._take(pieces[done], chosen[done], -1)
                return None
            spare = ((least[fits] - piece.amounts) / whole).sum(axis=1)
            chosen[index] = int(fits[np.argmin(spare)])
            self._take(piece, chosen[index], 1)
        return chosen

    def _take(self, piece: SlotPiece, machine: int, sign: int) -> None:
        self.left[machine, piece.start : piece.end] -= sign * np.array(piece.amounts)


def _area(piece: SlotPiece, whole: Amounts) -> float:
    return (piece.end - piece.start) * float((np.array(piece.amounts) / whole).max())


def replay(
    capacity: Amounts, pieces: Sequence[SlotPiece], policy: Policy
) -> tuple[dict[str, int], list[tuple[SlotPiece, int, int]]]:
    """Place pieces as their time comes; one that finds no machine tries again at every step.

    Returns
    -------
    below
        Bundle-steps without a machine, by reservation; reservations without any are left out.
    ran
        (piece, machine, first step on it) of all that found one.
    """
    machines = Machines(np.ones(len(capacity), dtype=np.int64), capacity.astype(np.float64))
    placement = MachinePlacement(policy, machines)
    below: dict[str, int] = {}
    ran: list[tuple[SlotPiece, int, int]] = []
    waiting: list[SlotPiece] = []
    running: list[tuple[int, int, PlacedJob]] = []
    coming = deque(sorted(pieces, key=lambda piece: piece.start))
    first, last = min((p.start for p in pieces), default=0), max((p.end for p in pieces), default=0)
    for step in range(first, last):
        for end, machine, job in running:
            if end == step:
                placement.ended(machine, job)
        running = [one for one in running if one[0] > step]
        while coming and coming[0].start == step:
            waiting.append(coming.popleft())
        left: list[SlotPiece] = []
        for piece in waiting:
            if piece.end <= step:
                continue
            job = PlacedJob(np.array(piece.amounts, dtype=np.float64))
            found = placement.choose(job)
            if found is None:
                below[piece.reservation] = below.get(piece.reservation, 0) + 1
                left.append(piece)
                continue
            placement.started(found, job)
            running.append((piece.end, found, job))
            ran.append((piece, found, step))
        waiting = left
    return below, ran
