"""What waits for a place: degraded reservations, and refused requests that may come in."""

from __future__ import annotations

from planner.optimization.result import LeftOut
from planner.placement import Code
from planner.plan.batch.admission import rule_refusal
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, LazyRequest, commitment_of
from planner.request import Request, header_of
from planner.reservations.reservation import Holding, Refusal
from planner.reservations.state import State
from planner.value import size_of
from rdl.compile.compiler import compile_source
from rdl.errors import RdlError


def waiting_commitments(
    plan: Plan, *, admit_refused: bool, only: frozenset[str] | None = None
) -> list[Commitment]:
    """Return what is degraded and, if it may come in, what was refused and some plan could hold.

    Refused requests have no number in the Plan: they get -1, -2, ... in the order they are kept.

    Parameters
    ----------
    only
        Ids to choose from; None: all.
    """
    table = plan.table
    found = [
        commitment_of(plan, number)
        for number in range(len(table))
        if table.state(number) is State.DEGRADED and (only is None or table.id_of(number) in only)
    ]
    if admit_refused:
        for index, refusal in enumerate(plan.refusals):
            if only is not None and refusal.id not in only:
                continue
            commitment = refused_commitment(plan, -1 - index, refusal)
            if commitment is not None:
                found.append(commitment)
    return [one for one in found if one.request is not None]


def refused_request(plan: Plan, refusal: Refusal) -> Request | None:
    """Return what was refused, on the Plan's present grid; None where no plan can hold it."""
    try:
        return _request_of(plan, refusal)
    except RdlError:
        return None


def _request_of(plan: Plan, refusal: Refusal) -> Request:
    context = plan.cluster.context(plan.grid, refusal.submitted_ms)
    graph = compile_source(refusal.expression, context)
    return Request(**header_of(refusal), graph=graph, written=refusal.written)


def refused_commitment(plan: Plan, number: int, refusal: Refusal) -> Commitment | None:
    """Return a refused request as a commitment of nothing, or None where it cannot come in."""
    request = refused_request(plan, refusal)
    if request is None or rule_refusal(plan, request) is not None:
        return None
    return Commitment(
        number,
        refusal.id,
        refusal.tenant,
        refusal.queue,
        0,
        State.REFUSED,
        Holding((), plan.now, plan.now),
        refusal.weight * size_of(request.graph, plan.cluster.reference),
        LazyRequest(lambda: (request, "")),
        priority=refusal.priority,
    )


def cannot_wait(plan: Plan, refusal: Refusal) -> LeftOut | None:
    """Return why a refused request cannot come in by any plan, or None where it may."""
    try:
        request = _request_of(plan, refusal)
    except RdlError as error:
        return LeftOut(refusal.id, Code(error.code), str(error))
    refused = rule_refusal(plan, request)
    if refused is None or refused.code is None:
        return None
    return LeftOut(refusal.id, refused.code, refused.detail)
