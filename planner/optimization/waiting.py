"""What waits for a place: degraded reservations, and refused requests that may come in."""

from __future__ import annotations

from planner.adaptation.promise import Promise, Source, context_for, promise_of
from planner.admission import limit_refusal
from planner.plan import Plan
from planner.record_parts import Holding
from planner.request import Request, header_of
from planner.reservation import Refusal
from planner.states import State
from planner.value import size_of
from rdl.compiler import compile_source
from rdl.errors import RdlError


def waiting_promises(plan: Plan, *, admit_refused: bool) -> list[Promise]:
    """Return what is degraded and, if it may come in, what was refused and some plan could hold.

    Refused requests have no number in the Plan: they get -1, -2, ... in the order they are kept.
    """
    table = plan.table
    found = [
        promise_of(plan, number)
        for number in range(len(table))
        if table.state(number) is State.DEGRADED
    ]
    if admit_refused:
        for index, refusal in enumerate(plan.refusals):
            promise = refused_promise(plan, -1 - index, refusal)
            if promise is not None:
                found.append(promise)
    return [one for one in found if one.request is not None]


def refused_request(plan: Plan, refusal: Refusal) -> Request | None:
    """Return what was refused, on the Plan's present grid; None where no plan can hold it."""
    try:
        context = context_for(plan, refusal.submitted_ms)
        graph = compile_source(refusal.expression, context)
    except RdlError:
        return None
    return Request(**header_of(refusal), graph=graph)


def refused_promise(plan: Plan, number: int, refusal: Refusal) -> Promise | None:
    """Return a refused request as a promise of nothing, or None where it cannot come in."""
    request = refused_request(plan, refusal)
    if request is None:
        return None
    queue = plan.cluster.queue(refusal.queue)
    if queue is None or not queue.reservable or limit_refusal(plan, request, {}):
        return None
    return Promise(
        number,
        refusal.id,
        refusal.tenant,
        refusal.queue,
        0,
        State.REFUSED,
        Holding((), plan.now, plan.now),
        refusal.weight * size_of(request.graph, plan.cluster.nominal),
        Source(lambda: (request, "")),
    )
