"""The core/elastic algorithm: which claims are in service, and their grants.

Zoe's Algorithms 1 and 2 over vectors of resources, corrected: a request that exactly fills the pool
starts; a preemptive arrival is compared with *granted*, not requested, elastic components; while a
preemptive request waits, nothing else is admitted. Cores in service are never revoked here. Every
event returns only its changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dispatch.pool.claim_rows import ClaimRows
from dispatch.pool.claims import Claim, Grant, GrantRule
from dispatch.pool.ordering import ORDERINGS, Ordering
from rdl.resources import Resources


class ElasticScheduler:
    """Owns the queues and the grants of one pool of resources.

    Parameters
    ----------
    total
        The pool: canonical amounts by resource. Claims list amounts in its (sorted) order.
    ordering
        Order of the claims.
    allocation
        How elastic components are granted.
    """

    def __init__(
        self,
        total: Resources | Mapping[str, int],
        ordering: Ordering = ORDERINGS["fifo"],
        allocation: GrantRule = GrantRule.FLEXIBLE,
    ) -> None:
        from dispatch.pool import kernels

        self.resources: tuple[str, ...] = tuple(sorted(total))
        self.ordering = ordering
        self.allocation = allocation
        self._kernels = kernels
        self._claims = ClaimRows(self.resources, ordering)
        self._claims.pool.total[:] = [total[kind] for kind in self.resources]
        self._rules = kernels.PoolRules(
            allocation.value,
            int(ordering.rule),
            int(ordering.size),
            ordering.backfill,
            ordering.preemptive,
        )

    def arrive(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Add a new execution.

        Raises
        ------
        ValueError
            If its name is taken, it has no core component, or its amounts have another shape.
        """
        row = self._claims.add(claim, now_s)
        claims = self._claims
        changed = self._kernels.arrive(claims.pool, claims.rows, self._rules, row, float(now_s))
        return claims.grants(changed)

    def adopt(self, claim: Claim, now_s: float) -> tuple[Grant, ...]:
        """Add an execution that already runs: its cores are in service, whether they fit or not.

        Raises
        ------
        ValueError
            As :meth:`arrive`.
        """
        row = self._claims.add(claim, now_s)
        claims = self._claims
        changed = self._kernels.adopt(claims.pool, claims.rows, self._rules, row, float(now_s))
        return claims.grants(changed)

    def depart(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Remove an execution, in service or waiting.

        Raises
        ------
        KeyError
            If there is no such execution.
        """
        claims = self._claims
        row = claims.row_of(name)
        changed = self._kernels.depart(claims.pool, claims.rows, self._rules, row, float(now_s))
        claims.remove(name)
        return claims.grants(changed)

    def requeue(self, name: str, now_s: float) -> tuple[Grant, ...]:
        """Requeue an execution in service, at the place given by its submission.

        Raises
        ------
        ValueError
            If it is not in service.
        """
        if not self.is_served(name):
            raise ValueError(f"{name!r} is not in service")
        claims = self._claims
        row = claims.row_of(name)
        claims.note_waiting(row)
        changed = self._kernels.requeue(claims.pool, claims.rows, self._rules, row, float(now_s))
        return claims.grants(changed)

    def resize(self, name: str, wanted: Sequence[int], now_s: float) -> tuple[Grant, ...]:
        """Change the requested counts of an execution's elastic parts, in its tier.

        Raises
        ------
        KeyError
            If there is no such execution.
        """
        if not self._claims.resize(name, wanted):
            return ()
        return self._settle(now_s)

    def replace_joined(
        self, gone: Iterable[str], come: Iterable[Claim], now_s: float
    ) -> tuple[Grant, ...]:
        """Remove claims without a core from their tier, and add others.

        Raises
        ------
        ValueError
            As :meth:`arrive`.
        """
        claims = self._claims
        for name in gone:
            self._kernels.withdraw(claims.pool, claims.rows, claims.row_of(name))
            claims.remove(name)
        for claim in come:
            row = claims.add(claim, now_s)
            self._kernels.join(claims.pool, claims.rows, row)
        return self._settle(now_s)

    def set_total(self, total: Mapping[str, int], now_s: float) -> tuple[Grant, ...]:
        """Set the total of the pool; elastic components shrink to fit, cores stay."""
        self._claims.pool.total[:] = [total.get(kind, 0) for kind in self.resources]
        return self._settle(now_s)

    def _settle(self, now_s: float) -> tuple[Grant, ...]:
        claims = self._claims
        changed = self._kernels.settle(claims.pool, claims.rows, self._rules, float(now_s))
        return claims.grants(changed)

    def queue(self) -> tuple[str, ...]:
        """Return the waiting names: first those that may preempt, then the queue as last sorted."""
        kernels = self._kernels
        return self._claims.line(kernels.URGENT) + self._claims.line(kernels.WAITING)

    def service_order(self) -> tuple[str, ...]:
        """Return the names in service, in the order in which elastic components are granted."""
        return self._claims.line(self._kernels.SERVING)

    def grants_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution holds."""
        return self._claims.grants_of(name)

    def tier_of(self, name: str) -> int | None:
        """Return the tier in which an execution has a claim with a core, or None."""
        row, rows = self._claims.find(name), self._claims.rows
        return int(rows.tier[row, 0]) if row is not None and rows.core_count[row] else None

    def has_joined(self, name: str) -> bool:
        """Return whether an execution has a claim without a core."""
        row = self._claims.find(name)
        return row is not None and not self._claims.rows.core_count[row]

    def is_served(self, name: str) -> bool:
        """Return whether the core of an execution is in service."""
        row = self._claims.find(name)
        return row is not None and bool(self._claims.rows.started[row])

    @property
    def has_waiting(self) -> bool:
        """Whether any claim waits."""
        kernels, length = self._kernels, self._claims.pool.length
        return bool(length[kernels.URGENT] or length[kernels.WAITING])

    def joined(self) -> tuple[str, ...]:
        """Return the names of claims without a core, in the order of grants."""
        return tuple(
            name for name in self._claims.line(self._kernels.LATER) if self.has_joined(name)
        )

    def wanted_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part an execution requests."""
        return self._claims.wanted_of(name)

    def free(self) -> dict[str, int]:
        """Return the capacity outside cores and the first tier; negative if cores exceed the
        total."""
        pool = self._claims.pool
        left = pool.total - pool.cores - pool.given
        return dict(zip(self.resources, left.tolist(), strict=True))

    def core_room(self) -> list[int]:
        """Return the total minus the cores in service, in the order of resources.

        If elastic components are not revoked for cores, granted ones are subtracted as well.
        """
        pool = self._claims.pool
        room = pool.total - pool.cores
        if self.allocation is not GrantRule.FLEXIBLE:
            room = room - pool.given
        found: list[int] = room.tolist()
        return found

    def left(self) -> list[int]:
        """Return the free amounts, in the order of resources."""
        pool = self._claims.pool
        found: list[int] = (pool.total - pool.cores - pool.given - pool.extra).tolist()
        return found

    def faults(self) -> Iterator[str]:
        """Yield differences between sums over claims and the claims."""
        return self._claims.faults()

    def can_ever_fit(self, claim: Claim) -> bool:
        """Return whether the cores fit when nothing else is in service."""
        totals = self._claims.pool.total.tolist()
        asked = [sum(one.count * one.amounts[k] for one in claim.core) for k in range(len(totals))]
        return all(need <= total for need, total in zip(asked, totals, strict=True))
