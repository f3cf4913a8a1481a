"""A Plan of before, laid on machines: what was promised totals only is promised machines.

A reservation does not record whether it chose its level itself. It counts as one of before where no
request may choose totals, or where nothing in the Plan is promised machines yet: then nobody has
asked since the cluster promises them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.adaptation.relocation import (
    EJECTIONS,
    Piece,
    Relocator,
    relocate_change,
    room_with,
    slots_on,
)
from planner.plan.plan import Plan
from planner.plan.records.changes import Relocate
from planner.plan.slots.slots_in_force import occurrence_pieces
from planner.plan.table.columns import LEVEL_NUMBERS
from planner.promise import PromiseLevel
from planner.reservations.holding import with_slots
from planner.reservations.reservation import Holding
from planner.reservations.slots import NOWHERE, Slots, slots_of, sort_slots
from planner.reservations.state import LIVE, STATE_NUMBERS, State

#: What histories say of a reservation that was laid on machines.
LAID = "the cluster promises machines now"


@dataclass(frozen=True, slots=True)
class Migration:
    """What becomes of reservations that are promised totals only.

    Attributes
    ----------
    changes
        For one joint commit; empty when nothing is laid.
    laid, pooled
        Ids of those that get machines, and of those that find none for some of it.
    """

    changes: tuple[Relocate, ...] = ()
    laid: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()


def lay_plan(plan: Plan, budget: int = EJECTIONS) -> Migration:
    """Return the slots of what a cluster that promises machines promised totals only before.

    The largest first, and slots that have not begun make way. What is past has no machine.

    Parameters
    ----------
    budget
        How many slots may be moved to find others.
    """
    numbers = _pooled_before(plan)
    if not len(numbers):
        return Migration()
    held = slots_on(plan, plan.cluster)
    room = room_with(held, plan, plan.cluster)
    relocator = Relocator(plan, plan.cluster, held, room)
    holdings = {number: plan.table.holding(number) for number in numbers.tolist()}
    number_of = {kind: place for place, kind in enumerate(held.kinds)}
    pieces = [
        Piece(number, place, number_of[atom.bundle, atom.label, atom.rule], start, end, bundles)
        for number, holding in holdings.items()
        for place, atom in enumerate(holding.atoms)
        if len(atom.rows)
        for start, end, bundles in _to_come(occurrence_pieces(atom), plan.now)
    ]
    others = relocator.lay(pieces, budget).held
    homeless = relocator.homeless
    changes = [
        relocate_change(plan, number, holding, LAID)
        for number, holding in others.items()
        if number not in holdings
    ]
    laid = [number for number in holdings if number not in homeless]
    changes += [
        relocate_change(
            plan, number, _with_slots(relocator, plan.now, number, holdings[number]), LAID
        )
        for number in laid
    ]
    stay = [plan.table.id_of(number) for number in holdings if number in homeless]
    return Migration(tuple(changes), tuple(plan.table.id_of(one) for one in laid), tuple(stay))


def lay_in_place(plan: Plan, budget: int = EJECTIONS) -> Migration:
    """Do what :func:`lay_plan` says on a Plan of which no log hears, as one that was read back.

    Raises
    ------
    ValueError
        If the Plan does not take it.
    """
    found = lay_plan(plan, budget)
    if found.changes:
        prepared = plan.prepare(found.changes, plan.version, joint=True)
        if prepared.record is None:
            raise ValueError(prepared.conflicts[0].detail)
        plan.apply(prepared.record)
    return found


def is_of_before(plan: Plan) -> bool:
    """Return whether a Plan has reservations that :func:`lay_plan` would give machines."""
    return bool(len(_pooled_before(plan)))


def _pooled_before(plan: Plan) -> NDArray[np.int64]:
    """Return the numbers of those that are promised totals only and did not choose that."""
    cluster, meta = plan.cluster, plan.table.meta
    promised = meta["promise"]
    chosen = PromiseLevel.POOLED in cluster.promise_choices
    known = bool((promised == LEVEL_NUMBERS[PromiseLevel.PLACED]).any())
    if cluster.promise is not PromiseLevel.PLACED or (chosen and known):
        return np.zeros(0, dtype=np.int64)
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE - {State.DEGRADED}])
    pooled = promised == LEVEL_NUMBERS[PromiseLevel.POOLED]
    return np.flatnonzero(live & pooled & (meta["finish"] > plan.now) & (meta["atoms"] > 0))


def _to_come(pieces: Slots, now: int) -> list[tuple[int, int, int]]:
    """Return the parts of pieces from `now` on; equal ones once."""
    found: dict[tuple[int, int], int] = {}
    for start, end, bundles in pieces.tolist():
        if end > now:
            span = max(start, now), end
            found[span] = found.get(span, 0) + bundles
    return [(start, end, bundles) for (start, end), bundles in found.items()]


def _with_slots(relocator: Relocator, now: int, number: int, holding: Holding) -> Holding:
    """Return a holding with the slots that were found; its past stands nowhere."""
    slots: list[Slots] = []
    for place, atom in enumerate(holding.atoms):
        pieces = occurrence_pieces(atom) if len(atom.rows) else atom.rows
        past = [
            [start, min(end, now), n, NOWHERE] for start, end, n in pieces.tolist() if start < now
        ]
        new = relocator.result_of(number, place)[0]
        slots.append(sort_slots(np.concatenate([slots_of(past), new])))
    return with_slots(holding, slots)
