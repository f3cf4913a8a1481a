"""The core/elastic algorithm over machines: a component starts only where one machine holds it.

It differs from `dispatch.pool.scheduler.ElasticScheduler` in that alone. Cores stay on their
machines. Elastic components of the flexible rule are placed anew at every event, in the order of
service, as Zoe's virtual assignment is; moving one costs nothing, which favours it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.papers.cluster.machine_fit import Fit, Longs, place_all, place_some
from dispatch.pool.claims import Claim, ClaimPart, Grant, GrantRule
from dispatch.pool.ordering import Ordering, Rule, Size


@dataclass(eq=False, slots=True)
class _PlacedClaim:
    """One execution: where it stands in line, and what it holds on each machine."""

    claim: Claim
    key: tuple[int, float, int]
    wanted: Longs
    core: Longs
    elastic: Longs
    granted: tuple[int, ...] = ()
    is_new: bool = True

    def __lt__(self, other: _PlacedClaim) -> bool:
        return self.key < other.key


@dataclass(slots=True)
class _MachineLines:
    """The claims that wait, those that may preempt and did not fit, and those in service."""

    waiting: list[_PlacedClaim] = field(default_factory=list)
    urgent: list[_PlacedClaim] = field(default_factory=list)
    serving: list[_PlacedClaim] = field(default_factory=list)


class MachineScheduler:
    """Owns the lines, the grants and the machines of one cluster.

    Parameters
    ----------
    machine
        What one machine has, by resource. Claims list amounts in its (sorted) order.
    machines
        How many there are, all alike.
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
        self.resources: tuple[str, ...] = tuple(sorted(machine))
        self._whole = np.array([machine[kind] for kind in self.resources], dtype=np.int64)
        self._empty = np.tile(self._whole, (machines, 1))
        self._free = self._empty.copy()  # beside cores, and malleable grants
        self._held = np.zeros(len(self._whole), dtype=np.int64)  # by flexible grants
        self._wanted = np.zeros(len(self._whole), dtype=np.int64)  # by those in service, at most
        self._ordering, self._fit = ordering, int(fit)
        self._keeps = allocation is GrantRule.MALLEABLE
        self._rows: dict[str, _PlacedClaim] = {}
        self._lines = _MachineLines()
        self._number = 0

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Take a new execution in; see `bench.papers.cluster.baselines.Scheduler`."""
        row = self._row_of(claim)
        self._rows[claim.name] = row
        serving = self._lines.serving
        if not (self._ordering.preemptive and serving and row < serving[-1]):
            insort(self._lines.waiting, row)
        elif not self._enter(row):
            insort(self._lines.urgent, row)
        return self._settle()

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Take an execution out, in service or waiting."""
        row = self._rows.pop(name)
        if row in self._lines.serving:
            self._wanted -= row.wanted
        for line in (self._lines.waiting, self._lines.urgent, self._lines.serving):
            if row in line:
                line.remove(row)
        self._free += row.core
        if self._keeps:
            self._free += row.elastic
        return self._settle()

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """Refuse: machines stay as they are."""
        raise ValueError("a cluster of machines does not change its total")

    def queue(self) -> tuple[str, ...]:
        """Return the names of those that wait; those that may preempt come first."""
        return tuple(row.claim.name for row in (*self._lines.urgent, *self._lines.waiting))

    def service_order(self) -> tuple[str, ...]:
        """Return the names of those in service, in the order of grants."""
        return tuple(row.claim.name for row in self._lines.serving)

    def grants_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution holds."""
        return self._rows[name].granted

    def free(self) -> dict[str, int]:
        """Return what no component holds, on all machines together."""
        left = self._free.sum(axis=0) - self._held
        return dict(zip(self.resources, left.tolist(), strict=True))

    def can_ever_fit(self, claim: Claim) -> bool:
        """Return whether the cores find room on machines that are empty."""
        return self._place(claim.core, self._empty.copy()) is not None

    def _row_of(self, claim: Claim) -> _PlacedClaim:
        self._number += 1
        rank = -claim.priority if self._ordering.by_priority else 0
        key = claim.run_s if self._ordering.by_size else claim.submitted_s
        nothing = np.zeros_like(self._free)
        granted = tuple(0 for _ in claim.elastic)
        wanted = np.zeros_like(self._whole)
        for part in (*claim.core, *claim.elastic):
            wanted += part.count * np.array(part.amounts, dtype=np.int64)
        return _PlacedClaim(
            claim, (rank, key, self._number), wanted, nothing, nothing.copy(), granted
        )

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

    def _enter(self, row: _PlacedClaim) -> bool:
        """Put a row into service if its cores fit beside what stays where it is."""
        free = self._free.copy()
        taken = self._place(row.claim.core, free)
        if taken is None:
            return False
        self._free, row.core = free, taken
        self._wanted += row.wanted
        if self._ordering.preemptive:
            insort(self._lines.serving, row)
        else:
            self._lines.serving.append(row)
        return True

    def _settle(self) -> tuple[Grant, ...]:
        """Admit what the rules allow, grant elastic components, and return what changed."""
        before = [row.granted for row in self._lines.serving]
        served = list(self._lines.serving)
        urgent, waiting = self._lines.urgent, self._lines.waiting
        if self._keeps:
            for row in served:
                self._grow(row)
        while urgent and self._enter(urgent[0]):
            urgent.pop(0)
        while not urgent and waiting and self._admits(waiting[0]):
            row = waiting.pop(0)
            if self._keeps:
                self._grow(row)
        if not self._keeps:
            self._grant()
        old = {id(row): granted for row, granted in zip(served, before, strict=True)}
        return self._changed(old)

    def _admits(self, row: _PlacedClaim) -> bool:
        """Put the head of the line into service if the rule and the machines allow it.

        The flexible rule admits no claim that needs what those in service could use up.
        """
        if not self._keeps:
            is_used_up = self._wanted >= self._empty.sum(axis=0)
            for part in row.claim.core:
                if any(
                    used and amount for used, amount in zip(is_used_up, part.amounts, strict=True)
                ):
                    return False
        return self._enter(row)

    def _changed(self, old: Mapping[int, tuple[int, ...]]) -> tuple[Grant, ...]:
        found = []
        for row in self._lines.serving:
            if row.is_new or old.get(id(row)) != row.granted:
                found.append(Grant(row.claim.name, row.is_new, row.granted))
                row.is_new = False
        return tuple(found)

    def _grow(self, row: _PlacedClaim) -> None:
        """Grant a row all that fits, which it keeps."""
        granted = list(row.granted)
        for place, part in enumerate(row.claim.elastic):
            amounts = np.array(part.amounts, dtype=np.int64)
            more = part.count - granted[place]
            if more:
                granted[place] += place_some(
                    self._free, self._whole, amounts, more, self._fit, row.elastic
                )
        row.granted = tuple(granted)

    def _grant(self) -> None:
        """Place elastic components anew, in the order of service."""
        groups = [part for row in self._lines.serving for part in row.claim.elastic]
        self._held[:] = 0
        if not groups:
            return
        amounts = np.array([part.amounts for part in groups], dtype=np.int64)
        counts = np.array([part.count for part in groups], dtype=np.int64)
        placed = np.zeros_like(counts)
        place_all(self._free.copy(), self._whole, amounts, counts, self._fit, placed)
        self._held[:] = placed @ amounts
        given = iter(placed.tolist())
        for row in self._lines.serving:
            row.granted = tuple(next(given) for _ in row.claim.elastic)
