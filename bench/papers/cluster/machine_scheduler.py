"""The core/elastic algorithm over machines: a component starts only where one machine holds it.

It differs from the algorithm over totals in that alone. Cores stay on their machines. Elastic
components of the flexible rule are placed again at every event, in the order of service, as Zoe's
virtual assignment is; moving one costs nothing, which favours it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bench.papers.cluster.machine_fit import Fit, Longs, place_all, place_some
from bench.papers.cluster.plain_elastic import PlainElastic, PlainEntry
from dispatch.pool.claims import Claim, ClaimPart, GrantRule
from dispatch.pool.ordering import Ordering, Rule, Size


class MachineRoom:
    """The machines of one cluster, all identical, and what claims hold of each.

    Parameters
    ----------
    machine
        What one machine has, by resource.
    machines
        How many there are.
    fit
        Which machine takes a component.
    """

    def __init__(self, machine: Mapping[str, int], machines: int, fit: Fit) -> None:
        self.resources: tuple[str, ...] = tuple(sorted(machine))
        self._whole = np.array([machine[kind] for kind in self.resources], dtype=np.int64)
        self._empty = np.tile(self._whole, (machines, 1))
        self._free = self._empty.copy()  # alongside cores, and grants that are kept
        self._held = np.zeros(len(self._whole), dtype=np.int64)  # by grants that are not
        self._cores: dict[PlainEntry, Longs] = {}
        self._kept: dict[PlainEntry, Longs] = {}
        self._fit = int(fit)

    def totals(self) -> Sequence[int]:
        """Return what all machines have."""
        found: list[int] = self._empty.sum(axis=0).tolist()
        return found

    def can_hold(self, parts: Sequence[ClaimPart]) -> bool:
        """Return whether all components of some parts find capacity on machines that are empty."""
        return self._place(parts, self._empty.copy()) is not None

    def enter(self, entry: PlainEntry, serving: Sequence[PlainEntry], *, grants: bool) -> bool:
        """Place the cores of a claim alongside what stays where it is, if they fit."""
        free = self._free.copy()
        taken = self._place(entry.claim.core, free)
        if taken is None:
            return False
        self._free, self._cores[entry] = free, taken
        return True

    def leave(self, entry: PlainEntry) -> None:
        """Take back what a claim has."""
        self._free += self._cores.pop(entry)
        if entry in self._kept:
            self._free += self._kept.pop(entry)

    def shrink(self, serving: Sequence[PlainEntry]) -> None:
        """Do nothing: machines stay as they are, so what is kept fits."""

    def grow(self, entry: PlainEntry, serving: Sequence[PlainEntry]) -> None:
        """Grant a claim all that fits, which it keeps."""
        kept = self._kept.setdefault(entry, np.zeros_like(self._free))
        for index, part in enumerate(entry.elastic):
            more = part.count - entry.granted[index]
            if more:
                amounts = np.array(part.amounts, dtype=np.int64)
                entry.granted[index] += place_some(
                    self._free, self._whole, amounts, more, self._fit, kept
                )

    def regrant(self, serving: Sequence[PlainEntry]) -> None:
        """Place elastic components again, in the order of service."""
        groups = [part for one in serving for part in one.elastic]
        self._held[:] = 0
        if not groups:
            return
        amounts = np.array([part.amounts for part in groups], dtype=np.int64)
        counts = np.array([part.count for part in groups], dtype=np.int64)
        placed = np.zeros_like(counts)
        place_all(self._free.copy(), self._whole, amounts, counts, self._fit, placed)
        self._held[:] = placed @ amounts
        given = iter(placed.tolist())
        for one in serving:
            one.granted = [next(given) for _ in one.elastic]

    def free(self, serving: Sequence[PlainEntry]) -> list[int]:
        """Return what no component holds, on all machines together."""
        found: list[int] = (self._free.sum(axis=0) - self._held).tolist()
        return found

    def _place(self, parts: Sequence[ClaimPart], free: Longs) -> Longs | None:
        """Return what all components of some parts take of each machine; None if they do not fit.

        What is placed is taken from `free`.
        """
        taken = np.zeros_like(free)
        for part in parts:
            amounts = np.array(part.amounts, dtype=np.int64)
            if place_some(free, self._whole, amounts, part.count, self._fit, taken) < part.count:
                return None
        return taken


class MachineScheduler(PlainElastic):
    """The core/elastic algorithm over the machines of one cluster.

    Parameters
    ----------
    machine
        What one machine has, by resource. Claims list amounts in its (sorted) order.
    machines
        How many there are, all identical.
    ordering
        First come or least size first, by run time; none whose keys change.
    allocation
        `GrantRule.FLEXIBLE`, or `GrantRule.MALLEABLE` without preemption.
    fit
        Which machine takes a component.

    Raises
    ------
    ValueError
        For an ordering or a rule that is none of those.
    """

    def __init__(
        self,
        machine: Mapping[str, int],
        machines: int,
        ordering: Ordering,
        allocation: GrantRule = GrantRule.FLEXIBLE,
        fit: Fit = Fit.WORST,
    ) -> None:
        static = ordering.rule is Rule.STATIC and ordering.size is Size.ONE
        if not static or ordering.backfill:
            raise ValueError(f"on machines there is no order {ordering.name}; use fifo or sjf")
        if allocation is GrantRule.GROW_ONLY or (
            allocation is GrantRule.MALLEABLE and ordering.preemptive
        ):
            raise ValueError(
                "on machines elastic components are flexible, or malleable without preemption"
            )
        self._machines = MachineRoom(machine, machines, fit)
        super().__init__(self._machines, ordering, allocation)

    def can_ever_fit(self, claim: Claim) -> bool:
        """Return whether the cores find free capacity on machines that are empty."""
        return self._machines.can_hold(claim.core)
