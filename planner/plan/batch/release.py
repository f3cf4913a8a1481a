"""Release future rows at their owner's request: work that was done early or is not needed.

Released rows stay on record, so that the rows held and released together are still what was
promised. A record has only the rows; this module applies them to a holding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.placement import Code, PlacementResult
from planner.plan.records.changes import Conflict, Release
from planner.plan.state import PlanState
from planner.request import Request
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import differences, subtract
from rdl.compound import parts_of
from rdl.expressions import Atom, atom_at
from rdl.text.parser import parse
from rdl.work_graph import WORK


def release_conflict(plan: PlanState, index: int, change: Release) -> Conflict | None:
    """Return why rows cannot be released, or None.

    They must not be in the past, must be part of what their atom holds, and must leave it at 0 or
    at least g at every step, divisible by its `multiple`.
    """
    number = plan.table.number_of(change.id)
    assert number is not None
    holding, details = plan.table.holding(number), plan.table.details.get(number)
    expression = parse(details.text) if details.expression is None else details.expression
    held = {atom.path: atom for atom in holding.atoms}
    if not change.released or len(dict(change.released)) < len(change.released):
        return Conflict(index, change.id, Code.CONFLICT, "rows of each atom are released once")
    for path, rows in change.released:
        atom, asked = held.get(path), atom_at(expression, path)
        code, why = Code.CONFLICT, ""
        if holding.endless or "@" in path:
            why = "occurrences of a recurrence are released only by cancelling or closing it"
        elif atom is None or asked is None:
            why = f"it holds nothing at {path!r}"
        elif not len(rows) or bool((rows[:, 2] < 1).any() or (rows[:, 0] >= rows[:, 1]).any()):
            why = f"no rows of {path!r} are released, or empty ones"
        elif int(rows[:, 0].min()) < plan.now:
            code, why = Code.PAST_CHANGED, f"rows of {path!r} before step {plan.now} are past"
        elif bool((differences(atom.rows, rows) < 0).any()):
            why = f"more of {path!r} would be released than it holds"
        else:
            why = _why_not(asked, subtract(atom.rows, rows), path)
        if why:
            return Conflict(index, change.id, code, why)
    return None


def _why_not(asked: Atom, rows: Rows, path: str) -> str:
    low = rows[(rows[:, 2] < asked.minimum) | (rows[:, 2] % asked.multiple != 0)]
    if not len(low):
        return ""
    need = f"0 or at least {asked.minimum}"
    if asked.multiple > 1:
        need += f" and divisible by {asked.multiple}"
    return f"{path!r} would hold {int(low[0, 2])} at step {int(low[0, 0])}; it must be {need}"


def keep_released(
    holding: Holding, before: Holding, request: Request, result: PlacementResult
) -> Holding:
    """Return a new holding in which unchanged atoms keep their released rows.

    If the rows of an atom do not make up its work, it has released the rest: a change that moves
    other atoms leaves it unchanged.
    """
    known = {
        atom.path: atom for atom in before.atoms if atom.released is not None and len(atom.released)
    }
    if not known:
        return holding
    graph = request.graph
    work = {
        path: int(graph.vertices[vertex, WORK]) * member.count
        for vertex, _ in result.atoms()
        for path, member in parts_of(graph, vertex)
    }
    atoms: list[AtomAllocation] = []
    for atom in holding.atoms:
        old, rows = known.get(atom.path), atom.rows
        held = int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())
        if old is not None and held < work[atom.path] and np.array_equal(old.rows, rows):
            atoms.append(replace(atom, released=old.released))
        else:
            atoms.append(atom)
    return replace(holding, atoms=tuple(atoms))
