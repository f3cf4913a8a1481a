"""Prepare a batch of changes on a Plan: records for what can be done, conflicts for the rest.

Pure: the Plan is read, never written. Each change sees the changes of the batch before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.capacity.overlay import Overlay, Taking, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.holding import (
    details_of,
    holding_of,
    leases_of,
    past_of,
    release_rows,
    with_slots,
)
from planner.placement import Code, PlacementResult
from planner.plan.admission import limit_refusal
from planner.plan.changes import (
    Admit,
    Advance,
    Cancel,
    Change,
    Close,
    Committed,
    Conflict,
    Degrade,
    Fail,
    Outcome,
    Prepared,
    Reconfigure,
    Refuse,
    Release,
    Relocate,
    UncompiledRequest,
    Update,
)
from planner.plan.holds import AcceptHold, EndHold, HoldAccepted
from planner.plan.joint_commit import degrade_conflict, joint_shortage, takings_of_change
from planner.plan.machine_search import Found, MachineSearch, machines_refusal
from planner.plan.records import Advanced, CommitRecord, Reconfigured, RecordedChange
from planner.plan.release import keep_released, release_conflict
from planner.plan.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.plan.rolling_horizon import extensions
from planner.plan.slot_batch import MachineShortage, SlotBatch
from planner.plan.slot_faults import (
    LeaseOf,
    SlotCounts,
    SlotJudge,
    gives_up,
    level_fault,
    lost_slots_of,
)
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request, header_of
from planner.reservation import AtomAllocation, Holding, Refusal
from planner.reservation_state import Event, State, may
from planner.slots import Slots
from rdl.expressions import atom_at
from rdl.text.parser import parse

_Answer = RecordedChange | Conflict

#: Batches above this are judged as a whole first.
_MANY = 4


def prepare(
    plan: PlanState, changes: Sequence[Change], *, atomic: bool, joint: bool, at_ms: int
) -> Prepared:
    """Return the record and one outcome a change; see `Plan.prepare`."""
    if len(changes) > 1:
        _require_own_commit(changes)
    batch = _Batch(plan, at_ms)
    if joint:
        short = joint_shortage(plan, changes)
        if short is not None:
            return Prepared(None, (short,))
        batch.assume_room()
    elif len(changes) > _MANY:
        batch.foresee(changes)
    records: list[RecordedChange] = []
    outcomes: list[Outcome] = []
    try:
        if joint:
            batch.give_all(changes)
        for index, change in enumerate(changes):
            answer = batch.answer(index, change)
            if isinstance(answer, Conflict):
                outcomes.append(answer)
            else:
                records.append(answer)
                result = batch.results.get(index)
                outcomes.append(Committed(index, getattr(answer, "id", None), result))
    finally:
        batch.close()
    failed = (atomic or joint) and len(records) < len(changes)
    if failed or not records:
        return Prepared(None, tuple(outcomes))
    record = CommitRecord(plan.version + 1, at_ms, tuple(records))
    takings = None
    if len(batch.admitted) == len(records):
        takings = tuple(taking for admission in batch.admitted for taking in admission)
    return Prepared(record, tuple(outcomes), takings)


def conflicts_but_for_room(plan: PlanState, changes: Sequence[Change]) -> list[Conflict]:
    """Return the conflicts that changes have on a Plan however much room there is."""
    batch = _Batch(plan)
    batch.assume_room()
    batch.assume_machines()
    try:
        answers = [batch.answer(index, change) for index, change in enumerate(changes)]
    finally:
        batch.close()
    return [one for one in answers if isinstance(one, Conflict)]


def _require_own_commit(changes: Sequence[Change]) -> None:
    """Raise if one of several changes needs a commit of its own: `Advance` or `Reconfigure`."""
    for change in changes:
        if isinstance(change, (Advance, Reconfigure)):
            raise ValueError(f"{type(change).__name__} takes a commit of its own")


class _Batch:
    """The changes of one batch so far."""

    def __init__(self, plan: PlanState, at_ms: int = 0) -> None:
        self.plan = plan
        self._at_ms = at_ms
        self.overlay = Overlay(plan.ledger)
        self.new_ids: set[str] = set()
        self.touched: set[str] = set()
        self.added: dict[tuple[str, str], int] = {}
        self._changed: list[Taking] = []
        self._foreseen: dict[int, tuple[Holding, list[Taking]]] = {}
        self._assured = False
        self._may_search = True
        self._machines_assured = False
        self._given = False
        self._lost: dict[str, SlotCounts] = {}
        self._slots: SlotBatch | None = None
        #: What each admission so far takes.
        self.admitted: list[list[Taking]] = []
        #: Where admissions stand that were placed elsewhere than by their agent, by place.
        self.results: dict[int, PlacementResult] = {}

    @property
    def slots(self) -> SlotBatch:
        """What the batch takes of machines; made when a change first asks for some."""
        if self._slots is None:
            plan = self.plan
            self._slots = SlotBatch(plan.room, plan.cluster.nominal, plan.now, plan.packed)
        return self._slots

    def close(self) -> None:
        """Give back everything that was taken of machines."""
        if self._slots is not None:
            self._slots.close()

    def assume_machines(self) -> None:
        """Find machines for nothing."""
        self._machines_assured = True

    def give_all(self, changes: Sequence[Change]) -> None:
        """Give back the machines of all that a joint batch changes, before any change is judged."""
        self._given = True
        for change in changes:
            self._note_lost(change)
        for change in changes:
            number = self.plan.table.number_of(getattr(change, "id", "") or "")
            if number is not None and not isinstance(change, Release):
                self._give(number)
        for change in changes:
            self._hold(change, 1)

    def _note_lost(self, change: Change) -> None:
        """Note which slots that a change leaves have no machine any more, while all stand."""
        match change:
            case Relocate(slots=slots):
                held = None
            case Update(slots=slots) if slots is not None:
                held = holding_of(change.request, change.result)
            case Degrade(kept=kept):
                held, slots = kept, tuple(atom.slots for atom in kept.atoms)
            case _:
                return
        number = self.plan.table.number_of(change.id)
        if number is None or self.plan.table.promise(number) is not PromiseLevel.PLACED:
            return
        before = self.plan.table.holding(number)
        held = held or before
        if len(slots) == len(held.atoms):
            after, room = with_slots(held, slots), self.slots.room
            self._lost[change.id] = lost_slots_of(before, after, room, self.plan.now)

    def _hold(self, change: Change, sign: int) -> None:
        """Take what a change leaves in its place (1), so that others do not; or return it (-1)."""
        number = self.plan.table.number_of(getattr(change, "id", "") or "")
        if number is None or self.plan.table.promise(number) is PromiseLevel.POOLED:
            return
        before = self.plan.table.holding(number)
        if isinstance(change, Degrade):
            self.slots.change(self.slots.staying(before, change.kept), sign)
        elif isinstance(change, Relocate) and len(change.slots) == len(before.atoms):
            after = with_slots(before, change.slots)
            self.slots.change(self.slots.staying(before, after), sign)
        elif isinstance(change, Update) and before.begin < self.plan.now:
            after = holding_of(change.request, change.result)
            self.slots.change(self.slots.running(before, after), sign)

    def _give(self, number: int) -> None:
        level = self.plan.table.promise(number)
        if level is PromiseLevel.PACKABLE:
            self.slots.pack(self.plan.table.holding(number), -1)
        elif level is PromiseLevel.PLACED:
            self.slots.give(self.plan.table.holding(number))

    def assume_room(self) -> None:
        """Judge no change for room: the whole batch has been."""
        self._assured = True
        self._may_search = False

    def foresee(self, changes: Sequence[Change]) -> None:
        """Judge all admissions as one: if their sum fits, each fits in its turn."""
        everything: list[Taking] = []
        for index, change in enumerate(changes):
            if isinstance(change, Admit) and change.result.placed:
                found = self._holding(change)
                self._foreseen[index] = found
                everything.extend(found[1])
        calm = all(isinstance(change, Admit | Refuse) for change in changes)
        self._assured = calm and self.overlay.shortage(everything) is None

    def _holding(self, change: Admit) -> tuple[Holding, list[Taking]]:
        """Return what a request would hold, and what that takes."""
        request = change.request
        holding = holding_of(request, change.result)
        return holding, takings_of(holding, self.plan.ledger, request.tenant, request.queue)

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
            case Release():
                return self._release(index, change)
            case Fail():
                return self._end(index, change, Event.FAIL, State.FAILED)
            case Cancel():
                return self._end(index, change, Event.CANCEL, State.CANCELLED)
            case Close():
                return self._end(index, change, Event.CLOSE, State.COMPLETED)
            case Advance():
                return self._advance(index, change)
            case Reconfigure():
                return self._reconfigure(index, change)

    def _admit(self, index: int, change: Admit) -> _Answer:
        request, result = change.request, change.result
        if not result.placed:
            raise ValueError(f"request {request.id!r} is refused; commit it with Refuse")
        if self._known(request.id, refused_before=change.anew):
            return _duplicate(index, request.id)
        scope = (request.tenant, request.queue)
        refused = limit_refusal(self.plan, request, self.added)
        if refused is not None and refused.code is not None:
            return Conflict(index, request.id, refused.code, refused.detail, refused.binding)
        holding, takings = self._foreseen.get(index) or self._holding(change)
        if holding.atoms and holding.begin < self.plan.now:
            detail = "the plan has moved past its first step; plan it again"
            return Conflict(index, request.id, Code.CONFLICT, detail)
        short = None if self._assured else self.overlay.shortage(takings)
        if short is not None:
            return Conflict(index, request.id, short.code, short.detail, short.binding)
        level = request.promise or self.plan.cluster.promise
        if level is not PromiseLevel.POOLED:
            found = self._place(index, change, holding, level)
            if isinstance(found, Conflict):
                return found
            if found[0] is not result:
                takings = takings_of(found[1], self.plan.ledger, request.tenant, request.queue)
            result, holding = found
        self._add(takings)
        self.admitted.append(takings)
        if result is not change.result:
            self.results[index] = result
        self.new_ids.add(request.id)
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
        return self._end(index, Cancel(change.id), Event.CANCEL, State.CANCELLED, change.reason)

    def _not_held(self, index: int, id_: str, *, over: bool = False) -> Conflict | None:
        """Return why a reservation is not held now (`over`: why its hold is not over), or None."""
        number = self.plan.table.number_of(id_)
        hold = None if number is None else self.plan.table.holds.get(number)
        if hold is None or id_ in self.touched:
            return Conflict(index, id_, Code.CONFLICT, f"{id_!r} is not held")
        if (self._at_ms >= hold.until_ms) is not over:
            detail = "its hold is not over yet" if over else "its hold is over"
            return Conflict(index, id_, Code.CONFLICT, detail)
        return None

    def _add(self, takings: Sequence[Taking]) -> None:
        """Count what a change takes, for the changes after it."""
        self._changed.extend(takings)
        if not self._assured:
            self.overlay.add(takings)

    def _doubt(self) -> None:
        """Judge what follows one by one: an admission stands elsewhere than was foreseen."""
        if self._assured:
            self._assured = False
            self.overlay.add(self._changed)

    def _place(
        self, index: int, change: Admit, holding: Holding, level: PromiseLevel
    ) -> Found | Conflict:
        """Return the answer to a request and what it holds, with machines; or why there are none.

        First where its agent put it, then where machines have room.
        """
        if self._machines_assured:
            return change.result, holding
        placed = self.slots.stand(holding, level)
        if not isinstance(placed, MachineShortage):
            return change.result, placed
        if not self._may_search:
            return self._no_machines(index, change.request.id, placed)
        self._doubt()
        planner = change.planner
        asked = planner is not None and planner.name == change.agent
        first = max(self.plan.now, self.plan.ledger.first)

        def stand(request: Request, result: PlacementResult) -> Holding | MachineShortage:
            return self.slots.stand(holding_of(request, result), level)

        search = MachineSearch(self.slots, self.overlay, self._view, first, stand)
        found = search.elsewhere(change.request, level, placed, planner, asked=asked)
        if isinstance(found, MachineShortage):
            return self._no_machines(index, change.request.id, found)
        return found

    def _view(self, more: Sequence[Taking] = ()) -> PlanSnapshot:
        """Return what the changes of the batch so far, and `more`, leave, as agents read it."""
        ledger = self.plan.ledger
        if self._changed or more:
            ledger = ledger.copy()
            ledger.take((one.demand, one.rows, one.sign) for one in (*self._changed, *more))
        return PlanSnapshot(ledger, self.plan.version)

    def _no_machines(self, index: int, id_: str, missed: MachineShortage) -> Conflict:
        """Return the conflict of a request that the pool has room for and machines have not."""
        refused = machines_refusal(missed, self.plan.grid)
        return Conflict(index, id_, Code.CAPACITY, refused.detail, refused.binding)

    def _refuse(self, index: int, change: Refuse) -> _Answer:
        asked = change.request
        if self._known(asked.id, refused_before=change.anew):
            return _duplicate(index, asked.id)
        self.new_ids.add(asked.id)
        text = asked.expression if isinstance(asked, UncompiledRequest) else _text_of(asked)
        refusal = Refusal(
            **header_of(asked),
            expression=text,
            code=change.code,
            detail=change.detail,
            binding=change.binding,
            offers=change.offers,
        )
        return Refused(refusal)

    def _update(self, index: int, change: Update) -> _Answer:
        plan = self.plan
        blocked = self._blocked(index, change.id, change.revision, Event.RENEGOTIATE)
        if blocked is not None:
            return blocked
        if not change.result.placed:
            raise ValueError(f"the update of {change.id!r} is refused; there is nothing to swap")
        number = plan.table.number_of(change.id)
        assert number is not None
        before = plan.table.holding(number)
        holding = holding_of(change.request, change.result)
        if past_of(before, plan.now) != past_of(holding, plan.now):
            detail = "what was held before now is not what the new allocation says"
            return Conflict(index, change.id, Code.PAST_CHANGED, detail)
        holding = keep_released(holding, before, change.request, change.result)
        level = change.request.promise or plan.table.promise(number)
        takings = takings_of_change(plan, change)
        short = None if self._assured else self.overlay.shortage(takings)
        if short is not None:
            return Conflict(index, change.id, short.code, short.detail, short.binding)
        placed = self._replace(index, change, holding, level)
        if isinstance(placed, MachineShortage):
            return self._no_machines(index, change.id, placed)
        if isinstance(placed, Conflict):
            return placed
        result, holding = placed
        request = change.request
        if result is not change.result:
            self.results[index] = result
            takings = takings_of(before, plan.ledger, *plan.table.scope(number), -1)
            takings += takings_of(holding, plan.ledger, *plan.table.scope(number))
        self._add(takings)
        self.touched.add(change.id)
        return Updated(
            change.id,
            int(plan.table.meta[number]["revision"]) + 1,
            change.agent,
            request.weight,
            request.priority,
            details_of(request, result),
            holding,
            change.cause,
            level,
        )

    def _with_slots(
        self,
        index: int,
        id_: str,
        swap: tuple[Holding, Holding],
        slots: Sequence[Slots | None],
        lease_of: LeaseOf | None = None,
    ) -> Holding | Conflict:
        """Return what is held after a swap with the slots that somebody found, taken.

        Else why it cannot have them. What was held before must have been given back, and what of it
        lost its machine noted.
        """
        before, after = swap
        detail = f"{len(slots)} lists of slots for {len(after.atoms)} atoms"
        if len(slots) == len(after.atoms):
            after = with_slots(after, slots)
            judge = SlotJudge(self.plan.cluster, self.plan.now)
            detail = judge.fault(before, after, self._lost.get(id_, Counter()), lease_of)
        if not detail and not self.slots.move(before, after):
            detail = "its new machines have no room any more"
        return Conflict(index, id_, Code.CONFLICT, detail) if detail else after

    def _replace(
        self, index: int, change: Update, holding: Holding, level: PromiseLevel
    ) -> Found | MachineShortage | Conflict:
        """Return where a reservation then stands, and what it holds as a level promises it.

        Its old machines are given. First where its agent put it, then where machines have room.
        """
        number = self.plan.table.number_of(change.id)
        assert number is not None
        before, pooled = self.plan.table.holding(number), level is PromiseLevel.POOLED
        if pooled and self.plan.table.promise(number) is PromiseLevel.POOLED:
            return change.result, holding
        mark = self.slots.mark()
        if self._given:
            self._hold(change, -1)
        else:
            self._note_lost(change)
            self._give(number)
        if pooled or self._machines_assured:
            return change.result, holding
        if change.slots is None:
            swap = before, holding
            found: Holding | MachineShortage | Conflict = self._swap(swap, level, change.request)
        else:
            leases = leases_of(change.request.graph)
            swap, id_ = (before, holding), change.id
            found = self._with_slots(
                index, id_, swap, change.slots, lambda atom: leases.get(atom.path, 0)
            )
            if isinstance(found, Holding):
                found = self.slots.unpacked(found) or found
        if isinstance(found, Holding):
            return change.result, found
        if isinstance(found, MachineShortage) and self._may_search and change.slots is None:
            other = self._change_elsewhere(change, before, level, found)
            if not isinstance(other, MachineShortage):
                return other
            found = other
        self.slots.undo(mark)
        return found

    def _swap(
        self, swap: tuple[Holding, Holding], level: PromiseLevel, request: Request
    ) -> Holding | MachineShortage:
        """Return the second of two holdings as a level promises it, taken; the first is given."""
        before, holding = swap
        if level is PromiseLevel.PACKABLE:
            return self.slots.stand(holding, level)
        mark = self.slots.mark()
        leases = leases_of(request.graph) if before.begin < self.plan.now else None
        found = self.slots.replace(before, holding, leases, may_wait=True)
        if isinstance(found, MachineShortage):
            return found
        missed = self.slots.unpacked(found)
        if missed is not None:
            self.slots.undo(mark)
        return missed or found

    def _change_elsewhere(
        self, change: Update, before: Holding, level: PromiseLevel, missed: MachineShortage
    ) -> Found | MachineShortage:
        """Return another place for a changed request; what has begun of it stays."""
        plan, request = self.plan, change.request
        self._doubt()
        old = takings_of(before, plan.ledger, request.tenant, request.queue, -1)
        view = self._view(old)

        def stand(asked: Request, result: PlacementResult) -> Holding | MachineShortage:
            holding = keep_released(holding_of(asked, result), before, asked, result)
            if past_of(holding, plan.now) != past_of(before, plan.now):
                return missed
            return self._swap((before, holding), level, asked)

        first, begun = max(plan.now, plan.ledger.first), before.begin < plan.now
        search = MachineSearch(self.slots, view.overlay(), lambda: view, first, stand, begun)
        planner = change.planner
        asked = planner is not None and planner.name == change.agent
        return search.elsewhere(request, level, missed, planner, asked=asked)

    def _degrade(self, index: int, change: Degrade) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, Event.DEGRADE)
        if blocked is None:
            blocked = degrade_conflict(self.plan, index, change)
        if blocked is not None:
            return blocked
        takings = takings_of_change(self.plan, change)
        short = None if self._assured else self.overlay.shortage(takings)
        if short is not None:
            return Conflict(index, change.id, short.code, short.detail, short.binding)
        number = self.plan.table.number_of(change.id)
        assert number is not None
        kept = change.kept
        if (
            self.plan.table.promise(number) is not PromiseLevel.POOLED
            and not self._machines_assured
        ):
            before = self.plan.table.holding(number)
            if self._given:
                self._hold(change, -1)
            else:
                self._note_lost(change)
                self._give(number)
            if self.plan.table.promise(number) is PromiseLevel.PACKABLE:
                self.slots.pack(kept)
            elif kept.atoms and all(atom.slots is not None for atom in kept.atoms):
                slots = [atom.slots for atom in kept.atoms]
                placed = self._with_slots(index, change.id, (before, kept), slots)
                if isinstance(placed, Conflict):
                    if not self._given:
                        self.slots.take(before)
                    return placed
            else:
                kept = self.slots.cut(before, kept)
        self._add(takings)
        self.touched.add(change.id)
        return Degraded(change.id, kept, change.reason, change.offers, change.cause)

    def _relocate(self, index: int, change: Relocate) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, Event.RELOCATE)
        if blocked is not None:
            return blocked
        number = self.plan.table.number_of(change.id)
        assert number is not None
        before, level = self.plan.table.holding(number), self.plan.table.promise(number)
        unlike = level_fault(change, level)
        if unlike:
            return Conflict(index, change.id, Code.CONFLICT, unlike)
        packs = not self._given and self.slots.unpacked(before) is None
        mark = self.slots.mark()
        if self._given:
            self._hold(change, -1)
        else:
            self._note_lost(change)
            self._give(number)
        swap, lost = (before, before), self._lost.get(change.id, Counter())
        after = self._with_slots(index, change.id, swap, change.slots, self._lease_of(number))
        if not isinstance(after, Conflict) and gives_up(before, after, lost, self.plan.now):
            detail = "it would have no machine where it has one"
            after = Conflict(index, change.id, Code.CONFLICT, detail)
        if not isinstance(after, Conflict) and packs:
            missed = self.slots.unpacked(after)
            after = after if missed is None else self._no_machines(index, change.id, missed)
        if isinstance(after, Conflict):
            self.slots.undo(mark)
            return after
        self.touched.add(change.id)
        return Relocated(change.id, change.slots, change.promise, change.reason)

    def _lease_of(self, number: int) -> LeaseOf:
        """Return what tells the leases of a reservation's atoms from its expression."""

        def steps(atom: AtomAllocation) -> int:
            details = self.plan.table.details.get(number)
            expression = details.expression or parse(details.text)
            asked = atom_at(expression, atom.path.replace("@*", "@0"))
            return 0 if asked is None else max(1, self.plan.grid.ceil(asked.lease_ms))

        return steps

    def _release(self, index: int, change: Release) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, Event.RELEASE)
        if blocked is None:
            blocked = release_conflict(self.plan, index, change)
        if blocked is not None:
            return blocked
        self._add(takings_of_change(self.plan, change))
        self.touched.add(change.id)
        number = self.plan.table.number_of(change.id)
        if number is not None and self.plan.table.promise(number) is not PromiseLevel.POOLED:
            held = self.plan.table.holding(number)
            self.slots.give(release_rows(held, change.released, self.plan.now)[1])
        return Released(change.id, change.released, change.reason)

    def _end(
        self,
        index: int,
        change: Cancel | Close | Fail,
        event: Event,
        state: State,
        reason: str = "",
    ) -> _Answer:
        blocked = self._blocked(index, change.id, change.revision, event)
        if blocked is not None:
            return blocked
        # What is given back in this batch serves the changes after it, from the present step on.
        self._add(takings_of_change(self.plan, change))
        self.touched.add(change.id)
        number = self.plan.table.number_of(change.id)
        if number is not None and not self._given:
            self._give(number)
        reason = reason or getattr(change, "reason", "")
        return Ended(change.id, state, self.plan.now, reason)

    def _advance(self, index: int, change: Advance) -> _Answer:
        plan = self.plan
        horizon = max(plan.grid.horizon, change.horizon or 0)
        if change.now_step < plan.now:
            detail = f"the plan is at step {plan.now}; time does not go back to {change.now_step}"
            return Conflict(index, None, Code.CONFLICT, detail)
        if change.now_step >= horizon:
            detail = f"step {change.now_step} is past the horizon, step {horizon}; roll it on too"
            return Conflict(index, None, Code.BEYOND_HORIZON, detail)
        return Advanced(change.now_step, horizon, extensions(plan, horizon))

    def _reconfigure(self, index: int, change: Reconfigure) -> _Answer:
        cluster, plan = change.cluster, self.plan
        if cluster.step_ms != plan.grid.step_ms:
            return Conflict(index, None, Code.CONFLICT, "the step of a plan cannot change")
        return Reconfigured(cluster)

    def _known(self, id_: str, *, refused_before: bool = False) -> bool:
        if refused_before and self.plan.refusal(id_) is not None:
            return id_ in self.new_ids
        return id_ in self.new_ids or self.plan.knows(id_)

    def _blocked(self, index: int, id_: str, revision: int | None, event: Event) -> Conflict | None:
        """Return why an event cannot happen to a reservation, or None."""
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
        if not may(state, event):
            return Conflict(index, id_, Code.CONFLICT, f"it is {state.value}")
        return None


def _duplicate(index: int, id_: str) -> Conflict:
    return Conflict(index, id_, Code.DUPLICATE_ID, f"the id {id_!r} is taken")


def _text_of(request: Request) -> str:
    from rdl.text.formatter import format_expression

    return format_expression(request.graph.expression)
