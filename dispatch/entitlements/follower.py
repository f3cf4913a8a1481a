"""PlanFollower: the Plan at an instant, as the dispatcher reads it (Rayon, section 5.2).

Its result depends only on the Plan, the instant and the dispatch table. The state between calls is
a cache: a missed tick or a restart does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from dispatch.entitlements.directive import AtomShare, Directive, Entitlement, Standings
from dispatch.entitlements.slots import ActiveSlot, SlotRows, SlotsAhead, slots_of_holding
from dispatch.entitlements.start_delay import NO_DELAY, StartDelayTable
from lp.lotes.dispatch_table import DispatchTable
from planner.cluster.cluster import SPARE, Cluster
from planner.plan.plan import Plan
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from rdl.resources import Resources

#: Largest number of instants of a reservation that are read ahead.
MOST_AHEAD: Final = 1_000

#: How long before an entitlement grows the stops for it begin (dispatch.md, step 3).
STOP_GRACE_MS = 5_000


class TableSource(Protocol):
    """Source of the dispatch table."""

    def table_at(self, plan: Plan, now_ms: int) -> tuple[DispatchTable | None, int]:
        """Return the table for an instant and its version, 0 if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _Followed:
    """The slots of one reservation, with a key that says whether they are current."""

    key: tuple[int, int, int]
    atoms: tuple[tuple[str, Resources, str | None], ...]
    slots: SlotRows


