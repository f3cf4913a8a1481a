"""ClassQueues: executions wait by class, and machines choose among the classes (LoTES 4.3).

An arrival chooses a machine by the wheel of its class. If it finds none, it waits in the queue of
its class. When a component ends, its machine starts the oldest fitting job of the class that is
furthest below its target there, then of the next class. It never starts a class without a
target on its group, and stays idle instead.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.options import LineOptions, Tier
from dispatch.cycle.placer import Placer
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import Vector

#: Request of an execution's core components: amounts, number and labels of each group.
_Shape = tuple[tuple[Vector, int, frozenset[str]], ...]

#: A tier and a rank in it: all executions of one level are served before those of a later one.
_Level = tuple[int, int]

#: Starts the core components of an execution, one of them on the given machine number if not None,
#: and returns whether all were placed.
Start = Callable[[Execution, Tier, int | None], bool]

#: The queue of executions that fit no machine serving their class.
STRAYS: Final = -1


@dataclass(slots=True)
class _Waiting:
    """A waiting execution: its tier and its queue."""

    tier: Tier
    level: _Level
    queue: int
    shape: _Shape


class ClassQueues:
    """Owns the queues of classes; `UncoveredLine` has only running executions.

    Parameters
    ----------
    table
        The executions.
    options
        Order of service across classes: by tier, then by rank.
    """

    def __init__(self, table: ExecutionTable, options: LineOptions) -> None:
        self._table = table
        self._options = options
        self._waiting: dict[Execution, _Waiting] = {}
        self._queues: dict[_Level, dict[int, dict[_Shape, list[Execution]]]] = {}
        self._arrivals: dict[Execution, Tier] = {}
        self._placer: Placer | None = None
        self._total: Vector = ()

    def __bool__(self) -> bool:
        return bool(self._waiting or self._arrivals)

    def members(self) -> Iterator[Execution]:
        """Yield all waiting executions, and those that have arrived since the last cycle."""
        yield from self._waiting
        yield from self._arrivals

    def tier_of(self, execution: Execution) -> Tier | None:
        """Return the tier in which an execution waits, or None."""
        found = self._waiting.get(execution)
        return self._arrivals.get(execution) if found is None else found.tier

    def put(self, execution: Execution, tier: Tier) -> None:
        """Add an execution; in this cycle it chooses a machine like an arrival."""
        found = self._waiting.get(execution)
        if found is None or found.level != self._level(execution, tier):
            self.discard(execution)
            self._arrivals[execution] = tier

    def discard(self, execution: Execution) -> None:
        """Remove an execution, if it waits here."""
        self._arrivals.pop(execution, None)
        found = self._waiting.pop(execution, None)
        if found is not None:
            classes = self._queues[found.level]
            line = classes[found.queue][found.shape]
            line.remove(execution)
            if not line:
                del classes[found.queue][found.shape]
            if not classes[found.queue]:
                del classes[found.queue]
            if not classes:
                del self._queues[found.level]

    def serve(self, scratch: CycleScratch, placer: Placer, total: Vector, start: Start) -> None:
        """Let machines with ended components take waiting executions, then place arrivals.

        Parameters
        ----------
        total
            Capacity for work without cover in total; if it has grown, all machines are tried.
        """
        has_followed = self._follow(placer)
        grown = any(new > old for new, old in zip(total, self._total, strict=False))
        machines = placer.take_vacated()
        if scratch.retry or has_followed or grown:
            machines = list(range(len(placer.pool.names)))
        for machine in machines:
            if not self._waiting:
                break
            self._refill(placer, machine, start)
        now_ms = scratch.directive.at_ms
        again = [one for one in self._waiting if _has_paused(one, now_ms)]
        for execution in again:
            tier = self._waiting[execution].tier
            self.discard(execution)
            self._arrivals[execution] = tier
        arrivals, self._arrivals = self._arrivals, {}
        ordered = sorted(arrivals, key=lambda one: (self._level(one, arrivals[one]), one.order))
        for execution in ordered:
            if not start(execution, arrivals[execution], None):
                self._queue_up(execution, arrivals[execution], placer)
        self._total = total

    def faults(self) -> Iterator[str]:
        """Yield executions that are in a queue other than that of their class."""
        placer = self._placer
        for execution, found in self._waiting.items():
            wanted = None if placer is None else self._place_of(execution, found.tier, placer)
            if wanted is not None and wanted != found:
                yield f"{execution.id}: waits in {found} and not {wanted}"
        queued = {
            execution
            for classes in self._queues.values()
            for shapes in classes.values()
            for line in shapes.values()
            for execution in line
        }
        if queued != set(self._waiting):
            yield "what waits is not what the queues of classes list"

    def _follow(self, placer: Placer) -> bool:
        """Requeue all executions if there is a new dispatch table; return whether there is."""
        if placer is self._placer:
            return False
        known, self._placer = self._waiting, placer
        self._waiting, self._queues = {}, {}
        for execution in sorted(known, key=lambda one: one.order):
            self._queue_up(execution, known[execution].tier, placer)
        return True

    def _refill(self, placer: Placer, machine: int, start: Start) -> None:
        """Let one machine take waiting executions until none that it may take fits."""
        for level in sorted(self._queues):
            taken: set[Execution] = set()
            for execution in self._choices(level, placer, machine, taken):
                if start(execution, self._waiting[execution].tier, machine):
                    taken.add(execution)

    def _choices(
        self, level: _Level, placer: Placer, machine: int, taken: set[Execution]
    ) -> Iterator[Execution]:
        """Yield the executions of one level that a machine may take, best first.

        The caller adds started executions to `taken` before it requests the next; after one has not
        started, no other of the same shape is yielded.
        """
        done: set[int] = set()
        failed: set[_Shape] = set()
        while True:
            classes = self._queues.get(level, {})
            open_ = [
                queue
                for queue in classes
                if queue not in done and queue != STRAYS and placer.serves(machine, queue)
            ]
            if open_:
                queue = max(open_, key=lambda one: (placer.below_target(machine, one), -one))
            elif STRAYS in classes and STRAYS not in done:
                queue = STRAYS
            else:
                return
            heads = [line[0] for shape, line in classes[queue].items() if shape not in failed]
            if not heads:
                done.add(queue)
                continue
            execution = min(heads, key=lambda one: one.order)
            shape = self._waiting[execution].shape
            yield execution
            if execution in taken:
                self.discard(execution)
            else:
                failed.add(shape)

    def _queue_up(self, execution: Execution, tier: Tier, placer: Placer) -> None:
        """Add an execution to the queue of its class."""
        found = self._place_of(execution, tier, placer)
        self._waiting[execution] = found
        lines = self._queues.setdefault(found.level, {}).setdefault(found.queue, {})
        insort(lines.setdefault(found.shape, []), execution, key=lambda one: one.order)
        if not any(part.paused_until_ms for part in execution.parts):
            execution.reason = f"it waits in the queue of {placer.class_name(found.queue)}"
        self._table.note(execution)

    def _place_of(self, execution: Execution, tier: Tier, placer: Placer) -> _Waiting:
        cores = [part for part in execution.parts if part.component.core]
        shape = tuple((one.amounts, one.component.count, one.component.labels) for one in cores)
        queue = placer.class_of(execution, cores[0])
        if not placer.can_serve(queue, cores[0]):
            queue = STRAYS
        return _Waiting(tier, self._level(execution, tier), queue, shape)

    def _level(self, execution: Execution, tier: Tier) -> _Level:
        return int(tier), -self._options.rank(execution.application)


def _has_paused(execution: Execution, now_ms: int) -> bool:
    """Return whether a pause after a failed start is over."""
    pauses: Iterable[int] = [part.paused_until_ms for part in execution.parts]
    return any(pauses) and max(pauses) <= now_ms
