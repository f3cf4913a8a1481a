"""Endless recurrences on a rolling horizon: the occurrences that a later horizon brings in."""

from __future__ import annotations

import numpy as np

from planner.holding import last_step, patterns_of
from planner.plan.state import PlanState
from planner.reservation import Holding
from planner.reservation_state import LIVE, STATE_NUMBERS
from rdl.errors import RdlError

Extension = tuple[str, tuple[tuple[int, ...], ...]]


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
        if last_step(holding) + holding.endless > horizon + _slack(holding):
            continue
        shifts = _later_shifts(plan, number, holding, horizon)
        if any(
            len(new) > len(atom.shifts) for new, atom in zip(shifts, holding.atoms, strict=True)
        ):
            found.append((plan.table.id_of(number), shifts))
    return tuple(found)


def _slack(holding: Holding) -> int:
    """Return a period: the last occurrence may end that much before its period does."""
    return holding.endless


def _later_shifts(
    plan: PlanState, number: int, holding: Holding, horizon: int
) -> tuple[tuple[int, ...], ...]:
    """Return the shifts of every atom held, on a grid that ends at `horizon`.

    Where machines went away for good the expression may no longer compile; what is held then stays
    as it is, and no occurrence is added.
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
