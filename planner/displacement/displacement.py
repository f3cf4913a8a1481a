"""Displace reservations of lower priority for what is refused for room (Omega 3.4).

A new request, a change of a reservation, or several new requests together, all or nothing. The
invariant: either all of them have their places, and each reservation that makes way is planned
again inside its windows, those of most priority first, or is degraded and its owner told, with
offers; or nothing is changed. What makes way is of lower priority than each of them. A reservation
that is changed is at no time without what it had before: old and new rows swap in the one record.

Nothing is changed here: the answer is changes for one joint commit, which `Plan.prepare` checks
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.adaptation.adapter import MOVED
from planner.adaptation.draft_slots import relocations, starting_machines
from planner.adaptation.recurring import salvage
from planner.adaptation.relocation import has_lost_slots
from planner.adaptation.result import Affected, Effect
from planner.agents import DEFAULT_AGENT, agent_named
from planner.displacement.wanted_place import DisplacementAsk, WantedPlace, wanted_place_of
from planner.offers.search import OfferSearch
from planner.plan.plan import Plan
from planner.plan.records.changes import Change, Degrade, Update
from planner.replanning.candidates import candidates_of, displaced_reason
from planner.replanning.commitment import Commitment, by_importance
from planner.replanning.displacement_search import DisplacementSearch
from planner.replanning.draft_plan import DraftPlan, shortage_of, work_moved
from planner.replanning.moves import CommitmentMoves
from planner.reservations.reservation import Holding

#: Offers of one reservation that finds no other place, and the most that get any.
_OFFERS: Final = 3
_MOST_HELPED: Final = 20


@dataclass(frozen=True, slots=True)
class Displacement:
    """What a request displaces.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`: each reservation that makes way is moved or degraded,
        then what was asked for comes in.
    affected
        The reservations that make way, the degraded ones first; none where all fits as it is.
    """

    changes: tuple[Change, ...]
    affected: tuple[Affected, ...]
    based_on: int


def displace(
    plan: Plan, asks: Sequence[DisplacementAsk], stop: Callable[[], bool] = lambda: False
) -> Displacement | None:
    """Return what requests displace: nothing where they fit as it is; None where nothing helps.

    Parameters
    ----------
    plan
        A copy that no other thread uses: its machines are read.
    asks
        What comes in together, all or nothing; of several, those of most priority are placed first.
    stop
        Asked between trials; once it is True no smaller set is searched for.
    """
    if has_lost_slots(plan):
        return None  # machines are short: the adapter works first
    wanted = _wanted(plan, asks)
    if not wanted:
        return None
    machines = starting_machines(plan, [one.move.commitment for one in wanted])
    base = DraftPlan.of(plan, machines)

    def place(draft: DraftPlan) -> bool:
        return all(draft.place(one.move, one.ask.agent) for one in wanted)

    search = DisplacementSearch(base, place, stop)
    candidates = candidates_of(plan, [one.request for one in asks])
    found = search.without([]) or search.run(candidates)
    if found is None:
        return None
    answer = _DisplacementChanges(plan, wanted, *found).displacement()
    prepared = plan.prepare(answer.changes, plan.version, joint=True)
    return None if prepared.record is None else answer


def _wanted(plan: Plan, asks: Sequence[DisplacementAsk]) -> list[WantedPlace]:
    """Return asks as moves, those of most priority first; none where one of them lacks more."""
    found = [wanted_place_of(plan, ask, index) for index, ask in enumerate(asks)]
    whole = [one for one in found if one is not None]
    if len(whole) < len(found):
        return []
    return sorted(whole, key=lambda one: one.move.commitment.importance, reverse=True)


class _DisplacementChanges:
    """Writes a draft in which all that comes in has its place as changes, and tells of them."""

    def __init__(
        self,
        plan: Plan,
        wanted: Sequence[WantedPlace],
        draft: DraftPlan,
        displaced: Sequence[Commitment],
    ) -> None:
        self._plan = plan
        self._wanted = wanted
        self._draft = draft
        self._commitments = by_importance(displaced)
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
        told = self._told(len(affected))
        wanted = [
            new.change(self._draft, self._draft.slots(new.number), told) for new in self._wanted
        ]
        # Those that were put back may stand on other machines than before.
        changes += [*relocations(self._draft, [*changes, *wanted]), *wanted]
        return Displacement(tuple(changes), tuple(affected), self._plan.version)

    def _reason_for(self, one: Commitment) -> str:
        came = [(new.ask.request.id, new.ask.request.tenant) for new in self._wanted]
        return displaced_reason(came, one.tenant)

    def _replace(self, one: Commitment) -> bool:
        """Plan a displaced reservation again, as near to where it was as may be."""
        agent = agent_named("portfolio")
        return any(self._draft.place(move, agent) for move in self._moves.of(self._draft, one))

    def _kept(self, one: Commitment) -> Holding:
        """Return what a reservation that found no place still holds, with its slots."""
        return self._draft.with_slots(one.number, salvage(self._draft, one))

    def _update(self, one: Commitment) -> Update:
        _, result, _ = self._draft.moved[one.number]
        assert one.request is not None
        slots = self._draft.slots(one.number)
        agent = self._plan.table.read(one.number).agent
        reason = self._reason_for(one)
        return Update(one.id, one.revision, one.request, result, agent, MOVED, slots, None, reason)

    def _moved(self, one: Commitment) -> Affected:
        plan, after = self._plan, self._draft.moved[one.number][2]
        work = work_moved(one.before, after, plan.now, plan.cluster.nominal)
        return Affected(one.id, one.tenant, Effect.MOVED, one.value, work, self._reason_for(one))

    def _told(self, count: int) -> str:
        """Return what the history of all that comes in says of those who make way."""
        if not count:
            return ""
        verb = "its batch displaced" if len(self._wanted) > 1 else "displaced"
        return f"{verb} {count} {'reservation' if count == 1 else 'reservations'}"

    def _search(self) -> OfferSearch:
        """Return the search for offers on what the displacement leaves."""
        plan, draft = self._plan, self._draft
        twin = draft.twin(plan.version + 1)
        return OfferSearch(twin.view(), plan.cluster, draft=twin if draft.has_machines else None)

    @staticmethod
    def _offers(search: OfferSearch, one: Commitment) -> tuple[dict[str, Any], ...]:
        """Return what its owner could renegotiate to; nothing of what has begun is offered."""
        if one.request is None or one.started:
            return ()
        agent = agent_named(DEFAULT_AGENT)
        return search.offers(one.request, one.request.graph.expression, agent, _OFFERS)
