"""Why an entitlement cannot cover an application.

The dispatcher, the count of broken promises, and the check of an application when it is submitted
all ask `cover_of`, so an application that is accepted under a reservation is one that the
dispatcher will cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dispatch.applications.application import Application, Component
from dispatch.cycle.cover.cover import CoverRoom, cover_of, names_atom
from dispatch.entitlements.directive import AtomShare, Entitlement
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.machines.machine_pool import MachinePool


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
