"""The part of an optimisation's changes that a Plan takes together.

A file of its own because the optimiser asks for it too, for what machines do not hold of its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.adaptation.relocation import without_slots
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Relocate
from planner.value import value_of

_KEEPS_MACHINES: Final = "it keeps its machines: not all that was to have them fits any more"


@dataclass(frozen=True, slots=True)
class FeasiblePart:
    """What can be made of changes on a Plan.

    Attributes
    ----------
    kept
        Jointly feasible.
    left_out
        One entry a change that is not kept, numbered as the changes were.
    """

    kept: tuple[Change, ...] = ()
    left_out: tuple[Conflict, ...] = ()


def feasible_part(plan: Plan, changes: Sequence[Change]) -> FeasiblePart:
    """Return the part of `changes` that a Plan takes together, in their order.

    Where machines that came with the changes are taken, the Plan finds others. Then one conflict
    after the other is left out, admissions before moves, the least important first; an admission
    that fits after all comes back. Every reservation holds as much as before.
    """
    if not changes or takes(plan, changes):
        return FeasiblePart(tuple(changes))
    free = without_slots(changes)
    left: dict[int, Conflict] = {}
    kept = []
    for index, change in enumerate(changes):
        if isinstance(change, Relocate):
            left[index] = Conflict(index, change.id, Code.CONFLICT, _KEEPS_MACHINES)
        else:
            kept.append(index)
    # Of those that take what is short, a joint commit names the last.
    kept.sort(key=lambda index: _rank(plan, free[index]))
    while kept:
        prepared = plan.prepare([free[index] for index in kept], plan.version, joint=True)
        if prepared.record is not None:
            break
        for one in prepared.conflicts:
            left[kept[one.index]] = replace(one, index=kept[one.index])
        kept = [index for index in kept if index not in left]
    for index in sorted(left, key=lambda one: _rank(plan, free[one])):
        if isinstance(free[index], Admit) and takes(plan, [free[i] for i in (*kept, index)]):
            kept.append(index)
            del left[index]
    return FeasiblePart(
        tuple(free[index] for index in sorted(kept)), tuple(left[index] for index in sorted(left))
    )


def takes(plan: Plan, changes: Sequence[Change]) -> bool:
    """Return whether a Plan takes all changes together."""
    return plan.prepare(changes, plan.version, joint=True).record is not None


def id_of_change(change: Change) -> str | None:
    """Return the id of the request or reservation that a change is about, or None."""
    return change.request.id if isinstance(change, Admit) else getattr(change, "id", None)


def _rank(plan: Plan, change: Change) -> tuple[bool, int, float]:
    """Return the key of an order: moves, then admissions, the most important first."""
    if not isinstance(change, Admit):
        return False, 0, 0.0
    request = change.request
    return (
        True,
        -request.priority,
        -value_of(request, change.result.choices, plan.cluster.reference),
    )
