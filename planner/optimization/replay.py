"""An optimisation replayed on a Plan that has moved on, with other places where one is taken.

It is the same search as the optimisation's, from where its changes lead on the present Plan, and
only over what they change: a reservation whose new place is taken goes elsewhere, or stays where it
is; a request looks for another place last, the most valuable first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.agent import Limits
from planner.optimization.feasible_part import (
    FeasiblePart,
    feasible_part,
    id_of_change,
    limited_admissions,
)
from planner.optimization.objective import Objective
from planner.optimization.optimizer import Optimization
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import Code
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Degrade, Update

#: Seconds after which no other place is looked for any more.
_LONGEST_S: Final = 3.0

#: Trials in a row that find nothing better, after which the search ends.
_STALL: Final = 400

_NOT_ADMITTED: Final = "its place is taken by now, and there is no other"
_NOT_MOVED: Final = (
    "it stays where it is: its new place is taken, or makes room for nothing any more"
)


def replay(plan: Plan, changes: Sequence[Change], frozen_until: int) -> FeasiblePart:
    """Return the part of `changes` that a Plan takes, some of it elsewhere than it was found.

    Parameters
    ----------
    frozen_until
        Step before which no row moves.
    """
    part = feasible_part(plan, changes)
    # Where machines are short, the repair has shared out what is left of them: no other places.
    if not part.left_out or any(isinstance(one, Degrade) for one in part.kept):
        return part
    if all(isinstance(changes[one.index], Degrade) for one in part.left_out):
        return part
    losses = {one.index: one for one in part.left_out if isinstance(changes[one.index], Degrade)}
    invalid = {one.index: one for one in conflicts_but_for_room(plan, changes)}
    limited = limited_admissions(plan, changes, invalid)
    invalid = {index: one for index, one in invalid.items() if index not in limited} | losses
    valid = [one for index, one in enumerate(changes) if index not in invalid]
    ids = frozenset(filter(None, map(id_of_change, valid)))
    work = Optimization(
        plan,
        Objective(lexicographic=True),
        OptimizeScope(frozen_until, admit_refused=True, only=ids),
        OptimizeOptions(
            Limits(time_s=_LONGEST_S), solver="", starts=(tuple(valid), part.kept), stall=_STALL
        ),
    )
    found = work.run()
    made = {id_of_change(one) for one in found.changes if isinstance(one, Admit | Update)}
    left = []
    for index, change in enumerate(changes):
        id_ = id_of_change(change)
        if id_ in made:
            continue
        why = invalid.get(index)
        refused = None if id_ is None else work.too_many.get(id_)
        if why is None and refused is not None and refused.code is not None:
            why = Conflict(index, id_, refused.code, refused.detail, refused.binding)
        detail = _NOT_ADMITTED if isinstance(change, Admit) else _NOT_MOVED
        left.append(why or Conflict(index, id_, Code.CAPACITY, detail))
    return FeasiblePart(found.changes, tuple(left))
