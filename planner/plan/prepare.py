"""Prepare a batch of changes on a Plan: records for what can be done, conflicts for the rest.

Pure: the Plan is read, never written. Each change sees the changes of the batch before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.capacity.overlay import Overlay, Taking, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.holding import details_of, holding_of, past_of, release_rows, with_slots
from planner.placement import Code, PlacementResult
from planner.plan.admission import limit_refusal
from planner.plan.changes import (
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
    Outcome,
    Prepared,
    Reconfigure,
    Refuse,
    Release,
    Relocate,
    UncompiledRequest,
    Update,
)
from planner.plan.joint_commit import degrade_conflict, joint_shortage, takings_of_change
from planner.plan.machine_search import Found, MachineSearch, machines_refusal
from planner.plan.records import Advanced, Archived, CommitRecord, Reconfigured, RecordedChange
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
from planner.plan.slot_batch import MachineShortage, SlotBatch, slots_fault
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request, header_of
from planner.reservation import Holding, Refusal
from planner.reservation_state import LIVE, Event, State, may
from planner.slots import Slots

_Answer = RecordedChange | Conflict

#: Batches above this are judged as a whole first.
_MANY = 4


def prepare(
    plan: PlanState, changes: Sequence[Change], *, atomic: bool, joint: bool, at_ms: int
) -> Prepared:
    """Return the record and one outcome a change; see `Plan.prepare`."""
    if len(changes) > 1:
        _require_own_commit(changes)
    batch = _Batch(plan)
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
    """Raise if one of several changes needs a commit of its own, as time and the cluster do."""
    for change in changes:
        if isinstance(change, (Advance, Archive, Reconfigure)):
            raise ValueError(f"{type(change).__name__} takes a commit of its own")


class _Batch:
    """The changes of one batch so far."""

    def __init__(self, plan: PlanState) -> None:
        self.plan = plan
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
            number = self.plan.table.number_of(getattr(change, "id", "") or "")
            if number is not None and not isinstance(change, Release):
                self._give(number)
        for change in changes:
            self._hold(change, 1)

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
            case Archive():
                return self._archive(index, change)
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
        level = self._level(request)
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
        )

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

    def _level(self, request: Request) -> PromiseLevel:
        """Return what a request is promised, if it is."""
        return request.promise or self.plan.cluster.promise

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
        search = MachineSearch(self.slots, self.overlay, self._view, first)
        found = search.elsewhere(change.request, level, placed, planner, asked=asked)
        if isinstance(found, MachineShortage):
            return self._no_machines(index, change.request.id, found)
        return found

    def _view(self) -> PlanSnapshot:
        """Return what the changes of the batch so far leave, as agents read it."""
        ledger = self.plan.ledger
        if self._changed:
            ledger = ledger.copy()
            ledger.take((one.demand, one.rows, one.sign) for one in self._changed)
        return PlanSnapshot(ledger, self.plan.version)

    def _no_machines(self, index: int, id_: str, missed: MachineShortage) -> Conflict:
        """Return the conflict of a request that the pool has room for and machines have not."""
        refused = machines_refusal(missed, self.plan.grid)
        return Conflict(index, id_, Code.CAPACITY, refused.detail, refused.binding)

    def _refuse(self, index: int, change: Refuse) -> _Answer:
        asked = change.request
        if self._known(asked.id):
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
        level = self._level(change.request)
        takings = takings_of_change(plan, change)
        short = None if self._assured else self.overlay.shortage(takings)
        if short is not None:
            return Conflict(index, change.id, short.code, short.detail, short.binding)
        placed = self._replace(index, change, holding, level)
        if isinstance(placed, MachineShortage):
            return self._no_machines(index, change.id, placed)
        if isinstance(placed, Conflict):
            return placed
        holding = placed
        self._add(takings)
        self.touched.add(change.id)
        request = change.request
        return Updated(
            change.id,
            int(plan.table.meta[number]["revision"]) + 1,
            change.agent,
            request.weight,
            request.priority,
            details_of(request, change.result),
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
    ) -> Holding | Conflict:
        """Return what is held after a swap with the slots that somebody found, taken.

        Else why it cannot have them. What was held before must have been given back.
        """
        before, after = swap
        detail = f"{len(slots)} lists of slots for {len(after.atoms)} atoms"
        if len(slots) == len(after.atoms):
            after = with_slots(after, slots)
            detail = slots_fault(before, after, self.plan.now, self.slots.room.machines)
        if not detail and not self.slots.move(before, after):
            detail = "its new machines have no room any more"
        return Conflict(index, id_, Code.CONFLICT, detail) if detail else after

    def _replace(
        self, index: int, change: Update, holding: Holding, level: PromiseLevel
    ) -> Holding | MachineShortage | Conflict:
        """Return what a reservation then holds as a level promises it; its old machines given."""
        number = self.plan.table.number_of(change.id)
        assert number is not None
        before, pooled = self.plan.table.holding(number), level is PromiseLevel.POOLED
        if pooled and self.plan.table.promise(number) is PromiseLevel.POOLED:
            return holding
        mark = self.slots.mark()
        if not self._given:
            self._give(number)
        if pooled or self._machines_assured:
            return holding
        found: Holding | MachineShortage | Conflict
        if level is PromiseLevel.PACKABLE:
            found = self.slots.stand(holding, level)
        elif change.slots is None:
            found = self.slots.replace(before, holding, may_wait=True)
        else:
            found = self._with_slots(index, change.id, (before, holding), change.slots)
        if isinstance(found, Holding):
            found = self.slots.unpacked(found) or found
        if not isinstance(found, Holding):
            self.slots.undo(mark)
        return found

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
        before = self.plan.table.holding(number)
        if self._given:
            self._hold(change, -1)
        else:
            self.slots.give(before)
        after = self._with_slots(index, change.id, (before, before), change.slots)
        if isinstance(after, Conflict):
            if not self._given:
                self.slots.take(before)
            return after
        self.touched.add(change.id)
        return Relocated(change.id, change.slots, change.promise, change.reason)

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
        self, index: int, change: Cancel | Close | Fail, event: Event, state: State
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
        return Ended(change.id, state, self.plan.now, getattr(change, "reason", ""))

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

    def _archive(self, index: int, change: Archive) -> _Answer:
        plan = self.plan
        if not change.ids:
            return Conflict(index, None, Code.CONFLICT, "nothing is to leave")
        for id_ in change.ids:
            number = plan.table.number_of(id_)
            if number is None and plan.refusal(id_) is None:
                detail = f"there is no reservation {id_!r}"
                return Conflict(index, id_, Code.CONFLICT, detail)
            if number is None:
                continue
            state = plan.table.state(number)
            if state in LIVE or plan.table.meta[number]["finish"] > plan.past_until:
                return Conflict(index, id_, Code.CONFLICT, f"it is {state.value}, not past")
        return Archived(change.ids)

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
