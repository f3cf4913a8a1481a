"""CoverBook: the present and near cover of entitlements, kept up to date, and the remaining
capacity.

Steps 2 and 3 of a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dispatch.cycle.cover import (
    NO_COVER,
    Counts,
    Cover,
    CoverReasons,
    cover_of,
    demand_of,
    names_atom,
)
from dispatch.entitlements.directive import Directive, Entitlement
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector


class CoverBook:
    """Writes `ComponentGroup.covered`; covers a reservation again where something has changed.

    Attributes
    ----------
    counts
        The present cover, by reservation.
    needs
        Capacity that must be kept free on machines for slots.
    """

    def __init__(self, table: ExecutionTable, pool: MachinePool) -> None:
        self.counts: dict[str, Counts] = {}
        self.needs = SlotNeeds(pool)
        self._table = table
        self._pool = pool
        self._sums: dict[str, list[int]] = {}
        self._soon: dict[str, tuple[list[int], Counts]] = {}
        self._dirty: set[str] = set()
        self._last: Directive | None = None
        self._down: frozenset[str] = frozenset()
        self._away_soon: frozenset[str] = frozenset()

    def note(self, execution: Execution) -> None:
        """Cover the reservation of an execution again at the next update."""
        if execution.application.reservation is not None:
            self._dirty.add(execution.application.reservation)

    def update(
        self, directive: Directive, waiting: Callable[[], Iterable[Execution]]
    ) -> tuple[list[Execution], list[Execution]]:
        """Follow a directive.

        Parameters
        ----------
        waiting
            Returns executions without cover: a commit may have moved their reservations.

        Returns
        -------
        looked, changed
            Executions of all reservations that were covered again, and those whose cover changed.
        """
        now = _by_reservation(directive.entitlements)
        soon = now
        if directive.soon is not directive.entitlements:
            soon = _by_reservation(directive.soon)
        last, self._last = self._last, directive
        if last is None or last.plan_version != directive.plan_version:
            self._dirty.update(self.counts, now, soon)
            for execution in waiting():
                self.note(execution)
        elif last.entitlements is not directive.entitlements:
            before = _by_reservation(last.entitlements)
            self._dirty.update(id_ for id_ in now if before.get(id_) != now[id_])
            self._dirty.update(before.keys() - now.keys())
        if last is not None and last.soon is not directive.soon:
            then = _by_reservation(last.soon)
            both = then.keys() | soon.keys()
            self._dirty.update(name for name in both if then.get(name) != soon.get(name))
        if last is not None and last.standings.step != directive.standings.step:
            # After a pause of the clock a reservation may be over that was still to come.
            before_of, now_of = last.standings.of, directive.standings.of
            named = self._table.reservations()
            self._dirty.update(name for name in named if before_of(name) is not now_of(name))
        if self._down != self._pool.down | directive.away_soon:
            self._down = self._pool.down | directive.away_soon
            self._dirty.update(name for name, one in (now | soon).items() if one.is_placed)
        self._away_soon = directive.away_soon
        looked: list[Execution] = []
        changed: list[Execution] = []
        for name in sorted(self._dirty):
            looked += self._table.of_reservation(name)
            changed += self._cover(name, now.get(name), soon.get(name))
        self._dirty.clear()
        return looked, changed

    def is_soon_covered(self, execution: Execution) -> bool:
        """Return whether an entitlement that grows within the grace covers an execution."""
        found = self._soon.get(execution.application.reservation or "")
        return found is not None and execution in found[1]

    def labels_in_need(self) -> set[frozenset[str]]:
        """Return the labels of the covered components, now or soon, that have no machine."""
        found: set[frozenset[str]] = set()
        for counts in (*self.counts.values(), *(later for _, later in self._soon.values())):
            for execution, given in counts.items():
                for part, count in zip(execution.parts, given, strict=True):
                    if len(part.held) < count:
                        found.add(part.component.labels)
        return found

    @property
    def looks_ahead(self) -> bool:
        """Whether any entitlement changes within the grace."""
        return bool(self._soon)

    def _cover(
        self, reservation: str, now: Entitlement | None, soon: Entitlement | None
    ) -> list[Execution]:
        fellows = self._fellows_of(reservation, now)
        before = self.counts.pop(reservation, {})
        cover = later = cover_of(now, fellows, self._pool)
        if soon is not now and soon != now:
            later = cover_of(soon, fellows, self._pool, self._away_soon)
        counts = cover.counts
        changed: list[Execution] = []
        is_short = now is not None and any(not all(counts.get(one, (0,))) for one in fellows)
        reasons = CoverReasons(now, self._pool) if now is not None and is_short else None
        for execution in fellows:
            given = counts.get(execution)
            places = cover.places_of(execution)
            if given != before.get(execution) or _moves(execution, places):
                changed.append(execution)
            uncovered = self._why_uncovered(reasons, execution, given)
            for place, part in enumerate(execution.parts):
                part.uncovered = uncovered[place] if uncovered else ""
                part.covered = 0 if given is None else given[place]
                part.places = places[place]
                if given is None and execution in before:
                    part.granted = 0  # extras above cover; the line grants again
        self.needs.note(reservation, cover, later)
        self._sums.pop(reservation, None)
        self._soon.pop(reservation, None)
        if counts:
            self.counts[reservation] = counts
            self._sums[reservation] = self._sum_of(counts)
        if later is not cover:
            self._soon[reservation] = (self._sum_of(later.counts), later.counts)
        return changed

    def _fellows_of(self, reservation: str, now: Entitlement | None) -> list[Execution]:
        """Return the executions that a reservation may cover; record those whose slots have
        begun."""
        shares = () if now is None else now.atoms
        for execution in self._table.of_reservation(reservation):
            atom = execution.application.atom
            waits = execution.awaits_slot and not execution.slot_began
            if waits and any(atom is None or names_atom(one.path, atom) for one in shares):
                execution.slot_began = True
                self._table.note(execution)
        return ready_of(self._table, reservation)

    def _why_uncovered(
        self,
        reasons: CoverReasons | None,
        execution: Execution,
        given: tuple[int, ...] | None,
    ) -> list[str]:
        """Return why no component of each group can be covered; nothing if all groups are."""
        if reasons is None or (given is not None and all(given)):
            return []
        application = execution.application
        return [
            ""
            if given is not None and given[place]
            else reasons.reason(application.atom_of(part.component), part.component)
            for place, part in enumerate(execution.parts)
        ]

    def _sum_of(self, counts: Counts) -> list[int]:
        total = [0] * len(self._pool.resources)
        for execution, given in counts.items():
            demand_of(execution.parts, given, total)
        return total

    def faults(self, pending: Iterable[Execution]) -> Iterator[str]:
        """Yield differences between the cover and a recomputation from the last directive.

        Parameters
        ----------
        pending
            Executions that have changed since; their reservations are left out.
        """
        if self._last is None:
            return
        stale = {one.application.reservation for one in pending}
        entitled = _by_reservation(self._last.entitlements)
        for name in sorted(self.counts.keys() | entitled.keys()):
            if name in stale:
                continue
            fellows = ready_of(self._table, name)
            counts = self.counts.get(name, {})
            wanted = cover_of(entitled.get(name), fellows, self._pool).counts
            if wanted != counts:
                yield f"{name}: {_named(counts)} are covered and not {_named(wanted)}"
            if counts and self._sums[name] != self._sum_of(counts):
                yield f"{name}: the sum of what is covered is not what is covered"
            for execution in fellows:
                covered = tuple(part.covered for part in execution.parts)
                if covered != counts.get(execution, (0,) * len(covered)):
                    yield f"{execution.id}: {covered} is noted as covered"
        if self._sums.keys() != self.counts.keys():
            yield "sums are kept of reservations that cover nothing"

    def room(self, directive: Directive) -> Vector:
        """Return the capacity outside entitlements: the minimum of now and of the end of the grace
        period."""
        now = list(self._pool.total())
        for total in self._sums.values():
            _subtract(now, total)
        if not self._soon and not directive.away_soon - directive.away:
            return tuple(now)
        soon = list(self._pool.total(directive.away_soon))
        for reservation, total in self._sums.items():
            if reservation not in self._soon:
                _subtract(soon, total)
        for total, counts in self._soon.values():
            _subtract(soon, total)
            for execution, given in counts.items():
                # What is served ahead of its cover is in the line's share already.
                ahead = [
                    max(min(part.covered + part.granted, count) - part.covered, 0)
                    for part, count in zip(execution.parts, given, strict=True)
                ]
                demand_of(execution.parts, ahead, soon)
        return tuple(min(one, other) for one, other in zip(now, soon, strict=True))


def ready_of(table: ExecutionTable, reservation: str) -> list[Execution]:
    """Return the executions that name a reservation and may start, by submission."""
    fellows = table.of_reservation(reservation)
    return [one for one in fellows if not one.is_held_up]


def _named(counts: Counts) -> dict[str, tuple[int, ...]]:
    return {execution.id: given for execution, given in counts.items()}


def _moves(execution: Execution, places: Sequence[Mapping[str | None, int]]) -> bool:
    """Return whether the machines on which an execution is covered are not the earlier ones."""
    return any(part.places != here for part, here in zip(execution.parts, places, strict=True))


def _by_reservation(entitlements: Iterable[Entitlement]) -> dict[str, Entitlement]:
    return {one.reservation: one for one in entitlements}


def _subtract(into: list[int], amounts: Iterable[int]) -> None:
    for kind, amount in enumerate(amounts):
        into[kind] -= amount


class SlotNeeds:
    """Follows the slots of reservations, and computes the capacity to keep on each machine.

    A component that runs elsewhere needs none: it is not moved while its capacity is not wanted.
    """

    def __init__(self, pool: MachinePool) -> None:
        self._pool = pool
        self._covers: dict[str, tuple[Cover, Cover]] = {}
        self._fresh: set[str] = set()
        self._idle: dict[str, frozenset[str]] = {}

    def note(self, reservation: str, now: Cover, soon: Cover) -> None:
        """Update the cover of a reservation, now and at the end of the grace period of stops."""
        self._idle.pop(reservation, None)
        if now.idle:
            self._idle[reservation] = now.idle
        self._covers.pop(reservation, None)
        if now.names_machines or soon.names_machines:
            self._covers[reservation] = (now, soon)
            self._fresh.add(reservation)

    def idle(self) -> list[int]:
        """Return the machines with slots that are not used now, and may be at any time."""
        names = set().union(*self._idle.values())
        return [number for name in names if (number := self._pool.number_of(name)) is not None]

    def reserve(self) -> dict[int, NDArray[np.int64]]:
        """Return the amounts to be kept free, by number of the machine.

        Only reservations that changed since the last call, or change soon, or needed something
        then, are checked.
        """
        now: dict[int, NDArray[np.int64]] = {}
        soon: dict[int, NDArray[np.int64]] = {}
        looked, self._fresh = self._fresh, set()
        for reservation in sorted(looked):
            present, later = self._covers.get(reservation, (NO_COVER, NO_COVER))
            needs = self._add(now, present) | self._add(soon, later)
            if later is not present:
                self._leave(soon, present, later)
            if needs or later is not present:
                self._fresh.add(reservation)
        kept = {number: np.maximum(amounts, 0) for number, amounts in now.items()}
        for number, amounts in soon.items():
            kept[number] = np.maximum(kept.get(number, np.zeros_like(amounts)), amounts)
        return {number: amounts for number, amounts in kept.items() if amounts.any()}

    def _add(self, into: dict[int, NDArray[np.int64]], cover: Cover) -> bool:
        """Add what is lacking; return whether anything is."""
        found = False
        for execution, machines in cover.places.items():
            for part, here in zip(execution.parts, machines, strict=True):
                for name, count in part.shortage_by_machine(here).items():
                    self._count(into, name, part, count)
                    found = True
        return found

    def _leave(self, into: dict[int, NDArray[np.int64]], present: Cover, later: Cover) -> None:
        """Subtract components that are covered now but not then: their capacity becomes free
        without a stop."""
        for execution, places in present.places.items():
            after = later.places_of(execution)
            for part, here, then in zip(execution.parts, places, after, strict=True):
                standing = [held.machine for held in part.held]
                for name, count in here.items():
                    if name is not None:
                        leaving = min(count, standing.count(name)) - then.get(name, 0)
                        if leaving > 0:
                            self._count(into, name, part, -leaving)

    def _count(
        self, into: dict[int, NDArray[np.int64]], name: str, part: ComponentGroup, count: int
    ) -> None:
        number = self._pool.number_of(name)
        if number is not None:
            here = into.setdefault(number, np.zeros(len(part.amounts), dtype=np.int64))
            here += count * np.array(part.amounts, dtype=np.int64)
