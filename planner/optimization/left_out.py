"""What waited for a place and has none when an optimisation ends, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.optimization.candidates import cannot_wait
from planner.optimization.result import LeftOut
from planner.placement import Code, PlacementResult
from planner.plan.placing import machines_refusal
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan
from planner.reservations.holding import holding_of
from planner.reservations.state import State

_NOT_RESTORED: Final = "no place for all that was promised was found"
_NOT_TRIED: Final = "there may be a place: the search ended before it was found"


def explain_left_out(
    draft: DraftPlan, too_many: Mapping[str, PlacementResult], *, admit_refused: bool
) -> Iterator[LeftOut]:
    """Yield what has no place in a draft: degraded reservations, then refused requests.

    Parameters
    ----------
    too_many
        Id -> refusal of a request that had a place and is one too many for a policy on counts.
    admit_refused
        Whether refused requests may come in; they are left out of the answer otherwise.
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
    """Say what stands in the way of a refused request beside all that is held."""
    assert commitment.request is not None
    found = agent.plan([commitment.request], draft.view(), Limits())[0]
    if found.code is None:
        found = _why_no_machines(draft, commitment, found) or PlacementResult(
            Code.TIME_LIMIT, _NOT_TRIED
        )
    assert found.code is not None
    return LeftOut(commitment.id, found.code, found.detail)


def _why_no_machines(
    draft: DraftPlan, commitment: Commitment, result: PlacementResult
) -> PlacementResult | None:
    """Return why machines do not hold a request where totals have room for it, or None."""
    if commitment.request is None:
        return None
    holding = holding_of(commitment.request, result)
    missed = draft.machine_shortage(commitment.number, holding)
    return None if missed is None else machines_refusal(missed, draft.plan.grid, commitment.request)
