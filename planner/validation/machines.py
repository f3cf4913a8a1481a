"""The machines of a cluster by name and number, and slots against their capacity."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, MachineGroup
from planner.validation.capacity import away_steps, merged_spans
from planner.validation.document import Held, HeldAtom, PlanViolation
from rdl.time_grid import TimeGrid

Changes = NDArray[np.int64]

#: Number for no machine: of a slot without a machine, or of an unknown name.
NOWHERE = -1


def room_violations(held: Sequence[Held], machines: NamedMachines) -> list[PlanViolation]:
    """Return where slots exceed a machine's capacity, which is 0 while it is down.

    Each interval of excess is reported once, with its worst step.
    """
    changes = _changes_by_resource(held, machines)
    return [
        violation
        for resource in sorted(changes)
        for violation in _excesses(resource, np.concatenate(changes[resource]), machines)
    ]


def _changes_by_resource(held: Sequence[Held], machines: NamedMachines) -> dict[str, list[Changes]]:
    """Return int64[n, 3] parts by resource: (machine, step, change of the use)."""
    found: dict[str, list[Changes]] = {}
    for entry in held:
        for atom in entry.atoms:
            if atom.slots is None or not len(atom.slots.rows):
                continue
            numbers = machines.numbers_of(atom)
            rows, numbers = atom.slots.rows[numbers >= 0], numbers[numbers >= 0]
            begins = np.stack([numbers, rows[:, 0], rows[:, 2]], axis=1)
            ends = np.stack([numbers, rows[:, 1], -rows[:, 2]], axis=1)
            both = np.concatenate([begins, ends])
            for resource, amount in atom.bundle.items():
                if amount:
                    found.setdefault(resource, []).append(both * np.array([1, 1, amount]))
    return found


def _excesses(resource: str, changes: Changes, machines: NamedMachines) -> Iterator[PlanViolation]:
    """Yield each interval in which the use of a resource exceeds a machine's capacity."""
    changes = changes[np.lexsort((changes[:, 1], changes[:, 0]))]
    cuts = np.flatnonzero(np.diff(changes[:, 0])) + 1
    for part in np.split(changes, cuts) if len(changes) else ():
        number = int(part[0, 0])
        has, left = machines.amounts(number, resource)
        levels = np.cumsum(part[:, 2])
        away = machines.away.get(number, [])
        if levels.max() > left or away:
            there = has, left, machines.now
            yield from _stretches(resource, number, _segments(part, there, away), machines)


def _segments(
    part: Changes, there: tuple[int, int, int], away: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, end, used, capacity) of each interval in which neither changes.

    Parameters
    ----------
    there
        What the machine has before a step, and from it on, and the step.
    """
    has, left, now = there
    held: dict[int, int] = {}
    for _, step, change in part.tolist():
        held[step] = held.get(step, 0) + change
    first, last = min(held), max(held)
    changes = (now, *(step for span in away for step in span))
    marks = {*held, *(step for step in changes if first < step < last)}
    level = 0
    for start, end in pairwise(sorted(marks)):
        level += held.get(start, 0)
        lost = any(begin <= start < finish for begin, finish in away)
        yield start, end, level, 0 if lost else has if start < now else left


def _stretches(
    resource: str,
    number: int,
    segments: Iterator[tuple[int, int, int, int]],
    machines: NamedMachines,
) -> Iterator[PlanViolation]:
    """Join adjacent segments of excess and report each with its worst step."""
    runs: list[list[tuple[int, int, int, int]]] = []
    for segment in segments:
        if segment[2] <= segment[3]:
            continue
        if runs and runs[-1][-1][1] == segment[0]:
            runs[-1].append(segment)
        else:
            runs.append([segment])
    where = f"machine:{machines.name_of(number)}"
    for run in runs:
        step, _, held, there = max(run, key=lambda one: one[2] - one[3])
        why = ", for it is away" if machines.is_away(number, step) else ""
        detail = (
            f"{held} of {resource} at step {step}, {held - there} above {there}{why}; "
            f"exceeded over steps [{run[0][0]}, {run[-1][1]})"
        )
        yield PlanViolation(where, "capacity", detail, None, step, held, there)


class NamedMachines:
    """Machines numbered consecutively over all groups, with the steps at which each is down.

    Attributes
    ----------
    now
        The current step: machines of slots that ended by then may have left the cluster.
    """

    def __init__(self, cluster: Cluster, grid: TimeGrid, now: int = 0) -> None:
        self.now = now
        self.groups = cluster.machines
        self.horizon = grid.horizon
        counts = [group.count for group in self.groups]
        self._first = [0, *accumulate(counts)]
        self._by_name = {group.name: i for i, group in enumerate(self.groups)}
        lost: dict[int, list[tuple[int, int]]] = {}
        for outage, start, end in away_steps(cluster, grid):
            if outage.machines not in self._by_name:
                continue  # units of a pool
            first = self._first[self._by_name[outage.machines]]
            for index in outage.indices:
                lost.setdefault(first + index, []).append((max(0, start), end))
        self._taken = dict(cluster.taken)
        self.away = {number: merged_spans(spans) for number, spans in lost.items()}

    @property
    def count(self) -> int:
        """Number of machines."""
        return self._first[-1]

    def number_of(self, name: str | None) -> int:
        """Return the number of a machine such as ``wide-3``; `NOWHERE` if there is none."""
        group, _, index = (name or "").rpartition("-")
        at = self._by_name.get(group)
        if at is None or not index.isascii() or not index.isdecimal() or len(index) > 9:
            return NOWHERE
        known = str(int(index)) == index and int(index) < self.groups[at].count
        return self._first[at] + int(index) if known else NOWHERE

    def numbers_of(self, atom: HeldAtom) -> NDArray[np.int64]:
        """Return int64[k]: the machine of each slot of an atom."""
        names = () if atom.slots is None else atom.slots.machines
        return np.array([self.number_of(name) for name in names], dtype=np.int64)

    def name_of(self, number: int) -> str:
        """Return the name of a machine."""
        at = self.group_number(number)
        return f"{self.groups[at].name}-{number - self._first[at]}"

    def group_number(self, number: int) -> int:
        """Return the number of a machine's group."""
        return bisect_right(self._first, number) - 1

    def group_of(self, number: int) -> MachineGroup:
        """Return the group of a machine."""
        return self.groups[self.group_number(number)]

    def amounts(self, number: int, resource: str) -> tuple[int, int]:
        """Return how much of a resource a machine has before now, and from now on."""
        has = self.group_of(number).resources.get(resource, 0)
        taken = self._taken.get(self.name_of(number)) if self._taken else None
        return has, has - (0 if taken is None else taken.get(resource, 0))

    def is_away(self, number: int, step: int) -> bool:
        """Return whether a machine is down in a step."""
        return any(start <= step < end for start, end in self.away.get(number, ()))
