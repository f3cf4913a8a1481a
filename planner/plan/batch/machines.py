"""Machines of the reservations that a batch changes: release, keep, search or check them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planner.capacity.shortage import takings_of
from planner.cluster.cluster import Cluster
from planner.placement import Code, PlacementResult
from planner.plan.batch.making_way import lease_of_number
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import Found, place_elsewhere
from planner.plan.records.changes import Admit, Change, Conflict, Degrade, Release, Relocate, Update
from planner.plan.slots import (
    LeaseOf,
    SlotCounts,
    SlotJudge,
    gives_up,
    lost_slots_of,
    stays_of,
)
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of, leases_of, past_of, release_rows, with_slots
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import differences, subtract
from planner.reservations.slots import NOWHERE, Slots, slots_of
from rdl.compound import parts_of
from rdl.expressions import Atom, atom_at
from rdl.resources import Resources
from rdl.text.parser import parse
from rdl.work_graph import WORK

#: Why slots that the caller named are not assigned.
Fault = str

_NO_ROOM = "its new machines have no free capacity any more"

#: Slots of one bundle.
_Kind = dict[Resources, list[list[int]]]


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
        """Return the remaining holding of a degraded reservation with machines, or the reason why
        it has none."""
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


# Most of those that follow a loss are such. They affect neither leases nor started bundles, so a
# joint batch is checked as a whole: a few calls for each kind of bundle.


class PlainMoves:
    """The plain relocations of one joint batch.

    Parameters
    ----------
    now
        The present step.
    """

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._now = now
        self._labels = [group.labels for group in cluster.machines for _ in range(group.count)]
        self._left: _Kind = {}
        self._came: dict[str, _Kind] = {}
        self._short: set[str] = set()

    def __contains__(self, id_: object) -> bool:
        return id_ in self._came

    def add(self, change: Relocate, before: Holding) -> bool:
        """Record a relocation of a placed reservation; False, with nothing done, if it is not
        plain."""
        if len(change.slots) != len(before.atoms):
            return False
        if change.id in self._came:
            return False
        left: _Kind = {}
        came: _Kind = {}
        for atom, slots in zip(before.atoms, change.slots, strict=True):
            moved = self._moved(atom, slots)
            if moved is None:
                return False
            left.setdefault(atom.bundle, []).extend(moved[0])
            came.setdefault(atom.bundle, []).extend(moved[1])
        for bundle, rows in left.items():
            self._left.setdefault(bundle, []).extend(rows)
        self._came[change.id] = came
        return True

    def _moved(
        self, atom: AtomAllocation, after: Slots
    ) -> tuple[list[list[int]], list[list[int]]] | None:
        """Return the slots that an atom leaves and those it comes to; None if that is not plain."""
        if atom.slots is None or atom.rule.binds:
            return None
        counts: Counter[tuple[int, int, int]] = Counter()
        times: Counter[tuple[int, int]] = Counter()
        for sign, slots in ((1, after), (-1, atom.slots)):
            for start, end, bundles, machine in slots.tolist():
                counts[start, end, machine] += sign * bundles
                times[start, end] += sign * bundles
        if any(times.values()) or int(after[:, 2].min(initial=1)) < 1:
            return None
        left: list[list[int]] = []
        came: list[list[int]] = []
        for (start, end, machine), bundles in counts.items():
            if bundles and (start < self._now or (bundles > 0 and not self._may(atom, machine))):
                return None
            if bundles:
                (came if bundles > 0 else left).append([start, end, abs(bundles), machine])
        return None if _cuts_a_stay(atom.slots, left) else (left, came)

    def _may(self, atom: AtomAllocation, machine: int) -> bool:
        """Return whether bundles of an atom may be on a machine."""
        there = NOWHERE < machine < len(self._labels)
        return there and (atom.label is None or atom.label in self._labels[machine])

    def leave(self, draft: Draft) -> None:
        """Release the slots that all of them leave."""
        draft.change_slots([(slots_of(slots), bundle) for bundle, slots in self._left.items()], -1)

    def come(self, draft: Draft) -> None:
        """Take their new slots if there is capacity; reservations without it are `short`."""
        mark, together = draft.savepoint(), self._together()
        for slots, bundle in together:
            if not draft.room.fits(slots, bundle):
                break
            draft.change_slots([(slots, bundle)], 1)
        else:
            return
        draft.roll_back(mark)
        for id_, kinds in self._came.items():
            own = draft.savepoint()
            for bundle, rows in kinds.items():
                if not draft.room.fits(slots_of(rows), bundle):
                    draft.roll_back(own)
                    self._short.add(id_)
                    break
                draft.change_slots([(slots_of(rows), bundle)], 1)

    def _together(self) -> Sequence[tuple[Slots, Resources]]:
        """Return the new slots of all, by bundle."""
        kinds: dict[Resources, list[Slots]] = {}
        for came in self._came.values():
            for bundle, rows in came.items():
                kinds.setdefault(bundle, []).append(slots_of(rows))
        return [(np.concatenate(slots), bundle) for bundle, slots in kinds.items()]

    def is_short(self, id_: str) -> bool:
        """Return whether there was no free capacity for one."""
        return id_ in self._short


def _cuts_a_stay(before: Slots, left: Sequence[list[int]]) -> bool:
    """Return whether a slot that is left continues in another of its machine."""
    machines = {machine for *_, machine in left}
    beside = before[np.isin(before[:, 3], list(machines))]
    if len(beside) == len(machines):
        return False
    stays = {(start, end, machine) for start, end, _, machine in stays_of(beside)}
    return any((start, end, machine) not in stays for start, end, _, machine in left)


# Released rows are kept, so that held and released rows together are still the
# promise. A record has only the rows; this module applies them to a holding.


def release_conflict(plan: PlanState, index: int, change: Release) -> Conflict | None:
    """Return why rows cannot be released, or None.

    They must not be in the past, must be part of their atom's holding, and must leave it at 0 or
    at least g at every step, divisible by its `multiple`.
    """
    number = plan.table.number_of(change.id)
    assert number is not None
    holding, details = plan.table.holding(number), plan.table.details.get(number)
    expression = parse(details.text) if details.expression is None else details.expression
    held = {atom.path: atom for atom in holding.atoms}
    if not change.released or len(dict(change.released)) < len(change.released):
        return Conflict(index, change.id, Code.CONFLICT, "rows of each atom are released once")
    for path, rows in change.released:
        atom, asked = held.get(path), atom_at(expression, path)
        code, why = Code.CONFLICT, ""
        if holding.endless or "@" in path:
            why = "occurrences of a recurrence are released only by cancelling or closing it"
        elif atom is None or asked is None:
            why = f"it holds nothing at {path!r}"
        elif not len(rows) or bool((rows[:, 2] < 1).any() or (rows[:, 0] >= rows[:, 1]).any()):
            why = f"no rows of {path!r} are released, or empty ones"
        elif int(rows[:, 0].min()) < plan.now:
            code, why = Code.PAST_CHANGED, f"rows of {path!r} before step {plan.now} are past"
        elif bool((differences(atom.rows, rows) < 0).any()):
            why = f"more of {path!r} would be released than it holds"
        else:
            why = _why_not(asked, subtract(atom.rows, rows), path)
        if why:
            return Conflict(index, change.id, code, why)
    return None


def _why_not(asked: Atom, rows: Rows, path: str) -> str:
    low = rows[(rows[:, 2] < asked.minimum) | (rows[:, 2] % asked.multiple != 0)]
    if not len(low):
        return ""
    need = f"0 or at least {asked.minimum}"
    if asked.multiple > 1:
        need += f" and divisible by {asked.multiple}"
    return f"{path!r} would hold {int(low[0, 2])} at step {int(low[0, 0])}; it must be {need}"


def keep_released(
    holding: Holding, before: Holding, request: Request, result: PlacementResult
) -> Holding:
    """Return a new holding in which unchanged atoms keep their released rows.

    If the rows of an atom do not make up its work, it has released the rest: a change that moves
    other atoms leaves it unchanged.
    """
    known = {
        atom.path: atom for atom in before.atoms if atom.released is not None and len(atom.released)
    }
    if not known:
        return holding
    graph = request.graph
    work = {
        path: int(graph.vertices[vertex, WORK]) * member.count
        for vertex, _ in result.atoms()
        for path, member in parts_of(graph, vertex)
    }
    atoms: list[AtomAllocation] = []
    for atom in holding.atoms:
        old, rows = known.get(atom.path), atom.rows
        held = int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum())
        if old is not None and held < work[atom.path] and np.array_equal(old.rows, rows):
            atoms.append(replace(atom, released=old.released))
        else:
            atoms.append(atom)
    return replace(holding, atoms=tuple(atoms))
