"""Displace reservations of lower priority for a request that is refused for room (Omega 3.4).

All or nothing: the request has its place, and each reservation that makes way is planned again
inside its windows, those of most priority first, or is degraded and its owner told, with offers. No
reservation of the same or a higher priority is touched. Nothing is changed here: the answer is
changes for one joint commit, which `Plan.prepare` checks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.adaptation.adapter import MOVED
from planner.adaptation.draft_slots import show_machines, slots_in
from planner.adaptation.recurring import salvage
from planner.adaptation.relocation import has_lost_slots
from planner.adaptation.result import Affected, Effect
from planner.agent import Agent
from planner.agents import DEFAULT_AGENT, agent_named
from planner.displacement.candidates import candidates_of, order_of
from planner.displacement.displacement_search import DisplacementSearch
from planner.offers.search import OfferSearch
from planner.offers.trial_machines import TrialMachines
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Degrade, Update
from planner.replanning.commitment import Commitment, LazyRequest
from planner.replanning.draft_plan import DraftPlan, shortage_of, work_moved
from planner.replanning.move import Move, move_of
from planner.replanning.moves import CommitmentMoves
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from planner.value import size_of

#: Offers of one reservation that finds no other place, and the most that get any.
_OFFERS: Final = 3
_MOST_HELPED: Final = 20

#: The number of the request in drafts: those of reservations are 0 and more.
_REQUEST_NUMBER: Final = -1


@dataclass(frozen=True, slots=True)
class Displacement:
    """What a request displaces.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`: the request comes in, each reservation that makes way
        is moved or degraded.
    affected
        The reservations that make way, the degraded ones first; none where the request fits as it
        is.
    result
        Where the request stands.
    """

    changes: tuple[Change, ...]
    affected: tuple[Affected, ...]
    result: PlacementResult
    based_on: int


@dataclass(frozen=True, slots=True)
class DisplacementAsk:
    """A request that was refused for room, and how it is to be admitted.

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
    """

    request: Request
    agent: Agent
    anew: bool = False
    note: str = ""


def displace(
    plan: Plan, ask: DisplacementAsk, stop: Callable[[], bool] = lambda: False
) -> Displacement | None:
    """Return what a request displaces: nothing where it fits as it is; None where nothing helps.

    Parameters
    ----------
    plan
        A copy that no other thread uses: its machines are read.
    stop
        Asked between trials; once it is True no smaller set is searched for.
    """
    request = ask.request
    if has_lost_slots(plan):
        return None  # machines are short: the adapter works first
    base = DraftPlan.of(plan)
    commitment = _as_commitment(plan, request)
    show_machines(base, [commitment])
    move = move_of(plan, commitment)
    if not isinstance(move, Move):
        return None
    search = DisplacementSearch(plan, base, move, ask.agent, stop)
    found = search.without([]) or search.run(candidates_of(plan, request))
    if found is None:
        return None
    answer = _DisplacementChanges(plan, ask, *found).displacement()
    prepared = plan.prepare(answer.changes, plan.version, joint=True)
    return None if prepared.record is None else answer


def _as_commitment(plan: Plan, request: Request) -> Commitment:
    """Return a request as a commitment that holds nothing."""
    return Commitment(
        _REQUEST_NUMBER,
        request.id,
        request.tenant,
        request.queue,
        0,
        State.REFUSED,
        Holding((), plan.now, plan.now),
        request.weight * size_of(request.graph, plan.cluster.nominal),
        LazyRequest(lambda: (request, "")),
    )


class _DisplacementChanges:
    """Writes a draft in which the request has its place as changes, and tells what they do."""

    def __init__(
        self,
        plan: Plan,
        ask: DisplacementAsk,
        draft: DraftPlan,
        displaced: Sequence[Commitment],
    ) -> None:
        self._plan = plan
        self._ask = ask
        self._draft = draft
        self._commitments = sorted(displaced, key=lambda one: order_of(plan, one), reverse=True)
        self._moves = CommitmentMoves(plan, shortage_of(draft.ledger))

    def displacement(self) -> Displacement:
        """Return the whole answer."""
        without_place = [one for one in self._commitments if not self._replace(one)]
        cut = [(one, self._kept(one)) for one in without_place]
        search = self._search() if cut else None
        changes: list[Change] = []
        affected: list[Affected] = []
        for helped, (one, kept) in enumerate(cut):
            offers = self._offers(search, one) if search and helped < _MOST_HELPED else ()
            reason = self._reason_for(one)
            changes.append(Degrade(one.id, one.revision, kept, reason, offers))
            affected.append(Affected(one.id, one.tenant, Effect.DEGRADED, one.value, 0.0, reason))
        for one in self._commitments:
            if one.number in self._draft.moved:
                changes.append(self._update(one))
                affected.append(self._moved(one))
        changes.append(self._admit(affected))
        result = self._draft.moved[_REQUEST_NUMBER][1]
        return Displacement(tuple(changes), tuple(affected), result, self._plan.version)

    def _reason_for(self, one: Commitment) -> str:
        """Return what the owner of a displaced reservation is told.

        It sees its own tenant's things alone: a request of another one has no name there.
        """
        request = self._ask.request
        who = request.id if one.tenant == request.tenant else "a request of another tenant"
        return f"displaced by {who}, of higher priority"

    def _replace(self, one: Commitment) -> bool:
        """Plan a displaced reservation again, as near to where it was as may be."""
        agent = agent_named("portfolio")
        return any(self._draft.place(move, agent) for move in self._moves.of(self._draft, one))

    def _kept(self, one: Commitment) -> Holding:
        """Return what a reservation that found no place still holds, with its slots."""
        kept, machines = salvage(self._draft, one), self._draft.machines
        return kept if machines is None else machines.with_slots(one.number, kept)

    def _update(self, one: Commitment) -> Update:
        _, result, _ = self._draft.moved[one.number]
        assert one.request is not None
        slots = slots_in(self._draft, one.number)
        agent = self._plan.table.read(one.number).agent
        reason = self._reason_for(one)
        return Update(one.id, one.revision, one.request, result, agent, MOVED, slots, None, reason)

    def _moved(self, one: Commitment) -> Affected:
        plan, after = self._plan, self._draft.moved[one.number][2]
        work = work_moved(one.before, after, plan.now, plan.cluster.nominal)
        return Affected(one.id, one.tenant, Effect.MOVED, one.value, work, self._reason_for(one))

    def _admit(self, affected: Sequence[Affected]) -> Admit:
        ask, (_, result, _) = self._ask, self._draft.moved[_REQUEST_NUMBER]
        count = len(affected)
        told = f"displaced {count} {'reservation' if count == 1 else 'reservations'}"
        notes = [ask.note, told] if count else [ask.note]
        return Admit(
            ask.request,
            result,
            ask.agent.name,
            anew=ask.anew,
            note="; ".join(filter(None, notes)),
            slots=slots_in(self._draft, _REQUEST_NUMBER),
        )

    def _search(self) -> OfferSearch:
        """Return the search for offers on what the displacement leaves."""
        plan, draft = self._plan, self._draft
        machines = None
        if draft.machines is not None:
            first, packed = max(plan.now, plan.ledger.first), plan.packing.copy()
            machines = TrialMachines(draft.machines.room(), plan.cluster, first, packed)
        return OfferSearch(draft.view(plan.version + 1), plan.cluster, machines=machines)

    @staticmethod
    def _offers(search: OfferSearch, one: Commitment) -> tuple[dict[str, Any], ...]:
        """Return what its owner could renegotiate to; nothing of what has begun is offered."""
        if one.request is None or one.started:
            return ()
        agent = agent_named(DEFAULT_AGENT)
        return search.offers(one.request, one.request.graph.expression, agent, _OFFERS)
