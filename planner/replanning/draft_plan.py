"""A draft: a Plan's free profile with some commitments lifted, put back, moved or dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import Taking, find_shortage, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.machines.room import MachineRoom
from planner.placement import PlacementResult
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import MachineCaps, WantedSlots, place_together, until_it_stands
from planner.plan.plan import Plan
from planner.plan.slots.slot_faults import SlotJudge, lost_slots_of
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.move import Move, move_of
from planner.reservations.holding import holding_of, leases_of, with_slots
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.rows import split, work_gained
from planner.reservations.slots import NOWHERE, Slots
from planner.reservations.state import State
from rdl.resources import Resources

#: How often an agent is asked for places that machines do not hold.
_ROUNDS: Final = 8


@dataclass(frozen=True, slots=True)
class Overcommitment:
    """Where capacity is over-committed.

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
        """Return whether any of `takings` takes from a row at a step where it is short."""
        return any(self.hit_rows(taking).any() for taking in takings)

    def hit_rows(self, taking: Taking) -> NDArray[np.bool_]:
        """Return bool[rows of the taking]: which of them take where it is short."""
        hit = np.zeros(len(taking.rows), dtype=bool)
        for row in taking.demand.rows:
            count = self.counts.get(row)
            if count is not None:
                ends = np.clip(taking.rows[:, :2] - self.first, 0, len(count) - 1)
                hit |= count[ends[:, 1]] > count[ends[:, 0]]
        return hit


def shortage_of(ledger: FreeProfile) -> Overcommitment:
    """Return where machines do not suffice; policies take nothing away and do not count."""
    counts: dict[int, NDArray[np.int64]] = {}
    free = ledger.free
    for number, row in enumerate(ledger.book.rows):
        if row.policy is None and (free[number] < 0).any():
            counts[number] = np.concatenate([[0], np.cumsum(free[number] < 0)])
    return Overcommitment(counts, ledger.first)


def exceeds_machines(ledger: FreeProfile, takings: Iterable[Taking]) -> bool:
    """Return whether an atom holds more bundles than the machines that are up can."""
    for taking in takings:
        fit = taking.demand.fit
        if fit and len(taking.rows) and int(taking.rows[:, 2].max()) > min(fit):
            caps = np.repeat(np.array(fit, dtype=np.int64), np.diff(ledger.calendar.breaks))
            if (ledger.use_of(taking.rows) > caps).any():
                return True
    return False


