"""Check changes against capacity: degraded reservations, and many changes as one."""

from __future__ import annotations

from collections.abc import Sequence

from planner.capacity import shortage
from planner.capacity.shortage import Shortage, Taking, takings_of
from planner.placement import Code
from planner.plan.records.changes import (
    Admit,
    Cancel,
    Change,
    Close,
    Conflict,
    Degrade,
    Fail,
    Release,
    Relocate,
    UncompiledRequest,
    Update,
)
from planner.plan.state import PlanState
from planner.request import Request
from planner.reservations.holding import holding_of, past_of, release_rows, within
from planner.reservations.state import State


def degrade_conflict(plan: PlanState, index: int, change: Degrade) -> Conflict | None:
    """Return why a reservation cannot be reduced to `change.kept`, or None."""
    number = plan.table.number_of(change.id)
    assert number is not None
    before = plan.table.holding(number)
    if change.misses:
        if within(change.kept, before):
            return None
        detail = "it would keep more than it holds"
        return Conflict(index, change.id, Code.CONFLICT, detail)
    if past_of(before, plan.now) != past_of(change.kept, plan.now):
        detail = "it would change the past allocation"
        return Conflict(index, change.id, Code.PAST_CHANGED, detail)
    known = plan.table.state(number) is State.DEGRADED
    if not known and not within(change.kept, before):
        detail = "it would keep more than it holds"
        return Conflict(index, change.id, Code.CONFLICT, detail)
    return None


def joint_shortage(plan: PlanState, changes: Sequence[Change]) -> Conflict | None:
    """Return the conflict of the first shortage once all of `changes` are made, or None.

    Ids and revisions are checked with each change, not here: an unknown id takes nothing.
    """
    parts = [takings_of_change(plan, change) for change in changes]
    short = shortage.joint_shortage(plan.ledger, parts)
    if short is None:
        return None
    index = _culprit(parts, short)
    change = changes[index]
    id_ = change.request.id if isinstance(change, Admit) else getattr(change, "id", None)
    return conflict_for(index, id_, short, getattr(change, "request", None))


def conflict_for(
    index: int, id_: str | None, short: Shortage, request: Request | UncompiledRequest | None = None
) -> Conflict:
    """Return the conflict of a change that does not fit, in the names of its request."""
    if isinstance(request, Request):
        short = short.told(request.graph.expression)
    return Conflict(index, id_, short.code, short.detail, short.binding)


def takings_of_change(plan: PlanState, change: Change) -> list[Taking]:
    """Return the released and taken parts of a change; nothing for an unknown id."""
    if isinstance(change, Admit):
        request = change.request
        holding = holding_of(request, change.result)
        return takings_of(holding, plan.ledger, request.tenant, request.queue)
    id_ = getattr(change, "id", None)
    number = None if id_ is None else plan.table.number_of(id_)
    if number is None or isinstance(change, Relocate):
        return []
    tenant, queue = plan.table.scope(number)
    takings = takings_of(plan.table.holding(number), plan.ledger, tenant, queue, -1)
    match change:
        case Update(request=request, result=result):
            held = holding_of(request, result)
            return takings + takings_of(held, plan.ledger, tenant, queue)
        case Degrade(kept=kept):
            return takings + takings_of(kept, plan.ledger, tenant, queue)
        case Release(released=released):
            _, given = release_rows(plan.table.holding(number), released, plan.now)
            return takings_of(given, plan.ledger, tenant, queue, -1)
        case Cancel() | Close() | Fail():
            return takings
        case _:
            return []


def _culprit(parts: Sequence[Sequence[Taking]], short: Shortage) -> int:
    """Return the index of the last change that takes something at the shortage."""
    at = short.binding.at
    for index in range(len(parts) - 1, -1, -1):
        for taking in parts[index]:
            held = taking.rows
            here = at is None or bool(((held[:, 0] <= at) & (at < held[:, 1])).any())
            if taking.sign > 0 and taking.path == short.binding.path and here:
                return index
    return 0
