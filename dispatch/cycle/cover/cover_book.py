"""CoverBook: what entitlements cover now and soon, kept up to date, and the room they leave.

Steps 2 and 3 of a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dispatch.cycle.cover.cover import Counts, demand_of
from dispatch.cycle.cover.coverage import CoverReasons, cover_of
from dispatch.cycle.cover.slot_needs import SlotNeeds
from dispatch.entitlements.directive import Directive, Entitlement
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector


class CoverBook:
    """Writes `ComponentGroup.covered`; covers a reservation anew where something has changed.

    Attributes
    ----------
    counts
        What is covered now, by reservation.
    needs
        What slots need of their machines that does not stand there yet.
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
        """Cover the reservation of an execution anew at the next update."""
        if execution.application.reservation is not None:
            self._dirty.add(execution.application.reservation)

    def update(
        self, directive: Directive, waiting: Callable[[], Iterable[Execution]]
    ) -> tuple[list[Execution], list[Execution]]:
        """Follow a directive.

        Parameters
        ----------
        waiting
            Returns those without cover: after a commit their reservations may stand elsewhere.

        Returns
        -------
        looked, changed
            Executions of all reservations that were covered anew, and those whose cover changed.
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
        fellows = self._table.of_reservation(reservation)
        before = self.counts.pop(reservation, {})
        counts, places, idle = cover_of(now, fellows, self._pool)
        later, later_places = counts, places
        if soon is not now and soon != now:
            later, later_places, _ = cover_of(soon, fellows, self._pool, self._away_soon)
        changed: list[Execution] = []
        is_short = now is not None and any(not all(counts.get(one, (0,))) for one in fellows)
        reasons = CoverReasons(now, self._pool) if now is not None and is_short else None
        for execution in fellows:
            given = counts.get(execution)
            machines = None if places is None else places.get(execution)
            if given != before.get(execution) or _moves(execution, machines):
                changed.append(execution)
            uncovered = self._why_uncovered(reasons, execution, given)
            for place, part in enumerate(execution.parts):
                part.uncovered = uncovered[place] if uncovered else ""
                part.covered = 0 if given is None else given[place]
                part.places = None if machines is None else machines[place]
                if given is None and execution in before:
                    part.granted = 0  # extras above cover; the line grants anew
        self.needs.note(reservation, places, later_places, idle)
        self._sums.pop(reservation, None)
        self._soon.pop(reservation, None)
        if counts:
            self.counts[reservation] = counts
            self._sums[reservation] = self._sum_of(counts)
        if later is not counts:
            self._soon[reservation] = (self._sum_of(later), later)
        return changed

    def _why_uncovered(
        self,
        reasons: CoverReasons | None,
        execution: Execution,
        given: tuple[int, ...] | None,
    ) -> list[str]:
        """Return why no component of each group can be covered; nothing where all groups are."""
        if reasons is None or (given is not None and all(given)):
            return []
        atom = execution.application.atom
        return [
            "" if given is not None and given[place] else reasons.reason(atom, part.component)
            for place, part in enumerate(execution.parts)
        ]

    def _sum_of(self, counts: Counts) -> list[int]:
        total = [0] * len(self._pool.resources)
        for execution, given in counts.items():
            demand_of(execution.parts, given, total)
        return total

    def faults(self, pending: Iterable[Execution]) -> Iterator[str]:
        """Yield where cover differs from what the directive last followed gives anew.

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
            fellows = self._table.of_reservation(name)
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
        """Return what the entitlements leave: the least of now and of the end of the grace."""
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


def _named(counts: Counts) -> dict[str, tuple[int, ...]]:
    return {execution.id: given for execution, given in counts.items()}


def _moves(execution: Execution, places: tuple[dict[str, int], ...] | None) -> bool:
    """Return whether the machines on which an execution is covered are not those of before."""
    now = (None,) * len(execution.parts) if places is None else places
    return any(part.places != here for part, here in zip(execution.parts, now, strict=True))


def _by_reservation(entitlements: Iterable[Entitlement]) -> dict[str, Entitlement]:
    return {one.reservation: one for one in entitlements}


def _subtract(into: list[int], amounts: Iterable[int]) -> None:
    for kind, amount in enumerate(amounts):
        into[kind] -= amount
