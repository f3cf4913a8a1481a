"""The waiting requests and reservations, and why some of them remain without a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.optimization.result import LeftOut
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import rule_refusal
from planner.plan.placing import machines_refusal
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, LazyRequest, commitment_of
from planner.replanning.draft_plan import DraftPlan
from planner.request import Request, header_of
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding, Refusal
from planner.reservations.state import State
from planner.value import size_of
from rdl.compile.compiler import compile_source
from rdl.errors import RdlError


def waiting_commitments(
    plan: Plan, *, admit_refused: bool, only: frozenset[str] | None = None
) -> list[Commitment]:
    """Return degraded reservations and, if `admit_refused`, refused requests that could fit.

    Refused requests have no number in the Plan: they get -1, -2, ... in the order of the Plan.

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
    """Return a refused request on the Plan's current grid; None if no plan can place it."""
    try:
        return _request_of(plan, refusal)
    except RdlError:
        return None


def _request_of(plan: Plan, refusal: Refusal) -> Request:
    context = plan.cluster.context(plan.grid, refusal.submitted_ms)
    graph = compile_source(refusal.expression, context)
    return Request(**header_of(refusal), graph=graph, written=refusal.written)


def refused_commitment(plan: Plan, number: int, refusal: Refusal) -> Commitment | None:
    """Return a refused request as an empty commitment, or None if it cannot be admitted."""
    request = refused_request(plan, refusal)
    if request is None or rule_refusal(plan, request) is not None:
        return None
    return newcomer(plan, number, request)


def newcomer(plan: Plan, number: int, request: Request) -> Commitment:
    """Return a request as an empty commitment with a negative number."""
    return Commitment(
        number,
        request.id,
        request.tenant,
        request.queue,
        0,
        State.REFUSED,
        Holding((), plan.now, plan.now),
        request.weight * size_of(request.graph, plan.cluster.reference),
        LazyRequest(lambda: (request, "")),
        priority=request.priority,
    )


def cannot_wait(plan: Plan, refusal: Refusal) -> LeftOut | None:
    """Return why no plan can admit a refused request, or None if one may."""
    try:
        request = _request_of(plan, refusal)
    except RdlError as error:
        return LeftOut(refusal.id, Code(error.code), str(error))
    refused = rule_refusal(plan, request)
    if refused is None or refused.code is None:
        return None
    return LeftOut(refusal.id, refused.code, refused.detail)


_NOT_RESTORED: Final = "no place for all that was promised was found"
_NOT_TRIED: Final = "there may be a place: the search ended before it was found"


def explain_left_out(
    draft: DraftPlan, too_many: Mapping[str, PlacementResult], *, admit_refused: bool
) -> Iterator[LeftOut]:
    """Yield the unplaced of a draft: degraded reservations, then refused requests.

    Parameters
    ----------
    too_many
        Id -> refusal of a request that had a place but exceeds a policy on counts.
    admit_refused
        Whether refused requests may be admitted; otherwise they are not reported.
    """
    lifted = {one.id: one for one in draft.lifted.values()}
    plan, agent = draft.plan, agent_named("gree")
    for number in range(len(plan.table)):
        id_ = plan.table.read(number).id if plan.table.state(number) is State.DEGRADED else None
        if id_ is not None and number not in draft.moved:
            yield LeftOut(id_, Code.CAPACITY, _NOT_RESTORED)
    for refusal in plan.refusals if admit_refused else ():
        if refusal.id in too_many:
            refused = too_many[refusal.id]
            yield LeftOut(refusal.id, refused.code or Code.COUNT_LIMIT, refused.detail)
        elif refusal.id in lifted:
            yield _without_place(draft, lifted[refusal.id], agent)
        else:
            never = cannot_wait(plan, refusal)
            if never is not None:
                yield never


def _without_place(draft: DraftPlan, commitment: Commitment, agent: Agent) -> LeftOut:
    found = refusal_of(draft, commitment, agent)
    assert found.code is not None
    return LeftOut(commitment.id, found.code, found.detail)


def refusal_of(draft: DraftPlan, commitment: Commitment, agent: Agent) -> PlacementResult:
    """Return why a request has no place in a draft: the agent's refusal, or machines.

    If neither prevents it, the search ended before it found a place.
    """
    request = commitment.request
    assert request is not None
    found = agent.plan([request], draft.view(), Limits())[0]
    if not found.placed:
        return found
    missed = draft.machine_shortage(commitment.number, holding_of(request, found))
    if missed is not None:
        return machines_refusal(missed, draft.plan.grid, request)
    return PlacementResult(Code.TIME_LIMIT, _NOT_TRIED)
