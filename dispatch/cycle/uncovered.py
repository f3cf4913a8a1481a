"""Uncovered: executions that no entitlement covers, and which of them may run (steps 4 and 5).

One core/elastic pool serves them in three tiers: best effort, production above its entitlement,
and work of later reservations. Elastic components follow the same order: those of best effort are
granted by the pool itself, those of the other two are extras, granted from what it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from dispatch.cycle.cover.cover_book import CoverBook
from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.moves import Moves
from dispatch.cycle.options import DispatchOptions, LineOptions, Tier
from dispatch.cycle.quota_book import QuotaBook
from dispatch.cycle.victims import choose_victims, victims_first
from dispatch.entitlements.directive import Directive, Standing
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from dispatch.pool.claims import Claim, ClaimPart, Grant
from dispatch.pool.scheduler import ElasticScheduler

#: Why an application waits whose turn has not come.
WAITS_FOR_ROOM: Final = "it waits in the line for room"

#: Ranks of applications (twice a priority, and one for interactive) stay inside this.
_TIER_RANKS = 8_000_000

#: More arrivals than these in one cycle are taken in together.
_MANY = 16


_TIERS = {Standing.ACTIVE: Tier.ABOVE, Standing.LATER: Tier.LATER}


class UncoveredLine:
    """Owns the core/elastic pool: says how many components of each group may run without cover.

    Parameters
    ----------
    kinds
        Names of the resources, in the order of amounts.
    options
        Which executions are served, and in which order.
    """

    def __init__(self, kinds: Sequence[str], options: LineOptions) -> None:
        ordering = replace(options.ordering, by_priority=True)
        self._pool = ElasticScheduler(dict.fromkeys(kinds, 0), ordering, options.allocation)
        self._options = options
        self._by_name: dict[str, tuple[Execution, Tier]] = {}
        self._wanted: dict[str, list[int]] = {}
        self._serving: dict[str, Execution] = {}
        self._reserved: dict[str, tuple[Execution, Tier]] = {}
        self._total: Vector = (0,) * len(kinds)

    def tier_of(self, execution: Execution) -> Tier | None:
        """Return in which tier an execution stands here, or None."""
        found = self._by_name.get(execution.id)
        return None if found is None else found[1]

    @property
    def total(self) -> Vector:
        """How much the line may hold, in canonical amounts by resource."""
        return self._total

    @property
    def has_waiting(self) -> bool:
        """Whether an execution stands here whose cores may not run yet."""
        return len(self._by_name) > len(self._serving)

    def members(self) -> Iterable[Execution]:
        """Return all that stand here, served or not."""
        return [execution for execution, _ in self._by_name.values()]

    def service_order(self) -> Iterable[Execution]:
        """Return the executions whose cores may run."""
        return self._serving.values()

    def reservation_holders(self) -> Iterable[tuple[Execution, Tier]]:
        """Return those served that name a reservation which is not over."""
        return self._reserved.values()

    def enter(self, execution: Execution, tier: Tier, now_ms: int) -> list[Execution]:
        """Take an execution in; one that runs keeps its cores. Return those whose grants change."""
        self._by_name[execution.id] = (execution, tier)
        self._wanted[execution.id] = _most_of(execution)
        claim = self._claim(execution, tier)
        enter = self._pool.adopt if execution.started_ms is not None else self._pool.arrive
        return self._take(enter(claim, now_ms / 1000))

    def leave(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Take an execution out; return the executions whose grants change."""
        del self._by_name[execution.id]
        self._serving.pop(execution.id, None)
        self._reserved.pop(execution.id, None)
        self._wanted.pop(execution.id, None)
        for part in execution.parts:
            part.granted = 0
        return self._take(self._pool.depart(execution.id, now_ms / 1000))

    def requeue(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Let one that is served wait again; return the executions whose grants change."""
        del self._serving[execution.id]
        self._reserved.pop(execution.id, None)
        for part in execution.parts:
            part.granted = 0
        return self._take(self._pool.requeue(execution.id, now_ms / 1000))

    def resize(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Follow how many elastic components an execution still wants."""
        if self._by_name[execution.id][1] is not Tier.BEST_EFFORT:
            return []
        if not self._options.best_effort_elastic:
            return []
        wanted = _most_of(execution)
        if wanted == self._wanted.get(execution.id):
            return []
        self._wanted[execution.id] = wanted
        for part, most in zip(_elastic(execution), wanted, strict=True):
            part.granted = min(part.granted, most)
        return self._take(self._pool.resize(execution.id, wanted, now_ms / 1000))

    def set_total(self, total: Vector, now_ms: int) -> list[Execution]:
        """Let the line hold `total`; return the executions whose grants change."""
        if total == self._total:
            return []
        self._total = total
        amounts = dict(zip(self._pool.resources, total, strict=True))
        return self._take(self._pool.set_total(amounts, now_ms / 1000))

    def free(self) -> list[int]:
        """Return what none in service holds, but for extras; negative where cores exceed it."""
        return list(self._pool.free().values())

    def faults(self) -> Iterator[str]:
        """Yield where what is kept of the pool, or written into executions, differs from it."""
        yield from self._pool.faults()
        if set(self._pool.service_order()) != self._serving.keys():
            yield "those in service are not those of the pool"
        if {*self._pool.service_order(), *self._pool.queue()} != self._by_name.keys():
            yield "those in the line are not those of the pool"
        reserved = {id_ for id_ in self._serving if self._by_name[id_][1] is not Tier.BEST_EFFORT}
        if reserved != self._reserved.keys():
            yield "those in service under a reservation are not those that are kept"
        for id_, (execution, tier) in self._by_name.items():
            served = id_ in self._serving
            cores = [part.granted for part in _core(execution)]
            if cores != [part.component.count * served for part in _core(execution)]:
                yield f"{id_}: {cores} cores are granted, in service: {served}"
            if tier is Tier.BEST_EFFORT and self._options.best_effort_elastic:
                if self._wanted[id_] != _most_of(execution):
                    yield f"{id_}: {self._wanted[id_]} are wanted and not {_most_of(execution)}"
                granted = tuple(part.granted for part in _elastic(execution))
                if served and granted != self._pool.grants_of(id_):
                    yield f"{id_}: {granted} granted and not {self._pool.grants_of(id_)}"

    def _claim(self, execution: Execution, tier: Tier) -> Claim:
        application = execution.application
        core = tuple(ClaimPart(p.component.count, p.amounts) for p in _core(execution))
        elastic: tuple[ClaimPart, ...] = ()
        if tier is Tier.BEST_EFFORT and self._options.best_effort_elastic:
            elastic = tuple(
                ClaimPart(most, part.amounts)
                for part, most in zip(_elastic(execution), self._wanted[execution.id], strict=True)
            )
        return Claim(
            execution.id,
            core,
            elastic,
            execution.submitted_ms / 1000,
            inf if application.size_ms is None else application.size_ms / 1000,
            self._options.rank(application) - tier * _TIER_RANKS,
            execution.tenant,
        )

    def _take(self, grants: Iterable[Grant]) -> list[Execution]:
        changed: list[Execution] = []
        for grant in grants:
            execution, tier = self._by_name[grant.name]
            self._serving[grant.name] = execution
            if tier is not Tier.BEST_EFFORT:
                self._reserved[grant.name] = (execution, tier)
            if grant.granted:
                for part, count in zip(_elastic(execution), grant.granted, strict=True):
                    part.granted = count
            for part in _core(execution):
                part.granted = part.component.count
            changed.append(execution)
        return changed


def grant_extras(
    executions: Iterable[tuple[Execution, bool]], free: list[int], changed: set[Execution]
) -> None:
    """Grant elastic components above cover from `free`, in order, skipping what does not fit.

    Each execution comes with whether it is served at all. `free` is lowered by what is granted; an
    execution whose grants change is added to `changed`.
    """
    for execution, served in executions:
        for part in execution.parts:
            if part.component.core:
                continue
            more = min(part.wanted - part.covered, part.allowed) if served else 0
            for amount, there in zip(part.amounts, free, strict=True):
                if amount:
                    more = min(more, there // amount)
            more = max(more, 0)
            if more != part.granted:
                part.granted = more
                changed.add(execution)
            for kind, amount in enumerate(part.amounts):
                free[kind] -= more * amount


def _core(execution: Execution) -> list[ComponentGroup]:
    return [part for part in execution.parts if part.component.core]


def _elastic(execution: Execution) -> list[ComponentGroup]:
    return [part for part in execution.parts if not part.component.core]


def _most_of(execution: Execution) -> list[int]:
    """Return how many of each elastic part may run without any cover."""
    return [min(part.wanted, part.allowed) for part in _elastic(execution)]


class Uncovered:
    """Owns the line of those without cover, and the order in which they give back.

    Parameters
    ----------
    table, pool, book
        The executions, the machines, and what entitlements cover.
    options
        Which executions are served, and in which order, and the quotas on applications.

    Attributes
    ----------
    line
        Those without cover, served or not.
    candidates
        Executions that may have to enter or leave the line.
    quotas
        What quotas let run of those without cover.
    left
        What is granted to none, extras counted, in the pool's order.
    """

    def __init__(
        self, table: ExecutionTable, pool: MachinePool, book: CoverBook, options: DispatchOptions
    ) -> None:
        self.line = UncoveredLine(pool.resources, options.line)
        self.quotas = QuotaBook(pool, options.quotas, options.line.rank)
        self.candidates: set[Execution] = set()
        self._table = table
        self._pool = pool
        self._book = book
        self._options = options.line
        self._has_stopped = False
        self.left: list[int] = [0] * len(pool.resources)

    def withdraw(self, scratch: CycleScratch, execution: Execution) -> None:
        """Take an execution out of the line, if it stands there."""
        if self.line.tier_of(execution) is not None:
            scratch.changed.update(self.line.leave(execution, scratch.directive.at_ms))

    def serve(self, scratch: CycleScratch, total: Vector) -> None:
        """Let the line have `total`, and decide which of it run, and with how much."""
        now_ms, line, changed = scratch.directive.at_ms, self.line, scratch.changed
        if self.quotas.limits_use and (self.candidates or changed or self._has_stopped):
            self._follow_quotas(scratch)
        # None is admitted into room that another is about to leave or to take.
        lower = tuple(min(one, other) for one, other in zip(total, line.total, strict=True))
        changed.update(line.set_total(lower, now_ms))
        entering: list[tuple[Execution, Tier]] = []
        for execution in sorted(self.candidates, key=lambda one: one.order):
            tier = self._tier_of(scratch, execution)
            self._table.note(execution)
            if tier != line.tier_of(execution):
                self.withdraw(scratch, execution)
                if tier is not None and execution.started_ms is not None:
                    changed.update(line.enter(execution, tier, now_ms))
                elif tier is not None:
                    entering.append((execution, tier))
                changed.add(execution)
        self.candidates.clear()
        if len(entering) > _MANY:
            # They come into an empty pool, so that service is decided once, not each time.
            changed.update(line.set_total((0,) * len(total), now_ms))
            for execution, tier in entering:
                changed.update(line.enter(execution, tier, now_ms))
            entering = []
        changed.update(line.set_total(total, now_ms))
        for execution, tier in entering:
            changed.update(line.enter(execution, tier, now_ms))
        self._grant_extras(scratch)

    def faults(self, directive: Directive, pending: Iterable[Execution]) -> Iterator[str]:
        """Yield executions that stand in another tier than they should.

        Parameters
        ----------
        directive
            That of the last cycle.
        pending
            Executions that have changed since; they are left out.
        """
        yield from self.line.faults()
        left_out = set(pending)
        for execution in self._table:
            found = self.line.tier_of(execution)
            wanted = None if execution.is_over else self._tier_wanted(directive, execution)
            if found != wanted and execution not in left_out:
                yield f"{execution.id}: stands in tier {found} and not {wanted}"

    def _tier_wanted(self, directive: Directive, execution: Execution) -> Tier | None:
        """Return the tier of an execution from what is true of it now."""
        if any(part.covered for part in execution.parts):
            return None
        reservation = execution.application.reservation
        standing = Standing.UNKNOWN if reservation is None else directive.standings.of(reservation)
        tier = _TIERS.get(standing, Tier.BEST_EFFORT)
        if execution.started_ms is not None:
            return tier
        waits = tier is Tier.LATER and not self._table.have_ended(execution)
        held = execution in self.quotas.held_back
        return None if waits or held or not self._options.serves(tier) else tier

    def _tier_of(self, scratch: CycleScratch, execution: Execution) -> Tier | None:
        """Return where an execution stands in the line, or None: covered, or not to be served."""
        if any(part.covered for part in execution.parts):
            execution.uncovered_ms = None
            return None
        if execution.uncovered_ms is None:
            execution.uncovered_ms = scratch.directive.at_ms
        reservation = execution.application.reservation
        standing = Standing.UNKNOWN
        if reservation is not None:
            standing = scratch.directive.standings.of(reservation)
        tier = _TIERS.get(standing, Tier.BEST_EFFORT)
        if execution.started_ms is not None:
            return tier
        if tier is Tier.LATER and not self._table.have_ended(execution):
            execution.reason = "it waits for the work of the atoms before its own"
            return None
        if not self._options.serves(tier):
            execution.reason = "it waits for its reservation: nothing else is served here"
            return None
        if execution in self.quotas.held_back:
            execution.reason = self.quotas.held_back[execution]
            return None
        execution.reason = execution.reason or WAITS_FOR_ROOM
        return tier

    def _follow_quotas(self, scratch: CycleScratch) -> None:
        """Let quotas say who may be served, and with how many elastic components."""
        before, line, self._has_stopped = self.quotas.held_back, self.line, False
        known = [*line.members(), *before]
        self.quotas.held_back = {}
        standing = [
            one
            for one in dict.fromkeys([*known, *self.candidates])
            if not one.is_over
            and (one not in self.candidates or self._tier_of(scratch, one) is not None)
        ]
        covered = [one for counts in self._book.counts.values() for one in counts]
        changed = self.quotas.share(standing, covered)
        for execution in before.keys() - set(standing):
            if not execution.is_over:
                execution.reason = ""
        for execution in standing:
            reason = self.quotas.held_back.get(execution, "")
            if reason != before.get(execution, ""):
                execution.reason = reason
                self._table.note(execution)
            if bool(reason) == (line.tier_of(execution) is not None):
                self.candidates.add(execution)
            elif execution in changed and not reason:
                scratch.changed.update(line.resize(execution, scratch.directive.at_ms))
                scratch.changed.add(execution)

    def give_back(self, scratch: CycleScratch, moves: Moves) -> None:
        """Stop cores, newest first, until those in service fit in what the line has."""
        excess = [-amount for amount in self.line.free()]
        if any(amount > 0 for amount in excess):
            now_ms, soon = scratch.directive.at_ms, self._book.is_soon_covered
            order = victims_first(self.line.service_order(), now_ms, soon)
            victims = choose_victims(order, excess, self._helps())
            for execution in victims:
                moves.remove_all(execution, "the Plan needs its room")
            self.stop(scratch, victims)
            self._grant_extras(scratch)

    def _helps(self) -> Callable[[Execution], bool]:
        """Return whether stopping one frees a machine that covered work in need could use."""
        masks = [self._pool.label_mask(labels) for labels in self._book.labels_in_need()]
        if not masks or any(mask is None for mask in masks):
            return lambda _: True
        wanted = np.any([mask for mask in masks if mask is not None], axis=0)

        def helps(execution: Execution) -> bool:
            numbers = [
                number
                for part in execution.parts
                for held in part.held
                if (number := self._pool.number_of(held.machine)) is not None
            ]
            return not numbers or bool(wanted[numbers].any())

        return helps

    def stop(self, scratch: CycleScratch, victims: Sequence[Execution]) -> None:
        """Send executions without cover back into the line; their components are off already."""
        self._has_stopped = self._has_stopped or bool(victims)
        now_ms, changed = scratch.directive.at_ms, scratch.changed
        for execution in victims:
            if execution.started_ms is not None:
                cores = sum(p.component.count for p in execution.parts if p.component.core)
                scratch.lost_ms += cores * (now_ms - execution.started_ms)
                scratch.requeued.append(execution.id)
            self._table.requeue(execution, now_ms, "the Plan needs its room")
            execution.must_leave = False  # its components are off
            tier = self.line.tier_of(execution)
            if tier is None:  # it is covered, and was not on the machine of its slot
                continue
            if self._options.serves(tier):
                changed.update(self.line.requeue(execution, now_ms))
            else:
                changed.update(self.line.leave(execution, now_ms))
        changed.update(victims)

    def _grant_extras(self, scratch: CycleScratch) -> None:
        """Grant elastic components of production and of later reservations from what is left."""
        self.left = self.line.free()
        reserved: list[tuple[tuple[int, int, tuple[int, int]], Execution]] = []
        numbers = {e.reservation: e.number for e in scratch.directive.entitlements}
        for reservation, counts in self._book.counts.items():
            reserved += [((1, numbers[reservation], one.order), one) for one in counts]
        for execution, tier in self.line.reservation_holders():
            number = numbers.get(str(execution.application.reservation), 0)
            reserved.append(((int(tier), number, execution.order), execution))
        if reserved:
            ordered = [
                (execution, self._options.serves(Tier(tier)))
                for (tier, _, _), execution in sorted(reserved, key=lambda entry: entry[0])
            ]
            grant_extras(ordered, self.left, scratch.changed)
