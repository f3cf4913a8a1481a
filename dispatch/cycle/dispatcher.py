"""Dispatcher: decides from a directive, executions and machines which component runs where.

One cycle goes through the seven steps of docs/dispatch.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dispatch.cycle.cover_book import CoverBook
from dispatch.cycle.cycle import Cycle, CycleScratch
from dispatch.cycle.growth import GrowthBook
from dispatch.cycle.moves import Moves
from dispatch.cycle.options import DispatchOptions
from dispatch.cycle.placer import Placer
from dispatch.cycle.quota_book import QuotaUse
from dispatch.cycle.uncovered import Uncovered
from dispatch.cycle.unplaced import Unplaced
from dispatch.cycle.victims import clearing_of, victims_first
from dispatch.entitlements.directive import Directive
from dispatch.executions.execution import (
    UNLIMITED,
    ComponentGroup,
    Execution,
    HeldComponent,
    PlacedComponent,
)
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from dispatch.machines.placement.policy import Policy

#: Most rounds of sharing capacity in one cycle; the rest waits for the next cycle.
_ROUNDS = 4


class Dispatcher:
    """Decides in each cycle which component runs where.

    Parameters
    ----------
    options
        Placement strategy and ordering.
    rng
        Random generator of the strategy; only LoTES uses it.
    """

    def __init__(
        self, options: DispatchOptions | None = None, rng: np.random.Generator | None = None
    ) -> None:
        self._options = options or DispatchOptions()
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._state: DispatcherState | None = None
        self._directive: Directive | None = None

    def set_options(self, options: DispatchOptions) -> None:
        """Change the options from the next cycle on.

        Running core components stay; elastic components are granted again in the new order.
        """
        if options == self._options:
            return
        if self._state is not None:
            self._state.forget_reasons()
        self._options, self._state = options, None

    def running_by_class(self) -> dict[str, list[int]]:
        """Return how many components of each class of the dispatch table run on each group."""
        state = self._state
        return {} if state is None else state.placer.running_by_class(state.table)

    def quota_use(self) -> list[QuotaUse]:
        """Return the use of each quota by applications, by account."""
        return [] if self._state is None else self._state.uncovered.quotas.use

    def check(self) -> list[str]:
        """Return differences between the stored state and the state derived from scratch."""
        state, directive = self._state, self._directive
        return [] if state is None or directive is None else state.check(directive)

    def run_cycle(
        self, directive: Directive, table: ExecutionTable, machines: MachinePool
    ) -> Cycle:
        """Decide the assignment at the instant of `directive`, and start and stop components.

        `table` is changed as if a backend had carried out all deltas; failures of a backend are
        repaired by `dispatch.loop.reconcile`.
        """
        self._directive = directive
        state, scratch, arrived = self._begin(directive, table, machines)
        uncovered = state.uncovered
        moves = Moves(
            table, state.placer, directive.at_ms, lambda victim: uncovered.stop(scratch, [victim])
        )
        # 1. Changes: stop displaced components, and process changed executions.
        _stop_displaced(state, scratch, moves)
        _take_changes(state, scratch, moves, arrived)
        # 2. Cover: assign entitlements to the executions of their reservations.
        looked, changed = state.book.update(directive, state.without_cover)
        uncovered.candidates.update(looked)
        scratch.changed.update(changed)
        if uncovered.quotas.stop_overdue(
            table, uncovered.line.service_order(), directive.at_ms, state.book.is_soon_covered
        ):
            _take_changes(state, scratch, moves, ())
        # 3. Room: capacity that the entitlements leave, now and after the grace period of stops.
        room = state.book.room(directive)
        # 4. Executions without cover: which of them may run in the remaining capacity.
        room = _serve(state, scratch, room)
        if state.growth.can_grow:
            state.growth.give_back(scratch, uncovered.left)
        # 5. Victims: clear the machines of slots, and stop core components without cover where the
        # Plan needs capacity.
        state.placer.keep_all(state.book.needs.reserve())
        state.placer.set_ahead(directive.ahead, state.book.needs.idle())
        moves.clear_kept()
        uncovered.give_back(scratch, moves)
        # 6. Machines: stop components that may no longer run, and place those that may.
        if uncovered.has_queues:
            state.unplaced.shrink(scratch, moves)
            uncovered.start_queued(scratch, moves, state.placer)
        state.unplaced.place(scratch, moves, state.placer)
        # A component that has started ahead of its slot needs no reserve: others may use it.
        if state.unplaced.has_waiting and moves.keep_less(state.book.needs.reserve()):
            state.unplaced.place(scratch, moves, state.placer)
        # 7. Growth: give idle capacity to executions that can use more than they requested.
        if state.growth.can_grow:
            _grow(state, scratch, moves)
        return Cycle(
            directive.plan_version,
            directive.table_version,
            directive.at_ms,
            moves.deltas(),
            room,
            state.unplaced.below(),
            tuple(scratch.requeued),
            scratch.lost_ms,
        )

    def _begin(
        self, directive: Directive, table: ExecutionTable, machines: MachinePool
    ) -> tuple[DispatcherState, CycleScratch, list[Execution]]:
        """Update to machines and table; return the state, and the executions to process."""
        changes = table.take_changes()
        machines.set_away(directive.away)
        state, policy = self._state, self._options.policy
        fresh = state is None or state.table is not table or state.machines is not machines
        if state is None or fresh:
            placer = _placer_of(table, machines, policy, directive, self._rng)
            state = DispatcherState.of(table, machines, placer, directive, self._options)
            self._state = state
        else:
            for component in changes.came:
                state.placer.hold(*component)
            for component in changes.left:
                state.placer.release(*component)
        if state.dispatch_table_version != directive.table_version:
            state.placer = _placer_of(table, machines, policy, directive, self._rng)
            state.dispatch_table_version = directive.table_version
        closed = machines.down | directive.away_soon
        scratch = CycleScratch(directive, fresh, retry=fresh or closed != state.closed)
        state.closed = closed
        state.placer.set_open(closed)
        return state, scratch, list(table) if fresh else changes.executions


def _take_changes(
    state: DispatcherState, scratch: CycleScratch, moves: Moves, arrived: Iterable[Execution]
) -> None:
    """Process changed executions: stop those that have ended, resize the others."""
    table, uncovered, now_ms = state.table, state.uncovered, scratch.directive.at_ms
    for execution in dict.fromkeys([*arrived, *table.take_changes().executions]):
        scratch.changed.add(execution)
        state.book.note(execution)
        state.growth.note(execution)
        if execution.must_leave:
            execution.must_leave = False
            moves.remove_all(execution, execution.reason or execution.state.value)
            uncovered.withdraw(scratch, execution)
        if execution.is_over:
            uncovered.withdraw(scratch, execution)
            for part in execution.parts:
                part.covered = part.granted = part.growth = 0
            table.finish_stop(execution, now_ms)
            uncovered.candidates.discard(execution)
        elif uncovered.line.tier_of(execution) is not None:
            scratch.changed.update(uncovered.line.resize(execution, now_ms))
        else:
            uncovered.candidates.add(execution)


def _grow(state: DispatcherState, scratch: CycleScratch, moves: Moves) -> None:
    """Give idle capacity to executions; if one waits, revoke growth immediately."""
    uncovered, growth, placer = state.uncovered, state.growth, state.placer
    waits = state.unplaced.has_waiting or uncovered.has_waiting
    if growth.make_way(scratch, placer, uncovered.left, waits=waits):
        state.unplaced.place(scratch, moves, placer)
    elif not waits:
        growth.grow(moves, placer, uncovered.left)


def _serve(state: DispatcherState, scratch: CycleScratch, room: Vector) -> Vector:
    """Share the free capacity, repeatedly while executions served early add to it; return it."""
    book = state.book
    for _ in range(_ROUNDS):
        state.uncovered.serve(scratch, room)
        more = book.room(scratch.directive) if book.looks_ahead else room
        if more == room:
            break
        room = more
    return room


def move_to(table: ExecutionTable, pool: MachinePool, at_ms: int) -> None:
    """Switch to other machines.

    Components on removed machines are dropped; an execution that loses a core component is
    requeued. One that can never run any more is rejected, as if it were submitted now.
    """
    table.pool = pool
    for execution in [one for one in table if one.holds or not one.is_over]:
        execution.refit(pool)
        for part in execution.parts:
            for held in list(part.held):
                if pool.number_of(held.machine) is None:
                    table.drop(execution, part, held)
                    if part.component.core:
                        table.requeue(execution, at_ms, f"{held.machine} is gone")
        why = pool.why_never_all(execution.application)
        if why is not None:
            table.requeue(execution, at_ms, why)
            table.reject(execution, at_ms, why)


def _stop_displaced(state: DispatcherState, scratch: CycleScratch, moves: Moves) -> None:
    """Stop components on lost machines, or that no longer fit on redefined machines.

    An execution that loses a core component is requeued.
    """
    table, machines, now_ms = state.table, state.machines, scratch.directive.at_ms

    def stop(victim: PlacedComponent, reason: str) -> None:
        execution, part, _ = victim
        moves.remove(*victim, reason)
        scratch.changed.add(execution)
        if part.component.core:
            table.requeue(execution, now_ms, reason)

    for name in sorted(machines.down - state.cleared):
        for victim in list(table.on_machine(name)):
            stop(victim, f"{name} is away")
    state.cleared = machines.down
    if scratch.fresh:
        for victim in list(_label_misfits(table, machines)):
            stop(victim, f"{victim[2].machine} no longer carries its labels")
        for victim in _overflow(table, state.placer, now_ms):
            stop(victim, f"{victim[2].machine} has become too small")


def _label_misfits(table: ExecutionTable, pool: MachinePool) -> Iterator[PlacedComponent]:
    """Yield components on machines that no longer carry their labels."""
    for execution in table:
        for part in execution.parts:
            allowed = pool.label_mask(part.component.labels)
            for held in list(part.held) if allowed is not None else ():
                number = pool.number_of(held.machine)
                if allowed is not None and number is not None and not allowed[number]:
                    yield execution, part, held


def _overflow(table: ExecutionTable, placer: Placer, now_ms: int) -> Iterator[PlacedComponent]:
    """Yield the fewest components that must leave machines that have become smaller.

    Best effort goes first, then the newest: cover is known only after step 2.
    """
    for machine, missing in placer.overfull():
        elastic: list[PlacedComponent] = []
        cores: dict[Execution, list[tuple[ComponentGroup, HeldComponent]]] = {}
        for execution, part, held in table.on_machine(machine):
            if part.component.core:
                cores.setdefault(execution, []).append((part, held))
            else:
                elastic.append((execution, part, held))
        elastic.sort(key=lambda victim: (_is_reserved(victim[0]), -victim[2].since_ms))
        ordered = victims_first(cores, now_ms, _is_reserved)
        leaving = clearing_of(machine, missing, elastic, ordered)
        if leaving is not None:
            yield from leaving.elastic
            for execution in leaving.cores:
                yield from ((execution, part, held) for part, held in cores[execution])


def _is_reserved(execution: Execution) -> bool:
    return execution.application.reservation is not None


@dataclass(slots=True)
class DispatcherState:
    """State derived from one execution table and one set of machines.

    It is kept so that the cost of an arrival depends only on its changes. All of it can be derived
    again: with another table or other machines the dispatcher makes a new state.

    Attributes
    ----------
    table, machines
        The table and machines it was derived from.
    placer
        Free capacity of each machine, and the placement strategy.
    dispatch_table_version
        Version of the dispatch table that `placer` uses.
    book
        Cover by entitlements.
    uncovered
        Executions without cover, and which of them may run.
    unplaced
        Executions that may run but have no machine.
    growth
        Components beyond the requested counts.
    closed
        Machines that take no new components.
    cleared
        Machines that were down in the last cycle, where no component is left.
    """

    table: ExecutionTable
    machines: MachinePool
    placer: Placer
    dispatch_table_version: int
    book: CoverBook
    uncovered: Uncovered
    unplaced: Unplaced
    growth: GrowthBook
    closed: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        table: ExecutionTable,
        machines: MachinePool,
        placer: Placer,
        directive: Directive,
        options: DispatchOptions,
    ) -> DispatcherState:
        """Return the state before a first cycle, without cover and grants."""
        for execution in table:
            for part in execution.parts:
                part.covered = part.granted = part.growth = 0
                part.allowed, part.quota = UNLIMITED, ""
        book = CoverBook(table, machines)
        uncovered = Uncovered(table, machines, book, options)
        return cls(
            table,
            machines,
            placer,
            directive.table_version,
            book,
            uncovered,
            Unplaced(table, book),
            GrowthBook(machines, options.growth, uncovered.quotas.leaves_alone),
        )

    def check(self, directive: Directive) -> list[str]:
        """Return differences between the stored and the derived state, in words; empty if correct.

        Parameters
        ----------
        directive
            Directive of the last cycle. Executions changed since then are left out.
        """
        pending = self.table.pending.executions
        return [
            *self.table.faults(),
            *self.placer.faults(self.table),
            *self.book.faults(pending),
            *self.uncovered.faults(directive, pending),
            *self.unplaced.faults(pending),
        ]

    def forget_reasons(self) -> None:
        """Clear wait reasons, so that the next cycle sets them again."""
        for execution in self.table:
            if not execution.is_over and execution.reason:
                execution.reason = ""
                self.table.note(execution)

    def without_cover(self) -> list[Execution]:
        """Return the executions that no entitlement covers."""
        return [*self.uncovered.candidates, *self.uncovered.members()]


def _placer_of(
    table: ExecutionTable,
    machines: MachinePool,
    policy: Policy,
    directive: Directive,
    rng: np.random.Generator,
) -> Placer:
    """Return a placer for the directive's dispatch table, with all placed components counted."""
    placer = Placer(machines, policy, directive.dispatch_table, rng)
    placer.hold_all(table)
    return placer
