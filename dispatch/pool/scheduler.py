"""The core/elastic algorithm: which claims are in service, and their grants.

Zoe's Algorithms 1 and 2 over vectors of resources, corrected: a request that exactly fills the pool
starts; a preemptive arrival is compared with *granted*, not requested, elastic components; while a
preemptive request waits, nothing else is admitted. Cores in service are never revoked here. Every
event returns only its changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from dispatch.pool.claims import Claim, ClaimPart, Grant, GrantRule
from dispatch.pool.ordering import ORDERINGS, Ordering, Rule, Size
from rdl.resources import CPU, MEMORY, Resources

if TYPE_CHECKING:
    from dispatch.pool import kernels

#: In these units, the areas of 3-D sizes are cores x GiB.
_AREA_UNITS = {CPU: 1000.0, MEMORY: 1024.0}


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


class ClaimRows:
    """Owns the arrays behind the kernels and knows the row of each claim.

    Parameters
    ----------
    resources
        Names of the resources, in the order of the claims' amounts.
    ordering
        Defines the key of a row.
    """

    def __init__(self, resources: Sequence[str], ordering: Ordering) -> None:
        from dispatch.pool import kernels as compiled

        self._kernels = compiled
        self._ordering = ordering
        self._resources = tuple(resources)
        self._units = [_AREA_UNITS.get(kind, 1.0) for kind in resources]
        self._names: list[str | None] = []
        self._parts: list[int] = []
        self._tiers: list[int] = []
        self._announced: list[bool] = []
        self._free: list[int] = []
        self._row_by_name: dict[str, int] = {}
        self._tenants: dict[str, int] = {}
        self._arrived = 0
        self.rows = self._new_rows(64, 1)
        self.pool = self._new_pool(64, 16)

    def add(self, claim: Claim, now_s: float) -> int:
        """Return the row of a new claim.

        Raises
        ------
        ValueError
            If its name is taken, it has no core component, or its amounts have another shape.
        """
        self._check(claim)
        row = self._free.pop() if self._free else len(self._names)
        if row == len(self._names):
            self._names.append(None)
            self._parts.append(0)
            self._tiers.append(0)
            self._announced.append(False)
        tenant = self._tenants.setdefault(claim.tenant, len(self._tenants))
        self._make_room(row, len(claim.elastic), tenant)
        self._names[row], self._parts[row], self._announced[row] = (
            claim.name,
            len(claim.elastic),
            False,
        )
        self._row_by_name[claim.name] = row
        self._fill_amounts(row, claim)
        self._fill_order(row, claim, tenant, now_s)
        return row

    def remove(self, name: str) -> None:
        """Release the row of a claim."""
        row = self._row_by_name.pop(name)
        self._names[row] = None
        self._free.append(row)

    def resize(self, name: str, wanted: Sequence[int]) -> bool:
        """Change the counts of a claim's elastic parts; the next pass revokes excess grants.

        Returns whether any count changed.
        """
        row, rows, pool = self._row_by_name[name], self.rows, self.pool
        if tuple(wanted) == self.wanted_of(name):
            return False
        if self._tiers[row]:
            rows.extra[row, self._kernels.ASKED, : len(wanted)] = wanted
            return True
        for index, count in enumerate(wanted):
            more = count - rows.part_count[row, index]
            rows.part_count[row, index] = count
            rows.want[row] += more * rows.part[row, index]
            rows.all_count[row] += more
            rows.all_area[row] += more * rows.part_area[row, index]
            if rows.started[row]:
                pool.wanted[:] += more * rows.part[row, index]
            over = max(rows.granted[row, index] - count, 0)
            if over:
                rows.granted[row, index] -= over
                pool.given[:] -= over * rows.part[row, index]
        return True

    def note_waiting(self, row: int) -> None:
        """Mark a row as waiting, so that its next grant reports a start."""
        self._announced[row] = False

    def row_of(self, name: str) -> int:
        """Return the row of a claim; KeyError if there is none."""
        return self._row_by_name[name]

    def find(self, name: str) -> int | None:
        """Return the row of a claim, or None."""
        return self._row_by_name.get(name)

    def wanted_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part a claim requests."""
        row, rows = self._row_by_name[name], self.rows
        later = rows.extra[:, self._kernels.ASKED]
        return tuple(
            (later if self._tiers[row] else rows.part_count)[row, : self._parts[row]].tolist()
        )

    def grants_of(self, name: str) -> tuple[int, ...]:
        """Return how many components of each elastic part a claim holds."""
        return self._grants_of(self._row_by_name[name])

    def _grants_of(self, row: int) -> tuple[int, ...]:
        held = self.rows.granted
        if self._tiers[row]:
            held = self.rows.extra[:, self._kernels.GRANTED]
        return tuple(held[row, : self._parts[row]].tolist())

    def line(self, line: int) -> tuple[str, ...]:
        """Return the names in one of the kernels' queues, in order."""
        rows = self.pool.lines[line, : self.pool.length[line]].tolist()
        return tuple(name for row in rows if (name := self._names[row]) is not None)

    def grants(self, changed: int) -> tuple[Grant, ...]:
        """Return grants for the first `changed` rows that the kernels listed."""
        found: list[Grant] = []
        for row in self.pool.changed[:changed].tolist():
            name = self._names[row]
            assert name is not None
            found.append(Grant(name, not self._announced[row], self._grants_of(row)))
            self._announced[row] = True
        return tuple(found)

    def faults(self) -> Iterator[str]:
        """Yield differences between the pool's sums and queues and the rows."""
        rows, pool, compiled = self.rows, self.pool, self._kernels
        lines = [pool.lines[line, : pool.length[line]].tolist() for line in range(compiled.LINES)]
        later, extra = lines[compiled.LATER], rows.extra[:, compiled.GRANTED]
        coreless = [row for row in later if not rows.core_count[row]]
        listed = sorted([*(row for line in lines[: compiled.LATER] for row in line), *coreless])
        known = sorted(self._row_by_name.values())
        if listed != known:
            yield f"rows {listed} stand in lines and not {known}"
        serving = lines[compiled.SERVING]
        given = np.einsum("rp,rpk->k", rows.granted[serving], rows.part[serving])
        for word, kept, found in (
            ("cores", pool.cores, rows.core[serving].sum(axis=0)),
            ("given", pool.given, given),
            ("wanted", pool.wanted, rows.want[serving].sum(axis=0)),
            ("extra", pool.extra, np.einsum("rp,rpk->k", extra[later], rows.part[later])),
        ):
            if (kept != found).any():
                yield f"{word} of those in service are {kept.tolist()} and not {found.tolist()}"
        if sorted(serving) != [row for row in known if rows.started[row]]:
            yield "those in service are not those that have started"
        served_later = {*coreless, *(row for row in serving if self._tiers[row])}
        if sorted(later) != sorted(served_later):
            yield "those of later tiers are not those in service, or without a core"
        if (rows.granted[known] > rows.part_count[known]).any():
            yield "more is granted than asked for"
        if (extra[known] > rows.extra[known, compiled.ASKED]).any():
            yield "more is granted in later tiers than asked for"

    def _check(self, claim: Claim) -> None:
        if claim.name in self._row_by_name:
            raise ValueError(f"{claim.name!r} is in the pool already")
        joins = claim.tier > 0 and not claim.core
        if not joins and not any(part.count > 0 for part in claim.core):
            raise ValueError(f"{claim.name!r} has no core component")
        if not joins and not any(amount for part in claim.core for amount in part.amounts):
            raise ValueError(f"{claim.name!r} has a core that asks for nothing")
        if not claim.run_s > 0:
            raise ValueError(f"{claim.name!r} runs {claim.run_s} s; it must be more than zero")
        for part in (*claim.core, *claim.elastic):
            if len(part.amounts) != len(self._resources) or min(part.amounts) < 0:
                kinds = ", ".join(self._resources)
                raise ValueError(f"{claim.name!r} has amounts {part.amounts}; give {kinds}")
            if part.count < 0:
                raise ValueError(f"{claim.name!r} has a part of {part.count} components")

    def _fill_amounts(self, row: int, claim: Claim) -> None:
        rows, kinds = self.rows, range(len(self._resources))
        core = [sum(part.count * part.amounts[kind] for part in claim.core) for kind in kinds]
        more = [sum(part.count * part.amounts[kind] for part in claim.elastic) for kind in kinds]
        rows.core[row] = core
        rows.part_count[row] = rows.granted[row] = rows.before[row] = 0
        if claim.tier or self._tiers[row]:
            rows.extra[row] = 0
            rows.tier[row] = claim.tier, *claim.turn
            self._tiers[row] = claim.tier
        counts = rows.extra[:, self._kernels.ASKED] if claim.tier else rows.part_count
        for index, part in enumerate(claim.elastic):
            rows.part[row, index] = part.amounts
            counts[row, index] = part.count
            rows.part_area[row, index] = self._area(part)
        # Elastic components of later tiers neither count in the size nor keep others out.
        parts = claim.core if claim.tier else (*claim.core, *claim.elastic)
        sizes = core if claim.tier else [one + two for one, two in zip(core, more, strict=True)]
        rows.want[row] = sizes
        rows.core_count[row] = sum(part.count for part in claim.core)
        rows.all_count[row] = sum(part.count for part in parts)
        rows.all_area[row] = sum(part.count * self._area(part) for part in parts)

    def _fill_order(self, row: int, claim: Claim, tenant: int, now_s: float) -> None:
        rows, ordering = self.rows, self._ordering
        rows.rank[row] = -claim.priority if ordering.by_priority else 0.0
        rows.number[row] = self._arrived
        self._arrived += 1
        rows.submitted[row], rows.run[row] = claim.submitted_s, claim.run_s
        rows.left[row], rows.since[row], rows.speed[row] = claim.run_s, now_s, 0.0
        rows.tenant[row], rows.started[row] = tenant, False
        factors = {Size.COMPONENTS: rows.all_count[row], Size.AREA: rows.all_area[row]}
        rows.factor[row] = factors.get(ordering.size, 1.0)
        if ordering.rule is Rule.STATIC:
            size = claim.run_s * rows.factor[row]
            rows.key[row] = size if ordering.by_size else claim.submitted_s

    def _area(self, part: ClaimPart) -> float:
        """Product of the amounts that one component requests; zero amounts are left out."""
        pairs = zip(part.amounts, self._units, strict=True)
        return prod(amount / unit for amount, unit in pairs if amount)

    def _make_room(self, row: int, parts: int, tenant: int) -> None:
        size, width = self.rows.part_count.shape
        if row >= size or parts > width:
            larger = self._new_rows(size * 2 if row >= size else size, max(parts, width))
            for new, old in zip(larger, self.rows, strict=True):
                new[tuple(slice(0, extent) for extent in old.shape)] = old
            self.rows = larger
        slots, tenants = self.pool.lines.shape[1], self.pool.held.shape[0]
        if row >= slots or tenant >= tenants:
            wider = self._new_pool(
                slots * 2 if row >= slots else slots, tenants * 2 if tenant >= tenants else tenants
            )
            for new, old in zip(wider, self.pool, strict=True):
                new[tuple(slice(0, extent) for extent in old.shape)] = old
            self.pool = wider

    def _new_rows(self, size: int, parts: int) -> kernels.ClaimArrays:
        kinds = len(self._resources)
        longs, floats = np.int64, np.float64
        return self._kernels.ClaimArrays(
            core=np.zeros((size, kinds), longs),
            want=np.zeros((size, kinds), longs),
            part=np.zeros((size, parts, kinds), longs),
            part_count=np.zeros((size, parts), longs),
            granted=np.zeros((size, parts), longs),
            extra=np.zeros((size, 2, parts), longs),
            before=np.zeros((size, parts), longs),
            rank=np.zeros(size, floats),
            key=np.zeros(size, floats),
            number=np.zeros(size, longs),
            tier=np.zeros((size, 3), longs),
            submitted=np.zeros(size, floats),
            run=np.ones(size, floats),
            left=np.zeros(size, floats),
            since=np.zeros(size, floats),
            speed=np.zeros(size, floats),
            tenant=np.zeros(size, longs),
            core_count=np.zeros(size, floats),
            all_count=np.zeros(size, floats),
            all_area=np.zeros(size, floats),
            factor=np.ones(size, floats),
            part_area=np.zeros((size, parts), floats),
            started=np.zeros(size, np.bool_),
        )

    def _new_pool(self, size: int, tenants: int) -> kernels.PoolArrays:
        kinds = len(self._resources)
        return self._kernels.PoolArrays(
            total=np.zeros(kinds, np.int64),
            cores=np.zeros(kinds, np.int64),
            wanted=np.zeros(kinds, np.int64),
            given=np.zeros(kinds, np.int64),
            extra=np.zeros(kinds, np.int64),
            held=np.zeros((tenants, kinds), np.int64),
            share=np.zeros(tenants, np.float64),
            lines=np.zeros((self._kernels.LINES, size), np.int64),
            length=np.zeros(self._kernels.LINES, np.int64),
            changed=np.zeros(2 * size, np.int64),
        )
