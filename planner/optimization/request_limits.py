"""Policies on how many may stand, judged over the admissions that are made, not over all asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from planner.placement import Code
from planner.plan.admission import limit_refusal
from planner.plan.changes import Admit, Change, Conflict
from planner.plan.plan import Plan
from planner.plan.prepare import conflicts_but_for_room


def counted_out(
    plan: Plan, changes: Sequence[Change], unfit: Mapping[int, Conflict]
) -> frozenset[int]:
    """Return which of the unfit could come in if fewer came before them.

    Parameters
    ----------
    unfit
        Why changes mean nothing, by their index, where all before them are made.
    """
    return frozenset(
        index
        for index, one in unfit.items()
        if one.code is Code.COUNT_LIMIT and not conflicts_but_for_room(plan, [changes[index]])
    )


def count_conflict(
    plan: Plan, index: int, change: Change, made: Iterable[Change]
) -> Conflict | None:
    """Return why an admission is one too many beside those of `made`, or None."""
    if not isinstance(change, Admit):
        return None
    comers = (one.request for one in made if isinstance(one, Admit))
    added = Counter((one.tenant, one.queue) for one in comers)
    refused = limit_refusal(plan, change.request, added)
    if refused is None or refused.code is None:
        return None
    return Conflict(index, change.request.id, refused.code, refused.detail, refused.binding)
