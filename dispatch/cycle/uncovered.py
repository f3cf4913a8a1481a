"""Uncovered: executions that no entitlement covers, and which of them may run (steps 4 and 5).

One core/elastic pool serves them in three tiers: best effort, production above its entitlement,
and work of later reservations. Elastic components follow the same order; uncovered ones of
covered executions join the second tier.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from dispatch.cycle.class_queues import ClassQueues
from dispatch.cycle.cover_book import CoverBook
from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.moves import Moves
from dispatch.cycle.options import DispatchOptions, LineOptions, Tier
from dispatch.cycle.placer import Placer
from dispatch.cycle.quota_book import QuotaBook
from dispatch.cycle.victims import choose_victims, victims_first
from dispatch.entitlements.directive import Directive, Standing
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from dispatch.pool.claims import Claim, ClaimPart, Grant
from dispatch.pool.scheduler import ElasticScheduler

#: Why an application waits whose turn has not come.
WAITS_FOR_ROOM: Final = "it waits in the line for capacity"

#: Ranks of applications (twice a priority, and one for interactive) stay inside this.
_TIER_RANKS = 8_000_000

#: More arrivals than these in one cycle are accepted together.
_MANY = 16


_TIERS = {Standing.ACTIVE: Tier.ABOVE, Standing.LATER: Tier.LATER}


class UncoveredLine:
    """Owns the core/elastic pool: says how many components of each group may run without cover.

    Parameters
    ----------
    table
        The executions.
    kinds
        Names of the resources, in the order of amounts.
    options
        Which executions are served, and in which order.
    """

    def __init__(self, table: ExecutionTable, kinds: Sequence[str], options: LineOptions) -> None:
        ordering = replace(options.ordering, by_priority=True)
        self._pool = ElasticScheduler(dict.fromkeys(kinds, 0), ordering, options.allocation)
        self._options = options
        self._table = table
        self._total: Vector = (0,) * len(kinds)

    def tier_of(self, execution: Execution) -> Tier | None:
        """Return the tier of an execution here, or None."""
        found = self._pool.tier_of(execution.id)
        return None if found is None else Tier(found)

    def has(self, execution: Execution) -> bool:
        """Return whether an execution is here, or has joined with its uncovered components."""
        return self._pool.tier_of(execution.id) is not None or self._pool.has_joined(execution.id)

    @property
    def total(self) -> Vector:
        """Limit of the queue's use, in canonical amounts by resource."""
        return self._total

    @property
    def has_waiting(self) -> bool:
        """Whether an execution is here whose cores may not run yet."""
        return self._pool.has_waiting

    def has_room(self, execution: Execution) -> bool:
        """Return whether the cores of an execution fit in the capacity outside of service."""
        pairs = zip(execution.core, self._pool.core_room(), strict=True)
        return all(asked <= room for asked, room in pairs if asked)

    def members(self) -> Iterator[Execution]:
        """Yield all executions here, served or not."""
        for name in (*self._pool.service_order(), *self._pool.queue()):
            yield self._named(name)

    def service_order(self) -> Iterator[Execution]:
        """Yield the executions whose cores may run."""
        for name in self._pool.service_order():
            yield self._named(name)

    def enter(
        self, execution: Execution, tier: Tier, now_ms: int, number: int = 0
    ) -> list[Execution]:
        """Take an execution in; one that runs keeps its cores. Return the executions whose grants
        change.

        `number` is that of its reservation in the order of acceptance.
        """
        elastic = self._wanted_of(execution, tier)
        core = tuple(ClaimPart(p.component.count, p.amounts) for p in _core(execution))
        claim = self._claim(execution, tier, core, elastic, number)
        enter = self._pool.adopt if execution.started_ms is not None else self._pool.arrive
        return self._take(enter(claim, now_ms / 1000))

    def join(self, covered: Iterable[tuple[Execution, int]], now_ms: int) -> list[Execution]:
        """Let covered executions ask for the elastic components that their cover leaves out.

        Each comes with the number of its reservation. Returns the executions whose grants change.
        """
        gone: list[str] = []
        come: list[Claim] = []
        for execution, number in covered:
            wanted = self._wanted_of(execution, None)
            if self._pool.has_joined(execution.id):
                if any(wanted) and wanted == self._pool.wanted_of(execution.id):
                    continue
                gone.append(execution.id)
                for part in _elastic(execution):
                    part.granted = 0
            if any(wanted):
                come.append(self._claim(execution, Tier.ABOVE, (), wanted, number))
        if not (gone or come):
            return []
        changed = [self._named(name) for name in gone]
        return changed + self._take(self._pool.replace_joined(gone, come, now_ms / 1000))

    def leave(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Remove an execution; return the executions whose grants change."""
        for part in execution.parts:
            part.granted = 0
        if self._pool.has_joined(execution.id):
            return self._take(self._pool.replace_joined([execution.id], (), now_ms / 1000))
        return self._take(self._pool.depart(execution.id, now_ms / 1000))

    def requeue(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Return a served execution to the queue; return the executions whose grants change."""
        for part in execution.parts:
            part.granted = 0
        return self._take(self._pool.requeue(execution.id, now_ms / 1000))

    def resize(self, execution: Execution, now_ms: int) -> list[Execution]:
        """Follow how many elastic components an execution still wants."""
        wanted = self._wanted_of(execution, self.tier_of(execution))
        for part, most in zip(_elastic(execution), wanted, strict=True):
            part.granted = min(part.granted, most)
        return self._take(self._pool.resize(execution.id, wanted, now_ms / 1000))

    def set_total(self, total: Vector, now_ms: int) -> list[Execution]:
        """Set the capacity of the queue to `total`; return the executions whose grants change."""
        if total == self._total:
            return []
        self._total = total
        amounts = dict(zip(self._pool.resources, total, strict=True))
        return self._take(self._pool.set_total(amounts, now_ms / 1000))

    def free(self) -> list[int]:
        """Return the capacity that best effort and cores leave; negative if cores exceed it."""
        return list(self._pool.free().values())

    def left(self) -> list[int]:
        """Return the capacity that is granted to no execution."""
        return self._pool.left()

    def faults(self, left_out: Container[Execution]) -> Iterator[str]:
        """Yield differences between the pool and its copies, also those in executions."""
        yield from self._pool.faults()
        for execution in self._table:
            if execution in left_out:
                continue
            id_, tier = execution.id, self.tier_of(execution)
            granted = tuple(part.granted for part in _elastic(execution))
            if tier is None and not self._pool.has_joined(id_):
                if any(part.granted for part in execution.parts):
                    yield f"{id_}: {granted} are granted outside the line"
                continue
            served = self._pool.is_served(id_)
            cores = [part.granted for part in _core(execution)]
            if cores != [part.component.count * served for part in _core(execution)]:
                yield f"{id_}: {cores} cores are granted, in service: {served}"
            if granted != self._pool.grants_of(id_):
                yield f"{id_}: {granted} granted and not {self._pool.grants_of(id_)}"
            wanted = self._wanted_of(execution, tier)
            if self._pool.wanted_of(id_) != wanted:
                yield f"{id_}: {self._pool.wanted_of(id_)} are wanted and not {wanted}"

    def _wanted_of(self, execution: Execution, tier: Tier | None) -> tuple[int, ...]:
        """Return how many of each elastic group an execution asks for; None: above its cover."""
        if tier is Tier.BEST_EFFORT:
            serves = self._options.best_effort_elastic
        else:
            serves = self._options.serves(Tier.ABOVE if tier is None else tier)
        return tuple(
            max(0, min(part.wanted - part.covered, part.allowed)) if serves else 0
            for part in _elastic(execution)
        )

    def _named(self, name: str) -> Execution:
        found = self._table.get(name)
        assert found is not None
        return found

    def _claim(
        self,
        execution: Execution,
        tier: Tier,
        core: tuple[ClaimPart, ...],
        elastic: Sequence[int],
        number: int,
    ) -> Claim:
        application = execution.application
        parts = zip(_elastic(execution), elastic, strict=True)
        return Claim(
            execution.id,
            core,
            tuple(ClaimPart(most, part.amounts) for part, most in parts),
            execution.submitted_ms / 1000,
            inf if application.size_ms is None else application.size_ms / 1000,
            self._options.rank(application) - tier * _TIER_RANKS,
            execution.tenant,
            int(tier),
            (number, execution.number),
        )

    def _take(self, grants: Iterable[Grant]) -> list[Execution]:
        changed: list[Execution] = []
        for grant in grants:
            execution = self._named(grant.name)
            for part, count in zip(_elastic(execution), grant.granted, strict=True):
                part.granted = count
            if self._pool.is_served(grant.name):
                for part in _core(execution):
                    part.granted = part.component.count
            changed.append(execution)
        return changed


def _core(execution: Execution) -> list[ComponentGroup]:
    return [part for part in execution.parts if part.component.core]


def _elastic(execution: Execution) -> list[ComponentGroup]:
    return [part for part in execution.parts if not part.component.core]


class Uncovered:
    """Owns the line of those without cover, and the order in which they release.

    Parameters
    ----------
    table, pool, book
        The executions, the machines, and the cover by entitlements.
    options
        Which executions are served, and in which order, and the quotas on applications.

    Attributes
    ----------
    line
        Executions without cover, served or not; with queues of classes only served ones.
    queues
        Those that wait by class; empty if the order is another.
    candidates
        Executions that may have to enter or leave the line.
    quotas
        The work without cover that quotas allow.
    left
        Wanted components that are not granted, extras included, in the pool's order.
    """

    def __init__(
        self, table: ExecutionTable, pool: MachinePool, book: CoverBook, options: DispatchOptions
    ) -> None:
        self.line = UncoveredLine(table, pool.resources, options.line)
        self.queues = ClassQueues(table, options.line)
        self.quotas = QuotaBook(pool, options.quotas, options.line.rank)
        self.candidates: set[Execution] = set()
        self._table = table
        self._pool = pool
        self._book = book
        self._options = options.line
        self._has_stopped = False
        self.left: list[int] = [0] * len(pool.resources)

    @property
    def has_queues(self) -> bool:
        """Whether machines choose among classes."""
        return self._options.by_class

    @property
    def has_waiting(self) -> bool:
        """Whether an execution waits whose cores may not run yet."""
        return self.line.has_waiting or bool(self.queues)

    def members(self) -> Iterator[Execution]:
        """Yield all that run or wait without cover."""
        yield from self.line.members()
        yield from self.queues.members()

    def withdraw(self, scratch: CycleScratch, execution: Execution) -> None:
        """Remove an execution from its queue."""
        self.queues.discard(execution)
        if self.line.has(execution):
            scratch.changed.update(self.line.leave(execution, scratch.directive.at_ms))

    def start_queued(self, scratch: CycleScratch, moves: Moves, placer: Placer) -> None:
        """Start waiting executions of the queues of classes on machines, and assign arrivals to
        machines."""
        now_ms = scratch.directive.at_ms
        numbers = {one.reservation: one.number for one in scratch.directive.entitlements}

        def start(execution: Execution, tier: Tier, machine: int | None) -> bool:
            cores = _core(execution)
            if not self.line.has_room(execution):
                return False
            for part in cores:
                part.granted = part.component.count
            if not moves.begin(execution, machine):
                for part in cores:
                    part.granted = 0
                return False
            self._table.admit(execution, now_ms)
            number = numbers.get(execution.application.reservation or "", 0)
            scratch.changed.update(self.line.enter(execution, tier, now_ms, number))
            scratch.changed.add(execution)
            return True

        self.queues.serve(scratch, placer, self.line.total, start)
        self.left = self.line.left()

    def serve(self, scratch: CycleScratch, total: Vector) -> None:
        """Let the line have `total`, and decide which of it run, and with how much."""
        now_ms, line, changed = scratch.directive.at_ms, self.line, scratch.changed
        if self.quotas.limits_use and (self.candidates or changed or self._has_stopped):
            self._follow_quotas(scratch)
        # None is admitted into capacity that another is about to leave or to take.
        lower = tuple(min(one, other) for one, other in zip(total, line.total, strict=True))
        changed.update(line.set_total(lower, now_ms))
        numbers = {one.reservation: one.number for one in scratch.directive.entitlements}
        entering: list[tuple[Execution, Tier, int]] = []
        covered: list[tuple[Execution, int]] = []
        for execution in sorted(self.candidates, key=lambda one: one.order):
            tier = self._tier_of(scratch, execution)
            number = numbers.get(execution.application.reservation or "", 0)
            self._table.note(execution)
            if self.has_queues and tier is not None and execution.started_ms is None:
                if line.has(execution):
                    self.withdraw(scratch, execution)
                    changed.add(execution)
                self.queues.put(execution, tier)
                continue
            if tier != self._standing_of(execution):
                self.withdraw(scratch, execution)
                if tier is not None and execution.started_ms is not None:
                    changed.update(line.enter(execution, tier, now_ms, number))
                elif tier is not None:
                    entering.append((execution, tier, number))
                changed.add(execution)
            if any(part.covered for part in execution.parts):
                covered.append((execution, number))
        self.candidates.clear()
        changed.update(line.join(covered, now_ms))
        if len(entering) > _MANY:
            # They come into an empty pool, so that service is decided once, not each time.
            changed.update(line.set_total((0,) * len(total), now_ms))
            for execution, tier, number in entering:
                changed.update(line.enter(execution, tier, now_ms, number))
            entering = []
        changed.update(line.set_total(total, now_ms))
        for execution, tier, number in entering:
            changed.update(line.enter(execution, tier, now_ms, number))
        self.left = line.left()

    def faults(self, directive: Directive, pending: Iterable[Execution]) -> Iterator[str]:
        """Yield executions in a wrong tier.

        Parameters
        ----------
        directive
            That of the last cycle.
        pending
            Executions that have changed since; they are left out.
        """
        left_out = set(pending)
        yield from self.line.faults(left_out)
        yield from self.queues.faults()
        for execution in self._table:
            found = self._standing_of(execution)
            wanted = None if execution.is_over else self._tier_wanted(directive, execution)
            if found != wanted and execution not in left_out:
                yield f"{execution.id}: stands in tier {found} and not {wanted}"

    def _standing_of(self, execution: Execution) -> Tier | None:
        """Return the tier of an execution in its queue, or None."""
        found = self.line.tier_of(execution)
        return self.queues.tier_of(execution) if found is None else found

    def _tier_wanted(self, directive: Directive, execution: Execution) -> Tier | None:
        """Return the tier of an execution from its present state."""
        if any(part.covered for part in execution.parts):
            return None
        reservation = execution.application.reservation
        standing = Standing.UNKNOWN if reservation is None else directive.standings.of(reservation)
        tier = _TIERS.get(standing, Tier.BEST_EFFORT)
        if execution.started_ms is not None:
            return tier
        waits = tier is Tier.LATER and self._comes_too_early(execution)
        waits = waits or bool(_must_wait(execution, standing))
        held = execution in self.quotas.held_back
        return None if waits or held or not self._options.serves(tier) else tier

    def _tier_of(self, scratch: CycleScratch, execution: Execution) -> Tier | None:
        """Return the position of an execution in the queue, or None: covered, or not to be
        served."""
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
        must_wait = _must_wait(execution, standing)
        if must_wait:
            execution.reason = must_wait
            return None
        if tier is Tier.LATER and self._comes_too_early(execution):
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

    def _comes_too_early(self, execution: Execution) -> bool:
        """Return whether the work of the atoms before an execution's own has not ended.

        An execution whose slot has begun has no such work: its needs determine what it waits for.
        """
        begun = execution.awaits_slot and execution.slot_began
        return not begun and not self._table.have_ended(execution)

    def _follow_quotas(self, scratch: CycleScratch) -> None:
        """Let quotas say who may be served, and with how many elastic components."""
        before, line, self._has_stopped = self.quotas.held_back, self.line, False
        known = [*self.members(), *before]
        self.quotas.held_back = {}
        standing = [
            one
            for one in dict.fromkeys([*known, *self.candidates])
            if not one.is_over
            and (one not in self.candidates or self._tier_of(scratch, one) is not None)
        ]
        covered = [one for counts in self._book.counts.values() for one in counts]
        changed = self.quotas.share(standing, covered)
        self.candidates.update(changed.intersection(covered))
        for execution in before.keys() - set(standing):
            if not execution.is_over:
                execution.reason = ""
        for execution in standing:
            reason = self.quotas.held_back.get(execution, "")
            if reason != before.get(execution, ""):
                execution.reason = reason
                self._table.note(execution)
            if bool(reason) == (self._standing_of(execution) is not None):
                self.candidates.add(execution)
            elif execution in changed and line.has(execution):
                scratch.changed.update(line.resize(execution, scratch.directive.at_ms))
                scratch.changed.add(execution)

    def give_back(self, scratch: CycleScratch, moves: Moves) -> None:
        """Stop cores, newest first, until those in service fit in the capacity of the queue."""
        excess = [-amount for amount in self.line.free()]
        if any(amount > 0 for amount in excess):
            now_ms, soon = scratch.directive.at_ms, self._book.is_soon_covered
            order = victims_first(self.line.service_order(), now_ms, soon)
            victims = choose_victims(order, excess, self._helps())
            for execution in victims:
                moves.remove_all(execution, "the Plan needs its capacity")
            self.stop(scratch, victims)
            self.left = self.line.left()

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
            self._table.requeue(execution, now_ms, "the Plan needs its capacity")
            execution.must_leave = False  # its components are off
            tier = self.line.tier_of(execution)
            if tier is None:  # it is covered, and was not on the machine of its slot
                continue
            if self._options.serves(tier) and not self.has_queues:
                changed.update(self.line.requeue(execution, now_ms))
                continue
            changed.update(self.line.leave(execution, now_ms))
            if self._options.serves(tier):
                self.queues.put(execution, tier)
        changed.update(victims)


def _must_wait(execution: Execution, standing: Standing) -> str:
    """Return why an execution may not start even with free capacity; empty if it may."""
    if execution.is_held_up:
        late = "late: its slot has begun, and " if execution.slot_began else ""
        return f"{late}it waits for {' and '.join(execution.needs)} to succeed"
    if (
        execution.awaits_slot
        and not execution.slot_began
        and standing in (Standing.ACTIVE, Standing.LATER)
    ):
        return "it waits for its slot to begin"
    return ""
