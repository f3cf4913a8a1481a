"""Dispatcher: from a directive, the executions and the machines to who runs where, now.

One cycle goes through the five steps of docs/dispatch.md. The dispatcher keeps what it derived
from one cycle to the next, so that an arrival costs what the arrival changes; all of it can be
derived again from the execution table, which is what a new dispatcher does in its first cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatch.assignment import Delta
from dispatch.cover import Counts, covered_counts, demand_of
from dispatch.directive import Directive, Entitlement, Standing
from dispatch.execution_table import Execution, ExecutionTable
from dispatch.executions import ExecutionState
from dispatch.give_back import choose_victims, victims_first
from dispatch.line import Line, LineOptions, Tier, grant_extras
from dispatch.machines import MachinePool, Vector
from dispatch.moving import Mover, missing_parts, place_order
from dispatch.placement.interface import Policy
from dispatch.placer import Placer


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


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did; `ExecutionTable.assignment` says what runs where after it.

    Attributes
    ----------
    deltas
        For the backend, in the order in which they are carried out.
    room
        What the entitlements leave of the machines that are up (R of step 2).
    below
        Reservations of which entitled demand found no machine.
    requeued
        Executions without cover whose cores were stopped.
    lost_ms
        Time their core components had run, summed over components.
    """

    plan_version: int
    table_version: int
    at_ms: int
    deltas: tuple[Delta, ...]
    room: Vector
    below: frozenset[str]
    requeued: tuple[str, ...]
    lost_ms: int


