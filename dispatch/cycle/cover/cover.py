"""What an entitlement covers of the executions that name its reservation (step 2 of a cycle).

Cores of all executions come before all elastic components, both by submission. When an
entitlement shrinks, elastic components therefore lose cover before cores, and the newest
execution's before the others'.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dispatch.entitlements.directive import Entitlement
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.machines.machine_pool import MachinePool

#: How many components of each group are covered, by execution; one without any is left out.
Counts = dict[Execution, tuple[int, ...]]


def covered_counts(
    entitlement: Entitlement, executions: Sequence[Execution], pool: MachinePool
) -> Counts:
    """Return what `entitlement` covers of `executions`, which are in order of submission.

    An execution that names an atom draws on that atom's share alone; the others on what is left
    of the whole. It is covered when all its cores fit; elastic components that do not fit are
    skipped.
    """
    left = TotalRoom(entitlement, pool)
    covered: dict[Execution, list[int]] = {}
    for execution in executions:
        atom = execution.application.atom
        if left.fits(execution.core, atom):
            left.take(execution.core, 1, atom)
            covered[execution] = [
                part.component.count if part.component.core else 0 for part in execution.parts
            ]
    for execution, counts in covered.items():
        atom = execution.application.atom
        for place, part in enumerate(execution.parts):
            if not part.component.core:
                counts[place] = left.count_room(part.amounts, part.wanted, atom)
                left.take(part.amounts, counts[place], atom)
    return {execution: tuple(counts) for execution, counts in covered.items()}


def demand_of(
    parts: Iterable[ComponentGroup], counts: Sequence[int], into: list[int], sign: int = 1
) -> None:
    """Add what `counts` components of each part take to `into`."""
    for part, count in zip(parts, counts, strict=True):
        if count:
            for kind, amount in enumerate(part.amounts):
                into[kind] += sign * count * amount


def names_atom(path: str, atom: str) -> bool:
    """Return whether `atom` means the atom at `path`: its path, with or without occurrences."""
    return path == atom or without_occurrences(path) == atom


def without_occurrences(path: str) -> str:
    """Return a path without its ``@k``."""
    return ".".join(step.partition("@")[0] for step in path.split("."))


class TotalRoom:
    """What is left of an entitlement, whole and atom by atom."""

    def __init__(self, entitlement: Entitlement, pool: MachinePool) -> None:
        self._pool = pool
        self._entitlement = entitlement
        self._whole = list(pool.vector(entitlement.total()))
        self._by_atom: dict[str, list[int]] = {}

    def _of(self, atom: str) -> list[int]:
        if atom not in self._by_atom:
            mine = [0] * len(self._whole)
            for share in self._entitlement.atoms:
                if names_atom(share.path, atom):
                    for kind, amount in enumerate(self._pool.vector(share.amounts)):
                        mine[kind] += amount
            self._by_atom[atom] = mine
        return self._by_atom[atom]

    def count(self, part: ComponentGroup, wanted: int, atom: str | None) -> int:
        """Return how many of `wanted` components of a group fit."""
        return self.count_room(part.amounts, wanted, atom)

    def count_room(self, amounts: Sequence[int], wanted: int, atom: str | None) -> int:
        """Return how many of `wanted` equal components fit."""
        found = wanted
        rooms = [self._whole] if atom is None else [self._whole, self._of(atom)]
        for room in rooms:
            for amount, there in zip(amounts, room, strict=True):
                if amount:
                    found = min(found, there // amount)
        return max(found, 0)

    def fits(self, amounts: Sequence[int], atom: str | None) -> bool:
        """Return whether amounts fit."""
        return self.count_room(amounts, 1, atom) == 1

    def take(self, amounts: Sequence[int], count: int, atom: str | None) -> None:
        """Take `count` times the amounts."""
        rooms = [self._whole] if atom is None else [self._whole, self._of(atom)]
        for room in rooms:
            for kind, amount in enumerate(amounts):
                room[kind] -= count * amount