class _SharedRoom:
    """Machines of all drafts of one Plan: a draft that shows one of them at a time.

    It is brought from one to another by the reservations in which they differ, so that a draft is
    as cheap to copy as a dict.

    Parameters
    ----------
    room
        What slots leave; written from now on.
    base
        Gives what a reservation holds where no draft says otherwise, with slots.
    newcomers
        Requests, numbered below 0, that would be promised machines if they came in.
    """

    def __init__(
        self,
        plan: Plan,
        room: MachineRoom,
        base: Callable[[int], Holding],
        newcomers: frozenset[int],
    ) -> None:
        self.draft = Draft(plan.ledger, lambda: room, plan.now)
        self.shown: dict[int, Holding] = {}
        self.newcomers = newcomers
        self._base = base
        self._known: dict[int, Holding] = {}

    def base(self, number: int) -> Holding:
        """Return what a reservation holds where no draft says otherwise."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._base(number)
        return known

    def show(self, held: Mapping[int, Holding]) -> Draft:
        """Return the machines of the draft that says what some reservations hold."""
        if self.shown is not held:
            for number in self.shown.keys() | held.keys():
                before, after = self.shown.get(number), held.get(number)
                if before is not after:
                    self.draft.release_slots(before or self.base(number))
                    self.draft.take_slots(after or self.base(number))
            self.draft.keep()
            self.shown = dict(held)
        return self.draft


@dataclass(slots=True)
class DraftPlan:
    """What is held, as a copy of the Plan that can be changed and thrown away.

    A lifted commitment holds nothing but its *anchor*: its past and the leases in force. Started
    work is pinned in that way; only the remainder moves.

    Attributes
    ----------
    ledger
        What is free.
    lifted
        Number -> commitment that waits for a place.
    moved
        Number -> (commitment, new whole allocation, what it then holds).
    stripped
        Number -> commitment whose anchor is gone too, because the machines under it are.
    slotted
        Number -> what it holds with its slots, where that is not what it began with.
    homeless
        Reservations with slots that found no machine before anything was moved in time.
    """

    plan: Plan
    ledger: FreeProfile
    lifted: dict[int, Commitment] = field(default_factory=dict)
    moved: dict[int, tuple[Commitment, PlacementResult, Holding]] = field(default_factory=dict)
    stripped: dict[int, Commitment] = field(default_factory=dict)
    slotted: dict[int, Holding] = field(default_factory=dict)
    homeless: frozenset[int] = frozenset()
    _anchors: dict[int, Holding] = field(default_factory=dict)
    _room: _SharedRoom | None = None

    @classmethod
    def of(cls, plan: Plan) -> DraftPlan:
        """Return the draft of a Plan; it looks at totals until it has machines."""
        return cls(plan, plan.ledger.copy())

    def find_machines(
        self,
        room: MachineRoom,
        base: Callable[[int], Holding] | None = None,
        *,
        newcomers: frozenset[int] = frozenset(),
        homeless: frozenset[int] = frozenset(),
        slotted: Mapping[int, Holding] | None = None,
    ) -> None:
        """Let what is promised machines find some, in a draft that nothing was changed in.

        Parameters
        ----------
        room
            What slots leave; written from now on.
        base
            Gives what a reservation holds, with slots; by default what it holds on the Plan.
        newcomers
            Requests, numbered below 0, that would be promised machines if they came in.
        homeless, slotted
            See the attributes; the room has what `slotted` says.
        """
        plan = self.plan

        def on_the_plan(number: int) -> Holding:
            return Holding((), plan.now, plan.now) if number < 0 else plan.table.holding(number)

        self._room = _SharedRoom(plan, room, base or on_the_plan, newcomers)
        self.homeless, self.slotted = homeless, dict(slotted or {})
        self._room.shown = dict(self.slotted)

    @property
    def has_machines(self) -> bool:
        """Whether it looks at machines, and not only at totals."""
        return self._room is not None

    def copy(self) -> DraftPlan:
        """Return an equal draft that shares nothing that is written."""
        return DraftPlan(
            self.plan,
            self.ledger.copy(),
            dict(self.lifted),
            dict(self.moved),
            dict(self.stripped),
            dict(self.slotted),
            self.homeless,
            self._anchors,
            self._room,
        )

    def view(self, version: int | None = None) -> PlanSnapshot:
        """Return what an agent sees of it, as of a version; true until the next change."""
        return PlanSnapshot(self.ledger, self.plan.version if version is None else version)

    def twin(self, version: int) -> Draft | None:
        """Return what it leaves as a draft of its own, machines included; None without them."""
        if self._room is None:
            return None
        room = self._room.show(self.slotted).room.copy()
        return Draft(self.ledger, lambda: room, self.plan.now, version)

    def places(self, number: int) -> bool:
        """Return whether machines are found for a reservation, or for one that would come in."""
        if self._room is None:
            return False
        if number < 0:
            return number in self._room.newcomers
        return self.plan.table.promise(number) is PromiseLevel.PLACED

    def slotted_holding(self, number: int) -> Holding:
        """Return what a reservation that has machines holds, with its slots."""
        assert self._room is not None
        return self.slotted.get(number) or self._room.base(number)

    def slots(self, number: int) -> tuple[Slots | None, ...] | None:
        """Return the slots of each atom of what a commitment holds; None if it has none."""
        if not self.places(number):
            return None
        return tuple(atom.slots for atom in self.slotted_holding(number).atoms)

    def with_slots(self, number: int, holding: Holding) -> Holding:
        """Return a holding of a reservation with the slots that its atoms have here."""
        if not self.places(number):
            return holding
        known = {atom.path: atom for atom in self.slotted_holding(number).atoms}
        atoms = tuple(
            replace(atom, slots=known[atom.path].slots, rule=known[atom.path].rule)
            for atom in holding.atoms
        )
        return replace(holding, atoms=atoms)

    def takings(self, commitment: Commitment, holding: Holding, sign: int = 1) -> list[Taking]:
        """Return the takings of a holding of a commitment."""
        return takings_of(holding, self.ledger, commitment.tenant, commitment.queue, sign)

    def anchor(self, commitment: Commitment) -> Holding:
        """Return what of a commitment stays when it is lifted; of a degraded one, all it has."""
        if commitment.state is State.DEGRADED:
            return commitment.before
        known = self._anchors.get(commitment.number)
        if known is None:
            known = self._anchors[commitment.number] = anchor_of(self.plan, commitment)
        return known

    def holding_of(self, commitment: Commitment) -> Holding:
        """Return what a commitment holds in this draft."""
        if commitment.number in self.moved:
            return self.moved[commitment.number][2]
        if commitment.number in self.stripped:
            return commitment.past(self.plan.now)
        return self.anchor(commitment) if commitment.number in self.lifted else commitment.before

    def fits(self, commitment: Commitment, holding: Holding) -> bool:
        """Return whether a commitment could hold that instead of what it holds."""
        takings = self.takings(commitment, self.holding_of(commitment), -1) + self.takings(
            commitment, holding
        )
        return find_shortage(self.ledger, takings) is None

    def lift(self, commitment: Commitment) -> None:
        """Take all of a commitment away but its anchor."""
        self._cut(commitment, self.anchor(commitment))
        self.moved.pop(commitment.number, None)
        self.lifted[commitment.number] = commitment

    def strip(self, commitment: Commitment) -> None:
        """Take the anchor of a lifted commitment away too."""
        self._cut(commitment, commitment.past(self.plan.now))
        self.stripped[commitment.number] = commitment

    def put_back(self, commitment: Commitment) -> bool:
        """Give a lifted commitment the rows it had, if they fit; return whether they did."""
        if not self.fits(commitment, commitment.before) or self._move_machines(
            commitment.number, commitment.before
        ):
            return False
        self._swap(commitment, commitment.before)
        self.lifted.pop(commitment.number, None)
        self.stripped.pop(commitment.number, None)
        return True

    def place(self, move: Move, agent: Agent) -> bool:
        """Find a lifted commitment another place; return whether there is one.

        Where machines do not hold what the agent found, it is asked again with that in mind.
        """
        held, fixed = self.holding_of(move.commitment), move.holding()

        def ask(over: Callable[[PlanSnapshot], PlanSnapshot]) -> PlacementResult:
            self._change(move.commitment, held, fixed)
            result = move.place(over(self.view()), agent)
            self._change(move.commitment, fixed, held)
            return result

        def stand(result: PlacementResult) -> bool | MachineShortage:
            return self._take(move.commitment, result)

        return until_it_stands(MachineCaps(), ask, stand, _ROUNDS) is True

    def take(self, commitment: Commitment, result: PlacementResult) -> bool:
        """Give a commitment another whole allocation, if it fits; return whether it did."""
        return self._take(commitment, result) is True

    def take_together(
        self, wanted: Iterable[tuple[Commitment, PlacementResult]]
    ) -> list[Commitment]:
        """Give lifted commitments other whole allocations, machines laid by begin.

        Returns
        -------
        list[Commitment]
            Those that fit totals, in their order, and then find machines.
        """
        asked: dict[int, tuple[Commitment, PlacementResult, Holding]] = {}
        for commitment, result in wanted:
            assert commitment.request is not None
            holding = holding_of(commitment.request, result)
            if not commitment.started and self.fits(commitment, holding):
                self._swap(commitment, holding)
                asked[commitment.number] = commitment, result, holding
        stands = set(asked)
        wanted_slots = {
            number: (holding, leases_of(one.request.graph))
            for number, (one, _, holding) in asked.items()
            if self.places(number) and one.request is not None
        }
        stands -= set(wanted_slots) - self._swap_together(wanted_slots)
        for number, (commitment, result, holding) in asked.items():
            if number not in stands:
                self._change(commitment, holding, self.holding_of(commitment))
                continue
            self.lifted.pop(number, None)
            self.stripped.pop(number, None)
            self.moved[number] = (commitment, result, holding)
        return [asked[number][0] for number in asked if number in stands]

    def _take(self, commitment: Commitment, result: PlacementResult) -> bool | MachineShortage:
        """Take an allocation; return whether it fits, or what finds no machine."""
        assert commitment.request is not None
        holding = holding_of(commitment.request, result)
        if not self.fits(commitment, holding):
            return False
        leases = leases_of(commitment.request.graph)
        missed = self._move_machines(commitment.number, holding, leases)
        if missed is not None:
            return missed
        self._swap(commitment, holding)
        self.lifted.pop(commitment.number, None)
        self.stripped.pop(commitment.number, None)
        self.moved[commitment.number] = (commitment, result, holding)
        return True

    def _move_machines(
        self, number: int, after: Holding, leases: Mapping[str, int] | None = None
    ) -> MachineShortage | None:
        """Give a commitment the machines of another holding; return what finds none, if any.

        What it held at first keeps its machines where they are free.

        Parameters
        ----------
        leases
            Steps of a lease by atom path: what has begun may be handed over after one; None hands
            nothing over.
        """
        if self._room is None or not self.places(number):
            return None
        draft = self._room.show(self.slotted)
        savepoint = draft.savepoint()
        draft.release_slots(self.slotted_holding(number))
        found = draft.swap(self._room.base(number), after, leases)
        missed = found if isinstance(found, MachineShortage) else None
        if missed is None and leases is not None and number >= 0:
            assert isinstance(found, Holding)
            missed = self._refused_by_the_plan(number, found, leases)
        if missed is not None:
            draft.roll_back(savepoint)
            return missed
        assert isinstance(found, Holding)
        self._keep(number, found)
        return None

    def machine_shortage(self, number: int, after: Holding) -> MachineShortage | None:
        """Return what would find no machine if a commitment held something; nothing changes."""
        if self._room is None or not self.places(number):
            return None
        draft = self._room.show(self.slotted)
        savepoint = draft.savepoint()
        draft.release_slots(self.slotted_holding(number))
        found = draft.swap(self._room.base(number), after)
        draft.roll_back(savepoint)
        return found if isinstance(found, MachineShortage) else None

    def _refused_by_the_plan(
        self, number: int, after: Holding, leases: Mapping[str, int]
    ) -> MachineShortage | None:
        """Return what the Plan would not let change its machine, of a reservation that has begun.

        That is for its own judge to say: begun leases, handovers and what was lost are its rules.
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

    def _swap_together(self, wanted: Mapping[int, tuple[Holding, Mapping[str, int]]]) -> set[int]:
        """Let reservations that have not begun hold something else; return who found machines.

        They are placed by begin, before any of them is given up; who finds none holds what it held.

        Parameters
        ----------
        wanted
            Number -> what it is to hold, and its leases.
        """
        if self._room is None or not wanted:
            return set()
        draft = self._room.show(self.slotted)
        for number in wanted:
            draft.release_slots(self.slotted_holding(number))
        asked = {n: WantedSlots(holding.atoms, leases) for n, (holding, leases) in wanted.items()}
        laid = place_together(draft, asked)
        for number, (holding, _) in wanted.items():
            if number in laid:
                self._keep(number, with_slots(holding, laid[number]))
            else:
                draft.take_slots(self.slotted_holding(number))
        draft.keep()
        return set(laid)

    def _keep(self, number: int, holding: Holding) -> None:
        """Make what was done to the machines of a reservation that of this draft."""
        assert self._room is not None
        self._room.draft.keep()
        self.slotted[number] = self._room.shown[number] = holding

    def lacks_machines(self, commitment: Commitment) -> frozenset[str]:
        """Return the paths of occurrences of a commitment that have no machine for something."""
        if self._room is None:
            return frozenset()
        return frozenset(
            path
            for atom in self.slotted_holding(commitment.number).atoms
            for (path, _), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
            if slots is not None
            and bool(((slots[:, 3] == NOWHERE) & (slots[:, 1] > self.plan.now)).any())
        )

    def hold_beside(self, commitment: Commitment, atoms: Sequence[AtomAllocation]) -> bool:
        """Take room for `atoms` of a commitment that stays lifted otherwise, if there is any."""
        takings, number = self.takings(commitment, Holding(tuple(atoms), 0, 0)), commitment.number
        if find_shortage(self.ledger, takings) is not None:
            return False
        if self._room is not None and self.places(number):
            draft, before = self._room.show(self.slotted), self.slotted_holding(number)
            found = draft.swap(self._room.base(number), Holding(tuple(atoms), 0, 0))
            if isinstance(found, MachineShortage):
                return False
            self._keep(number, replace(before, atoms=before.atoms + found.atoms))
        self.ledger.take((taking.demand, taking.rows, 1) for taking in takings)
        return True

    def _cut(self, commitment: Commitment, kept: Holding) -> None:
        self._swap(commitment, kept)
        number = commitment.number
        if self._room is not None and self.places(number):
            draft, before = self._room.show(self.slotted), self.slotted_holding(number)
            draft.release_slots(before)
            self._keep(number, draft.cut(before, kept))

    def _swap(self, commitment: Commitment, holding: Holding) -> None:
        self._change(commitment, self.holding_of(commitment), holding)

    def _change(self, commitment: Commitment, before: Holding, after: Holding) -> None:
        self.ledger.take(
            (taking.demand, taking.rows, taking.sign)
            for taking in self.takings(commitment, before, -1) + self.takings(commitment, after)
        )


def anchor_of(plan: Plan, commitment: Commitment) -> Holding:
    """Return the past of a commitment and its leases in force; of recurrences, whole runs."""
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
    """Return the churn from one holding to another.

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
