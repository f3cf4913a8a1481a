"""The part of an optimisation's changes that a Plan accepts jointly.

A separate module because the optimiser uses it too, for the part of its plan that does not fit the
machines.
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

_KEEPS_MACHINES: Final = "it keeps its machines: the plan that needed them no longer fits"


@dataclass(frozen=True, slots=True)
class FeasiblePart:
    """The feasible part of a list of changes on a Plan.

    Attributes
    ----------
    kept
        Jointly feasible.
    left_out
        One entry per change that is not kept, with the number of the change.
    """

    kept: tuple[Change, ...] = ()
    left_out: tuple[Conflict, ...] = ()


def feasible_part(plan: Plan, changes: Sequence[Change]) -> FeasiblePart:
    """Return the part of `changes` that a Plan accepts jointly, in their order.

    If the machines of a change are in use, the Plan finds others. Then conflicts are left out one
    by one, admissions before moves, the least important first; an admission that fits after all is
    added again. Every reservation keeps as much as before.
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
    # A joint commit reports the last of the changes that use the scarce capacity.
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
    """Return whether a Plan accepts all changes jointly."""
    return plan.prepare(changes, plan.version, joint=True).record is not None


def id_of_change(change: Change) -> str | None:
    """Return the id of a change's request or reservation, or None."""
    return change.request.id if isinstance(change, Admit) else getattr(change, "id", None)


def _rank(plan: Plan, change: Change) -> tuple[bool, int, float]:
    """Return a sort key: moves, then admissions, the most important first."""
    if not isinstance(change, Admit):
        return False, 0, 0.0
    request = change.request
    return (
        True,
        -request.priority,
        -value_of(request, change.result.choices, plan.cluster.reference),
    )
