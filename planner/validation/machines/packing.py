"""Whether bundles of packable reservations find machines beside the slots, at every step.

First fit decreasing, in two orders, shows most packings. Where it fails and few bundles are asked
for, a search over all ways to lay them decides; where many are, or the search grows too long, the
packing is in doubt. What is pooled asks for no machine. Only size and label count here: a spread
is kept by slots alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.validation.document import Held, PlanViolation
from planner.validation.machines.named_machines import NOWHERE, NamedMachines
from planner.validation.machines.packing_search import MachineState, can_pack
from planner.validation.slot_document import PACKABLE
from rdl.resources import Resources

Amounts = NDArray[np.int64]

#: Most bundles at one step that are laid in every way.
FEW_BUNDLES = 12


@dataclass(frozen=True, slots=True)
class PlanDoubt:
    """What could be shown neither right nor wrong.

    Attributes
    ----------
    where
        The account in doubt: ``machines``.
    rule
        ``packing``.
    detail
        One sentence with the numbers.
    at
        The first step.
    """

    where: str
    rule: str
    detail: str
    at: int


class _BundleKind(NamedTuple):
    bundle: Resources
    label: str | None


@dataclass(slots=True)
class _PackingChanges:
    """What changes at one step: bundles asked for, what slots hold, machines that are away."""

    demand: dict[_BundleKind, int]
    taken: list[tuple[int, Resources, int]]
    away: list[tuple[int, int]]


def packing_findings(
    held: Sequence[Held], machines: NamedMachines
) -> tuple[list[PlanViolation], list[PlanDoubt]]:
    """Return the stretches of steps without a packing, and those where none was found."""
    violations: list[PlanViolation] = []
    doubts: list[PlanDoubt] = []
    if not any(entry.promise == PACKABLE for entry in held):
        return violations, doubts
    for first, end, packs, bundles in _stretches(_PackingRoom(machines), _changes(held, machines)):
        if packs is None:
            detail = (
                f"not shown packable over steps [{first}, {end}): first fit decreasing fails, and "
                f"{bundles} bundles at step {first} are too many to try every way"
            )
            doubts.append(PlanDoubt("machines", "packing", detail, first))
        elif not packs:
            detail = (
                f"{bundles} bundles of packable reservations at step {first} have no packing "
                f"beside the slots; so over steps [{first}, {end})"
            )
            violations.append(PlanViolation("machines", "packing", detail, None, first, bundles))
    return violations, doubts


def _changes(held: Sequence[Held], machines: NamedMachines) -> dict[int, _PackingChanges]:
    found: dict[int, _PackingChanges] = {}

    def at(step: int) -> _PackingChanges:
        return found.setdefault(step, _PackingChanges({}, [], []))

    for entry in held:
        for atom in entry.atoms:
            if entry.promise == PACKABLE and atom.bundle:
                kind = _BundleKind(atom.bundle, atom.label)
                for start, end, bundles in atom.rows.tolist():
                    for step, change in ((start, bundles), (end, -bundles)):
                        demand = at(step).demand
                        demand[kind] = demand.get(kind, 0) + change
            elif atom.slots is not None:
                numbers = machines.numbers_of(atom).tolist()
                for row, number in zip(atom.slots.rows.tolist(), numbers, strict=True):
                    if number != NOWHERE:
                        at(row[0]).taken.append((number, atom.bundle, row[2]))
                        at(row[1]).taken.append((number, atom.bundle, -row[2]))
    for number, spans in machines.away.items():
        for start, end in spans:
            at(start).away.append((number, 1))
            at(end).away.append((number, -1))
    return found


def _stretches(
    room: _PackingRoom, changes: Mapping[int, _PackingChanges]
) -> Iterator[tuple[int, int, bool | None, int]]:
    """Yield (first step, step past the last, verdict, bundles at the first) of what is not shown.

    Neighbours of one verdict are one stretch.
    """
    open_at: tuple[int, bool | None, int] | None = None
    for step in sorted(changes):
        packs, bundles = room.after(changes[step])
        if open_at is not None and open_at[1] is not packs:
            yield open_at[0], step, open_at[1], open_at[2]
            open_at = None
        if packs is not True and open_at is None:
            open_at = step, packs, bundles


class _PackingRoom:
    """What is free on each machine, and asked of all, from one step of change to the next."""

    def __init__(self, machines: NamedMachines) -> None:
        self._groups = machines.groups
        names = sorted({name for group in machines.groups for name in group.resources})
        self._column = {name: i for i, name in enumerate(names)}
        self._group_numbers = machines.group_numbers()
        has = np.array([self._vector(group.resources) for group in machines.groups], np.int64)
        self._has = has.reshape(len(machines.groups), len(names))[self._group_numbers]
        self._used = np.zeros_like(self._has)
        self._away = np.zeros(machines.count, dtype=np.int64)
        self._demand: dict[_BundleKind, int] = {}
        self._carriers: dict[str | None, NDArray[np.bool_]] = {}
        # Machines with the fewest labels are filled first, as those with labels are asked for.
        labels = np.array([len(group.labels) for group in machines.groups], dtype=np.int64)
        self._order = np.argsort(labels[self._group_numbers], kind="stable")

    def after(self, changes: _PackingChanges) -> tuple[bool | None, int]:
        """Take what changes at a step; return whether all finds room now, and of how many bundles.

        None if that is not shown.
        """
        for kind, change in changes.demand.items():
            self._demand[kind] = self._demand.get(kind, 0) + change
            if not self._demand[kind]:
                del self._demand[kind]
        for number, bundle, bundles in changes.taken:
            self._used[number] += bundles * self._vector(bundle)
        for number, change in changes.away:
            self._away[number] += change
        bundles = sum(self._demand.values())
        return (self._packs(bundles) if bundles else True), bundles

    def _packs(self, bundles: int) -> bool | None:
        free = np.where(self._away[:, None] > 0, 0, np.maximum(0, self._has - self._used))
        if any(not self._has_all(kind.bundle) for kind in self._demand):
            return False
        if any(self._first_fit(free.copy(), key) for key in (self._by_size, self._by_label)):
            return True
        if bundles > FEW_BUNDLES:
            return None
        return can_pack(self._states(free), self._kinds_by_size())

    def _first_fit(self, free: Amounts, key: Callable[[_BundleKind], tuple[float, ...]]) -> bool:
        """Lay kind after kind, the first in the order of `key` first, machine by machine."""
        for kind in sorted(self._demand, key=key):
            machines = self._order[self._label_mask(kind.label)[self._order]]
            amounts = self._vector(kind.bundle)
            asked = amounts > 0
            most = (free[machines][:, asked] // amounts[asked]).min(axis=1)
            before = np.cumsum(most) - most
            laid = np.clip(self._demand[kind] - before, 0, most)
            if laid.sum() < self._demand[kind]:
                return False
            free[machines] -= laid[:, None] * amounts
        return True

    def _by_size(self, kind: _BundleKind) -> tuple[float, ...]:
        return (-self._share(kind), float(self._label_mask(kind.label).sum()))

    def _by_label(self, kind: _BundleKind) -> tuple[float, ...]:
        return (float(self._label_mask(kind.label).sum()), -self._share(kind))

    def _share(self, kind: _BundleKind) -> float:
        """Return the largest part of the greatest machine that a bundle takes of any resource."""
        return float((self._vector(kind.bundle) / np.maximum(1, self._has.max(axis=0))).max())

    def _groups_with(self, label: str | None) -> frozenset[int]:
        return frozenset(
            g for g, group in enumerate(self._groups) if label is None or label in group.labels
        )

    def _label_mask(self, label: str | None) -> NDArray[np.bool_]:
        """Return bool[machines]: whether each carries a label."""
        if label not in self._carriers:
            carries = np.isin(self._group_numbers, sorted(self._groups_with(label)))
            self._carriers[label] = carries
        return self._carriers[label]

    def _states(self, free: Amounts) -> list[MachineState]:
        return [
            MachineState(int(group), tuple(row))
            for group, row in zip(self._group_numbers, free.tolist(), strict=True)
            if any(row)
        ]

    def _kinds_by_size(self) -> list[tuple[tuple[int, ...], frozenset[int], int]]:
        """Return (amounts, groups it may lie in, how many) of each kind, the largest first."""
        return [
            (
                tuple(self._vector(kind.bundle).tolist()),
                self._groups_with(kind.label),
                self._demand[kind],
            )
            for kind in sorted(self._demand, key=self._by_size)
        ]

    def _has_all(self, bundle: Resources) -> bool:
        return all(name in self._column for name in bundle)

    def _vector(self, amounts: Mapping[str, int]) -> Amounts:
        known = [amounts.get(name, 0) for name in self._column]
        return np.array(known, dtype=np.int64)
