"""The flexible scheduler and what it is measured against, by name, behind one interface.

- ``flexible``: cores first, elastic components as capacity allows, taken back when a core needs it.
- ``flexible-grow``: the same without taking back, as the published simulator ran it.
- ``malleable``: each takes all the elastic components it can when it starts and keeps them; those
  running grow before another starts.
- ``rigid``: all components or nothing; elastic ones are treated as core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from bench.papers.cluster.machine_fit import Fit
from bench.papers.cluster.machine_scheduler import MachineScheduler
from dispatch.pool.claims import Claim, Grant, GrantRule
from dispatch.pool.ordering import ORDERINGS, Ordering
from dispatch.pool.scheduler import ElasticScheduler
from rdl.resources import Resources

SCHEDULERS = ("flexible", "flexible-grow", "malleable", "rigid")

_ALLOCATIONS = {
    "flexible": GrantRule.FLEXIBLE,
    "flexible-grow": GrantRule.GROW_ONLY,
    "malleable": GrantRule.MALLEABLE,
}


class Scheduler(Protocol):
    """What the core/elastic algorithm and its baselines have in common."""

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Take a new execution in."""
        ...

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Take an execution out, in service or waiting."""
        ...

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """Set how much the pool has of each resource."""
        ...

    def queue(self) -> tuple[str, ...]:
        """Return the names of those that wait; those that may preempt come first."""
        ...

    def service_order(self) -> tuple[str, ...]:
        """Return the names of those in service, in the order of grants."""
        ...

    def grants_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution holds."""
        ...

    def free(self) -> dict[str, int]:
        """Return what no claim in service holds; negative where cores exceed a smaller total."""
        ...

    def can_ever_fit(self, claim: Claim) -> bool:
        """Return whether a claim could start if nothing else were in service."""
        ...


class RigidScheduler:
    """All or nothing: what an application could use at most is what it needs to start.

    Parameters
    ----------
    total
        What there is.
    ordering
        Which claim goes first; one with `backfill` lets those that fit pass a head that does not.
    inner
        What starts those that need all; None for a pool of `total`.
    """

    def __init__(
        self,
        total: Resources | Mapping[str, int],
        ordering: Ordering = ORDERINGS["fifo"],
        inner: Scheduler | None = None,
    ) -> None:
        self._inner = ElasticScheduler(total, ordering) if inner is None else inner
        self._elastic: dict[str, tuple[int, ...]] = {}

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """See `Scheduler.arrive`."""
        whole = replace(claim, core=(*claim.core, *claim.elastic), elastic=())
        changed = self._inner.arrive(whole, now_s)
        self._elastic[claim.name] = tuple(part.count for part in claim.elastic)
        return tuple(self._whole(grant) for grant in changed)

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """See `Scheduler.depart`."""
        changed = self._inner.depart(name, now_s)
        del self._elastic[name]
        return tuple(self._whole(grant) for grant in changed)

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """See `Scheduler.set_total`."""
        return tuple(self._whole(grant) for grant in self._inner.set_total(total, now_s))

    def queue(self) -> tuple[str, ...]:
        """See `Scheduler.queue`."""
        return self._inner.queue()

    def service_order(self) -> tuple[str, ...]:
        """See `Scheduler.service_order`."""
        return self._inner.service_order()

    def free(self) -> dict[str, int]:
        """See `Scheduler.free`."""
        return self._inner.free()

    def grants_of(self, name: str) -> tuple[int, ...]:
        """See `Scheduler.grants_of`."""
        return self._elastic[name] if name in self._inner.service_order() else ()

    def can_ever_fit(self, claim: Claim) -> bool:
        """See `Scheduler.can_ever_fit`."""
        whole = replace(claim, core=(*claim.core, *claim.elastic), elastic=())
        return self._inner.can_ever_fit(whole)

    def _whole(self, grant: Grant) -> Grant:
        return replace(grant, granted=self._elastic[grant.name])


def scheduler_named(
    name: str, total: Resources | Mapping[str, int], ordering: Ordering = ORDERINGS["fifo"]
) -> Scheduler:
    """Return a new scheduler of one of the `SCHEDULERS`.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if name == "rigid":
        return RigidScheduler(total, ordering)
    if name not in _ALLOCATIONS:
        raise ValueError(f"no scheduler {name!r}; there are {', '.join(SCHEDULERS)}")
    return ElasticScheduler(total, ordering, _ALLOCATIONS[name])


def scheduler_on_machines(
    name: str, machine: Mapping[str, int], machines: int, ordering: Ordering, fit: Fit
) -> Scheduler:
    """Return a new scheduler of one of the `SCHEDULERS` over machines that are the same.

    Raises
    ------
    ValueError
        If there is none of that name, or none with that ordering over machines.
    """
    if name == "rigid":
        total = {kind: amount * machines for kind, amount in machine.items()}
        inner = MachineScheduler(machine, machines, ordering, fit=fit)
        return RigidScheduler(total, ordering, inner)
    if name not in _ALLOCATIONS:
        raise ValueError(f"no scheduler {name!r}; there are {', '.join(SCHEDULERS)}")
    return MachineScheduler(machine, machines, ordering, _ALLOCATIONS[name], fit)
