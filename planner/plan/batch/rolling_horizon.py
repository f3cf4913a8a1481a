"""The rolling horizon: past entries may be archived, and a later horizon adds new occurrences.

Occurrences of endless recurrences are checked against free capacity, as an admission is: other
reservations may use the capacity of a period that was incomplete until now. A recurrence that
lacks capacity for a new occurrence is degraded, and keeps those that it has; the adapter looks for
another place. New occurrences with capacity in the pool are assigned to machines immediately;
those without one wait for the adapter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.capacity.shortage import find_shortage, takings_of
from planner.machines.room import MachineRoom, Wanted
from planner.placement import Code
from planner.plan.records.changes import Advance, Archive, Conflict
from planner.plan.records.commit_records import Advanced
from planner.plan.records.reservation_records import DEGRADED, Degraded
from planner.plan.slots import joint_pieces
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.reservations.holding import (
    extend_shifts,
    first_step,
    last_step,
    patterns_of,
    without_after,
)
from planner.reservations.reservation import AtomAllocation, Holding, shared_runs
from planner.reservations.slots import NOWHERE, Slots, no_slots, pieces_of, sort_slots
from planner.reservations.state import LIVE, STATE_NUMBERS
from planner.value import held_value, importance
from rdl.errors import RdlError

Extension = tuple[str, tuple[tuple[int, ...], ...]]


def advance_conflict(plan: PlanState, index: int, change: Advance) -> Conflict | None:
    """Return why the present cannot move to a step, or None."""
    horizon = max(plan.grid.horizon, change.horizon or 0)
    if change.now_step < plan.now:
        detail = f"the plan is at step {plan.now}; time does not go back to {change.now_step}"
        return Conflict(index, None, Code.CONFLICT, detail)
    if change.now_step >= horizon:
        detail = f"step {change.now_step} is past the horizon, step {horizon}; roll it on too"
        return Conflict(index, None, Code.BEYOND_HORIZON, detail)
    return None


def archive_conflict(plan: PlanState, index: int, change: Archive) -> Conflict | None:
    """Return why reservations and refusals cannot leave the Plan, or None."""
    if not change.ids:
        return Conflict(index, None, Code.CONFLICT, "nothing is to leave")
    for id_ in change.ids:
        number = plan.table.number_of(id_)
        if number is None and plan.refusal(id_) is None:
            detail = f"there is no reservation {id_!r}"
            return Conflict(index, id_, Code.CONFLICT, detail)
        if number is None:
            continue
        state = plan.table.state(number)
        if state in LIVE or plan.table.meta[number]["finish"] > plan.past_until:
            return Conflict(index, id_, Code.CONFLICT, f"it is {state.value}, not past")
    return None


def advance(plan: PlanState, now_step: int, horizon: int) -> tuple[Advanced, tuple[Degraded, ...]]:
    """Return the record that advances the present, and the reservations without capacity for new
    occurrences."""
    found = extensions(plan, horizon)
    if not found:
        return Advanced(now_step, horizon), ()
    # Judged from the old present on: where time jumps, an occurrence may begin before the new one,
    # alongside what was held then.
    grid, first = plan.grid.with_horizon(horizon), plan.ledger.first
    ledger = plan.ledger.roll(grid, first)
    room: MachineRoom | None = None
    extended: list[Extension] = []
    laid: list[tuple[str, tuple[Slots, ...]]] = []
    degraded: list[Degraded] = []
    for id_, shifts in sorted(found, key=lambda one: _importance(plan, one[0]), reverse=True):
        number = plan.table.number_of(id_)
        assert number is not None
        holding = plan.table.holding(number)
        added = extend_shifts(holding, shifts, only_new=True)
        takings = takings_of(added, ledger, *plan.table.scope(number))
        begin, short = first_step(added), find_shortage(ledger, takings)
        reason = "" if short is None else f"its next occurrence has no capacity: {short.detail}"
        if begin is not None and begin < first:
            reason = "its next occurrence would have begun before it was promised"
        if reason:
            kept = without_after(holding, last_step(holding) + 1)
            degraded.append(Degraded(id_, kept, reason, (), DEGRADED))
            continue
        ledger.take((one.demand, one.rows, one.sign) for one in takings)
        extended.append((id_, shifts))
        if plan.table.promise(number) is PromiseLevel.PLACED:
            if room is None:
                room = plan.room.copy()
                room.advance(grid, first)
            laid.append((id_, _laid(room, holding.atoms, added.atoms)))
    return Advanced(now_step, horizon, tuple(extended), tuple(laid)), tuple(degraded)


def _importance(plan: PlanState, id_: str) -> tuple[int, float, int]:
    """Return the key by which recurrences get their new occurrences, the largest first."""
    table, number = plan.table, plan.table.number_of(id_)
    assert number is not None
    meta, atoms = table.meta[number], table.holding(number).atoms
    value = held_value(float(meta["weight"]), atoms, plan.cluster.reference, plan.grid.step_ms)
    return importance(int(meta["priority"]), value, number)


def _laid(
    room: MachineRoom, before: Sequence[AtomAllocation], added: Sequence[AtomAllocation]
) -> tuple[Slots, ...]:
    """Return the slots of atoms with their new occurrences, taken; some may be `NOWHERE`."""
    parts = [[no_slots() if atom.slots is None else atom.slots] for atom in before]
    for run in shared_runs(added):
        atoms = [added[one.place] for one in run]
        wanted = [
            Wanted(pieces_of(one.rows), atom.bundle, atom.label, atom.rule, no_slots())
            for atom, one in zip(atoms, run, strict=True)
        ]
        found = room.lay_joint(wanted)
        for one, slots, rest in zip(run, found.slots, found.rests, strict=True):
            parts[one.place] += [slots, np.insert(rest, 3, NOWHERE, axis=1)]
    for place, atom in enumerate(added):
        if not atom.rule.is_shared and atom.shifts:
            for pieces in joint_pieces(atom):
                beside = parts[place][0] if atom.rule.within is None else None
                slots, rest = room.lay_some(pieces, atom.bundle, atom.label, atom.rule, beside)
                parts[place] += [slots, np.insert(rest, 3, NOWHERE, axis=1)]
    return tuple(sort_slots(np.concatenate(own)) if len(own) > 1 else own[0] for own in parts)


def extensions(plan: PlanState, horizon: int) -> tuple[Extension, ...]:
    """Return the endless reservations that gain occurrences, with all their shifts.

    Only whole periods that end inside the new horizon count, as on admission. The expression is
    compiled again, because civil days are not evenly spaced.
    """
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    found: list[Extension] = []
    for number in np.flatnonzero(live & (meta["endless"] > 0)).tolist():
        holding = plan.table.holding(number)
        if last_step(holding) > horizon:
            continue
        shifts = _later_shifts(plan, number, holding, horizon)
        if any(
            len(new) > len(atom.shifts) for new, atom in zip(shifts, holding.atoms, strict=True)
        ):
            found.append((plan.table.id_of(number), shifts))
    return tuple(found)


def _later_shifts(
    plan: PlanState, number: int, holding: Holding, horizon: int
) -> tuple[tuple[int, ...], ...]:
    """Return the shifts of every atom held, on a grid that ends at `horizon`.

    If machines were removed, the expression may no longer compile; the allocation then does not
    change, and no occurrence is added.
    """
    from rdl.compile.compiler import compile_source

    submitted_ms = int(plan.table.meta[number]["submitted"])
    context = plan.cluster.context(plan.grid.with_horizon(horizon), submitted_ms)
    try:
        graph = compile_source(plan.table.details.get(number).text, context)
    except RdlError:
        return tuple(atom.shifts for atom in holding.atoms)
    later = patterns_of(graph)
    return tuple(later.get(atom.path, atom.shifts) for atom in holding.atoms)
