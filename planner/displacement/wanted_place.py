"""What asks for room that others hold: a new request, or a change of a reservation, as a move.

A change keeps what the reservation has until all of it can be made: it leaves its own rows for the
new ones in the same commit, its past and its leases in force stay, and it is never displaced by
itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.agent import Agent
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Update
from planner.renegotiation.continuation import Continuation
from planner.renegotiation.fixed import PastChangedError
from planner.renegotiation.remainder import remainder_of
from planner.renegotiation.renegotiation import PreparedUpdate, renegotiation_of
from planner.replanning.commitment import Commitment, LazyRequest, commitment_of
from planner.replanning.draft_plan import DraftPlan
from planner.replanning.move import Move, move_of
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.slots import Slots
from planner.reservations.state import State, Transition, may
from planner.value import size_of
from rdl.errors import RdlError


@dataclass(frozen=True, slots=True)
class DisplacementAsk:
    """A request that was refused for room, and how it is to come in.

    Attributes
    ----------
    request
        Of a higher priority than some reservation.
    agent
        Places it; a quick one, for it is asked often.
    anew
        Whether the request was refused before.
    note
        What its history is to say besides what it displaced.
    renegotiates
        Whether a reservation of its id stands, which it is to change.
    """

    request: Request
    agent: Agent
    anew: bool = False
    note: str = ""
    renegotiates: bool = False


@dataclass(frozen=True, slots=True)
class WantedPlace:
    """An ask as a move on drafts of a Plan.

    Attributes
    ----------
    move
        Of the reservation that is changed, or of a commitment that holds nothing, numbered below 0.
    revision
        That of the reservation; None for a new request.
    """

    ask: DisplacementAsk
    move: Move
    revision: int | None = None

    @property
    def number(self) -> int:
        """Its number in drafts."""
        return self.move.commitment.number

    def change(
        self, draft: DraftPlan, slots: tuple[Slots | None, ...] | None, told: str
    ) -> Admit | Update:
        """Return the change that gives it its place in a draft; `told` is for its history."""
        ask, (_, result, _) = self.ask, draft.moved[self.number]
        if self.revision is not None:
            request = ask.request
            return Update(
                request.id, self.revision, request, result, ask.agent.name, slots=slots, reason=told
            )
        note = "; ".join(filter(None, [ask.note, told]))
        return Admit(ask.request, result, ask.agent.name, anew=ask.anew, note=note, slots=slots)


def wanted_place_of(plan: Plan, ask: DisplacementAsk, ordinal: int) -> WantedPlace | None:
    """Return an ask as a move, or None where room is not all that it lacks.

    Parameters
    ----------
    ordinal
        Its place among those that come in together, from 0 on.
    """
    if ask.renegotiates:
        return _of_change(plan, ask)
    move = move_of(plan, _newcomer(plan, ask.request, -1 - ordinal))
    return WantedPlace(ask, move) if isinstance(move, Move) else None


def _newcomer(plan: Plan, request: Request, number: int) -> Commitment:
    """Return a new request as a commitment that holds nothing."""
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


def _of_change(plan: Plan, ask: DisplacementAsk) -> WantedPlace | None:
    """Return the change of a reservation as a move of it to another request."""
    request, number = ask.request, plan.table.number_of(ask.request.id)
    if number is None or not may(plan.table.state(number), Transition.RENEGOTIATE):
        return None
    if request.promise not in (None, plan.table.promise(number)):
        return None  # drafts look for machines, or for none, by the level that stands
    update = renegotiation_of(plan, request.id, request)
    rest = _rest_of(plan, update)
    if rest is None:
        return None
    standing = commitment_of(plan, number)
    source = LazyRequest(lambda: (request, ""))
    commitment = replace(standing, source=source, priority=request.priority)
    move = Move(request, rest.fixed, rest.remainder, rest.max_period_ms, commitment)
    return WantedPlace(ask, move, standing.revision)


def _rest_of(plan: Plan, update: PreparedUpdate) -> Continuation | None:
    """Return what is to be placed of a change; None where its answer is not for want of room."""
    if update.answer is not None:
        # Leases in force that the change keeps longer have their place; it may be another one's.
        return update.rest if update.answer.placed else None
    if update.rest is not None:
        return update.rest
    request, cluster = update.request, plan.cluster
    context = cluster.context(plan.grid, request.submitted_ms)
    try:
        remainder = remainder_of(request, {}, context, plan.now)
    except (PastChangedError, RdlError):
        return None
    return Continuation(request, {}, remainder, cluster.max_period_ms)
