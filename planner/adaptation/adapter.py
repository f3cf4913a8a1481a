"""The adapter: adapt the commitments of a Plan to a change of capacity (Rayon 5.2).

Slots that lost their machine first get other machines at the same times
(`planner.adaptation.relocation`); only commitments for which there are none are affected, and those
at times when totals are short. A repair drops the least important commitments
(`Commitment.importance`) and then moves the least work: greedy first, then rounds of improvement.
Started work stays while there are machines for it; only the remainder moves. A commitment that
cannot be placed becomes `degraded`, with a reason and offers. It keeps its past and its leases in
force, and is restored automatically when there is free capacity again, the most important first; it
may displace others if policies allow it. It becomes `failed` once it no longer fits in its window.
Nothing is changed here: the result is changes for one joint commit. `Plan.prepare` accepts them on
the version they were computed for; a commitment whose change it does not accept is degraded.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from planner.adaptation.recurring import holds_more, regain, runs_told, salvage, ways_back
from planner.adaptation.relocation import (
    Relocator,
    has_cut_slots,
    has_lost_slots,
    promises_machines,
    relocate_change,
    room_with,
    slots_on,
    work_relocated,
)
from planner.adaptation.repair import ROUNDS, Cost, Repair, present_holders
from planner.adaptation.result import Adaptation, Affected, Effect
from planner.agent import Deadline, Limits
from planner.agents import DEFAULT_AGENT, agent_named
from planner.capacity.shortage import takings_of
from planner.cluster.cluster import Cluster
from planner.explain import time_text
from planner.offer_search import OfferSearch
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Change,
    Conflict,
    Degrade,
    Fail,
    Reconfigure,
    Relocate,
    Update,
)
from planner.promise import PromiseLevel
from planner.replanning.commitment import (
    Commitment,
    Move,
    broken_atoms,
    by_importance,
    commitment_of,
    move_of,
)
from planner.replanning.displacement_search import (
    DisplacementSearch,
    candidates_of,
    displaced_reason,
)
from planner.replanning.draft_plan import (
    DraftPlan,
    StartingMachines,
    exceeds_machines,
    shortage_of,
    work_moved,
)
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.state import STATE_NUMBERS, State
from rdl.compound import vertices_by_path
from rdl.resources import format_amount
from rdl.work_graph import END, LEASE

#: Causes of updates in histories.
MOVED: Final = "moved"
RESTORED: Final = "restored"
REGAINED: Final = "regained"

#: Reason in histories for a change of machines.
RELOCATED: Final = "its machines were lost, or free capacity for others that lost theirs"

#: Most offers for one degraded reservation, and most reservations that get any.
_OFFERS: Final = 3
_MOST_HELPED: Final = 20

#: Most conflicts that are degraded one by one; with more, all changes are degraded.
_MOST_REFUSED: Final = 16

#: Order in which affected reservations are listed.
_FATES: Final = (
    Effect.DEGRADED,
    Effect.FAILED,
    Effect.MOVED,
    Effect.REGAINED,
    Effect.RESTORED,
    Effect.RELOCATED,
)

#: Refusals of the remainder that more capacity would not change.
_FINAL: Final = frozenset({Code.UNSATISFIABLE, Code.BEYOND_HORIZON, Code.PAST_CHANGED})


def needs_adaptation(plan: Plan) -> bool:
    """Return whether a reservation is degraded, lacks machines, or could get better ones."""
    degraded = plan.table.meta["state"] == STATE_NUMBERS[State.DEGRADED]
    return bool(degraded.any()) or lacks_machines(plan) or has_cut_slots(plan)


def lacks_machines(plan: Plan) -> bool:
    """Return whether totals are short, slots lost their machine, or bundles no longer fit."""
    return bool(shortage_of(plan.ledger).counts) or has_lost_slots(plan) or _fits_no_more(plan)


def _fits_no_more(plan: Plan) -> bool:
    """Return whether a promise of totals has more concurrent bundles than fit on the machines.

    Totals may suffice even if the bundles do not fit on the single machines.
    """
    table, ledger = plan.table, plan.ledger
    pooled = np.intersect1d(present_holders(plan), table.numbers_of(PromiseLevel.POOLED))
    if all(
        not (fit := ledger.demand(bundle, label, "", "").fit) or most <= min(fit)
        for bundle, label, most in table.tallest_rows(pooled)
    ):
        return False
    return any(
        exceeds_machines(ledger, takings_of(table.holding(number), ledger, *table.scope(number)))
        for number in pooled.tolist()
    )


def adapt(plan: Plan, limits: Limits | None = None, cluster: Cluster | None = None) -> Adaptation:
    """Adapt the commitments of a Plan to its machines.

    Parameters
    ----------
    limits
        `time_s` and `stop` end the improvement, not the repair itself; `work` limits its rounds.
    cluster
        Hypothetical machines; the Plan is not changed.
    """
    if cluster is not None:
        plan = _on_other_machines(plan, cluster)
    used = limits or Limits()
    base = DraftPlan.of(plan, _machines_of(plan))
    repair = Repair(plan, base)
    began = time.monotonic()
    done = base if not repair.hit else repair.run(used)
    if used.time_s is not None:  # both searches share the time
        used = replace(used, time_s=max(0.0, used.time_s - (time.monotonic() - began)))
    waiting = [one for one in _degraded(plan) if one.number not in done.moved]
    return _accepted(plan, _Answer(repair, done, used).adaptation(waiting))


def _on_other_machines(plan: Plan, cluster: Cluster) -> Plan:
    """Return a copy of a Plan with another description of its cluster."""
    twin = plan.copy()
    prepared = twin.prepare([Reconfigure(cluster)], twin.version)
    assert prepared.record is not None
    twin.apply(prepared.record)
    return twin


def _machines_of(plan: Plan) -> StartingMachines | None:
    """Return machines with lost slots relocated; None without promises of machines."""
    if not promises_machines(plan):
        return None
    held = slots_on(plan)
    room = room_with(held, plan)
    found = Relocator(plan, held, room).run()
    return StartingMachines(room, unplaced=found.unplaced, held=found.held)


def _degraded(plan: Plan) -> list[Commitment]:
    """Return the degraded commitments, the most important first."""
    numbers = (plan.table.meta["state"] == STATE_NUMBERS[State.DEGRADED]).nonzero()[0]
    return by_importance(commitment_of(plan, number) for number in numbers.tolist())


def _accepted(plan: Plan, found: Adaptation) -> Adaptation:
    """Return an adaptation without the changes that the Plan does not accept on the same version.

    A commitment with a conflict is degraded to its past instead, or stays degraded; if that is
    not enough, so are all others.
    """
    changes = {getattr(one, "id", ""): one for one in found.changes}
    refused: dict[str, Conflict] = {}
    while changes:
        prepared = plan.prepare(list(changes.values()), plan.version, joint=True)
        if prepared.record is not None:
            break
        left = changes.keys() - refused.keys()
        if not left:
            failed = prepared.conflicts[0].detail
            return Adaptation(
                based_on=found.based_on, refused=tuple(refused.values()), failed=failed
            )
        at_fault = {one.id: one for one in prepared.conflicts if one.id in left}
        if not at_fault or len(refused) > _MOST_REFUSED:
            at_fault = dict.fromkeys(sorted(left), prepared.conflicts[0])
        for id_, conflict in at_fault.items():
            assert id_ is not None
            refused[id_] = conflict
            less = _degraded_instead(plan, changes.pop(id_), conflict)
            if less is not None:
                changes[id_] = less
    return found if not refused else _with_refused(plan, found, changes, refused)


def _degraded_instead(plan: Plan, change: Change, conflict: Conflict) -> Degrade | None:
    """Return the change that leaves a reservation only its past; None if it stays degraded."""
    assert isinstance(change, Update | Degrade | Relocate | Fail)
    number = plan.table.number_of(change.id)
    assert number is not None
    commitment = commitment_of(plan, number)
    gains = isinstance(change, Update | Fail)
    gains |= isinstance(change, Degrade) and change.cause == REGAINED
    if commitment.state is State.DEGRADED and gains:
        return None
    reason = f"machines were lost, and it could not have another place: {conflict.detail}"
    return Degrade(change.id, commitment.revision, commitment.past(plan.now), reason, ())


def _with_refused(
    plan: Plan, found: Adaptation, changes: Mapping[str, Change], refused: Mapping[str, Conflict]
) -> Adaptation:
    """Return an adaptation in which refused changes become degradations, or are dropped."""
    affected = [one for one in found.affected if one.id not in refused]
    dropped = 0.0
    known = {one.id for one in found.of(Effect.DEGRADED)}
    for id_ in refused.keys() & changes.keys():
        change, number = changes[id_], plan.table.number_of(id_)
        assert isinstance(change, Degrade)
        assert number is not None
        one = commitment_of(plan, number)
        affected.append(Affected(id_, one.tenant, Effect.DEGRADED, one.value, 0.0, change.reason))
        dropped += one.value if id_ not in known and one.state is not State.DEGRADED else 0.0
    return replace(
        found,
        changes=tuple(changes.values()),
        affected=tuple(sorted(affected, key=lambda one: (_FATES.index(one.fate), one.id))),
        cost=replace(found.cost, lost=(*found.cost.lost, dropped)),
        refused=tuple(refused.values()),
    )


class _Answer:
    """Derives changes and notifications from a repaired draft."""

    def __init__(self, repair: Repair, draft: DraftPlan, limits: Limits) -> None:
        self.plan, self.repair, self.draft = repair.plan, repair, draft
        self.is_over = Deadline(limits, ROUNDS).is_over
        self.changes: list[Change] = []
        self.affected: list[Affected] = []
        #: Number of a commitment -> the degraded commitment that displaced it.
        self.displaced_by: dict[int, Commitment] = {}

    def adaptation(self, waiting: Sequence[Commitment]) -> Adaptation:
        """Return the whole adaptation; `waiting` are degraded commitments that may be restored."""
        moved = self.repair.cost(self.draft).moved
        lost = self._cut(self._losers())
        cut = {commitment.number for commitment, _ in lost}
        left = self._restore([one for one in waiting if one.number not in cut])
        lost += self._cut(one for one in self._losers() if one.number not in cut)
        for commitment in left:
            self._settle(commitment)
        cost = Cost(self.repair.cost(self.draft).lost, moved)
        self._note_moves()
        search = search_after(self.draft)
        for helped, (commitment, kept) in enumerate(lost):
            reason = self._reason(commitment)
            offers = offers_to(commitment, search, helped)
            change = Degrade(commitment.id, commitment.revision, kept, reason, offers)
            self._note(change, commitment, Effect.DEGRADED, 0.0, reason)
        relocated = self._note_relocations()
        self.affected.sort(key=lambda one: (_FATES.index(one.fate), -one.value, one.id))
        short = self._short() if self.repair.hit else ""
        changes, affected = tuple(self.changes), tuple(self.affected)
        return Adaptation(changes, affected, cost, self.plan.version, short, relocated)

    def _losers(self) -> list[Commitment]:
        """Return unplaced commitments that lose part of their holding, most important first."""
        return by_importance(
            one
            for one in self.draft.lifted.values()
            if one.state is not State.DEGRADED or one.number in self.draft.stripped
        )

    def _cut(self, losers: Iterable[Commitment]) -> list[tuple[Commitment, Holding]]:
        """Return the remaining holdings of unplaced commitments, with slots."""
        return [
            (one, self.draft.with_slots(one.number, salvage(self.draft, one))) for one in losers
        ]

    def _note_moves(self) -> None:
        """Record the commitments with a new place, restored ones included."""
        for commitment, result, holding in self.draft.moved.values():
            assert commitment.request is not None
            back = commitment.state is State.DEGRADED
            change = Update(
                commitment.id,
                commitment.revision,
                commitment.request,
                result,
                self.repair.early_agent(commitment) or self.repair.agent.name,
                RESTORED if back else MOVED,
                self.draft.slots(commitment.number),
                reason=self._displaced_reason(commitment),
            )
            moved = work_moved(commitment.before, holding, self.plan.now, self.repair.nominal)
            effect = Effect.RESTORED if back else Effect.MOVED
            self._note(change, commitment, effect, moved, change.reason)

    def _displaced_reason(self, commitment: Commitment) -> str:
        """Return the cause of a displacement as a text for its tenant; empty if there is none."""
        by = self.displaced_by.get(commitment.number)
        return "" if by is None else displaced_reason([(by.id, by.tenant)], commitment.tenant)

    def _note_relocations(self) -> float:
        """Record commitments that change only machines; return how much work that is."""
        draft, plan, told = self.draft, self.plan, {one.id for one in self.affected}
        total = 0.0
        for number in sorted(draft.held):
            if plan.table.id_of(number) in told or not draft.places(number):
                continue
            before = plan.table.holding(number)
            after = draft.held_by(number)
            work = work_relocated(before, after, plan.now, self.repair.nominal)
            if work > 0:
                total += work
                change = relocate_change(plan, number, after, RELOCATED)
                self._note(change, self.repair.commitment(number), Effect.RELOCATED, 0.0)
        return total

    def _restore(self, waiting: list[Commitment]) -> list[Commitment]:
        """Restore what can be placed; return the rest. Moves for one may help another."""
        while waiting:
            left = [one for one in waiting if not self._bring_back(one)]
            if len(left) == len(waiting):
                break
            waiting = left
        return waiting

    def _bring_back(self, commitment: Commitment) -> bool:
        ways = tuple(ways_back(self.plan, commitment))
        agents = self.repair.agents_for(commitment)
        if any(self.draft.place(way, agent) for way in ways for agent in agents):
            return True
        roomier = (
            self.repair.with_room_for(self.draft, commitment, ways, self.is_over) if ways else None
        )
        if roomier is not None:
            self.draft = roomier
            return True
        return bool(ways) and self._displace(commitment, ways)

    def _displace(self, commitment: Commitment, ways: Sequence[Move]) -> bool:
        """Displace reservations for a degraded commitment as its submission could; return whether
        it did.

        Displaced commitments are placed elsewhere, the most important first, or are degraded.
        """
        assert commitment.request is not None
        draft, agents = self.draft, self.repair.agents_for(commitment)
        lower = [
            one
            for one in candidates_of(self.plan, [commitment.request])
            if one.number not in draft.lifted
        ]

        def place(other: DraftPlan) -> bool:
            return any(other.place(way, agent) for way in ways for agent in agents)

        found = DisplacementSearch(draft, place, self.is_over).run(lower) if lower else None
        if found is None:
            return False
        self.draft, displaced = found
        for one in displaced:
            self.displaced_by[one.number] = commitment
        self.repair.place_each(self.draft, displaced)
        return True

    def _settle(self, commitment: Commitment) -> None:
        """Restore more runs of a commitment that stays degraded, or fail it, or let it wait."""
        more = regain(self.draft, commitment)
        if more is not None:
            known = self.plan.table.degradations.get(commitment.number)
            reason = "" if known is None else known.reason
            kept = self.draft.with_slots(commitment.number, more)
            again = Degrade(commitment.id, commitment.revision, kept, reason, (), REGAINED)
            moved = work_moved(commitment.before, more, self.plan.now, self.repair.nominal)
            self._note(again, commitment, Effect.REGAINED, moved, reason)
            return
        refused = move_of(self.plan, commitment)
        if isinstance(refused, Move) or commitment.request is None:
            return
        if refused.code is Code.PAST_CHANGED and self._may_begin_anew(
            commitment, commitment.request
        ):
            return
        if refused.code in _FINAL and not holds_more(self.plan, commitment):
            why = runs_told(self.plan, commitment) or refused.detail
            self._note(
                Fail(commitment.id, commitment.revision, why), commitment, Effect.FAILED, 0.0, why
            )

    def _may_begin_anew(self, commitment: Commitment, request: Request) -> bool:
        """Return whether the window leaves time to hold each broken lease again from its start.

        A lease that lost its machine cannot be completed; when its work restarts, a report says
        that it was missed, and the Plan owes all of it.
        """
        graph, now = request.graph, self.plan.now
        broken = broken_atoms(self.plan, commitment, request)
        numbered = vertices_by_path(graph)
        atoms = [graph.vertices[numbered[path]] for path in broken]
        return bool(atoms) and all(row[END] - now >= row[LEASE] for row in atoms)

    def _note(
        self, change: Change, commitment: Commitment, fate: Effect, moved: float, reason: str = ""
    ) -> None:
        self.changes.append(change)
        self.affected.append(
            Affected(commitment.id, commitment.tenant, fate, commitment.value, moved, reason)
        )

    def _reason(self, commitment: Commitment) -> str:
        """Return why a commitment lost its place."""
        displaced = self._displaced_reason(commitment)
        if displaced:
            return displaced
        if commitment.why:
            return commitment.why
        ledger = self.repair.ledger
        for taking in self.repair.base.takings(commitment, commitment.before):
            for row in taking.demand.rows:
                named = ledger.book.rows[row]
                for start, end, _ in taking.rows.tolist():
                    part = ledger.free[row, max(0, start - ledger.first) : end - ledger.first]
                    if named.policy is None and len(part) and int(part.min()) < 0:
                        at = max(start, ledger.first) + int((part < 0).argmax())
                        missing = format_amount(named.resource, -int(part.min()))
                        label = f" with {named.label}" if named.label else ""
                        return (
                            f"machines{label} were lost: from {_time_at(at, self.plan)} on, up to "
                            f"{missing} is missing, and no other place has free capacity"
                        )
            if exceeds_machines(ledger, [taking]):
                return "machines were lost: its bundles do not fit on those that are left"
        if commitment.number in self.repair.base.unplaced:
            return (
                "machines were lost: its bundles fit on no other machines, neither at its times "
                "nor at others"
            )
        return "machines were lost, and its place went to commitments that are more important"

    def _short(self) -> str:
        """Return the shortage of machines that remains at the end."""
        ledger = self.draft.ledger
        for row, _ in shortage_of(ledger).counts.items():
            named, free = ledger.book.rows[row], ledger.free[row]
            at = int((free < 0).argmax()) + ledger.first
            amount = format_amount(named.resource, -int(free.min()))
            return f"{amount} too little from {_time_at(at, self.plan)} on"
        return ""


def search_after(draft: DraftPlan) -> OfferSearch:
    """Return the search for offers on the free capacity of a draft."""
    twin = draft.twin(draft.plan.version + 1)
    return OfferSearch(twin.view(), draft.plan.cluster, draft=twin if draft.has_machines else None)


def offers_to(
    commitment: Commitment, search: OfferSearch, helped: int
) -> tuple[dict[str, Any], ...]:
    """Return offers that the owner of a commitment could renegotiate to.

    A started commitment gets none.

    Parameters
    ----------
    helped
        Number of commitments that have offers already.
    """
    request = commitment.request
    if request is None or commitment.started or helped >= _MOST_HELPED:
        return ()
    agent = agent_named(DEFAULT_AGENT)
    return search.offers(request, request.graph.expression, agent, _OFFERS)


def _time_at(step: int, plan: Plan) -> str:
    return time_text(step, plan.grid)
