"""Displace reservations of lower priority for a request that is refused for room (Omega 3.4).

All or nothing: the request has its place, and each reservation that makes way is planned again
inside its windows, those of most priority first, or is degraded and told with offers. Nobody of
the same or a higher priority is touched. Nothing is changed here: the answer is changes for one
joint commit, which `Plan.prepare` checks again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.adaptation.adapter import MOVED
from planner.adaptation.recurring import salvage
from planner.adaptation.relocation import has_lost_slots, room_with, slots_on
from planner.adaptation.result import Affected, Effect
from planner.agent import Agent
from planner.agents import DEFAULT_AGENT, agent_named
from planner.displacement.candidates import candidates_of, order_of
from planner.displacement.victims import VictimSearch
from planner.offers.search import OfferSearch
from planner.offers.trial_machines import TrialMachines
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Degrade, Update
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment, LazyRequest
from planner.replanning.draft_machines import DraftMachines
from planner.replanning.draft_plan import DraftPlan, shortage_of, work_moved
from planner.replanning.move import Move, move_of
from planner.replanning.moves import CommitmentMoves
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.slots import Slots
from planner.reservations.state import State
from planner.value import size_of

#: Offers of one reservation that finds no other place, and the most that get any.
_OFFERS: Final = 3
_MOST_HELPED: Final = 20

#: The number of the request in drafts: those of reservations are 0 and more.
_NEWCOMER: Final = -1


@dataclass(frozen=True, slots=True)
class Displacement:
    """What a request displaces.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`: the request comes in, all others move or lose.
    affected
        Who makes way: those that lose first, then those that move; nobody where it fits as it is.
    result
        Where the request stands.
    """

    changes: tuple[Change, ...]
    affected: tuple[Affected, ...]
    result: PlacementResult
    based_on: int


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A request that was refused for room, and how it is to come in.

    Attributes
    ----------
    request
        Of a higher priority than somebody.
    agent
        Places it; quick, for it is asked often.
    anew
        Whether the request was refused before.
    note
        What its history is to say besides.
    """

    request: Request
    agent: Agent
    anew: bool = False
    note: str = ""


def displace(
    plan: Plan, newcomer: Newcomer, stop: Callable[[], bool] = lambda: False
) -> Displacement | None:
    """Return what a request displaces: nobody where it fits as it is; None where it cannot come in.

    Parameters
    ----------
    plan
        A copy of nobody else: its machines are read.
    stop
        Asked between trials; once it is True no smaller set is sought.
    """
    request = newcomer.request
    if has_lost_slots(plan):
        return None  # machines are short: the adapter works first
    base = DraftPlan.of(plan)
    _show_machines(base, request)
    move = move_of(plan, _as_commitment(plan, request))
    if not isinstance(move, Move):
        return None
    search = VictimSearch(plan, base, move, newcomer.agent, stop)
    found = search.without([]) or search.run(candidates_of(plan, request))
    if found is None:
        return None
    answer = _Settlement(plan, newcomer, *found).displacement()
    prepared = plan.prepare(answer.changes, plan.version, joint=True)
    return None if prepared.record is None else answer


def _as_commitment(plan: Plan, request: Request) -> Commitment:
    """Return a request as a commitment of nothing."""
    return Commitment(
        _NEWCOMER,
        request.id,
        request.tenant,
        request.queue,
        0,
        State.REFUSED,
        Holding((), plan.now, plan.now),
        request.weight * size_of(request.graph, plan.cluster.nominal),
        LazyRequest(lambda: (request, "")),
    )


def _show_machines(draft: DraftPlan, request: Request) -> None:
    """Let a draft find machines for all that is promised some."""
    plan = draft.plan
    level = request.promise or plan.cluster.promise
    held = slots_on(plan, plan.cluster)
    comes = frozenset({_NEWCOMER}) if level is PromiseLevel.PLACED else frozenset()
    if not (comes or len(held.slots)):
        return

    def base(number: int) -> Holding:
        return Holding((), plan.now, plan.now) if number < 0 else plan.table.holding(number)

    room = room_with(held, plan, plan.cluster)
    draft.machines = DraftMachines.of(plan, room, base, frozenset(), comes)


class _Settlement:
    """From a draft in which the request has its place to changes and what is told of them."""

    def __init__(
        self,
        plan: Plan,
        newcomer: Newcomer,
        draft: DraftPlan,
        victims: Sequence[Commitment],
    ) -> None:
        self._plan = plan
        self._newcomer = newcomer
        self._draft = draft
        self._victims = sorted(victims, key=lambda one: order_of(plan, one), reverse=True)
        self._moves = CommitmentMoves(plan, shortage_of(draft.ledger))
        self._reason = f"displaced by {newcomer.request.id}, of higher priority"

    def displacement(self) -> Displacement:
        """Return the whole answer."""
        losers = [one for one in self._victims if not self._replace(one)]
        cut = [(one, self._kept(one)) for one in losers]
        search = self._search() if cut else None
        changes: list[Change] = []
        affected: list[Affected] = []
        for helped, (one, kept) in enumerate(cut):
            offers = self._offers(search, one) if search and helped < _MOST_HELPED else ()
            changes.append(Degrade(one.id, one.revision, kept, self._reason, offers))
            affected.append(
                Affected(one.id, one.tenant, Effect.DEGRADED, one.value, 0.0, self._reason)
            )
        for one in self._victims:
            if one.number in self._draft.moved:
                changes.append(self._update(one))
                affected.append(self._moved(one))
        changes.append(self._admit(affected))
        result = self._draft.moved[_NEWCOMER][1]
        return Displacement(tuple(changes), tuple(affected), result, self._plan.version)

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
        slots = self._slots(one.number)
        agent = self._plan.table.read(one.number).agent
        return Update(
            one.id, one.revision, one.request, result, agent, MOVED, slots, None, self._reason
        )

    def _moved(self, one: Commitment) -> Affected:
        plan, after = self._plan, self._draft.moved[one.number][2]
        work = work_moved(one.before, after, plan.now, plan.cluster.nominal)
        return Affected(one.id, one.tenant, Effect.MOVED, one.value, work, self._reason)

    def _admit(self, affected: Sequence[Affected]) -> Admit:
        newcomer, (_, result, _) = self._newcomer, self._draft.moved[_NEWCOMER]
        count = len(affected)
        told = f"displaced {count} {'reservation' if count == 1 else 'reservations'}"
        notes = [newcomer.note, told] if count else [newcomer.note]
        return Admit(
            newcomer.request,
            result,
            newcomer.agent.name,
            anew=newcomer.anew,
            note="; ".join(filter(None, notes)),
            slots=self._slots(_NEWCOMER),
        )

    def _slots(self, number: int) -> tuple[Slots | None, ...] | None:
        machines = self._draft.machines
        if machines is None or not machines.places(number):
            return None
        return tuple(atom.slots for atom in machines.holding(number).atoms)

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
