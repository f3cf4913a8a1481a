"""Check slots against the capacity of each machine, with sums of differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from planner.validation.document import Held, PlanViolation
from planner.validation.machines.named_machines import NamedMachines

Changes = NDArray[np.int64]


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
        has = machines.group_of(number).resources.get(resource, 0)
        levels = np.cumsum(part[:, 2])
        away = machines.away.get(number, [])
        if levels.max() > has or away:
            yield from _stretches(resource, number, _segments(part, has, away), machines)


def _segments(
    part: Changes, has: int, away: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (start, end, used, capacity) of each interval in which neither changes."""
    held: dict[int, int] = {}
    for _, step, change in part.tolist():
        held[step] = held.get(step, 0) + change
    first, last = min(held), max(held)
    marks = {*held, *(step for span in away for step in span if first < step < last)}
    level = 0
    for start, end in pairwise(sorted(marks)):
        level += held.get(start, 0)
        lost = any(begin <= start < finish for begin, finish in away)
        yield start, end, level, 0 if lost else has


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
