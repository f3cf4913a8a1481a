"""Dispatcher: from a directive, the executions and the machines to who runs where, now.

One cycle goes through the five steps of docs/dispatch.md. The dispatcher keeps what it derived
from one cycle to the next, so that an arrival costs what the arrival changes; all of it can be
derived again from the execution table, which is what a new dispatcher does in its first cycle.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from dispatch.cycle.cover_book import CoverBook
from dispatch.cycle.cycle import Cycle, CycleScratch
from dispatch.cycle.machine_changes import misplaced, overflowing
from dispatch.cycle.moves import Mover, missing_parts, place_order, why_unplaced
from dispatch.cycle.placer import Placer
from dispatch.cycle.uncovered import LineOptions, Serving
from dispatch.cycle.victims import Victim
from dispatch.entitlements.directive import Directive
from dispatch.executions.execution import Execution
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from dispatch.machines.placement.policy import Policy

#: How often room is shared in one cycle at most; what is left over then waits for the next.
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """How a dispatcher works.

    Attributes
    ----------
    policy
        Strategy that finds machines; ``lotes`` follows the directive's dispatch table.
    line
        Who is served without cover, and in which order.
    """

    policy: Policy = "best_fit"
    line: LineOptions = field(default_factory=LineOptions)


class Dispatcher:
    """Owns cover, the line of those without, and the index of machines.

    Parameters
    ----------
    options
        Strategy and orders.
    rng
        For the strategy; only LoTES draws.
    """

    _pool: MachinePool
    _placer: Placer
    _book: CoverBook
    _serving: Serving
    _work: CycleScratch
    _retry: bool
    _anew: bool
    _closed: frozenset[str]
    _cleared: frozenset[str]
    _pending: list[Execution]
    _paused: bool

    def __init__(
        self, options: DispatchOptions | None = None, rng: np.random.Generator | None = None
    ) -> None:
        self._options = options or DispatchOptions()
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._table: ExecutionTable | None = None
        self._directive: Directive | None = None

    def run_cycle(
        self, directive: Directive, queue: ExecutionTable, machines: MachinePool
    ) -> Cycle:
        """Decide what runs where at the instant of `directive`, and move what has to move.

        `queue` is changed as if a backend had carried out all deltas; what one could not do is
        put right by `dispatch.loop.reconcile`.
        """
        changed = self._begin(directive, queue, machines)
        mover = Mover(queue, self._placer, directive.at_ms, self._stop)
        self._work = work = CycleScratch(directive, mover)
        self._clear_machines(machines)
        self._take_changes(changed)
        looked, moved = self._book.update(directive, self._uncovered)  # step 1
        self._serving.open.update(looked)
        work.changed.update(moved)
        room = self._share_room(work)  # steps 2, 3 and 5
        self._serving.give_back(work)  # step 4
        self._place()
        self._directive = directive
        below = frozenset(
            str(one.application.reservation)
            for one in (self._pending if self._book.counts else ())
            if any(len(part.held) < part.covered for part in one.parts)
        )
        deltas = work.mover.moves.deltas()
        return Cycle(
            directive.plan_version,
            directive.table_version,
            directive.at_ms,
            deltas,
            room,
            below,
            tuple(work.requeued),
            work.lost_ms,
        )

    def _begin(
        self, directive: Directive, queue: ExecutionTable, machines: MachinePool
    ) -> list[Execution]:
        """Follow machines and table; return the executions to look at."""
        changes = queue.take_changes()
        changed = changes.executions
        machines.set_away(directive.away)
        before = self._directive
        anew = self._table is not queue or self._pool is not machines
        if anew:
            self._start_over(queue, machines)
            changed = list(queue)
        else:
            for one in changes.came:
                self._placer.hold(*one)
            for one in changes.left:
                self._placer.release(*one)
        self._retry = self._anew = anew
        if anew or before is None or before.table_version != directive.table_version:
            table = directive.dispatch_table
            self._placer = Placer(machines, self._options.policy, table, self._rng)
            self._placer.hold_all(queue)
        closed = machines.down | directive.away_soon
        if anew or closed != self._closed:
            self._retry = True
            self._closed = closed
        self._placer.set_open(closed)
        return changed

    def _start_over(self, queue: ExecutionTable, machines: MachinePool) -> None:
        self._table, self._pool = queue, machines
        self._directive = None
        self._book = CoverBook(queue, machines)
        self._serving = Serving(queue, machines, self._book, self._options.line)
        self._closed = self._cleared = frozenset()
        self._pending, self._paused = [], False
        for execution in queue:
            for part in execution.parts:
                part.covered = part.granted = 0

    def _clear_machines(self, machines: MachinePool) -> None:
        """Stop what has lost its machine, or its place there where machines have changed."""
        assert self._table is not None
        for name in sorted(machines.down - self._cleared):
            for victim in list(self._table.on_machine(name)):
                self._evict(victim, f"{name} is away")
        self._cleared = machines.down
        if self._anew:
            for victim in list(misplaced(self._table, machines)):
                self._evict(victim, f"{victim[2].machine} no longer carries its labels")
            for victim in overflowing(self._table, self._placer, self._work.directive.at_ms):
                self._evict(victim, f"{victim[2].machine} has become too small")

    def _evict(self, victim: Victim, reason: str) -> None:
        """Take a component off its machine; who loses a core goes back into the line."""
        assert self._table is not None
        execution, part, _ = victim
        self._work.mover.remove(*victim, reason)
        self._work.changed.add(execution)
        if part.component.core:
            self._table.requeue(execution, self._work.directive.at_ms, reason)

    def _take_changes(self, changed: Iterable[Execution]) -> None:
        assert self._table is not None
        also = self._table.take_changes().executions
        now_ms, serving = self._work.directive.at_ms, self._serving
        for execution in dict.fromkeys([*changed, *also]):
            self._work.changed.add(execution)
            self._book.note(execution)
            if execution.must_leave:
                execution.must_leave = False
                reason = execution.reason or execution.state.value
                self._work.mover.remove_all(execution, reason)
                serving.withdraw(self._work, execution)
            if execution.is_over:
                for part in execution.parts:
                    part.covered = part.granted = 0
                self._table.stopped(execution, now_ms)
                serving.open.discard(execution)
            elif serving.line.tier_of(execution) is not None:
                self._work.changed.update(serving.line.resize(execution, now_ms))
            else:
                serving.open.add(execution)

    def _uncovered(self) -> list[Execution]:
        return [*self._serving.open, *self._serving.line.members()]

    def _stop(self, execution: Execution) -> None:
        self._serving.stop(self._work, [execution])

    def _share_room(self, work: CycleScratch) -> Vector:
        """Serve the others with what is left, again while those ahead of their cover add to it."""
        book, directive = self._book, work.directive
        room = book.room(directive)
        for _ in range(_ROUNDS):
            self._serving.serve(work, room)
            more = book.room(directive) if book.looks_ahead else room
            if more == room:
                break
            room = more
        return room

    def _place(self) -> None:
        """Stop what may no longer run, then find machines for what may."""
        assert self._table is not None
        mover, now_ms = self._work.mover, self._work.directive.at_ms
        for execution in list(self._work.changed):
            mover.shrink(execution, "the Plan or an earlier application needs its room")
        tried = self._work.changed.union(self._worth_retrying(now_ms))
        numbers = {e.reservation: e.number for e in self._work.directive.entitlements}
        self._grow(tried, numbers)
        while self._work.changed - tried or mover.again:
            more = (self._work.changed - tried) | mover.again
            mover.again = set()
            for execution in more:
                mover.shrink(execution, "the Plan or an earlier application needs its room")
            tried = tried | more
            self._grow(more, numbers)
        kept = [one for one in self._pending if one not in tried]
        self._pending = kept + [one for one in tried if not one.is_over and missing_parts(one)]
        for execution in tried:
            self._table.note(execution)
            if execution.state is ExecutionState.QUEUED and missing_parts(execution):
                execution.reason = why_unplaced(execution)
        if self._paused or _have_paused(tried):
            self._paused = _have_paused(self._pending)

    def _worth_retrying(self, now_ms: int) -> Iterable[Execution]:
        """Return those without a place that may find one now."""
        if self._retry or not self._pending:
            self._placer.take_fitting(())
            return self._pending
        if not (self._placer.has_freed or self._book.counts or self._paused):
            return ()
        waiting = [(one, part) for one in self._pending for part in missing_parts(one)]
        fits = self._placer.take_fitting([part.amounts for _, part in waiting])
        return {
            one
            for (one, part), fit in zip(waiting, fits, strict=True)
            if fit or part.covered or 0 < part.paused_until_ms <= now_ms
        }

    def _grow(self, executions: Iterable[Execution], numbers: dict[str, int]) -> None:
        assert self._table is not None
        entries = [
            (place_order(one, self._number_of(one, numbers)), one)
            for one in executions
            if not one.is_over
        ]
        for _, execution in sorted(entries, key=lambda entry: entry[0]):
            self._work.mover.grow(execution)
            cores = [part for part in execution.parts if part.component.core]
            placed = all(len(part.held) == part.component.count for part in cores)
            if placed and execution.state is ExecutionState.QUEUED:
                self._table.admitted(execution, self._work.directive.at_ms)

    def _number_of(self, execution: Execution, numbers: dict[str, int]) -> int | None:
        covered = any(part.covered for part in execution.parts)
        return numbers.get(str(execution.application.reservation)) if covered else None


def _have_paused(executions: Iterable[Execution]) -> bool:
    return any(part.paused_until_ms for one in executions for part in one.parts)
