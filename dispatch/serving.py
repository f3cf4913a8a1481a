"""Serving: those without cover, and what they give back (steps 3 and 4 of a cycle)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dispatch.cover_book import CoverBook
from dispatch.cycle import Work
from dispatch.directive import Standing
from dispatch.execution_table import Execution, ExecutionTable
from dispatch.give_back import choose_victims, victims_first
from dispatch.line import Line, LineOptions, Tier, grant_extras
from dispatch.machines import MachinePool, Vector

#: More arrivals than these in one cycle are taken in together.
_MANY = 16

_TIERS = {Standing.ACTIVE: Tier.ABOVE, Standing.LATER: Tier.LATER}


class Serving:
    """Owns the line; every method takes the cycle's work, to which it adds.

    Attributes
    ----------
    line
        Those without cover.
    open
        Executions that may have to enter or leave the line.
    """

    def __init__(
        self, table: ExecutionTable, pool: MachinePool, book: CoverBook, options: LineOptions
    ) -> None:
        self.line = Line(pool.resources, options)
        self.open: set[Execution] = set()
        self._table = table
        self._pool = pool
        self._book = book
        self._options = options

    def withdraw(self, work: Work, execution: Execution) -> None:
        """Take an execution out of the line, if it stands there."""
        if self.line.tier_of(execution) is not None:
            work.changed.update(self.line.leave(execution, work.directive.at_ms))

    def serve(self, work: Work, total: Vector) -> None:
        """Let the line have `total`: who runs without cover, and with how much."""
        now_ms, line, changed = work.directive.at_ms, self.line, work.changed
        # Nobody is admitted into room that somebody else is about to leave or to take.
        lower = tuple(min(one, other) for one, other in zip(total, line.total, strict=True))
        changed.update(line.set_total(lower, now_ms))
        entering: list[tuple[Execution, Tier]] = []
        for execution in sorted(self.open, key=lambda one: one.order):
            tier = self._tier_of(work, execution)
            self._table.note(execution)
            if tier != line.tier_of(execution):
                self.withdraw(work, execution)
                if tier is not None and execution.started_ms is not None:
                    changed.update(line.enter(execution, tier, now_ms))
                elif tier is not None:
                    entering.append((execution, tier))
                changed.add(execution)
        self.open.clear()
        if len(entering) > _MANY:
            # They come into an empty pool, so that who is served is decided once, not each time.
            changed.update(line.set_total((0,) * len(total), now_ms))
            for execution, tier in entering:
                changed.update(line.enter(execution, tier, now_ms))
            entering = []
        changed.update(line.set_total(total, now_ms))
        for execution, tier in entering:
            changed.update(line.enter(execution, tier, now_ms))
        self._grant_extras(work)

    def _tier_of(self, work: Work, execution: Execution) -> Tier | None:
        """Return where an execution stands in the line, or None: covered, or not to be served."""
        if any(part.covered for part in execution.parts):
            return None
        reservation = execution.application.reservation
        standing = Standing.UNKNOWN
        if reservation is not None:
            standing = work.directive.standings.of(reservation)
        tier = _TIERS.get(standing, Tier.BEST_EFFORT)
        if execution.started_ms is not None:
            return tier
        if tier is Tier.LATER and not self._table.have_ended(execution):
            execution.reason = "it waits for the work of the atoms before its own"
            return None
        if not self._options.serves(tier):
            execution.reason = "it waits for its reservation: nothing else is served here"
            return None
        execution.reason = execution.reason or "it waits in the line for room"
        return tier

    def give_back(self, work: Work) -> None:
        """Stop cores, newest first, until those in service fit in what the line has."""
        excess = [-amount for amount in self.line.free()]
        if any(amount > 0 for amount in excess):
            now_ms, soon = work.directive.at_ms, self._book.is_soon_covered
            order = victims_first(self.line.serving(), now_ms, soon)
            victims = choose_victims(order, excess, self._helps())
            for execution in victims:
                work.mover.remove_all(execution, "the Plan needs its room")
            self.stop(work, victims)
            self._grant_extras(work)

    def _helps(self) -> Callable[[Execution], bool]:
        """Return whether stopping one frees a machine that covered work in need could use."""
        masks = [self._pool.allowed(labels) for labels in self._book.labels_in_need()]
        if not masks or any(mask is None for mask in masks):
            return lambda _: True
        wanted = np.any([mask for mask in masks if mask is not None], axis=0)

        def helps(execution: Execution) -> bool:
            numbers = [
                number
                for part in execution.parts
                for piece in part.held
                if (number := self._pool.number_of(piece.machine)) is not None
            ]
            return not numbers or bool(wanted[numbers].any())

        return helps

    def stop(self, work: Work, victims: Sequence[Execution]) -> None:
        """Send executions without cover back into the line; their components are off already."""
        now_ms, changed = work.directive.at_ms, work.changed
        for execution in victims:
            if execution.started_ms is not None:
                cores = sum(p.component.count for p in execution.parts if p.component.core)
                work.lost_ms += cores * (now_ms - execution.started_ms)
                work.requeued.append(execution.id)
            self._table.requeue(execution, now_ms, "the Plan needs its room")
            execution.must_leave = False  # its components are off
            tier = self.line.tier_of(execution)
            if tier is not None and self._options.serves(tier):
                changed.update(self.line.requeue(execution, now_ms))
            else:
                changed.update(self.line.leave(execution, now_ms))
        changed.update(victims)

    def _grant_extras(self, work: Work) -> None:
        """Grant elastic components of production and of later reservations from what is left."""
        reserved: list[tuple[tuple[int, int, tuple[int, int]], Execution]] = []
        numbers = {e.reservation: e.number for e in work.directive.entitlements}
        for reservation, counts in self._book.counts.items():
            reserved += [((1, numbers[reservation], one.order), one) for one in counts]
        for execution, tier in self.line.reserved():
            number = numbers.get(str(execution.application.reservation), 0)
            reserved.append(((int(tier), number, execution.order), execution))
        if reserved:
            ordered = [
                (execution, self._options.serves(Tier(tier)))
                for (tier, _, _), execution in sorted(reserved, key=lambda entry: entry[0])
            ]
            grant_extras(ordered, self.line.free(), work.changed)