@dataclass(slots=True)
class _Work:
    """The scratch of one cycle."""

    directive: Directive
    mover: Mover
    changed: set[Execution] = field(default_factory=set)
    requeued: list[str] = field(default_factory=list)
    lost_ms: int = 0


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
    _line: Line
    _work: _Work
    _retry: bool
    _closed: frozenset[str]
    _cleared: frozenset[str]
    _counts: dict[str, Counts]
    _sums: dict[str, list[int]]
    _soon: dict[str, tuple[list[int], Counts]]
    _dirty: set[str]
    _open: set[Execution]
    _pending: list[Execution]

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
        put right by `dispatch.reconcile`.
        """
        changed = self._begin(directive, queue, machines)
        self._work = work = _Work(
            directive, Mover(queue, self._placer, directive.at_ms, self._stop)
        )
        self._clear_machines(machines)
        self._take_changes(changed)
        self._cover(directive)  # step 1
        room = self._share_room(directive)  # steps 2, 3 and 5
        self._give_back()  # step 4
        self._place()
        self._directive = directive
        below = frozenset(
            str(one.application.reservation)
            for one in self._pending
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
        self._retry = anew
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
        self._line = Line(machines.resources, self._options.line)
        self._closed = self._cleared = frozenset()
        self._counts, self._sums, self._soon = {}, {}, {}
        self._dirty, self._open, self._pending = set(), set(), []
        for execution in queue:
            for part in execution.parts:
                part.covered = part.granted = 0

    def _clear_machines(self, machines: MachinePool) -> None:
        """Stop what stands on machines that have gone, and requeue who lost a core with them."""
        assert self._table is not None
        for name in sorted(machines.down - self._cleared):
            for execution, part, piece in list(self._table.on_machine(name)):
                self._work.mover.remove(execution, part, piece, f"{name} is away")
                self._work.changed.add(execution)
                if part.component.core:
                    self._table.requeue(execution, self._work.directive.at_ms, f"{name} is away")
        self._cleared = machines.down

    def _take_changes(self, changed: Iterable[Execution]) -> None:
        assert self._table is not None
        also = self._table.take_changes().executions
        now_ms = self._work.directive.at_ms
        for execution in dict.fromkeys([*changed, *also]):
            self._work.changed.add(execution)
            if execution.application.reservation is not None:
                self._dirty.add(execution.application.reservation)
            if execution.must_leave:
                execution.must_leave = False
                reason = execution.reason or execution.state.value
                self._work.mover.remove_all(execution, reason)
                self._withdraw(execution)
            if execution.is_over:
                for part in execution.parts:
                    part.covered = part.granted = 0
                self._table.stopped(execution, now_ms)
                self._open.discard(execution)
            elif self._line.tier_of(execution) is not None:
                self._work.changed.update(self._line.resize(execution, now_ms))
            else:
                self._open.add(execution)

    def _withdraw(self, execution: Execution) -> None:
        if self._line.tier_of(execution) is not None:
            now_ms = self._work.directive.at_ms
            self._work.changed.update(self._line.leave(execution, now_ms))

    # Step 1: who is covered.

    def _cover(self, directive: Directive) -> None:
        now = _by_reservation(directive.entitlements)
        soon = now
        if directive.soon is not directive.entitlements:
            soon = _by_reservation(directive.soon)
        last = self._directive
        if last is None or last.plan_version != directive.plan_version:
            self._dirty.update(self._counts, now, soon)
            self._dirty.update(self._waiting_reservations())
        elif last.entitlements is not directive.entitlements:
            before = _by_reservation(last.entitlements)
            self._dirty.update(id_ for id_ in now if before.get(id_) != now[id_])
            self._dirty.update(before.keys() - now.keys())
        if last is not None and last.soon is not directive.soon:
            self._dirty.update(self._soon, soon)
        for reservation in sorted(self._dirty):
            self._cover_one(reservation, now.get(reservation), soon.get(reservation))
        self._dirty.clear()

    def _waiting_reservations(self) -> set[str]:
        """Return the reservations of those in the line; a commit may have changed their tiers."""
        assert self._table is not None
        named = (one.application.reservation for one in self._open | set(self._line.members()))
        return {name for name in named if name is not None}

    def _cover_one(
        self, reservation: str, now: Entitlement | None, soon: Entitlement | None
    ) -> None:
        assert self._table is not None
        fellows = self._table.of_reservation(reservation)
        before = self._counts.pop(reservation, {})
        counts = {} if now is None else covered_counts(now, fellows, self._pool)
        later = counts
        if soon is not now and soon != now:
            later = {} if soon is None else covered_counts(soon, fellows, self._pool)
        for execution in fellows:
            given = counts.get(execution)
            if given != before.get(execution):
                self._work.changed.add(execution)
            for place, part in enumerate(execution.parts):
                part.covered = 0 if given is None else given[place]
            self._open.add(execution)
        self._sums.pop(reservation, None)
        self._soon.pop(reservation, None)
        if counts:
            self._counts[reservation] = counts
            self._sums[reservation] = self._sum_of(counts)
        if later is not counts:
            self._soon[reservation] = (self._sum_of(later), later)

    def _sum_of(self, counts: Counts) -> list[int]:
        total = [0] * len(self._pool.resources)
        for execution, given in counts.items():
            demand_of(execution.parts, given, total)
        return total

    def _share_room(self, directive: Directive) -> Vector:
        """Serve the others with what is left, again while those ahead of their cover add to it."""
        room = self._room(directive)
        for _ in range(_ROUNDS):
            self._serve(room)
            self._grant_extras()
            more = self._room(directive) if self._soon else room
            if more == room:
                break
            room = more
        return room

    # Steps 2 and 5: what the entitlements leave, now and when the grace of stops is over.

    def _room(self, directive: Directive) -> Vector:
        now = list(self._pool.total())
        for total in self._sums.values():
            _subtract(now, total)
        if not self._soon and not directive.away_soon - directive.away:
            return tuple(now)
        soon = list(self._pool.total(directive.away_soon))
        for reservation, total in self._sums.items():
            if reservation not in self._soon:
                _subtract(soon, total)
        for total, counts in self._soon.values():
            _subtract(soon, total)
            for execution, given in counts.items():
                # What is served ahead of its cover is in the line's share already.
                ahead = [
                    max(min(part.covered + part.granted, count) - part.covered, 0)
                    for part, count in zip(execution.parts, given, strict=True)
                ]
                demand_of(execution.parts, ahead, soon)
        return tuple(min(one, other) for one, other in zip(now, soon, strict=True))

    # Step 3: the others.

    def _serve(self, budget: Vector) -> None:
        now_ms, line, changed = self._work.directive.at_ms, self._line, self._work.changed
        lower = tuple(min(one, other) for one, other in zip(budget, line.total, strict=True))
        changed.update(line.set_total(lower, now_ms))
        entering: list[tuple[Execution, Tier]] = []
        for execution in sorted(self._open, key=lambda one: one.order):
            tier = self._tier_of(execution)
            if tier != line.tier_of(execution):
                self._withdraw(execution)
                if tier is not None and execution.started_ms is not None:
                    changed.update(line.enter(execution, tier, now_ms))
                elif tier is not None:
                    entering.append((execution, tier))
                changed.add(execution)
        self._open.clear()
        changed.update(line.set_total(budget, now_ms))
        for execution, tier in entering:
            changed.update(line.enter(execution, tier, now_ms))

    def _tier_of(self, execution: Execution) -> Tier | None:
        """Return where an execution stands in the line, or None: covered, or not to be served."""
        if any(part.covered for part in execution.parts):
            return None
        reservation = execution.application.reservation
        standing = Standing.UNKNOWN
        if reservation is not None:
            standing = self._work.directive.standings.of(reservation)
        if standing is Standing.ACTIVE:
            tier = Tier.ABOVE
        elif standing is Standing.LATER:
            tier = Tier.LATER
            if not self._predecessors_ended(execution):
                return None
        else:
            tier = Tier.BEST_EFFORT
        runs = execution.started_ms is not None
        return tier if runs or self._options.line.serves(tier) else None

    def _predecessors_ended(self, execution: Execution) -> bool:
        """Return whether all work of the atoms before its own was submitted and has ended."""
        assert self._table is not None
        return self._table.have_ended(execution)

    # Step 4: give back.

    def _give_back(self) -> None:
        excess = [-amount for amount in self._line.free()]
        if any(amount > 0 for amount in excess):
            soon = {one for _, counts in self._soon.values() for one in counts}
            needed_ms = self._work.directive.at_ms
            order = victims_first(self._line.serving(), needed_ms, soon.__contains__)
            victims = choose_victims(order, excess)
            for execution in victims:
                self._work.mover.remove_all(execution, "the Plan needs its room")
            self._stop_all(victims)
            self._grant_extras()

    def _stop(self, execution: Execution) -> None:
        self._stop_all([execution])

    def _stop_all(self, victims: Sequence[Execution]) -> None:
        """Send executions without cover back into the line; their components are off already."""
        assert self._table is not None
        now_ms, changed = self._work.directive.at_ms, self._work.changed
        for execution in victims:
            if execution.started_ms is not None:
                cores = sum(p.component.count for p in execution.parts if p.component.core)
                self._work.lost_ms += cores * (now_ms - execution.started_ms)
                self._work.requeued.append(execution.id)
            self._table.requeue(execution, now_ms, "the Plan needs its room")
            execution.must_leave = False  # its components are off
            tier = self._line.tier_of(execution)
            if tier is not None and self._options.line.serves(tier):
                changed.update(self._line.requeue(execution, now_ms))
            else:
                changed.update(self._line.leave(execution, now_ms))
        changed.update(victims)

    def _grant_extras(self) -> None:
        """Grant elastic components of production and of later reservations from what is left."""
        reserved: list[tuple[tuple[int, int, tuple[int, int]], Execution]] = []
        numbers = {e.reservation: e.number for e in self._work.directive.entitlements}
        options = self._options.line
        for reservation, counts in self._counts.items():
            reserved += [((1, numbers[reservation], one.order), one) for one in counts]
        for execution, tier in self._line.reserved():
            number = numbers.get(str(execution.application.reservation), 0)
            reserved.append(((int(tier), number, execution.order), execution))
        if reserved:
            ordered = [
                (execution, options.serves(Tier(tier)))
                for (tier, _, _), execution in sorted(reserved, key=lambda entry: entry[0])
            ]
            grant_extras(ordered, self._line.free(), self._work.changed)

    # Onto machines.

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

    def _worth_retrying(self, now_ms: int) -> Iterable[Execution]:
        """Return those without a place that may find one now."""
        if self._retry or not self._pending:
            self._placer.take_fitting(())
            return self._pending
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


def _by_reservation(entitlements: Iterable[Entitlement]) -> dict[str, Entitlement]:
    return {one.reservation: one for one in entitlements}


def _subtract(into: list[int], amounts: Iterable[int]) -> None:
    for kind, amount in enumerate(amounts):
        into[kind] -= amount
