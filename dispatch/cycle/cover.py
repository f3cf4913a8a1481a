"""The components that an entitlement covers, of the executions that name its reservation (step 2
of a cycle).

A component is covered on a machine of a slot; totals are a slot on no machine, and cover it
wherever it runs. Components on machines of slots stay; the others get the remaining slots,
cores of all executions before all elastic components, both by submission. When an entitlement
shrinks, elastic components therefore lose cover before cores, and newer executions before older
ones. One that runs elsewhere meanwhile is left there: it moves when its capacity is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dispatch.applications.application import Application, Component
from dispatch.entitlements.directive import AtomShare, Entitlement
from dispatch.executions.execution import ComponentGroup, Execution, Places
from dispatch.machines.machine_pool import MachinePool

#: How many components of each group are covered, by execution; one without any is left out.
Counts = dict[Execution, tuple[int, ...]]

#: Most components whose fault is reported, and most different ones that are checked for it.
_MOST_FAULTS: Final = 20
_MOST_SHAPES: Final = 500

#: Most bundles that a fault names.
_MOST_BUNDLES: Final = 3

#: Most entitlements that explain a fault, the largest ones; and most components times entitlements
#: that are looked at to find one that covers all.
_MOST_EXPLAINED: Final = 8
_MOST_WORK: Final = 200_000
_BEST_EFFORT = 'or write cover = "none" to run it as best effort'


class Cover(NamedTuple):
    """The components that an entitlement covers.

    Attributes
    ----------
    counts
        Number of components of each group, by execution; executions without any are omitted.
    places
        On which machines.
    idle
        Machines on which slots have capacity left.
    """

    counts: Counts
    places: dict[Execution, tuple[Places, ...]]
    idle: frozenset[str] = frozenset()

    def places_of(self, execution: Execution) -> tuple[Places, ...]:
        """Return on which machines each group of an execution is covered."""
        return self.places.get(execution) or tuple({} for _ in execution.parts)

    @property
    def names_machines(self) -> bool:
        """Whether anything is covered on a machine that has only a slot."""
        return any(
            machine is not None
            for parts in self.places.values()
            for part in parts
            for machine in part
        )


NO_COVER = Cover({}, {})


def cover_of(
    entitlement: Entitlement | None,
    executions: Sequence[Execution],
    pool: MachinePool,
    away: frozenset[str] = frozenset(),
) -> Cover:
    """Return the cover by an entitlement of executions, which are in order of submission.

    Slots on machines that are down, or in `away`, cover nothing. An execution is covered when all
    its cores find slots; elastic components that find none are skipped. One that names an atom
    draws on that atom's share only, and so does a component.
    """
    if entitlement is None:
        return NO_COVER
    room = CoverRoom(entitlement, pool, away)
    places = _Matching(room, executions).run() if executions else {}
    counts = {one: tuple(sum(part.values()) for part in parts) for one, parts in places.items()}
    return Cover(counts, places, room.idle())


def demand_of(
    parts: Iterable[ComponentGroup], counts: Sequence[int], into: list[int], sign: int = 1
) -> None:
    """Add the use of `counts` components of each part to `into`."""
    for part, count in zip(parts, counts, strict=True):
        if count:
            for kind, amount in enumerate(part.amounts):
                into[kind] += sign * count * amount


def names_atom(path: str, atom: str) -> bool:
    """Return whether `atom` means the atom at `path`: its path, or that of its `together`.

    Numbers of occurrences may be left out.
    """
    return any(
        one == atom or one.startswith(f"{atom}.") for one in (path, without_occurrences(path))
    )


def without_occurrences(path: str) -> str:
    """Return a path without its ``@k``."""
    return ".".join(step.partition("@")[0] for step in path.split("."))


class CoverRoom:
    """The free part of an entitlement's slots on each machine, in total and by atom.

    Attributes
    ----------
    machines
        Those with the longest slot first, where components must leave least often; None, of
        totals, is last.
    """

    def __init__(self, entitlement: Entitlement, pool: MachinePool, away: frozenset[str]) -> None:
        self._pool = pool
        self._entitlement = entitlement
        self._atoms: dict[str | None, dict[str | None, list[int]]] = {}
        ends: dict[str, int] = {}
        totals = False
        for share in entitlement.atoms:
            for slot in share.slots:
                if slot.machine is None:
                    totals = True
                elif slot.machine not in away:
                    ends[slot.machine] = max(ends.get(slot.machine, 0), slot.end)
        up = [name for name in ends if pool.is_up(name)]
        up.sort(key=lambda name: (-ends[name], pool.number_of(name)))
        self.machines: list[str | None] = [*up, None] if totals else [*up]

    def _of(self, atom: str | None) -> dict[str | None, list[int]]:
        known = self._atoms.get(atom)
        if known is None:
            known = {name: [0] * len(self._pool.resources) for name in self.machines}
            for share in self._entitlement.atoms:
                if atom is not None and not names_atom(share.path, atom):
                    continue
                bundle = self._pool.vector(dict(share.bundle))
                for slot in share.slots:
                    if slot.machine in known:
                        for kind, amount in enumerate(bundle):
                            known[slot.machine][kind] += slot.bundles * amount
            self._atoms[atom] = known
        return known

    def count_room(
        self, machine: str | None, part: ComponentGroup, wanted: int, atom: str | None
    ) -> int:
        """Return how many of `wanted` components have capacity in the slots on a machine."""
        if machine is not None and part.component.labels:
            number = self._pool.number_of(machine)
            allowed = self._pool.label_mask(part.component.labels)
            if allowed is not None and (number is None or not allowed[number]):
                return 0
        found = wanted
        for name in (None,) if atom is None else (None, atom):
            for amount, there in zip(part.amounts, self._of(name)[machine], strict=True):
                if amount:
                    found = min(found, there // amount)
        return max(found, 0)

    def count(self, part: ComponentGroup, wanted: int, atom: str | None) -> int:
        """Return how many of `wanted` components have capacity in all slots."""
        found = 0
        for machine in self.machines:
            if found >= wanted:
                break
            found += self.count_room(machine, part, wanted - found, atom)
        return found

    def idle(self) -> frozenset[str]:
        """Return the machines on which anything is left."""
        left = self._of(None).items()
        return frozenset(name for name, there in left if name is not None and any(there))

    def take(self, machine: str | None, part: ComponentGroup, count: int, atom: str | None) -> None:
        """Take the capacity of `count` components; a negative count releases it."""
        for name in (None,) if atom is None else (None, atom):
            left = self._of(name)[machine]
            for kind, amount in enumerate(part.amounts):
                left[kind] -= count * amount


class _Matching:
    """Components matched to slots, in the making."""

    def __init__(self, room: CoverRoom, executions: Sequence[Execution]) -> None:
        self._room = room
        self._executions = executions
        self._found: dict[Execution, tuple[Places, ...]] = {
            one: tuple({} for _ in one.parts) for one in executions
        }
        self._has_elastic = False

    def run(self) -> dict[Execution, tuple[Places, ...]]:
        """Return the places."""
        for execution in self._executions:
            self._stay(execution, core=True)
        for execution in self._executions:
            self._stay(execution, core=False)
        missed = [one for one in self._executions if not self._cover_cores(one)]
        for execution in missed:  # what others released may do for them
            self._stay(execution, core=True)
        missed = [one for one in missed if not self._cover_cores(one)]
        left_out = set(missed)
        covered = [one for one in self._executions if one not in left_out]
        for execution in covered:
            self._stay(execution, core=False)
        for execution in covered:
            for place, part in enumerate(execution.parts):
                if not part.component.core:
                    self._settle(execution, place, part, part.wanted)
        return {one: self._found[one] for one in covered}

    def _cover_cores(self, execution: Execution) -> bool:
        """Find slots for all cores of an execution, or release its present ones."""
        if self._settle_cores(execution):
            return True
        if self._has_elastic:  # those give way to cores, wherever they stand
            self._has_elastic = False
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
        """Give components on machines of slots the capacity that they use."""
        for place, part in enumerate(execution.parts):
            if part.component.core is core and part.held:
                wanted = part.component.count if core else part.wanted
                standing = Counter(held.machine for held in part.held)
                for machine in self._room.machines:
                    if machine is not None and machine in standing:
                        known = self._found[execution][place]
                        more = standing[machine] - known.get(machine, 0)
                        more = min(more, wanted - sum(known.values()))
                        self._take(execution, place, part, machine, more)

    def _settle(self, execution: Execution, place: int, part: ComponentGroup, wanted: int) -> bool:
        """Give a group capacity for up to `wanted` components; return whether it has all of it."""
        missing = wanted - sum(self._found[execution][place].values())
        for machine in self._room.machines:
            if missing <= 0:
                break
            missing -= self._take(execution, place, part, machine, missing)
        return missing <= 0

    def _take(
        self,
        execution: Execution,
        place: int,
        part: ComponentGroup,
        machine: str | None,
        wanted: int,
    ) -> int:
        atom = execution.application.atom_of(part.component)
        count = self._room.count_room(machine, part, wanted, atom) if wanted > 0 else 0
        if count:
            self._has_elastic = self._has_elastic or not part.component.core
            self._room.take(machine, part, count, atom)
            known = self._found[execution][place]
            known[machine] = known.get(machine, 0) + count
        return count

    def _give_back(self, execution: Execution, *, cores: bool) -> None:
        """Release the capacity of elastic components, or with `cores` of all."""
        for place, part in enumerate(execution.parts):
            if cores or not part.component.core:
                atom = execution.application.atom_of(part.component)
                for machine, count in self._found[execution][place].items():
                    self._room.take(machine, part, -count, atom)
                self._found[execution][place].clear()


# The dispatcher, the count of broken promises, and the check of an application when it is submitted
# all ask `cover_of`, so an application that is accepted under a reservation is one that the
# dispatcher will cover.


class CoverFault(NamedTuple):
    """Why the cores of an application cannot be covered.

    Attributes
    ----------
    component
        Index of the component; None if the cores cannot be covered together.
    detail, fix
        The error, and a suggested fix.
    """

    component: int | None
    detail: str
    fix: str


def is_coverable(
    entitlement: Entitlement,
    application: Application,
    pool: MachinePool,
    before: Iterable[Application] = (),
) -> bool:
    """Return whether an entitlement covers the cores of an application, if all machines are up.

    Parameters
    ----------
    before
        Applications submitted before it that draw on the entitlement, too.
    """
    applications = (*before, application)
    executions = [_alone(one, pool, number) for number, one in enumerate(applications)]
    return _covers_last(entitlement, executions, pool)


def _covers_last(
    entitlement: Entitlement, executions: Sequence[Execution], pool: MachinePool
) -> bool:
    # Most that cannot be covered ask for more than there is: that needs no search.
    held, asked = pool.vector(entitlement.total()), executions[-1].core
    if any(amount > there for amount, there in zip(asked, held, strict=True)):
        return False
    return executions[-1] in cover_of(entitlement, executions, pool.intact).counts


class CoverReasons:
    """Why components cannot be covered, by one entitlement of a reservation.

    Every question is answered as if all machines were up and nothing else used the entitlement.
    """

    def __init__(self, entitlement: Entitlement, pool: MachinePool) -> None:
        self.entitlement = entitlement
        self._pool = pool
        self._room = CoverRoom(entitlement, pool.intact, frozenset())
        self._known: dict[tuple[str | None, Component], str] = {}

    def count(self, atom: str | None, component: Component) -> int:
        """Return how many of a component are covered by it, or by its share for an atom."""
        part = ComponentGroup(component, self._pool.vector(component.resources))
        return self._room.count(part, component.count, atom)

    def reason(self, atom: str | None, component: Component) -> str:
        """Return why it covers no such component; or nothing.

        If it has no share for the atom now, the atom has another time.
        """
        key = (atom, component)
        if key not in self._known:
            has_none = _shares_of([self.entitlement], atom) and not self.count(atom, component)
            self._known[key] = _reason([self], atom, component) if has_none else ""
        return self._known[key]


def cover_faults(
    ahead: Iterable[Entitlement], application: Application, pool: MachinePool
) -> list[CoverFault]:
    """Return why none of the entitlements of a reservation covers the cores of an application.

    Parameters
    ----------
    ahead
        Those from now on. If there are very many, only the largest are tried.

    Returns
    -------
    list
        Empty if one of them covers all its cores at the same time.
    """
    alone = [_alone(application, pool)]
    entitlements = sorted(ahead, key=lambda one: -sum(share.bundles for share in one.atoms))
    entitlements = entitlements[: max(_MOST_EXPLAINED, _MOST_WORK // len(application.components))]
    if any(_covers_last(one, alone, pool) for one in entitlements):
        return []
    reasons = [CoverReasons(one, pool) for one in entitlements[:_MOST_EXPLAINED]]
    found, known = list[CoverFault](), dict[Component, int]()
    for index, component in enumerate(application.components):
        if not component.core:
            continue
        # Identical components, such as a thousand that are listed one by one, are counted once.
        atom = application.atom_of(component)
        shape = Component("", component.count, True, component.resources, labels=component.labels)
        shape = replace(shape, atom=atom)
        if shape not in known:
            known[shape] = max((one.count(atom, shape) for one in reasons), default=0)
        most = known[shape]
        if not most:
            detail = _reason(reasons, atom, component)
            found.append(CoverFault(index, detail, _fix_of(component)))
        elif most < component.count:
            detail = (
                f"its reservation covers at most {most:,} of {component.count:,} "
                f"{component.name!r} at once"
            )
            fix = f"ask for {most:,}, reserve more bundles, or mark it as elastic"
            found.append(CoverFault(index, detail, f"{fix}; {_BEST_EFFORT}"))
        if len(found) == _MOST_FAULTS or len(known) == _MOST_SHAPES:
            break
    if not found:
        detail = "its reservation covers each core component, but not all of them at once"
        fix = f"reserve more bundles, or make components elastic; {_BEST_EFFORT}"
        found.append(CoverFault(None, detail, fix))
    return found


def _fix_of(component: Component) -> str:
    where = f' on="{min(component.labels)}"' if component.labels else ""
    return f"reserve bundles such as <{component.resources}>{where}; {_BEST_EFFORT}"


def _alone(application: Application, pool: MachinePool, number: int = 0) -> Execution:
    """Return an execution of an application without components; its number is its hash."""
    parts = tuple(ComponentGroup(component) for component in application.components)
    made = Execution("", application, "", 0, number, (), parts)
    made.refit(pool)
    return made


def _reason(reasons: Sequence[CoverReasons], atom: str | None, component: Component) -> str:
    """Return why not even one such component is covered."""
    entitlements = [one.entitlement for one in reasons]
    name, shares = repr(component.name), _shares_of(entitlements, atom)
    bundles = sorted({f"<{share.bundle}>" for share in shares})
    if not bundles:
        return f"its reservation has no capacity left for {name}"
    if len(bundles) > _MOST_BUNDLES:
        bundles[_MOST_BUNDLES:] = ["..."]
    its_bundles = f"its bundles are {', '.join(bundles)}"
    named = frozenset(kind for share in shares for kind in share.bundle)
    missing = [kind for kind in component.resources if kind not in named]
    if missing:
        return f"{name} asks for {missing[0]}, and its reservation has none: {its_bundles}"
    anywhere = replace(component, labels=frozenset())
    if component.labels and any(one.count(atom, anywhere) for one in reasons):
        labels = ", ".join(sorted(component.labels))
        return f"{name} is for machines labelled {labels}, and its reservation has slots on others"
    where = " on each of its machines" if any(one.is_placed for one in entitlements) else ""
    return (
        f"{name} asks for <{component.resources}>, and its reservation has less{where}: "
        f"{its_bundles}"
    )


def _shares_of(entitlements: Iterable[Entitlement], atom: str | None) -> list[AtomShare]:
    """Return the shares that an application which names an atom draws on; None: all."""
    return [
        share
        for entitlement in entitlements
        for share in entitlement.atoms
        if atom is None or names_atom(share.path, atom)
    ]
