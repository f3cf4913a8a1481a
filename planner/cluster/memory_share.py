"""The memory of bundles that name none: the share of a machine for their cores.

A promise of cores only covers no application that names memory, and nearly all do. A server
therefore adds memory to such bundles when a request is submitted, so that the Plan, its validator
and the dispatcher all count it (`promises.memory_per_cpu` of the cluster file).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from rdl.expressions import Atom, Expression, atoms_of, map_atoms
from rdl.resources import CPU, MEMORY, Resources, format_amount

#: Millicores of one core.
_CORE: Final = 1000

#: Most bundles whose share is cached.
_MOST_KNOWN: Final = 10_000

#: Resources of one machine, and its labels.
Machine: TypeAlias = tuple[Resources, frozenset[str]]


class MemoryShares:
    """The memory that bundles of cores get on the machines of one cluster.

    Parameters
    ----------
    machines
        One of each kind.
    per_cpu
        MiB per core, at most the memory of the largest machine that could hold the bundle. None:
        the least memory per core of the machines that could hold the bundle, so no machine holds
        fewer bundles with the memory than without.

    Nothing is added if one of the machines that could hold the bundle has no memory.
    """

    def __init__(self, machines: Iterable[Machine], per_cpu: int | None) -> None:
        self._per_cpu = per_cpu
        self._machines = set(machines)
        self._known: dict[tuple[Resources, str | None], int] = {}

    def share(self, bundle: Resources, label: str | None) -> int:
        """Return the memory in MiB that is added to a bundle; 0 if it gets none."""
        cpu, key = bundle.get(CPU, 0), (bundle, label)
        known = self._known.get(key)
        if known is None and (not cpu or MEMORY in bundle or self._per_cpu == 0):
            return 0
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self._share(cpu, self._machines_for(bundle, label))
        return known

    def _share(self, cpu: int, machines: Iterable[Resources]) -> int:
        there = [(one[CPU], one.get(MEMORY, 0)) for one in machines]
        if not all(memory for _, memory in there):
            return 0
        if self._per_cpu is None:
            return min((cpu * memory // cores for cores, memory in there), default=0)
        largest = max((memory for _, memory in there), default=0)
        return min(cpu * self._per_cpu // _CORE, largest)

    def _machines_for(self, bundle: Resources, label: str | None) -> Iterator[Resources]:
        for machine, labels in self._machines:
            has_label = label is None or label in labels
            if has_label and all(machine.get(name, 0) >= amount for name, amount in bundle.items()):
                yield machine

    def keeping(self, written: Expression, planned: Expression) -> MemoryShares:
        """Return shares that give the bundles of a request the same memory as in an earlier one.

        Parameters
        ----------
        written, planned
            The earlier request as written, and with its added memory.
        """
        kept = MemoryShares(self._machines, self._per_cpu)
        for before, after in zip(atoms_of(written), atoms_of(planned), strict=True):
            if MEMORY not in before.bundle:
                kept._known[before.bundle, before.on] = after.bundle.get(MEMORY, 0)
        return kept

    def complete(self, expression: Expression) -> Expression:
        """Return the request with memory in each bundle that gets some; unchanged if none does."""
        if not any(self.share(atom.bundle, atom.on) for atom in atoms_of(expression)):
            return expression
        return map_atoms(expression, self._completed)

    def _completed(self, atom: Atom) -> Atom:
        memory = self.share(atom.bundle, atom.on)
        if not memory:
            return atom
        return replace(atom, bundle=Resources.of({**atom.bundle, MEMORY: memory}))

    def notes(self, expression: Expression) -> tuple[str, ...]:
        """Return a sentence for each distinct bundle of a request that gets memory."""
        found = (
            f"<{atom.bundle}> names no memory: each gets {format_amount(MEMORY, memory)}, "
            "the cluster's share for its cores"
            for atom in atoms_of(expression)
            if (memory := self.share(atom.bundle, atom.on))
        )
        return tuple(dict.fromkeys(found))
