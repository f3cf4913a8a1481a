"""What the slots of an entitlement cover of the executions that name its reservation (step 2).

A component is covered on a machine of a slot alone. Those that stand there stay; the others are
given the room that is left, cores of all executions before all elastic components, both by
submission. One that runs elsewhere meanwhile is left there: it moves when its room is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dispatch.cycle.cover.cover import names_atom
from dispatch.entitlements.directive import Entitlement
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.machines.machine_pool import MachinePool

#: How many components of each group have a slot, by machine; an execution without any is left out.
Places = dict[Execution, tuple[dict[str, int], ...]]


def slot_places(
    entitlement: Entitlement,
    executions: Sequence[Execution],
    pool: MachinePool,
    away: frozenset[str] = frozenset(),
) -> tuple[Places, frozenset[str]]:
    """Return on which machines `entitlement` covers `executions`, which are in order.

    Slots on machines that are down, or in `away`, cover nothing. An execution is covered when
    all its cores find slots; elastic components that find none are skipped.

    Returns
    -------
    places, idle
        What is covered where, and the machines on which slots have room left.
    """
    room = SlotRoom(entitlement, pool, away)
    places = _Matching(room, executions).run() if executions else {}
    return places, room.idle()


class SlotRoom:
    """What the slots of an entitlement have left on each machine, whole and atom by atom."""

    def __init__(self, entitlement: Entitlement, pool: MachinePool, away: frozenset[str]) -> None:
        self._pool = pool
        self._entitlement = entitlement
        self._atoms: dict[str | None, dict[str, list[int]]] = {}
        ends: dict[str, int] = {}
        for share in entitlement.atoms:
            for slot in share.slots or ():
                if slot.machine is not None and slot.machine not in away:
                    ends[slot.machine] = max(ends.get(slot.machine, 0), slot.end)
        up = [name for name in ends if pool.is_up(name)]
        #: Those with the longest slot first: who stands there has to leave least often.
        self.machines = sorted(up, key=lambda name: (-ends[name], pool.number_of(name)))
        self._of(None)

    def _of(self, atom: str | None) -> dict[str, list[int]]:
        known = self._atoms.get(atom)
        if known is None:
            known = {name: [0] * len(self._pool.resources) for name in self.machines}
            for share in self._entitlement.atoms:
                if atom is not None and not names_atom(share.path, atom):
                    continue
                bundle = self._pool.vector(dict(share.bundle))
                for slot in share.slots or ():
                    if slot.machine in known:
                        for kind, amount in enumerate(bundle):
                            known[slot.machine][kind] += slot.bundles * amount
            self._atoms[atom] = known
        return known

    def count_room(self, machine: str, part: ComponentGroup, wanted: int, atom: str | None) -> int:
        """Return how many of `wanted` components have room in the slots on a machine."""
        number = self._pool.number_of(machine)
        allowed = self._pool.label_mask(part.component.labels)
        if allowed is not None and (number is None or not allowed[number]):
            return 0
        found = wanted
        for room in {None, atom}:
            for amount, there in zip(part.amounts, self._of(room)[machine], strict=True):
                if amount:
                    found = min(found, there // amount)
        return max(found, 0)

    def count(self, part: ComponentGroup, wanted: int, atom: str | None) -> int:
        """Return how many of `wanted` components have room in all slots."""
        found = 0
        for machine in self.machines:
            if found >= wanted:
                break
            found += self.count_room(machine, part, wanted - found, atom)
        return found

    def idle(self) -> frozenset[str]:
        """Return the machines on which anything is left."""
        return frozenset(name for name, left in self._of(None).items() if any(left))

    def take(self, machine: str, part: ComponentGroup, count: int, atom: str | None) -> None:
        """Take the room of `count` components; a negative count gives it back."""
        for room in {None, atom}:
            left = self._of(room)[machine]
            for kind, amount in enumerate(part.amounts):
                left[kind] -= count * amount


class _Matching:
    """Components matched to slots, in the making."""

    def __init__(self, room: SlotRoom, executions: Sequence[Execution]) -> None:
        self._room = room
        self._executions = executions
        self._found: Places = {one: tuple({} for _ in one.parts) for one in executions}

    def run(self) -> Places:
        """Return the places."""
        for execution in self._executions:
            self._stay(execution, core=True)
        for execution in self._executions:
            self._stay(execution, core=False)
        missed = [one for one in self._executions if not self._cover_cores(one)]
        for execution in missed:  # what others gave back may do for them
            self._stay(execution, core=True)
        missed = [one for one in missed if not self._cover_cores(one)]
        covered = [one for one in self._executions if one not in missed]
        for execution in covered:
            self._stay(execution, core=False)
        for execution in covered:
            for place, part in enumerate(execution.parts):
                if not part.component.core:
                    self._settle(execution, place, part, part.wanted)
        return {one: self._found[one] for one in covered}

    def _cover_cores(self, execution: Execution) -> bool:
        """Find slots for all cores of an execution, or give back what it has."""
        if self._settle_cores(execution):
            return True
        # Elastic components make way for cores, wherever they stand.
        for other in self._executions:
            self._give_back(other, cores=False)
        if self._settle_cores(execution):
            return True
        self._give_back(execution, cores=True)
        return False

    def _settle_cores(self, execution: Execution) -> bool:
        complete = True
        for place, part in enumerate(execution.parts):
            if part.component.core:
                count = part.component.count
                complete = self._settle(execution, place, part, count) and complete
        return complete

    def _stay(self, execution: Execution, *, core: bool) -> None:
        """Give components that stand on machines of slots the room they stand in."""
        for place, part in enumerate(execution.parts):
            if part.component.core is core and part.held:
                wanted = part.component.count if core else part.wanted
                standing = Counter(held.machine for held in part.held)
                for machine in self._room.machines:
                    if machine in standing:
                        known = self._found[execution][place]
                        more = standing[machine] - known.get(machine, 0)
                        more = min(more, wanted - sum(known.values()))
                        self._take(execution, place, part, machine, more)

    def _settle(self, execution: Execution, place: int, part: ComponentGroup, wanted: int) -> bool:
        """Give a group room for up to `wanted` components; return whether it has all of it."""
        missing = wanted - sum(self._found[execution][place].values())
        for machine in self._room.machines:
            if missing <= 0:
                break
            missing -= self._take(execution, place, part, machine, missing)
        return missing <= 0

    def _take(
        self, execution: Execution, place: int, part: ComponentGroup, machine: str, wanted: int
    ) -> int:
        atom = execution.application.atom
        count = self._room.count_room(machine, part, wanted, atom) if wanted > 0 else 0
        if count:
            self._room.take(machine, part, count, atom)
            known = self._found[execution][place]
            known[machine] = known.get(machine, 0) + count
        return count

    def _give_back(self, execution: Execution, *, cores: bool) -> None:
        """Give back the room of elastic components, or with `cores` of all."""
        for place, part in enumerate(execution.parts):
            if cores or not part.component.core:
                for machine, count in self._found[execution][place].items():
                    self._room.take(machine, part, -count, execution.application.atom)
                self._found[execution][place].clear()


def counts_of(places: Places) -> dict[Execution, tuple[int, ...]]:
    """Return how many components of each group are covered."""
    return {one: tuple(sum(part.values()) for part in parts) for one, parts in places.items()}
