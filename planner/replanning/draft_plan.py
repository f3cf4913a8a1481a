"""Draft states of a Plan, with some commitments removed, put back, moved or dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import Taking, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.machines.room import MachineRoom
from planner.placement import PlacementResult
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import (
    MachineCaps,
    WantedSlots,
    place_alone,
    place_by_agent,
    place_together,
    until_it_stands,
)
from planner.plan.plan import Plan
from planner.plan.slots import SlotJudge, lost_slots_of
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment, Move, move_of
from planner.reservations.holding import holding_of, leases_of, with_slots
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.rows import split, work_gained
from planner.reservations.slots import NOWHERE, Slots
from planner.reservations.state import State
from rdl.resources import Resources

#: Most times an agent is asked again because machines cannot hold its answer.
_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class Overcommitment:
    """The times at which capacity is over-committed.

    Attributes
    ----------
    counts
        Row of the ledger -> int64[steps + 1], running count of the steps at which it is below 0.
    first
        Step of column 0.
    """

    counts: Mapping[int, NDArray[np.int64]]
    first: int

    def hits(self, takings: Iterable[Taking]) -> bool:
        """Return whether any of `takings` takes from a row at a step at which it is short."""
        return any(self.hit_rows(taking).any() for taking in takings)

    def hit_rows(self, taking: Taking) -> NDArray[np.bool_]:
        """Return bool[rows of the taking]: whether it takes over-committed capacity."""
        hit = np.zeros(len(taking.rows), dtype=bool)
        for row in taking.demand.rows:
            count = self.counts.get(row)
            if count is not None:
                ends = np.clip(taking.rows[:, :2] - self.first, 0, len(count) - 1)
                hit |= count[ends[:, 1]] > count[ends[:, 0]]
        return hit


def shortage_of(ledger: FreeProfile) -> Overcommitment:
    """Return the shortages of machines; policies do not count, since they revoke nothing."""
    counts: dict[int, NDArray[np.int64]] = {}
    free = ledger.free
    for number, row in enumerate(ledger.book.rows):
        if row.policy is None and (free[number] < 0).any():
            counts[number] = np.concatenate([[0], np.cumsum(free[number] < 0)])
    return Overcommitment(counts, ledger.first)


def exceeds_machines(ledger: FreeProfile, takings: Iterable[Taking]) -> bool:
    """Return whether an atom holds more bundles than fit on the machines that are up."""
    for taking in takings:
        fit = taking.demand.fit
        if fit and len(taking.rows) and int(taking.rows[:, 2].max()) > min(fit):
            caps = np.repeat(np.array(fit, dtype=np.int64), np.diff(ledger.calendar.breaks))
            if (ledger.use_of(taking.rows) > caps).any():
                return True
    return False


class _Held(NamedTuple):
    """The holding of a reservation, with slots if it has machines, and its takings of totals."""

    holding: Holding
    takings: list[Taking]


class _SharedDraft:
    """The single draft of a Plan that shows the state of one of its `DraftPlan`s at a time.

    It changes from one state to another by the reservations in which they differ, so that a state
    is as cheap to copy as a dict.

    Attributes
    ----------
    draft
        Totals and machines of the current state.
    has_machines
        Whether it includes machines, and not only totals.
    newcomers
        Requests, with negative numbers, that would be promised machines if admitted.
    unplaced
        Reservations with slots for which relocation found no machine.
    anchors
        Anchors of commitments, by number.
    """

    def __init__(self, plan: Plan, machines: StartingMachines | None) -> None:
        self._plan = plan
        self._start = {} if machines is None else dict(machines.held)
        self.draft = Draft(
            plan.ledger,
            lambda: plan.room if machines is None else machines.room,
            plan.now,
            plan.version,
        )
        self.has_machines = machines is not None
        self.newcomers = frozenset[int]() if machines is None else machines.newcomers
        self.unplaced = frozenset[int]() if machines is None else machines.unplaced
        self.anchors: dict[int, Holding] = {}
        self._known: dict[int, _Held] = {}
        self._shown: dict[int, _Held] = {}
        self._owner: DraftPlan | None = None

    def start_of(self, number: int) -> _Held:
        """Return the holding of a reservation in the first state; empty for a newcomer."""
        known = self._known.get(number)
        if known is None:
            plan = self._plan
            if number < 0:
                known = _Held(Holding((), plan.now, plan.now), [])
            else:
                holding = self._start.get(number) or plan.table.holding(number)
                scope = plan.table.scope(number)
                known = _Held(holding, takings_of(holding, plan.ledger, *scope))
            self._known[number] = known
        return known

    def places(self, number: int) -> bool:
        """Return whether machines are found for a reservation, or for one that would come in."""
        if not self.has_machines:
            return False
        if number < 0:
            return number in self.newcomers
        return self._plan.table.promise(number) is PromiseLevel.PLACED

    def show(self, state: DraftPlan) -> Draft:
        """Return the draft in a state; changes to it must be reported, or rolled back."""
        if self._owner is not state:
            held = state.held
            for number in self._shown.keys() | held.keys():
                before, after = self._shown.get(number), held.get(number)
                if before is not after:
                    self._replace(number, before or self.start_of(number), after)
            self.draft.keep()
            self._shown, self._owner = dict(held), state
        return self.draft

    def _replace(self, number: int, before: _Held, after: _Held | None) -> None:
        new = after or self.start_of(number)
        self.draft.take([*_released(before), *new.takings])
        if self.places(number):
            self.draft.release_slots(before.holding)
            self.draft.take_slots(new.holding)

    def report(self, number: int, held: _Held) -> None:
        """Record the new holding of a reservation in the current state."""
        self.draft.keep()
        self._shown[number] = held


@dataclass(frozen=True, slots=True)
class StartingMachines:
    """Machines for the first state of a `DraftPlan`.

    Attributes
    ----------
    room
        Free capacity of machines; changed from now on.
    newcomers, unplaced
        See `_SharedDraft`.
    held
        Number -> holding with slots, if they differ from the Plan's; `room` includes them.
    """

    room: MachineRoom
    newcomers: frozenset[int] = frozenset()
    unplaced: frozenset[int] = frozenset()
    held: Mapping[int, Holding] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class DraftPlan:
    """A draft state of a Plan that can be changed, copied and discarded.

    A removed (*lifted*) commitment holds only its *anchor*: its past and the leases in force.
    Started work is pinned in that way; only the remainder moves.

    Attributes
    ----------
    lifted
        Number -> removed commitment that waits for a place.
    moved
        Number -> (commitment, new whole allocation, its holding).
    stripped
        Number -> commitment whose anchor was removed too, because its machines were lost.
    held
        Number -> holding, if it differs from the Plan's.
    """

    plan: Plan
    _shared: _SharedDraft
    lifted: dict[int, Commitment] = field(default_factory=dict)
    moved: dict[int, tuple[Commitment, PlacementResult, Holding]] = field(default_factory=dict)
    stripped: dict[int, Commitment] = field(default_factory=dict)
    held: dict[int, _Held] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, machines: StartingMachines | None = None) -> DraftPlan:
        """Return the state of a Plan; without machines it has totals only."""
        shared = _SharedDraft(plan, machines)
        first = cls(plan, shared)
        for number in () if machines is None else machines.held:
            first.held[number] = shared.start_of(number)
        return first

    def copy(self) -> DraftPlan:
        """Return an independent copy."""
        return DraftPlan(
            self.plan,
            self._shared,
            dict(self.lifted),
            dict(self.moved),
            dict(self.stripped),
            dict(self.held),
        )

    @property
    def ledger(self) -> FreeProfile:
        """Free totals; valid until this or another state of the Plan is changed or read."""
        return self._shared.show(self).ledger

    @property
    def has_machines(self) -> bool:
        """Whether it includes machines, and not only totals."""
        return self._shared.has_machines

    @property
    def unplaced(self) -> frozenset[int]:
        """Reservations with slots for which relocation found no machine."""
        return self._shared.unplaced

    def view(self) -> PlanSnapshot:
        """Return the agents' view of it; valid as long as `ledger`."""
        return PlanSnapshot(self.ledger, self.plan.version)

    def twin(self, version: int) -> Draft:
        """Return its free capacity as an independent draft, machines included, at a version."""
        draft = self._shared.show(self)
        room = draft.room.copy() if self.has_machines else None
        return Draft(draft.ledger.copy(), lambda: room or draft.room, self.plan.now, version)

    def places(self, number: int) -> bool:
        """Return whether machines are found for a reservation, or for one that would come in."""
        return self._shared.places(number)

    def held_by(self, number: int) -> Holding:
        """Return the holding of a reservation in this state, with slots if it has machines."""
        return self._held(number).holding

    def _held(self, number: int) -> _Held:
        return self.held.get(number) or self._shared.start_of(number)

    def slots(self, number: int) -> tuple[Slots | None, ...] | None:
        """Return the slots of each atom of a commitment; None if it has no machines."""
        if not self.places(number):
            return None
        return tuple(atom.slots for atom in self.held_by(number).atoms)

    def with_slots(self, number: int, holding: Holding) -> Holding:
        """Return a holding of a reservation with the slots of its atoms in this state."""
        if not self.places(number):
            return holding
        known = {atom.path: atom for atom in self.held_by(number).atoms}
        atoms = tuple(
            replace(atom, slots=known[atom.path].slots, rule=known[atom.path].rule)
            for atom in holding.atoms
        )
        return replace(holding, atoms=atoms)

    def takings(self, commitment: Commitment, holding: Holding) -> list[Taking]:
        """Return the takings of a holding of a commitment."""
        return takings_of(holding, self.plan.ledger, commitment.tenant, commitment.queue)

    def anchor(self, commitment: Commitment) -> Holding:
        """Return the part that a commitment keeps when removed; all of it if it is degraded."""
        if commitment.state is State.DEGRADED:
            return commitment.before
        known = self._shared.anchors.get(commitment.number)
        if known is None:
            known = self._shared.anchors[commitment.number] = anchor_of(self.plan, commitment)
        return known

    def lift(self, commitment: Commitment) -> None:
        """Remove a commitment except its anchor."""
        self._cut(commitment, self.anchor(commitment))
        self.moved.pop(commitment.number, None)
        self.lifted[commitment.number] = commitment

    def strip(self, commitment: Commitment) -> None:
        """Remove the anchor of a removed commitment too."""
        self._cut(commitment, commitment.past(self.plan.now))
        self.stripped[commitment.number] = commitment

    def _cut(self, commitment: Commitment, kept: Holding) -> None:
        draft, number = self._shared.show(self), commitment.number
        before, takings = self._held(number), self.takings(commitment, kept)
        draft.take([*_released(before), *takings])
        if self.places(number):
            draft.release_slots(before.holding)
            kept = draft.cut(before.holding, kept)
        self._keep(number, _Held(kept, takings))

    def put_back(self, commitment: Commitment) -> bool:
        """Put a removed commitment back as on the Plan, if it fits; return whether it does."""
        if self._swap(commitment, commitment.before, None) is not True:
            return False
        self.lifted.pop(commitment.number, None)
        self.stripped.pop(commitment.number, None)
        return True

    def place(self, move: Move, agent: Agent) -> bool:
        """Place a removed commitment elsewhere; return whether there is a place.

        If machines cannot hold the agent's answer, it is asked again with that knowledge.
        """
        draft, commitment = self._shared.show(self), move.commitment
        fixed = self.takings(commitment, move.holding())
        beside = [*_released(self._held(commitment.number)), *fixed]

        def ask(over: Callable[[PlanSnapshot], PlanSnapshot]) -> PlacementResult:
            savepoint = draft.savepoint()
            draft.take(beside)
            result = move.place(over(self.view()), agent)
            draft.roll_back(savepoint)
            return result

        def stand(result: PlacementResult) -> bool | MachineShortage:
            return self._take(commitment, result)

        return until_it_stands(MachineCaps(), ask, stand, _ROUNDS) is True

    def admit(self, commitment: Commitment, agent: Agent | None, rounds: int = _ROUNDS) -> bool:
        """Place a newcomer on machines, as an admission does; return whether there is a place.

        Parameters
        ----------
        agent
            Asked for the times first; None asks no agent. A request of one atom is then searched on
            machines.
        """
        draft, request = self._shared.show(self), commitment.request
        assert request is not None
        found = None if agent is None else place_by_agent(draft, request, agent, rounds)
        if found is None or isinstance(found, MachineShortage):
            found = place_alone(draft, request)
        if found is None:
            return False
        result, holding = found
        takings = self.takings(commitment, holding)
        draft.take(takings)
        self._keep(commitment.number, _Held(holding, takings))
        self._note_move(commitment, result)
        return True

    def put(self, commitment: Commitment, result: PlacementResult, holding: Holding) -> bool:
        """Place a newcomer on the machines that its slots name, if they are free."""
        takings = self.takings(commitment, holding)
        if not self._shared.show(self).restore(holding, takings):
            return False
        self._keep(commitment.number, _Held(holding, takings))
        self._note_move(commitment, result)
        return True

    def return_to(self, before: DraftPlan, commitment: Commitment) -> bool:
        """Put a removed commitment back where it is on the Plan, or in another state.

        An undegraded commitment returns to its place on the Plan, a newcomer or degraded one to its
        place in `before`.
        """
        if commitment.state not in (State.REFUSED, State.DEGRADED):
            return self.put_back(commitment)
        known = before.moved.get(commitment.number)
        if known is None:
            return False
        if commitment.number < 0 and self.places(commitment.number):
            return self.put(commitment, *known[1:])
        return self.take(commitment, known[1])

    def take(self, commitment: Commitment, result: PlacementResult) -> bool:
        """Give a commitment another whole allocation, if it fits; return whether it does."""
        return self._take(commitment, result) is True

    def _take(self, commitment: Commitment, result: PlacementResult) -> bool | MachineShortage:
        """Take an allocation; return whether it fits totals, or the shortage of machines."""
        assert commitment.request is not None
        holding = holding_of(commitment.request, result)
        found = self._swap(commitment, holding, leases_of(commitment.request.graph))
        if found is True:
            self._note_move(commitment, result)
        return found

    def _note_move(self, commitment: Commitment, result: PlacementResult) -> None:
        number = commitment.number
        self.lifted.pop(number, None)
        self.stripped.pop(number, None)
        self.moved[number] = (commitment, result, self.held_by(number))

    def take_together(
        self, wanted: Iterable[tuple[Commitment, PlacementResult]]
    ) -> list[Commitment]:
        """Give removed commitments new whole allocations, with machines assigned in order of start.

        Returns
        -------
        list[Commitment]
            Those that fit totals, in their order, and then get machines.
        """
        draft = self._shared.show(self)
        asked: list[tuple[Commitment, PlacementResult, _Held]] = []
        on_machines: dict[int, WantedSlots] = {}
        for commitment, result in wanted:
            number, request = commitment.number, commitment.request
            assert request is not None
            holding = holding_of(request, result)
            after = _Held(holding, self.takings(commitment, holding))
            change = [*_released(self._held(number)), *after.takings]
            if commitment.started or draft.shortage(change) is not None:
                continue
            draft.take(change)
            asked.append((commitment, result, after))
            if self.places(number):
                draft.release_slots(self.held_by(number))
                on_machines[number] = WantedSlots(holding.atoms, leases_of(request.graph))
        assigned = place_together(draft, on_machines)
        placed: list[Commitment] = []
        for commitment, result, after in asked:
            number = commitment.number
            if number in on_machines and number not in assigned:
                before = self._held(number)
                draft.take([*_released(after), *before.takings])
                draft.take_slots(before.holding)
                continue
            if number in assigned:
                after = after._replace(holding=with_slots(after.holding, assigned[number]))
            self._keep(number, after)
            self._note_move(commitment, result)
            placed.append(commitment)
        draft.keep()
        return placed

    def _swap(
        self, commitment: Commitment, after: Holding, leases: Mapping[str, int] | None
    ) -> bool | MachineShortage:
        """Replace the holding of a commitment; nothing changes if the new one does not fit.

        Slots of the first state keep their machines if those are free.

        Parameters
        ----------
        leases
            Steps of a lease by atom path: a started slot may move to another machine after one;
            None allows no handover.

        Returns
        -------
        bool | MachineShortage
            Whether it fits totals, or the shortage of machines.
        """
        draft, number = self._shared.show(self), commitment.number
        takings = self.takings(commitment, after)
        change = [*_released(self._held(number)), *takings]
        if draft.shortage(change) is not None:
            return False
        if self.places(number):
            savepoint = draft.savepoint()
            found = self._swap_machines(draft, number, after, leases)
            if isinstance(found, MachineShortage):
                draft.roll_back(savepoint)
                return found
            after = found
        draft.take(change)
        self._keep(number, _Held(after, takings))
        return True

    def _swap_machines(
        self,
        draft: Draft,
        number: int,
        after: Holding,
        leases: Mapping[str, int] | None = None,
    ) -> Holding | MachineShortage:
        """Return a holding with machines, which are taken; the old ones are released."""
        draft.release_slots(self.held_by(number))
        found = draft.swap(self._shared.start_of(number).holding, after, leases)
        if isinstance(found, MachineShortage) or leases is None or number < 0:
            return found
        return self._refused_by_the_plan(number, found, leases) or found

    def machine_shortage(self, number: int, after: Holding) -> MachineShortage | None:
        """Return the shortage of machines for a holding of a commitment; nothing changes."""
        if not self.places(number):
            return None
        draft = self._shared.show(self)
        savepoint = draft.savepoint()
        found = self._swap_machines(draft, number, after)
        draft.roll_back(savepoint)
        return found if isinstance(found, MachineShortage) else None

    def _refused_by_the_plan(
        self, number: int, after: Holding, leases: Mapping[str, int]
    ) -> MachineShortage | None:
        """Return a change of machines of a started reservation that the Plan would not accept.

        Uses the Plan's own check of started leases, handovers and lost slots.
        """
        plan = self.plan
        before = plan.table.holding(number)
        if before.begin >= plan.now:
            return None
        lost = lost_slots_of(before, after, plan.room, plan.now)
        judge = SlotJudge(plan.cluster, plan.now)
        if not judge.fault(before, after, lost, lambda atom: leases.get(atom.path, 0)):
            return None
        for atom in after.atoms:
            later = split(atom.all_rows(), plan.now)[1].tolist()
            if later:
                start, end, bundles = later[0]
                return MachineShortage(atom, start, end, bundles, 0)
        return None

    def lacks_machines(self, commitment: Commitment) -> frozenset[str]:
        """Return the paths of occurrences of a commitment with a slot without machine."""
        if not self.has_machines:
            return frozenset()
        return frozenset(
            path
            for atom in self.held_by(commitment.number).atoms
            for (path, _), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
            if slots is not None
            and bool(((slots[:, 3] == NOWHERE) & (slots[:, 1] > self.plan.now)).any())
        )

    def hold_beside(self, commitment: Commitment, atoms: Sequence[AtomAllocation]) -> bool:
        """Take free capacity, if any, for `atoms` of a commitment that otherwise stays removed."""
        draft, number = self._shared.show(self), commitment.number
        more = Holding(tuple(atoms), 0, 0)
        takings, before = self.takings(commitment, more), self._held(number)
        if draft.shortage(takings) is not None:
            return False
        if self.places(number):
            found = draft.swap(self._shared.start_of(number).holding, more)
            if isinstance(found, MachineShortage):
                return False
            more = found
        draft.take(takings)
        whole = replace(before.holding, atoms=before.holding.atoms + more.atoms)
        self._keep(number, _Held(whole, [*before.takings, *takings]))
        return True

    def _keep(self, number: int, held: _Held) -> None:
        self.held[number] = held
        self._shared.report(number, held)


