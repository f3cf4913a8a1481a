"""Ways to move a commitment: the affected part, the part that does not fit, or the whole rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from planner.capacity.profile import FreeProfile
from planner.plan.plan import Plan
from planner.remainder import FixedAtom
from planner.renegotiation import numbers_of
from planner.replanning.commitment import Commitment, Move, move_of
from planner.replanning.draft_plan import DraftPlan, Overcommitment
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import add_up, dense
from planner.view import Demand
from rdl.compile.shapes import is_reachable


class CommitmentMoves:
    """Moves of each commitment, computed on first use.

    Moves that do not depend on the free profile are cached.
    """

    def __init__(self, plan: Plan, shortage: Overcommitment) -> None:
        self._plan = plan
        self._shortage = shortage
        self._plain: dict[int, tuple[Move, ...]] = {}

    def of(self, draft: DraftPlan, commitment: Commitment) -> Iterator[Move]:
        """Yield the moves of a removed commitment, the least disturbing first."""
        trimmed = self._trim(draft, commitment)
        if trimmed is not None:
            yield trimmed
        yield from self.plain(draft, commitment)

    def plain(self, draft: DraftPlan, commitment: Commitment) -> tuple[Move, ...]:
        """Return the move of the affected parts, if some are not affected, and that of all."""
        known = self._plain.get(commitment.number)
        if known is None:
            found = [move_of(self._plan, commitment)]
            keep = self._unhit(draft, commitment)
            if keep:
                found.insert(0, move_of(self._plan, commitment, keep))
            known = tuple(move for move in found if isinstance(move, Move))
            self._plain[commitment.number] = known
        return known

    def _unhit(self, draft: DraftPlan, commitment: Commitment) -> dict[str, FixedAtom]:
        """Return the occurrences that lost nothing, if others did."""
        keep: dict[str, FixedAtom] = {}
        hit = False
        lacking = draft.lacks_machines(commitment)
        for atom, path, rows in commitment.occurrences():
            if int(rows[0, 0]) < self._plan.now:
                continue
            alone = atom.part(path, rows)
            short = self._shortage.hits(draft.takings(commitment, Holding((alone,), 0, 0)))
            if short or path in lacking:
                hit = True
            else:
                keep[path] = FixedAtom.whole(atom, rows)
        return keep if hit else {}

    def _trim(self, draft: DraftPlan, commitment: Commitment) -> Move | None:
        """Return the move of only the part that does not fit, or None if there is none.

        Each atom keeps the part of its rows that fits; the rest is placed in addition to them.
        """
        if commitment.request is None or commitment.started:
            return None
        numbers = numbers_of(commitment.request.graph)
        keep: dict[str, FixedAtom] = {}
        for atom, path, rows in commitment.occurrences():
            if path not in numbers or atom.shifts != (0,):
                return None
            begun = _cut_down(draft, commitment, atom, rows, numbers[path])
            if begun is None:
                return None
            keep[path] = begun
        move = move_of(self._plan, commitment, keep)
        return move if isinstance(move, Move) else None


def _cut_down(
    draft: DraftPlan,
    commitment: Commitment,
    atom: AtomAllocation,
    rows: Rows,
    numbers: tuple[int, int, int, int, int],
) -> FixedAtom | None:
    """Return the rows that an atom can keep, with the work that is left, or None."""
    g, h, multiple, lease, work = numbers
    demand = draft.ledger.demand(atom.bundle, atom.label, commitment.tenant, commitment.queue)
    first, end = int(rows[0, 0]), int(rows[-1, 1])
    held = dense(rows, first, end - first)
    kept = np.minimum(held, _room(draft.ledger, demand, first, end)) // multiple * multiple
    kept[kept < g] = 0
    left = work - int(kept.sum())
    if not left:
        return FixedAtom.whole(atom, rows)
    beside = h - int(kept.max())
    if beside < g:
        beside = 0  # the rest comes after the kept rows
    if not kept.any() or not is_reachable(g, beside or h, multiple, lease, left):
        return None
    steps = np.arange(first, end)
    parts = add_up(np.stack([steps, steps + 1, kept], axis=1)[kept > 0])
    return FixedAtom(atom.part(atom.path, parts), left, int(parts[0, 0]), int(parts[-1, 1]), beside)


def _room(ledger: FreeProfile, demand: Demand, first: int, end: int) -> NDArray[np.int64]:
    """Return int64[steps]: bundles that fit at each step of [first, end)."""
    low, high = first - ledger.first, end - ledger.first
    room = np.repeat(np.array(demand.fit, dtype=np.int64), np.diff(ledger.calendar.breaks))
    room = room[low:high].copy()
    for row, amount in zip(demand.rows, demand.amounts, strict=True):
        room = np.minimum(room, ledger.free[row, low:high] // amount)
    return np.maximum(room, 0)
