"""Displace reservations of lower priority for requests refused for capacity (Omega 3.4).

This applies to a new request, a change of a reservation, or several new requests, all or nothing.
The invariant: either all of them are placed, and each displaced reservation is placed again inside
its windows, those of the highest priority first, or is degraded and its owner notified, with
offers; or nothing changes. Displaced reservations have a lower priority than each of them; or they
have borrowed, at any priority, capacity that is guaranteed to the requests (`planner.reclaim`),
which is tried first. A changed reservation never loses its old allocation before it has the new
one: a single record swaps old and new rows.

Nothing is changed here: the result is changes for one joint commit, which `Plan.prepare` checks
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planner.adaptation.adapter import MOVED, offers_to, search_after
from planner.adaptation.recurring import salvage
from planner.adaptation.relocation import has_lost_slots, relocations, starting_machines
from planner.adaptation.result import Affected, Effect
from planner.agent import Agent
from planner.agents import agent_named
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Degrade, Update
from planner.reclaim import Reclaim
from planner.remainder import PastChangedError, remainder_of
from planner.renegotiation import Continuation, PreparedUpdate, renegotiation_of
from planner.replanning.commitment import (
    Commitment,
    LazyRequest,
    Move,
    by_importance,
    commitment_of,
    move_of,
)
from planner.replanning.displacement_search import (
    DisplacementSearch,
    candidates_of,
    displaced_reason,
)
from planner.replanning.draft_plan import DraftPlan, shortage_of, work_moved
from planner.replanning.moves import CommitmentMoves
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.slots import Slots
from planner.reservations.state import State, Transition, may
from planner.value import size_of
from rdl.errors import RdlError


@dataclass(frozen=True, slots=True)
class Displacement:
    """The changes that place requests by displacing reservations.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`: each displaced reservation is moved or degraded, then
        the requests are admitted.
    affected
        The displaced reservations, degraded ones first; empty if everything fits without
        displacement.
    """

    changes: tuple[Change, ...]
    affected: tuple[Affected, ...]
    based_on: int


def displace(
    plan: Plan, asks: Sequence[DisplacementAsk], stop: Callable[[], bool] = lambda: False
) -> Displacement | None:
    """Return changes that place requests, without displacement if they fit; None if impossible.

    Parameters
    ----------
    plan
        A copy that no other thread uses, since its machines are read.
    asks
        The requests to admit, all or nothing; those of the highest priority are placed first.
    stop
        Called between trials; once it returns True, no smaller set is searched.
    """
    if has_lost_slots(plan):
        return None  # machines are short: the adapter must run first
    wanted = _wanted(plan, asks)
    if not wanted:
        return None
    machines = starting_machines(plan, [one.move.commitment for one in wanted])
    base = DraftPlan.of(plan, machines)

    def place(draft: DraftPlan) -> bool:
        return all(draft.place(one.move, one.ask.agent) for one in wanted)

    search = DisplacementSearch(base, place, stop)
    requests = [one.request for one in asks]
    found, reason = search.without([]), displaced_reason
    reclaim = Reclaim.of(plan, requests) if found is None and plan.cluster.cohorts else None
    if reclaim is not None:
        lender = reclaim

        def take_back(draft: DraftPlan) -> bool:
            return place(draft) and lender.is_within_guarantee(draft.ledger)

        def leaves_guarantees(draft: DraftPlan) -> bool:
            return lender.leaves_guarantees(draft.ledger)

        borrowed = DisplacementSearch(base, take_back, stop, level=lender.level)
        found = borrowed.run_keeping(lender.borrowers(), leaves_guarantees)
        reason = lender.reason if found is not None else reason
    found = found or search.run(candidates_of(plan, requests))
    if found is None:
        return None
    answer = _DisplacementChanges(plan, wanted, *found, reason).displacement()
    prepared = plan.prepare(answer.changes, plan.version, joint=True)
    return None if prepared.record is None else answer


def _wanted(plan: Plan, asks: Sequence[DisplacementAsk]) -> list[WantedPlace]:
    """Return asks as moves, the highest priority first; empty if one lacks more than capacity."""
    found = [wanted_place_of(plan, ask, index) for index, ask in enumerate(asks)]
    whole = [one for one in found if one is not None]
    if len(whole) < len(found):
        return []
    return sorted(whole, key=lambda one: one.move.commitment.importance, reverse=True)


class _DisplacementChanges:
    """Turns a draft in which all requests are placed into changes and reports."""

    def __init__(
        self,
        plan: Plan,
        wanted: Sequence[WantedPlace],
        draft: DraftPlan,
        displaced: Sequence[Commitment],
        reason: Callable[[Sequence[tuple[str, str]], str], str],
    ) -> None:
        self._plan = plan
        self._reason = reason
        self._wanted = wanted
        self._draft = draft
        self._commitments = by_importance(displaced)
        self._moves = CommitmentMoves(plan, shortage_of(draft.ledger))

    def displacement(self) -> Displacement:
        """Return the complete displacement."""
        without_place = [one for one in self._commitments if not self._replace(one)]
        cut = [(one, self._kept(one)) for one in without_place]
        search = search_after(self._draft) if cut else None
        changes: list[Change] = []
        affected: list[Affected] = []
        for helped, (one, kept) in enumerate(cut):
            offers = offers_to(one, search, helped) if search else ()
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
        # Reservations that were put back may be on other machines than before.
        changes += [*relocations(self._draft, [*changes, *wanted]), *wanted]
        return Displacement(tuple(changes), tuple(affected), self._plan.version)

    def _reason_for(self, one: Commitment) -> str:
        came = [(new.ask.request.id, new.ask.request.tenant) for new in self._wanted]
        return self._reason(came, one.tenant)

    def _replace(self, one: Commitment) -> bool:
        """Place a displaced reservation again, with the least disturbance."""
        agent = agent_named("portfolio")
        return any(self._draft.place(move, agent) for move in self._moves.of(self._draft, one))

    def _kept(self, one: Commitment) -> Holding:
        """Return the remaining holding of an unplaced reservation, with slots."""
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
        """Return the history text of admitted requests on displaced reservations."""
        if not count:
            return ""
        verb = "its batch displaced" if len(self._wanted) > 1 else "displaced"
        return f"{verb} {count} {'reservation' if count == 1 else 'reservations'}"


@dataclass(frozen=True, slots=True)
class DisplacementAsk:
    """A request that was refused for capacity, and how to admit it.

    Attributes
    ----------
    request
        Whether its priority is higher than that of some reservation.
    agent
        The agent that places it; must be fast, since it is called often.
    anew
        Whether the request was refused before.
    note
        An additional sentence for its history.
    renegotiates
        Whether it changes the reservation of its id.
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
        Move of the changed reservation, or of an empty commitment with a negative number.
    revision
        Revision of the reservation; None for a new request.
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
        """Return the change for its place in a draft; `told` is a text for its history."""
        ask, (_, result, _) = self.ask, draft.moved[self.number]
        if self.revision is not None:
            request = ask.request
            return Update(
                request.id, self.revision, request, result, ask.agent.name, slots=slots, reason=told
            )
        note = "; ".join(filter(None, [ask.note, told]))
        return Admit(ask.request, result, ask.agent.name, anew=ask.anew, note=note, slots=slots)


def wanted_place_of(plan: Plan, ask: DisplacementAsk, ordinal: int) -> WantedPlace | None:
    """Return an ask as a move, or None if it lacks more than capacity.

    Parameters
    ----------
    ordinal
        Its index among the asks, from 0.
    """
    if ask.renegotiates:
        return _of_change(plan, ask)
    move = move_of(plan, _newcomer(plan, ask.request, -1 - ordinal))
    return WantedPlace(ask, move) if isinstance(move, Move) else None


def _newcomer(plan: Plan, request: Request, number: int) -> Commitment:
    """Return a new request as a commitment without allocation."""
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
    """Return the change of a reservation as a move to another request."""
    request, number = ask.request, plan.table.number_of(ask.request.id)
    if number is None or not may(plan.table.state(number), Transition.RENEGOTIATE):
        return None
    if request.promise not in (None, plan.table.promise(number)):
        return None  # drafts use the present level to decide whether to find machines
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
    """Return the part of a change to place; None if refused for a reason other than capacity."""
    if update.answer is not None:
        # Leases in force that the change extends are already placed, possibly over another's place.
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