def _released(held: _Held) -> list[Taking]:
    return [one._replace(sign=-one.sign) for one in held.takings]


def anchor_of(plan: Plan, commitment: Commitment) -> Holding:
    """Return the past of a commitment and its leases in force; for recurrences, whole runs."""
    if not commitment.started:
        return commitment.past(plan.now)
    move = move_of(plan, commitment)
    if isinstance(move, Move):
        return move.holding()
    atoms = []
    for atom, path, rows in commitment.occurrences():
        if int(rows[0, 0]) < plan.now and "@" in path:
            atoms.append(atom.part(path, rows))
    past = commitment.past(plan.now)
    begun = {atom.path for atom in atoms}
    atoms += [atom for atom in past.atoms if atom.path not in begun]
    finish = max((int(atom.rows[-1, 1]) for atom in atoms), default=plan.now)
    return Holding(tuple(atoms), past.begin, finish)


def work_moved(before: Holding, after: Holding, now: int, nominal: Resources) -> float:
    """Return the work moved from one holding to another.

    Sum over atoms and steps from `now` on of max(0, new - old) x dominant share of the bundle, in
    steps of the whole cluster.
    """
    old = {path: split(rows, now)[1] for atom in before.atoms for path, rows in atom.occurrences()}
    total = 0.0
    for atom in after.atoms:
        share = atom.bundle.dominant_share(nominal)
        for path, rows in atom.occurrences():
            total += share * work_gained(split(rows, now)[1], old.get(path))
    return total