class PlanFollower:
    """Computes each reservation's entitlement at every tick and immediately after a commit.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    tables
        Source of the dispatch table; None for no table.
    stop_grace_ms
        Range of `Directive.soon`.
    delays
        Start delays of components, by size; an entitlement begins that much earlier if the others
        leave free capacity (Rayon 5.2). May be replaced between two calls.
    """

    def __init__(
        self,
        plan: Plan,
        tables: TableSource | None = None,
        stop_grace_ms: int = STOP_GRACE_MS,
        delays: StartDelayTable = NO_DELAY,
    ) -> None:
        self.plan = plan
        self.delays = delays
        self._tables = tables
        self._grace_ms = stop_grace_ms
        self._followed: dict[int, _Followed] = {}
        self._present: dict[int, tuple[int, int, Entitlement | None]] = {}
        self._version = -1
        self._at_step: dict[int, tuple[Entitlement, ...]] = {}
        self._finish = np.zeros(0, dtype=np.int32)
        self._ahead: SlotsAhead | None = None
        self._table = plan.table
        self._machines = plan.table.machines

    def follow(self, now_ms: int) -> Directive:
        """Return the directive of the Plan at `now_ms`, in ms from the origin."""
        plan, step_ms = self.plan, self.plan.grid.step_ms
        step, soon_step = now_ms // step_ms, (now_ms + self._grace_ms) // step_ms
        if plan.version != self._version:
            self._read_version(step)
        planned = self._entitlements_at(step)
        later = planned if soon_step == step else self._entitlements_at(soon_step)
        self._at_step = {step: planned, soon_step: later}
        away = self._away(now_ms)
        here, soon = planned, later
        if self.delays.delays_ms:
            here = self._with_early_starts(planned, step, away)
            soon = here if soon_step == step else self._with_early_starts(later, soon_step, away)
        active = frozenset(one.reservation for one in here)
        table, table_version = (None, 0)
        if self._tables is not None:
            table, table_version = self._tables.table_at(plan, now_ms)
        return Directive(
            plan_version=plan.version,
            at_ms=now_ms,
            entitlements=here,
            planned=planned,
            soon=soon,
            standings=Standings(plan.table.number_of, self._finish, step, active),
            away=away,
            away_soon=self._away(now_ms + self._grace_ms),
            dispatch_table=table,
            table_version=table_version,
            ahead=None if self._ahead is None else self._ahead.at(step),
        )

    def ahead(self, reservation: str) -> Iterator[tuple[int, Entitlement]]:
        """Yield the different entitlements of a reservation from now on, each with its first step.

        For a reservation that has lost machines, and that the Plan may move, amounts count but not
        machines. If a reservation changes very often, only the first thousand instants are
        read.
        """
        number = self.plan.table.number_of(reservation)
        if number is not None:
            placed = self.plan.table.state(number) is not State.DEGRADED
            yield from self._different(number, self.plan.now, None, placed=placed)

    def during(self, number: int, start: int, end: int) -> Iterator[Entitlement]:
        """Yield the different entitlements of a reservation in steps [start, end)."""
        for _, found in self._different(number, start, end, placed=True):
            yield found

    def _different(
        self, number: int, start: int, end: int | None, *, placed: bool
    ) -> Iterator[tuple[int, Entitlement]]:
        followed = self._follow_rows(number)
        marks = followed.slots.marks()
        within = marks > start if end is None else (marks > start) & (marks < end)
        steps = np.unique(np.concatenate([[start], marks[within]]))
        known: set[tuple[AtomShare, ...]] = set()
        for step in steps[:MOST_AHEAD].tolist():
            found = self._entitlement(number, step)
            if found is None:
                continue
            atoms = tuple(_timeless(share, placed=placed) for share in found.atoms)
            if atoms not in known:
                known.add(atoms)
                yield step, replace(found, atoms=atoms)

    def _read_version(self, step: int) -> None:
        """Read the data of all reservations that a new version may have changed."""
        table = self.plan.table
        self._version, self._at_step = self.plan.version, {}
        self._finish = table.meta["finish"].copy()
        self._finish.flags.writeable = False
        if table.machines is not self._machines or table is not self._table:
            # Machine numbers or reservation numbers have changed.
            self._machines, self._table = table.machines, table
            self._followed, self._present = {}, {}
        slots, owner = table.slots_after(step)
        names = tuple(self._machines)
        ahead = SlotsAhead(slots, owner, names, step, table.number_of) if len(slots) else None
        self._ahead = ahead

    def _with_early_starts(
        self, planned: tuple[Entitlement, ...], step: int, away: frozenset[str]
    ) -> tuple[Entitlement, ...]:
        """Return entitlements including those that begin within a start delay, as far as they fit.

        They must fit in the capacity that the machines that are up have beyond all planned
        entitlements, so that no promise is anticipated at the cost of another.
        """
        room = EarlyRoom(self.plan.cluster, away, planned)
        longest = -(-max(self.delays.delays_ms.values()) // self.plan.grid.step_ms)
        meta = self.plan.table.meta
        near = np.flatnonzero((meta["begin"] <= step + longest) & (step < meta["finish"]))
        found = {one.number: one for one in planned}
        for number in near.tolist():
            followed = self._follow_rows(number)
            leads = self._leads(followed.atoms)
            planned_here = found.get(number)
            shares = _with_early(planned_here, followed.slots, followed.atoms, step, leads, room)
            if shares:
                table = self.plan.table
                tenant = table.scope(number)[0]
                found[number] = Entitlement(table.id_of(number), tenant, number, shares)
        return tuple(found[number] for number in sorted(found))

    def _leads(self, atoms: tuple[tuple[str, Resources, str | None], ...]) -> list[int]:
        """Return how many steps early each atom should begin."""
        step_ms = self.plan.grid.step_ms
        return [-(-self.delays.delay_ms(bundle) // step_ms) for _, bundle, _ in atoms]

    def _away(self, at_ms: int) -> frozenset[str]:
        return frozenset(
            f"{outage.machines}-{index}"
            for outage in self.plan.cluster.outages_at(at_ms)
            if outage.kind != SPARE
            for index in outage.indices
        )

    def _entitlements_at(self, step: int) -> tuple[Entitlement, ...]:
        """Return the entitlements at a step, in order of acceptance."""
        known = self._at_step.get(step)
        if known is not None:
            return known
        meta = self.plan.table.meta
        held = np.flatnonzero((meta["begin"] <= step) & (step < meta["finish"]))
        found = tuple(
            one for number in held.tolist() if (one := self._entitlement(number, step)) is not None
        )
        if len(self._followed) > 2 * len(held) + 64:
            present = set(held.tolist())
            self._followed = {n: one for n, one in self._followed.items() if n in present}
            self._present = {n: one for n, one in self._present.items() if n in present}
        return found

    def _entitlement(self, number: int, step: int) -> Entitlement | None:
        """Return the same object as before while nothing changes for this reservation."""
        followed = self._follow_rows(number)
        first, until, entitlement = self._present.get(number, (0, 0, None))
        if first <= step < until:
            return entitlement
        marks = followed.slots.marks()
        later = marks[marks > step]
        earlier = marks[marks <= step]
        entitlement = self._shares(number, followed, step)
        self._present[number] = (
            int(earlier.max()) if earlier.size else step,
            int(later.min()) if later.size else step + 1,
            entitlement,
        )
        return entitlement

    def _shares(self, number: int, followed: _Followed, step: int) -> Entitlement | None:
        shares = tuple(
            AtomShare(path, sum(slot.bundles for slot in slots), bundle, label, slots)
            for atom, slots in followed.slots.at(step).items()
            for path, bundle, label in (followed.atoms[atom],)
        )
        if not shares:
            return None
        table = self.plan.table
        return Entitlement(table.id_of(number), table.scope(number)[0], number, shares)

    def _follow_rows(self, number: int) -> _Followed:
        """Return the slots of a reservation, read again only if they have changed."""
        table = self.plan.table
        meta = table.meta[number]
        key = (int(meta["revision"]), int(meta["atom"]), int(meta["finish"]))
        known = self._followed.get(number)
        if known is not None and known.key == key:
            return known
        followed = _rows_of(key, table.holding(number), table.machines)
        self._followed[number] = followed
        self._present.pop(number, None)
        return followed


def _timeless(share: AtomShare, *, placed: bool) -> AtomShare:
    """Return a share without the times of its slots; without machines if it is not placed."""
    if not placed:
        return replace(share, slots=(ActiveSlot(None, share.bundles, 0, 1),))
    return replace(share, slots=tuple(one._replace(start=0, end=1) for one in share.slots))


def _rows_of(key: tuple[int, int, int], holding: Holding, machines: Sequence[str]) -> _Followed:
    atoms = tuple(
        (path, atom.bundle, atom.label)
        for atom in holding.atoms
        for path, rows in atom.occurrences()
        if len(rows)
    )
    return _Followed(key, atoms, slots_of_holding(holding, machines))


# A slot begins early on its own machine if that machine has capacity next to all current slots; all
# early bundles fit next to all entitlements.


class EarlyRoom:
    """Capacity that the entitlements of an instant leave free, per machine and in total.

    Parameters
    ----------
    cluster
        The machines.
    away
        Machines that are not up.
    planned
        Entitlements that take the capacity.
    """

    def __init__(
        self, cluster: Cluster, away: frozenset[str], planned: Sequence[Entitlement]
    ) -> None:
        self._machines = {
            name: dict(cluster.left.get(name, group.resources))
            for group in cluster.machines
            for name in group.machine_names()
            if name not in away
        }
        self._total: dict[str, int] = {}
        for amounts in self._machines.values():
            _add(self._total, amounts, 1)
        for entitlement in planned:
            for share in entitlement.atoms:
                for slot in share.slots:
                    self._take(slot, share.bundle)

    def take_fitting(self, slot: ActiveSlot, bundle: Resources) -> ActiveSlot | None:
        """Take as many bundles of a slot as fit, and return them; None if none does."""
        rooms = [self._total]
        if slot.machine is not None:
            rooms.append(self._machines.get(slot.machine, {}))
        fits = min(
            (room.get(kind, 0) // n for room in rooms for kind, n in bundle.items()), default=0
        )
        count = min(slot.bundles, fits)
        if count <= 0:
            return None
        found = slot._replace(bundles=count)
        self._take(found, bundle)
        return found

    def _take(self, slot: ActiveSlot, bundle: Resources) -> None:
        _add(self._total, bundle, -slot.bundles)
        if slot.machine in self._machines:
            _add(self._machines[slot.machine], bundle, -slot.bundles)


def _add(into: dict[str, int], amounts: Mapping[str, int], count: int) -> None:
    for kind, amount in amounts.items():
        into[kind] = into.get(kind, 0) + count * amount


def _with_early(
    planned: Entitlement | None,
    rows: SlotRows,
    atoms: Sequence[tuple[str, Resources, str | None]],
    step: int,
    leads: Sequence[int],
    room: EarlyRoom,
) -> tuple[AtomShare, ...]:
    """Return the shares of a reservation with the slots that begin within each atom's lead.

    Only as much as fits in `room` is added, and subtracted from it. Empty if nothing is early.
    """
    shares = {} if planned is None else {share.path: share for share in planned.atoms}
    added = False
    for (path, bundle, label), early in zip(atoms, rows.rises(step, leads), strict=True):
        for slot in early:
            found = room.take_fitting(slot, bundle)
            if found is not None:
                known = shares.get(path, AtomShare(path, 0, bundle, label, ()))
                slots = (*known.slots, found)
                shares[path] = AtomShare(path, known.bundles + found.bundles, bundle, label, slots)
                added = True
    return tuple(shares.values()) if added else ()
