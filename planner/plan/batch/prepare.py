"""Prepare a batch of changes on a Plan: records for possible changes, conflicts for the others.

Pure: the Plan is read, never written. Each change sees the earlier changes of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from planner.agent import plans_early
from planner.capacity.shortage import Shortage, Taking, takings_of
from planner.explain import cause_text
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import (
    count_refusal,
    limit_refusal,
    raised_priority_refusal,
)
from planner.plan.batch.agent_limits import AgentUse, place_beside_limits
from planner.plan.batch.joint_commit import (
    conflict_for,
    degrade_conflict,
    joint_shortage,
    takings_of_change,
)
from planner.plan.batch.machines import (
    Fault,
    MachineSwaps,
    is_planner_asked,
    keep_released,
    release_conflict,
)
from planner.plan.batch.making_way import MakingWay
from planner.plan.batch.rolling_horizon import advance, advance_conflict, archive_conflict
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import (
    Found,
    is_lone,
    machines_refusal,
    other_times,
    place_elsewhere,
)
from planner.plan.records.changes import (
    Admit,
    Advance,
    Archive,
    Cancel,
    Change,
    Close,
    Committed,
    Conflict,
    Degrade,
    Fail,
    Note,
    Outcome,
    Prepared,
    Reconfigure,
    Refuse,
    Release,
    Relocate,
    UncompiledRequest,
    Update,
)
from planner.plan.records.commit_records import Archived, CommitRecord, Reconfigured, RecordedChange
from planner.plan.records.reservation_records import (
    RENEGOTIATED,
    AcceptHold,
    Admitted,
    Degraded,
    Ended,
    EndHold,
    HoldAccepted,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request, header_of
from planner.reservations.holding import (
    details_of,
    holding_of,
    past_of,
    with_rules,
)
from planner.reservations.reservation import Holding, Refusal
from planner.reservations.state import LIVE, State, Transition, may

_Answer = RecordedChange | Conflict

#: Batches with more changes than this are first checked as a whole.
_MANY = 4

#: Most requests of a commit that are placed again for their agents' limits: others wait meanwhile.
_MOST_PLACED_AGAIN = 64


def prepare(
    plan: PlanState, changes: Sequence[Change], *, atomic: bool, joint: bool, at_ms: int
) -> Prepared:
    """Return the record and one outcome per change; see `Plan.prepare`."""
    if len(changes) > 1:
        _require_own_commit(changes)
    batch = _Batch(plan, at_ms, joint=joint)
    if joint:
        short = joint_shortage(plan, changes)
        if short is not None:
            return Prepared(None, (short,))
    elif len(changes) > _MANY:
        batch.foresee(changes)
    if not joint and all(isinstance(change, Admit | Refuse) for change in changes):
        batch.makes_way = MakingWay(plan, batch.draft)
    records: list[RecordedChange] = []
    outcomes: list[Outcome] = []
    try:
        if joint:
            batch.machines.give_all(changes)
        for index, change in enumerate(changes):
            answer = batch.answer(index, change)
            if isinstance(answer, Conflict):
                outcomes.append(answer)
            else:
                records.append(answer)
                result = batch.results.get(index)
                outcomes.append(Committed(index, getattr(answer, "id", None), result))
    finally:
        batch.draft.close()
    records += batch.degraded
    failed = (atomic or joint) and len(records) < len(changes)
    if not failed and batch.makes_way is not None:
        records += batch.makes_way.records()
    if failed or not records:
        return Prepared(None, tuple(outcomes))
    record = CommitRecord(plan.version + 1, at_ms, tuple(records))
    takings = None
    if len(batch.admitted) == len(records):
        takings = tuple(taking for admission in batch.admitted for taking in admission)
    return Prepared(record, tuple(outcomes), takings)


def conflicts_but_for_room(plan: PlanState, changes: Sequence[Change]) -> list[Conflict]:
    """Return the conflicts of changes that do not depend on capacity."""
    batch = _Batch(plan, joint=True, judges_room=False)
    try:
        answers = [batch.answer(index, change) for index, change in enumerate(changes)]
    finally:
        batch.draft.close()
    return [one for one in answers if isinstance(one, Conflict)]


def _require_own_commit(changes: Sequence[Change]) -> None:
    """Raise ValueError if one of several changes needs its own commit (time, archive, cluster)."""
    for change in changes:
        if isinstance(change, (Advance, Archive, Reconfigure)):
            raise ValueError(f"{type(change).__name__} takes a commit of its own")


class _Batch:
    """The changes of one batch so far."""

    def __init__(
        self, plan: PlanState, at_ms: int = 0, *, joint: bool = False, judges_room: bool = True
    ) -> None:
        self.plan = plan
        self.joint = joint
        #: Whether to search for machines; if not, each change is given those that it needs.
        self._judges_room = judges_room
        self._at_ms = at_ms
        self.draft = Draft.of(plan)
        #: Whether the next changes are known to fit totals.
        self.fits_totals = joint
        self._foreseen: dict[int, tuple[Holding, list[Taking]]] = {}
        self.machines = MachineSwaps(plan, self.draft, joint=joint and judges_room)
        #: Moves slots that have not started, if nothing else in the batch touches them.
        self.makes_way: MakingWay | None = None
        self.agents = AgentUse(plan)
        self.new_ids: set[str] = set()
        self.touched: set[str] = set()
        self.added: dict[tuple[str, str], int] = {}
        #: Admissions placed again, because the limits of their agent do not allow its answer.
        self._placed_again: set[int] = set()
        #: Reservations that an advance leaves without capacity for their next occurrence.
        self.degraded: tuple[Degraded, ...] = ()
        #: What each admission so far takes.
        self.admitted: list[list[Taking]] = []
        #: Placements of admissions that differ from their agent's, by index in the batch.
        self.results: dict[int, PlacementResult] = {}

    def foresee(self, changes: Sequence[Change]) -> None:
        """Check all admissions as one: if their sum fits totals, each of them does."""
        everything: list[Taking] = []
        for index, change in enumerate(changes):
            if isinstance(change, Admit) and change.result.placed:
                found = self._foreseen[index] = self._holding_of(change)
                everything.extend(found[1])
        calm = all(isinstance(change, Admit | Refuse) for change in changes)
        self.fits_totals = calm and self.draft.shortage(everything) is None

    def _holding_of(self, change: Admit) -> tuple[Holding, list[Taking]]:
        """Return the holding of an admission, and its use of totals."""
        request = change.request
        holding = holding_of(request, change.result)
        return holding, takings_of(holding, self.plan.ledger, request.tenant, request.queue)

    def _shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        """Return the shortage of totals for the next change, or None."""
        return None if self.fits_totals else self.draft.shortage(takings)

    def answer(self, index: int, change: Change) -> _Answer:
        """Return the record of a change, or why there is none."""
        match change:
            case Admit():
                return self._admit(index, change)
            case AcceptHold():
                return self._accept_hold(index, change)
            case EndHold():
                return self._end_hold(index, change)
            case Refuse():
                return self._refuse(index, change)
            case Update():
                return self._update(index, change)
            case Degrade():
                return self._degrade(index, change)
            case Relocate():
                return self._relocate(index, change)
            case Note():
                return self._note(index, change)
            case Release():
                return self._release(index, change)
            case Fail():
                return self._end(index, change, Transition.FAIL, State.FAILED)
            case Cancel():
                return self._end(index, change, Transition.CANCEL, State.CANCELLED)
            case Close():
                return self._end(index, change, Transition.CLOSE, State.COMPLETED)
            case Advance():
                return self._advance(index, change)
            case Archive():
                return self._archive(index, change)
            case Reconfigure():
                return self._reconfigure(index, change)

    def _admit(self, index: int, change: Admit) -> _Answer:
        request = change.request
        if not change.result.placed:
            raise ValueError(f"request {request.id!r} is refused; commit it with Refuse")
        if self._knows(request.id, refused_before=change.anew):
            return _duplicate(index, request.id)
        # 1. The rules of its queue and tenant.
        refused = limit_refusal(self.plan, request, self.added)
        if refused is not None:
            return _refusal_conflict(index, request.id, refused)
        # 2. Totals and policies over time, at its agent's placement.
        holding, takings = self._foreseen.get(index) or self._holding_of(change)
        if holding.atoms and holding.begin < self.plan.now:
            detail = "the plan has moved past its first step; plan it again"
            return Conflict(index, request.id, Code.CONFLICT, detail)
        short = self._shortage(takings)
        if short is not None:
            return conflict_for(index, request.id, short, request)
        # 3. The limits of its agent; if they do not allow it, at another time.
        bounded = self.agents.refusal(change.agent, holding)
        if bounded is not None:
            return self._admit_elsewhere(index, change, bounded)
        # 4. Machines: as placed, else by moving other slots, else at another time.
        level = request.promise or self.plan.cluster.promise
        result = change.result
        if level is PromiseLevel.PLACED and self._judges_room:
            found = self._find_machines(change, holding)
            if isinstance(found, MachineShortage):
                return self._no_machines(index, request.id, found, request)
            result, holding = found
        if result is not change.result:
            bounded = self.agents.refusal(change.agent, holding)
        if bounded is not None:
            self.draft.release_slots(holding)
            return _refusal_conflict(index, request.id, bounded)
        # 5. It is admitted: the next changes see what it takes.
        self.agents.add(change.agent, holding)
        if result is not change.result:
            self.results[index] = result
            self.fits_totals = False
            takings = takings_of(holding, self.plan.ledger, request.tenant, request.queue)
        self.draft.take(takings)
        self.admitted.append(takings)
        if self.makes_way is not None:
            self.makes_way.added.append(holding)
        self.new_ids.add(request.id)
        scope = (request.tenant, request.queue)
        self.added[scope] = self.added.get(scope, 0) + 1
        return Admitted(
            request.id,
            request.tenant,
            request.queue,
            request.submitted_ms,
            request.weight,
            request.priority,
            change.agent,
            details_of(request, result),
            holding,
            level,
            change.note,
            change.hold,
        )

    def _find_machines(self, change: Admit, holding: Holding) -> Found | MachineShortage:
        """Return the placement and the holding of an admission with machines, which are taken."""
        known = None if change.slots is None else self.machines.take_known(change, holding)
        if known is not None:
            return change.result, known
        # A single atom that occurs once is searched by another path, lease by lease too: faster.
        graph = None if is_lone(change.request) and not self.joint else change.request.graph
        placed = self.draft.place_exactly(holding, graph)
        if not isinstance(placed, MachineShortage):
            return change.result, placed
        beside = None if self.makes_way is None else self.makes_way.place(holding)
        if beside is not None:
            return change.result, beside
        if self.joint:
            return placed
        asked = is_planner_asked(change)
        found = place_elsewhere(self.draft, change.request, placed, change.planner, asked=asked)
        if isinstance(found, MachineShortage) and self.makes_way is not None:
            return self._make_way_elsewhere(change) or found
        return found

    def _make_way_elsewhere(self, change: Admit) -> Found | None:
        """Find another time for one atom by moving other slots, and take it; tries few times."""
        assert self.makes_way is not None
        request, rounds = change.request, self.makes_way.rounds
        early = plans_early(change.planner)
        for result in islice(other_times(self.draft, request, early=early), rounds):
            own = holding_of(request, result)
            held = takings_of(own, self.plan.ledger, request.tenant, request.queue)
            is_free = self.draft.shortage(held) is None
            # Do not move others for a placement that the agent's limits do not allow.
            if is_free and self.agents.refusal(change.agent, own) is None:
                placed = self.makes_way.place(own)
                if placed is not None:
                    return result, placed
        return None

    def _admit_elsewhere(self, index: int, change: Admit, bounded: PlacementResult) -> _Answer:
        """Admit a request elsewhere if the limits of its agent allow it, else refuse it."""
        request, planner = change.request, change.planner
        refused = _refusal_conflict(index, request.id, bounded)
        of_amounts = bounded.binding is not None and bounded.binding.resource is not None
        if planner is None or self.joint or not of_amounts or index in self._placed_again:
            return refused
        if len(self._placed_again) >= _MOST_PLACED_AGAIN:
            return refused
        self._placed_again.add(index)
        self._foreseen.pop(index, None)
        self.fits_totals = False  # its placement is no longer the one checked in advance
        view = self.draft.view()
        result = place_beside_limits(request, change.agent, planner, self.agents, view)
        if not result.placed:
            return refused
        found = self._admit(index, replace(change, result=result, slots=None))
        if isinstance(found, Conflict):
            return refused
        self.results.setdefault(index, result)
        return found

    def _accept_hold(self, index: int, change: AcceptHold) -> _Answer:
        blocked = self._not_held(index, change.id)
        if blocked is not None:
            return blocked
        self.touched.add(change.id)
        return HoldAccepted(change.id)

    def _end_hold(self, index: int, change: EndHold) -> _Answer:
        blocked = self._not_held(index, change.id, over=change.when_over)
        if blocked is not None:
            return blocked
        return self._end(
            index, Cancel(change.id), Transition.CANCEL, State.CANCELLED, change.reason
        )

    def _not_held(self, index: int, id_: str, *, over: bool = False) -> Conflict | None:
        """Return the conflict if there is no hold (`over`: if it has not expired), or None."""
        number = self.plan.table.number_of(id_)
        hold = None if number is None else self.plan.table.holds.get(number)
        if hold is None or id_ in self.touched:
            return Conflict(index, id_, Code.CONFLICT, f"{id_!r} is not held")
        if (self._at_ms >= hold.until_ms) is not over:
            detail = "its hold has not expired yet" if over else "its hold has expired"
            return Conflict(index, id_, Code.CONFLICT, detail)
        return None

    def _no_machines(
        self, index: int, id_: str, missed: MachineShortage, request: Request | None = None
    ) -> Conflict:
        """Return the conflict of a request that fits the totals but not the machines."""
        refused = machines_refusal(missed, self.plan.grid, request)
        return Conflict(index, id_, Code.CAPACITY, refused.detail, refused.binding)

    def _refuse(self, index: int, change: Refuse) -> _Answer:
        asked = change.request
        if self._knows(asked.id, refused_before=change.anew):
            return _duplicate(index, asked.id)
        self.new_ids.add(asked.id)
        text = asked.expression if isinstance(asked, UncompiledRequest) else _text_of(asked)
        cause = ""
        if not isinstance(asked, UncompiledRequest):
            graph = asked.graph
            cause = cause_text(change.binding, graph.expression, self.plan.cluster, graph.grid)
        refusal = Refusal(
            **header_of(asked),
            expression=text,
            code=change.code,
            detail=change.detail + cause,
            binding=change.binding,
            offers=change.offers,
            written="" if isinstance(asked, UncompiledRequest) else asked.written,
        )
        return Refused(refusal)

    def _update(self, index: int, change: Update) -> _Answer:
        plan = self.plan
        blocked = self._blocked(index, change.id, change.revision, Transition.RENEGOTIATE)
        if blocked is not None:
            return blocked
        if not change.result.placed:
            raise ValueError(f"the update of {change.id!r} is refused; there is nothing to swap")
        number = plan.table.number_of(change.id)
        assert number is not None
        before = plan.table.holding(number)
        raised = raised_priority_refusal(
            plan, change.request, int(plan.table.meta[number]["priority"])
        )
        if raised is not None:
            return _refusal_conflict(index, change.id, raised)
        holding = holding_of(change.request, change.result)
        if past_of(before, plan.now) != past_of(holding, plan.now):
            detail = "the new allocation changes the past one"
            return Conflict(index, change.id, Code.PAST_CHANGED, detail)
        holding = keep_released(holding, before, change.request, change.result)
        level = change.request.promise or plan.table.promise(number)
        takings = takings_of_change(plan, change)
        short = self._shortage(takings)
        if short is not None:
            return conflict_for(index, change.id, short, change.request)
        if change.cause == RENEGOTIATED:
            bounded = self.agents.refusal(change.agent, holding, number)
            if bounded is not None:
                return _refusal_conflict(index, change.id, bounded)
        placed: Found | MachineShortage | Fault = change.result, holding
        if self._judges_room:
            placed = self.machines.replace(change, number, holding, level)
        else:
            self.machines.end(number)
        if isinstance(placed, MachineShortage):
            return self._no_machines(index, change.id, placed, change.request)
        if isinstance(placed, Fault):
            return Conflict(index, change.id, Code.CONFLICT, placed)
        result, holding = placed
        self.agents.add(change.agent, holding, number)
        request, is_moved = change.request, change.cause != RENEGOTIATED
        if result is not change.result:
            self.results[index] = result
            takings = takings_of(before, plan.ledger, *plan.table.scope(number), -1)
            takings += takings_of(holding, plan.ledger, *plan.table.scope(number))
        self.draft.take(takings)
        self.touched.add(change.id)
        return Updated(
            change.id,
            int(plan.table.meta[number]["revision"]) + 1,
            change.agent,
            request.weight,
            request.priority,
            details_of(request, result, plan.table.details.get(number) if is_moved else None),
            holding,
            change.cause,
            level,
            change.reason,
        )

    def _degrade(self, index: int, change: Degrade) -> _Answer:
        transition = Transition.MISS if change.misses else Transition.DEGRADE
        blocked = self._blocked(index, change.id, change.revision, transition)
        if blocked is None:
            blocked = self._too_many(index, change) if change.misses else None
        if blocked is None:
            blocked = degrade_conflict(self.plan, index, change)
        if blocked is not None:
            return blocked
        takings = takings_of_change(self.plan, change)
        short = self._shortage(takings)
        if short is not None:
            return conflict_for(index, change.id, short)
        number = self.plan.table.number_of(change.id)
        assert number is not None
        kept: Holding | Fault = change.kept
        if self._judges_room:
            kept = self.machines.degrade(change, number)
        if isinstance(kept, Holding):
            kept = with_rules(kept, self.plan.table.holding(number))
        if isinstance(kept, Fault):
            return Conflict(index, change.id, Code.CONFLICT, kept)
        self.draft.take(takings)
        self.touched.add(change.id)
        return Degraded(change.id, kept, change.reason, change.offers, change.cause)

    def _too_many(self, index: int, change: Degrade) -> Conflict | None:
        """Return why an ended reservation cannot be live again because of count limits, or None."""
        number = self.plan.table.number_of(change.id)
        if number is None or self.plan.table.state(number) in LIVE:
            return None
        scope = self.plan.table.scope(number)
        refused = count_refusal(self.plan, scope, self.added)
        if refused is not None and refused.code is not None:
            return Conflict(index, change.id, refused.code, refused.detail, refused.binding)
        self.added[scope] = self.added.get(scope, 0) + 1
        return None

    def _relocate(self, index: int, change: Relocate) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, Transition.RELOCATE)
        if blocked is not None:
            return blocked
        number = self.plan.table.number_of(change.id)
        assert number is not None
        fault = self.machines.relocate(change, number)
        if isinstance(fault, MachineShortage):
            return self._no_machines(index, change.id, fault)
        if fault is not None:
            return Conflict(index, change.id, Code.CONFLICT, fault)
        self.touched.add(change.id)
        return Relocated(change.id, change.slots, change.reason)

    def _note(self, index: int, change: Note) -> _Answer:
        if self.plan.table.number_of(change.id) is None:
            return Conflict(
                index, change.id, Code.CONFLICT, f"there is no reservation {change.id!r}"
            )
        return Noted(change.id, change.what, change.reason)

    def _release(self, index: int, change: Release) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, Transition.RELEASE)
        if blocked is None:
            blocked = release_conflict(self.plan, index, change)
        if blocked is not None:
            return blocked
        self.draft.take(takings_of_change(self.plan, change))
        self.touched.add(change.id)
        number = self.plan.table.number_of(change.id)
        if number is not None:
            self.machines.release(number, change)
        return Released(change.id, change.released, change.reason)

    def _end(
        self,
        index: int,
        change: Cancel | Close | Fail,
        transition: Transition,
        state: State,
        reason: str = "",
    ) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, transition)
        if blocked is not None:
            return blocked
        # The next changes of this batch can use what is released, from the present step on.
        self.draft.take(takings_of_change(self.plan, change))
        self.touched.add(change.id)
        number = self.plan.table.number_of(change.id)
        if number is not None:
            self.machines.end(number)
        reason = reason or getattr(change, "reason", "")
        return Ended(change.id, state, self.plan.now, reason)

    def _advance(self, index: int, change: Advance) -> _Answer:
        blocked = advance_conflict(self.plan, index, change)
        if blocked is not None:
            return blocked
        horizon = max(self.plan.grid.horizon, change.horizon or 0)
        record, self.degraded = advance(self.plan, change.now_step, horizon)
        return record

    def _archive(self, index: int, change: Archive) -> _Answer:
        return archive_conflict(self.plan, index, change) or Archived(change.ids)

    def _reconfigure(self, index: int, change: Reconfigure) -> _Answer:
        cluster, plan = change.cluster, self.plan
        if cluster.step_ms != plan.grid.step_ms:
            return Conflict(index, None, Code.CONFLICT, "the step of a plan cannot change")
        return Reconfigured(cluster)

    def _knows(self, id_: str, *, refused_before: bool = False) -> bool:
        if refused_before and self.plan.refusal(id_) is not None:
            return id_ in self.new_ids
        return id_ in self.new_ids or self.plan.knows(id_)

    def _blocked(
        self, index: int, id_: str, revision: int | None, transition: Transition
    ) -> Conflict | None:
        """Return why a reservation cannot make a transition, or None."""
        number = self.plan.table.number_of(id_)
        if number is None:
            return Conflict(index, id_, Code.CONFLICT, f"there is no reservation {id_!r}")
        if id_ in self.touched:
            return Conflict(index, id_, Code.CONFLICT, "it is changed twice in one batch")
        present = int(self.plan.table.meta[number]["revision"])
        if revision is not None and revision != present:
            detail = f"it is at revision {present}, not {revision}"
            return Conflict(index, id_, Code.CONFLICT, detail)
        state = self.plan.table.state(number)
        if not may(state, transition):
            return Conflict(index, id_, Code.CONFLICT, f"it is {state.value}")
        return None


def _refusal_conflict(index: int, id_: str, refused: PlacementResult) -> Conflict:
    assert refused.code is not None
    return Conflict(index, id_, refused.code, refused.detail, refused.binding)


def _duplicate(index: int, id_: str) -> Conflict:
    return Conflict(index, id_, Code.DUPLICATE_ID, f"the id {id_!r} is taken")


def _text_of(request: Request) -> str:
    from rdl.text.formatter import format_expression

    return format_expression(request.graph.expression)
