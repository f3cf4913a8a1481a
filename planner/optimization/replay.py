"""Replay a stale optimisation on a Plan that has changed since.

It is the optimisation's search, started from its changes applied to the current Plan, and limited
to the commitments that they change: a reservation whose new place is in use goes elsewhere or
stays; requests are placed again last, the most valuable first. A loss is kept only if machines are
still short. The result is prepared jointly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from planner.agent import Limits
from planner.optimization.feasible_part import FeasiblePart, feasible_part, id_of_change, takes
from planner.optimization.objective import Objective
from planner.optimization.optimizer import Optimization
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import Code
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Degrade

#: Seconds after which the search for other places ends.
_LONGEST_S: Final = 3.0

#: Consecutive trials without improvement after which the search ends.
_STALL: Final = 400

_NOT_ADMITTED: Final = "its place is in use by now, and there is no other"
_NOT_DEGRADED: Final = "there are machines for it again: it keeps all that it holds"
_NOT_MOVED: Final = (
    "it stays where it is: its new place is in use, or frees capacity for nothing any more"
)


def replay(plan: Plan, changes: Sequence[Change], frozen_until: int) -> FeasiblePart:
    """Return the part of `changes` that a Plan accepts, some of them at other places.

    Parameters
    ----------
    plan
        A copy that no other thread uses.
    frozen_until
        Rows before this step do not move.
    """
    losing = any(isinstance(one, Degrade) for one in changes)
    if not changes or (not losing and takes(plan, changes)):
        return FeasiblePart(tuple(changes))
    invalid = {
        index: replace(conflict, index=index)
        for index, change in enumerate(changes)
        for conflict in conflicts_but_for_room(plan, [change])
    }
    valid = tuple(one for index, one in enumerate(changes) if index not in invalid)
    starts = valid, feasible_part(plan, changes).kept
    work = Optimization(
        plan,
        Objective(lexicographic=True),
        OptimizeScope(
            frozen_until,
            admit_refused=True,
            only=frozenset(filter(None, map(id_of_change, valid))),
        ),
        OptimizeOptions(Limits(time_s=_LONGEST_S), solver="", starts=starts, stall=_STALL),
    )
    found = work.run()
    made = {id_of_change(one) for one in found.changes}
    left = (
        invalid.get(index) or _not_made(work, index, change)
        for index, change in enumerate(changes)
        if id_of_change(change) not in made
    )
    return FeasiblePart(found.changes, tuple(left))


def _not_made(work: Optimization, index: int, change: Change) -> Conflict:
    """Return why an applicable change is not made."""
    id_ = id_of_change(change)
    refused = None if id_ is None else work.too_many.get(id_)
    if refused is not None and refused.code is not None:
        return Conflict(index, id_, refused.code, refused.detail, refused.binding)
    if isinstance(change, Degrade):
        return Conflict(index, id_, Code.CONFLICT, _NOT_DEGRADED)
    detail = _NOT_ADMITTED if isinstance(change, Admit) else _NOT_MOVED
    return Conflict(index, id_, Code.CAPACITY, detail)
