"""The reference backend: machines are names, and components start after a given delay."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from dispatch.backends.interface import NotDone
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable

Delay = Callable[[Delta], int]
RunTime = Callable[[Delta], int | None]
Refusal = Callable[[Delta], str | None]


class InMemoryBackend:
    """Simulates components in memory.

    Parameters
    ----------
    machines
        Names of the machines.
    start_delay_ms
        Start time of a component; none by default.
    refuse
        Returns why a delta fails, or None; none fails by default. For fault tests.
    run_ms
        Run time of a component before it exits; by default none exits.
    """

    def __init__(
        self,
        machines: Iterable[str],
        start_delay_ms: Delay | None = None,
        refuse: Refusal | None = None,
        run_ms: RunTime | None = None,
    ) -> None:
        self._machines = set(machines)
        self._lost: set[str] = set()
        self._delay = start_delay_ms
        self._refuse = refuse
        self._run = run_ms
        self._ends: dict[Key, tuple[int, int]] = {}
        self._rows: dict[Key, AssignmentRow] = {}
        self._ended: set[Key] = set()
        self._coming: list[tuple[int, int, BackendEvent]] = []
        self._starts: dict[Key, tuple[int, int]] = {}
        self._overtaken: set[int] = set()
        self._sequence = 0

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """See `Backend.resume`: nothing outlives the process."""

    def machines(self) -> None:
        """See `Backend.machines`: machines are lost only in tests."""

    def welcome_back(self) -> None:
        """See `Backend.welcome_back`."""

    @property
    def is_silent(self) -> bool:
        """See `Backend.is_silent`."""
        return False

    def state(self) -> VirtualAssignment:
        """See `Backend.state`."""
        return VirtualAssignment.of(self._rows.values())

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`."""
        found: list[NotDone] = []
        for delta in deltas:
            reason = self._problem(delta)
            if reason is not None:
                found.append(NotDone(delta, reason))
            elif delta.op in (Op.STOP, Op.SHRINK):
                if _key(delta) not in self._rows:
                    self._ended.discard(_key(delta))
                    continue
                self._leave(self._rows[_key(delta)], EventKind.STOPPED, at_ms, delta.reason)
            else:
                row = AssignmentRow(*_key(delta), delta.machine, at_ms, covered=False)
                self._rows[row.key] = row
                self._ended.discard(row.key)
                after = 0 if self._delay is None else self._delay(delta)
                self._starts[row.key] = (self._sequence, at_ms + after)
                self._tell(EventKind.STARTED, at_ms + after, row)
                run_ms = None if self._run is None else self._run(delta)
                if run_ms is not None:
                    self._ends[row.key] = (self._sequence, at_ms + after + run_ms)
                    self._tell(EventKind.EXITED, at_ms + after + run_ms, row)
        return tuple(found)

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`; a start that a stop has overtaken is not reported."""
        found: list[BackendEvent] = []
        while self._coming and self._coming[0][0] <= until_ms:
            _, sequence, event = heapq.heappop(self._coming)
            if sequence in self._overtaken:
                self._overtaken.discard(sequence)
                continue
            key = (event.execution, event.component, event.index)
            if event.kind is EventKind.STARTED:
                self._starts.pop(key, None)
            elif self._ends.get(key, (-1, 0))[0] == sequence:
                del self._ends[key], self._rows[key]
                self._ended.add(key)
            found.append(event)
        return tuple(found)

    def end(self, key: Key, at_ms: int, *, failed: bool = False) -> None:
        """Let a component exit; KeyError if it is not running."""
        kind = EventKind.FAILED if failed else EventKind.EXITED
        if not failed:
            self._ended.add(key)
        self._leave(self._rows[key], kind, at_ms, "")

    def lose(self, machine: str, at_ms: int) -> None:
        """Lose a machine and everything on it."""
        self._lost.add(machine)
        self._push(BackendEvent(EventKind.MACHINE_LOST, at_ms, machine))
        for row in [row for row in self._rows.values() if row.machine == machine]:
            self._leave(row, EventKind.FAILED, at_ms, "machine lost")

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """See `Backend.set_machines`: removed machines are lost with all components on them."""
        wanted = set(machines)
        for name in sorted(self._machines - wanted):
            self.lose(name, at_ms)
        self._machines = wanted
        self._lost &= wanted

    def restore(self, machine: str, at_ms: int) -> None:
        """Bring a machine back, empty."""
        self._lost.discard(machine)
        self._push(BackendEvent(EventKind.MACHINE_BACK, at_ms, machine))

    def _problem(self, delta: Delta) -> str | None:
        row = self._rows.get(_key(delta))
        if delta.op in (Op.STOP, Op.SHRINK):
            if row is None and _key(delta) in self._ended:
                return None
            if row is None or row.machine != delta.machine:
                return f"it is not on {delta.machine}"
        elif delta.machine not in self._machines:
            return f"there is no machine {delta.machine}"
        elif delta.machine in self._lost:
            return f"{delta.machine} is lost"
        elif row is not None:
            return f"it is on {row.machine} already"
        return None if self._refuse is None else self._refuse(delta)

    def _leave(self, row: AssignmentRow, kind: EventKind, at_ms: int, detail: str) -> None:
        del self._rows[row.key]
        for planned in (self._starts.pop(row.key, None), self._ends.pop(row.key, None)):
            if planned is not None and planned[1] > at_ms:
                self._overtaken.add(planned[0])
        self._tell(kind, at_ms, row, detail)

    def _tell(self, kind: EventKind, at_ms: int, row: AssignmentRow, detail: str = "") -> None:
        self._push(BackendEvent(kind, at_ms, row.machine, *row.key, detail))

    def _push(self, event: BackendEvent) -> None:
        heapq.heappush(self._coming, (event.at_ms, self._sequence, event))
        self._sequence += 1


def _key(delta: Delta) -> Key:
    return delta.execution, delta.component, delta.index
