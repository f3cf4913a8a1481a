"""Which machines the slots of a draft stand on.

All drafts of one Plan share a room: it shows one of them at a time, and is brought from one to
another by the reservations in which they differ. A draft is then as cheap to copy as a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.machines.room import MachineRoom
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import WantedSlots, place_together
from planner.plan.plan import Plan
from planner.plan.slots.slot_faults import SlotJudge, lost_slots_of
from planner.promise import PromiseLevel
from planner.reservations.holding import with_slots
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.rows import split
from planner.reservations.slots import NOWHERE


class _SharedRoom:
    """The room of all drafts of one Plan, and what it shows."""

    def __init__(self, plan: Plan, room: MachineRoom, base: Callable[[int], Holding]) -> None:
        self.plan = plan
        self.draft = Draft(plan.ledger, lambda: room, plan.now)
        self.shown: dict[int, Holding] = {}
        self._base = base
        self._known: dict[int, Holding] = {}

    def base(self, number: int) -> Holding:
        """Return what a reservation holds where no draft says otherwise."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._base(number)
        return known

    def show(self, held: Mapping[int, Holding]) -> None:
        """Let the room show a draft."""
        if self.shown is held:
            return
        for number in self.shown.keys() | held.keys():
            before, after = self.shown.get(number), held.get(number)
            if before is not after:
                self.draft.release_slots(before or self.base(number))
                self.draft.take_slots(after or self.base(number))
        self.draft.keep()
        self.shown = dict(held)


@dataclass(slots=True)
class DraftMachines:
    """The machines of one draft.

    Attributes
    ----------
    homeless
        Reservations with slots that found no machine before anything was moved in time.
    newcomers
        Numbers, below 0, of requests that would be promised machines if they came in.
    held
        Number -> what it holds with its slots, where that is not what it began with.
    """

    shared: _SharedRoom
    homeless: frozenset[int]
    newcomers: frozenset[int] = frozenset()
    held: dict[int, Holding] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        plan: Plan,
        room: MachineRoom,
        base: Callable[[int], Holding],
        homeless: frozenset[int],
        newcomers: frozenset[int] = frozenset(),
    ) -> DraftMachines:
        """Return the machines of a draft.

        Parameters
        ----------
        room
            What slots leave; written from now on.
        base
            Gives what a reservation holds, with slots.
        homeless
            Those that have slots without a machine.
        newcomers
            Requests, numbered below 0, that would be promised machines.
        """
        return cls(_SharedRoom(plan, room, base), homeless, newcomers)

    def copy(self) -> DraftMachines:
        """Return the machines of an equal draft."""
        return DraftMachines(self.shared, self.homeless, self.newcomers, dict(self.held))

    def holding(self, number: int) -> Holding:
        """Return what a reservation holds in this draft, with its slots."""
        return self.held.get(number) or self.shared.base(number)

    def room(self) -> MachineRoom:
        """Return a copy of what this draft leaves of every machine."""
        self.shared.show(self.held)
        return self.shared.draft.room.copy()

    def places(self, number: int) -> bool:
        """Return whether a reservation is promised machines, or a newcomer would be."""
        if number < 0:
            return number in self.newcomers
        return self.shared.plan.table.promise(number) is PromiseLevel.PLACED

    def paths_without_machine(self, number: int) -> frozenset[str]:
        """Return the paths of occurrences that have no machine for something from now on."""
        now = self.shared.plan.now
        return frozenset(
            path
            for atom in self.holding(number).atoms
            for (path, _), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
            if slots is not None and bool(((slots[:, 3] == NOWHERE) & (slots[:, 1] > now)).any())
        )

    def swap(
        self, number: int, after: Holding, leases: Mapping[str, int] | None = None
    ) -> MachineShortage | None:
        """Let a reservation hold something else; return what finds no machine, if any.

        What it held at first keeps its machines where they are free.

        Parameters
        ----------
        leases
            Steps of a lease by atom path: what has begun may be handed over after one; None hands
            nothing over.
        """
        if not self.places(number):
            return None
        draft = self._draft()
        mark = draft.savepoint()
        draft.release_slots(self.holding(number))
        found = draft.swap(self.shared.base(number), after, leases)
        missed = found if isinstance(found, MachineShortage) else None
        if missed is None and leases is not None and number >= 0:
            assert isinstance(found, Holding)
            missed = self._refused_by_the_plan(number, found, leases)
        if missed is not None:
            draft.roll_back(mark)
            return missed
        assert isinstance(found, Holding)
        self._keep(number, found)
        return None

    def swap_together(self, wanted: Mapping[int, tuple[Holding, Mapping[str, int]]]) -> set[int]:
        """Let reservations that have not begun hold something else; return who found machines.

        They are laid by begin, before any of them is given up; who finds none holds what it held.

        Parameters
        ----------
        wanted
            Number -> what it is to hold, and its leases.
        """
        draft = self._draft()
        for number in wanted:
            draft.release_slots(self.holding(number))
        asked = {n: WantedSlots(holding.atoms, leases) for n, (holding, leases) in wanted.items()}
        laid = place_together(draft, asked)
        for number, (holding, _) in wanted.items():
            if number in laid:
                self._keep(number, with_slots(holding, laid[number]))
            else:
                draft.take_slots(self.holding(number))
        draft.keep()
        return set(laid)

    def _refused_by_the_plan(
        self, number: int, after: Holding, leases: Mapping[str, int]
    ) -> MachineShortage | None:
        """Return what the Plan would not let change its machine, of a reservation that has begun.

        That is for its own judge to say: begun leases, handovers and what was lost are its rules.
        """
        plan = self.shared.plan
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

    def cut(self, number: int, kept: Holding) -> None:
        """Leave a reservation with part of what it holds."""
        if self.places(number):
            draft, before = self._draft(), self.holding(number)
            draft.release_slots(before)
            self._keep(number, draft.cut(before, kept))

    def add(self, number: int, atoms: Sequence[AtomAllocation]) -> bool:
        """Let a reservation hold more atoms besides; return whether they found machines."""
        if not self.places(number):
            return True
        draft, before = self._draft(), self.holding(number)
        found = draft.swap(self.shared.base(number), Holding(tuple(atoms), 0, 0))
        if isinstance(found, MachineShortage):
            return False
        self._keep(number, replace(before, atoms=before.atoms + found.atoms))
        return True

    def with_slots(self, number: int, holding: Holding) -> Holding:
        """Return a holding of a reservation with the slots that its atoms have here."""
        if not self.places(number):
            return holding
        known = {atom.path: atom for atom in self.holding(number).atoms}
        atoms = tuple(
            replace(atom, slots=known[atom.path].slots, rule=known[atom.path].rule)
            for atom in holding.atoms
        )
        return replace(holding, atoms=atoms)

    def _draft(self) -> Draft:
        self.shared.show(self.held)
        return self.shared.draft

    def _keep(self, number: int, holding: Holding) -> None:
        self.shared.draft.keep()
        self.held[number] = self.shared.shown[number] = holding
