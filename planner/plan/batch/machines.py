"""Machines of the reservations that a batch changes: release, keep, search or check them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from planner.capacity.shortage import takings_of
from planner.placement import PlacementResult
from planner.plan.batch.making_way import lease_of_number
from planner.plan.batch.plain_moves import PlainMoves
from planner.plan.batch.release import keep_released
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import Found, place_elsewhere
from planner.plan.records.changes import Admit, Change, Degrade, Release, Relocate, Update
from planner.plan.slots.slot_faults import (
    LeaseOf,
    SlotCounts,
    SlotJudge,
    gives_up,
    lost_slots_of,
)
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of, leases_of, past_of, release_rows, with_slots
from planner.reservations.reservation import Holding
from planner.reservations.slots import Slots

#: Why slots that the caller named are not assigned.
Fault = str

_NO_ROOM = "its new machines have no free capacity any more"


class MachineSwaps:
    """The machines that each change of a batch releases and takes.

    Parameters
    ----------
    draft
        Free capacity after the batch so far; it records the machines found.
    joint
        Whether all changes are checked together: then they may take each other's machines, but no
        other times are searched, since totals were checked for all of them.
    """

    def __init__(self, plan: PlanState, draft: Draft, *, joint: bool) -> None:
        self._plan, self._draft, self._joint = plan, draft, joint
        self._plain: PlainMoves | None = None
        self._lost: dict[str, SlotCounts] = {}

    def give_all(self, changes: Sequence[Change]) -> None:
        """Release the machines of all reservations in a joint batch, before checking any change."""
        plain, others = self._split(changes)
        for change in others:
            self._note_lost(change)
        plain.leave(self._draft)
        for change in others:
            number = self._number(change)
            if number is not None and not isinstance(change, Release):
                self._give(number)
        for change in others:
            self._hold(change, 1)
        plain.come(self._draft)

    def _split(self, changes: Sequence[Change]) -> tuple[PlainMoves, list[Change]]:
        """Separate plain relocations from all other changes."""
        table = self._plan.table
        others: list[Change] = []
        plain = self._plain = PlainMoves(self._plan.cluster, self._plan.now)
        for change in changes:
            number = self._number(change)
            if (
                not isinstance(change, Relocate)
                or number is None
                or table.promise(number) is not PromiseLevel.PLACED
                or not plain.add(change, table.holding(number))
            ):
                others.append(change)
        return plain, others

    def end(self, number: int) -> None:
        """Release the machines of a reservation that ends."""
        if not self._joint:
            self._give(number)

    def release(self, number: int, change: Release) -> None:
        """Release the machines of released rows."""
        if self._plan.table.promise(number) is not PromiseLevel.POOLED:
            held = self._plan.table.holding(number)
            self._draft.release_slots(release_rows(held, change.released, self._plan.now)[1])

    def _number(self, change: Change) -> int | None:
        return self._plan.table.number_of(getattr(change, "id", "") or "")

    def _leave(self, change: Change, number: int) -> None:
        """Release the machines of a reservation that is changed."""
        if self._joint:
            self._hold(change, -1)
        else:
            self._note_lost(change)
            self._give(number)

    def _give(self, number: int) -> None:
        if self._plan.table.promise(number) is PromiseLevel.PLACED:
            self._draft.release_slots(self._plan.table.holding(number))

    def _note_lost(self, change: Change) -> None:
        """Record which slots of a changed reservation have lost their machine."""
        match change:
            case Relocate(slots=slots):
                held = None
            case Update(slots=slots) if slots is not None:
                held = holding_of(change.request, change.result)
            case Degrade(kept=kept):
                held, slots = kept, tuple(atom.slots for atom in kept.atoms)
            case _:
                return
        number = self._number(change)
        if number is None or self._plan.table.promise(number) is not PromiseLevel.PLACED:
            return
        before = self._plan.table.holding(number)
        held = held or before
        if len(slots) == len(held.atoms):
            after, room = with_slots(held, slots), self._draft.room
            self._lost[change.id] = lost_slots_of(before, after, room, self._plan.now)

    def _hold(self, change: Change, sign: int) -> None:
        """Take the slots that a change does not move (1), or release them (-1)."""
        number = self._number(change)
        if number is None or self._plan.table.promise(number) is PromiseLevel.POOLED:
            return
        before = self._plan.table.holding(number)
        if isinstance(change, Degrade):
            self._draft.change_slots(self._draft.slots_in_place(before, change.kept), sign)
        elif isinstance(change, Relocate) and len(change.slots) == len(before.atoms):
            after = with_slots(before, change.slots)
            self._draft.change_slots(self._draft.slots_in_place(before, after), sign)
        elif isinstance(change, Update) and before.begin < self._plan.now:
            after = holding_of(change.request, change.result)
            if change.slots is None or len(change.slots) != len(after.atoms):
                held = self._draft.in_force(before, after)
            else:  # its slots say how long a started slot stays on its machine
                held = self._draft.begun(with_slots(after, change.slots))
            self._draft.change_slots(held, sign)

    def take_known(self, change: Admit, holding: Holding) -> Holding | None:
        """Take the slots that came with an admission; return its holding with them, or None."""
        assert change.slots is not None
        swap = (Holding((), 0, 0), holding)
        found = self._with_slots(change.request.id, swap, change.slots, _leases(change))
        return found if isinstance(found, Holding) else None

    def replace(
        self, change: Update, number: int, holding: Holding, level: PromiseLevel
    ) -> Found | MachineShortage | Fault:
        """Return the placement of a changed reservation, and its holding at the level.

        Its old machines are released. Tries the agent's placement first, then other times at which
        machines have capacity.
        """
        table, pooled = self._plan.table, level is PromiseLevel.POOLED
        if pooled and table.promise(number) is PromiseLevel.POOLED:
            return change.result, holding
        mark, before = self._draft.savepoint(), table.holding(number)
        self._leave(change, number)
        if pooled:
            return change.result, holding
        found: Holding | Found | MachineShortage | Fault
        if change.slots is not None:
            found = self._with_slots(change.id, (before, holding), change.slots, _leases(change))
        else:
            found = self._swap((before, holding), change.request)
            if isinstance(found, MachineShortage) and not self._joint:
                found = self._elsewhere(change, before, found)
        if isinstance(found, Holding):
            return change.result, found
        if isinstance(found, MachineShortage | Fault):
            self._draft.roll_back(mark)
        return found

    def _swap(self, swap: tuple[Holding, Holding], request: Request) -> Holding | MachineShortage:
        """Release the first of two holdings; return the second with machines, which are taken."""
        before, holding = swap
        return self._draft.swap(before, holding, leases_of(request.graph), may_wait=True)

    def _elsewhere(
        self, change: Update, before: Holding, missed: MachineShortage
    ) -> Found | MachineShortage:
        """Return another placement of a changed request; its started part stays."""
        plan, request, draft = self._plan, change.request, self._draft

        def stand(asked: Request, result: PlacementResult) -> Holding | MachineShortage:
            holding = keep_released(holding_of(asked, result), before, asked, result)
            if past_of(holding, plan.now) != past_of(before, plan.now):
                return missed
            return self._swap((before, holding), asked)

        held = takings_of(before, plan.ledger, request.tenant, request.queue)
        draft.take([one._replace(sign=-1) for one in held])
        found = place_elsewhere(
            draft,
            request,
            missed,
            change.planner,
            asked=is_planner_asked(change),
            stand=stand,
            begun=before.begin < plan.now,
        )
        draft.take(held)  # the whole change is taken when it is recorded
        return found

    def degrade(self, change: Degrade, number: int) -> Holding | Fault:
        """Return what a degraded reservation keeps, with machines, or why it cannot have them."""
        table, kept = self._plan.table, change.kept
        level = table.promise(number)
        if level is PromiseLevel.POOLED:
            return kept
        mark, before = self._draft.savepoint(), table.holding(number)
        self._leave(change, number)
        if not kept.atoms or any(atom.slots is None for atom in kept.atoms):
            return self._draft.cut(before, kept)
        slots = [atom.slots for atom in kept.atoms]
        placed = self._with_slots(change.id, (before, kept), slots)
        if isinstance(placed, Fault):
            self._draft.roll_back(mark)
        return placed

    def relocate(self, change: Relocate, number: int) -> MachineShortage | Fault | None:
        """Give a reservation the slots that a change names; return why it cannot have them."""
        if self._plain is not None and change.id in self._plain:
            return _NO_ROOM if self._plain.is_short(change.id) else None
        table = self._plan.table
        before = table.holding(number)
        if table.promise(number) is not PromiseLevel.PLACED:
            return "it is promised totals and has no machines to change"
        mark = self._draft.savepoint()
        self._leave(change, number)
        found = self._with_slots(
            change.id, (before, before), change.slots, lease_of_number(self._plan, number)
        )
        fault: MachineShortage | Fault | None = None
        if isinstance(found, Fault):
            fault = found
        elif gives_up(before, found, self._lost.get(change.id, Counter()), self._plan.now):
            fault = "it would have no machine where it has one"
        if fault is not None:
            self._draft.roll_back(mark)
        return fault

    def _with_slots(
        self,
        id_: str,
        swap: tuple[Holding, Holding],
        slots: Sequence[Slots | None],
        lease_of: LeaseOf | None = None,
    ) -> Holding | Fault:
        """Return the second holding of a swap with the slots that the caller named, taken.

        Or return why it cannot have them. The first holding must have been released, and its slots
        that lost their machine recorded.
        """
        before, after = swap
        if len(slots) != len(after.atoms):
            return f"{len(slots)} lists of slots for {len(after.atoms)} atoms"
        after = with_slots(after, slots)
        judge = SlotJudge(self._plan.cluster, self._plan.now)
        fault = judge.fault(before, after, self._lost.get(id_, Counter()), lease_of)
        if fault:
            return fault
        moved = self._draft.take_known(before, after)
        return after if moved else _NO_ROOM


def _leases(change: Admit | Update) -> LeaseOf:
    leases = leases_of(change.request.graph)
    return lambda atom: leases.get(atom.path, 0)


def is_planner_asked(change: Admit | Update) -> bool:
    """Return whether the planner is the agent whose answer found no machines."""
    return change.planner is not None and change.planner.name == change.agent
