"""ExecutorBackend: runs components through executors, over the database that all servers share.

Any server process accepts reports of executors; the leader reads the changes from the database.
This object has no state that a new leader could not read again.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

import msgspec

from dispatch.backends.interface import MachineReport, NotDone
from dispatch.backends.run_records import ExecutorRow, ExecutorState, RunRow, RunState
from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.peers import PeerBook
from dispatch.executions.table import ExecutionTable

logger = logging.getLogger("agenda.executors")

#: Event of the execution table for each end of a run.
_ENDS: Final = {
    RunState.EXITED: EventKind.EXITED,
    RunState.FAILED: EventKind.FAILED,
    RunState.LOST: EventKind.LOST,
    RunState.STOPPED: EventKind.LOST,
}

#: Least time for the executor of a machine to register, in s.
REGISTER_S: Final = 30.0

#: Largest number of machines named in a log line.
_MOST_NAMED: Final = 8


class RunOrder(NamedTuple):
    """The stored form of a starting run: its JSON, and fields as of `RunRow`."""

    document: bytes
    core: bool
    ports: tuple[int, ...] = ()
    task: int | None = None


#: Returns the order of a component that starts.
Document = Callable[[Delta], RunOrder]


class RunLog(Protocol):
    """Executors and their runs in the shared database; a change in an old tenure is refused."""

    def executors(self) -> Sequence[ExecutorRow]:
        """Return the executors that have registered."""
        ...

    def of_open_applications(self) -> Sequence[RunRow]:
        """Return the runs of applications that have not ended."""
        ...

    def with_ports(self) -> Sequence[RunRow]:
        """Return the runs that have ports and may still use them."""
        ...

    def news(self) -> Sequence[RunRow]:
        """Return the runs whose state the leader has not accepted yet."""
        ...

    def change(self, tenure: int, starts: Sequence[RunRow], stops: Sequence[str]) -> None:
        """Record the runs to start and the ids of the runs to stop, atomically."""
        ...

    def stop_all_but(self, tenure: int, kept: Iterable[str]) -> None:
        """Stop all runs except those with these ids."""
        ...

    def lose(self, tenure: int, executor: ExecutorRow, now_ms: int) -> bool:
        """Mark an executor and its runs as lost; return False if it has reported since."""
        ...

    def lose_unserved(self, tenure: int, machines: Iterable[str], now_ms: int) -> None:
        """End the runs that were started on machines without an executor."""
        ...

    def welcome(self, tenure: int, id_: str) -> None:
        """Accept a lost executor again."""
        ...


class ExecutorBackend:
    """Starts and stops components by setting the runs of executors.

    Parameters
    ----------
    rows, tenure
        The shared state, and the number of the tenure in which this process leads.
    machines
        Names of the machines of the cluster; all of them count as up at first.
    document
        Returns the component that a delta starts.
    peers
        Gives ports to components that start; without, no component has any.
    lease_s
        Time without a report after which an executor is lost; a machine without an executor is lost
        after the same time, but at least `REGISTER_S`, so that executors have time to start.
    taken
        Receives each run whose state was accepted, by id, until the dispatcher thread has recorded
        it and removes it.
    away
        Exception that `rows` raises when it is unavailable.
    steady_s
        Monotonic clock.
    """

    def __init__(
        self,
        rows: RunLog,
        tenure: int,
        machines: Iterable[str],
        document: Document,
        lease_s: float,
        taken: MutableMapping[str, RunRow] | None = None,
        away: tuple[type[Exception], ...] = (),
        steady_s: Callable[[], float] = time.monotonic,
        peers: PeerBook | None = None,
    ) -> None:
        self._rows = rows
        self._peers = peers
        self._away = away
        self._tenure = tenure
        self._machines = frozenset(machines)
        self._document = document
        self._lease_s = lease_s
        self._steady_s = steady_s
        self._up = self._machines
        self._seen: dict[str, tuple[int, float]] = {}
        self._executors: tuple[ExecutorRow, ...] = tuple(rows.executors())
        #: Machines of an executor, or on which an earlier leader had runs.
        self._served: set[str] = set()
        #: Machines without an executor: since when, by the steady clock; and since when lost.
        self._unserved_s: dict[str, float] = {}
        self._lost_ms: dict[str, int] = {}
        #: Runs on machines: the newest run of each component.
        self._there: dict[Key, RunRow] = {}
        #: Ended runs of tasks under earlier leaders, by execution.
        self._tasks: dict[str, list[RunRow]] = defaultdict(list)
        self._ended: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._taken: MutableMapping[str, RunRow] = {} if taken is None else taken
        self._doubted = False
        self._read()

    def _read(self) -> None:
        """Read the runs of earlier leaders."""
        found = self._rows.of_open_applications()
        for run in found:
            if run.is_open:
                self._served.add(run.machine)
            if run.wanted and (run.is_open or run.news or _stays(run)):
                newest = self._there.get(_key(run))
                # Clocks of leaders differ: the run that has not ended is the newest.
                if newest is None or run.is_open or not newest.is_open:
                    self._there[_key(run)] = run
        for run in found:
            if run.is_open or (run.news and self._there.get(_key(run)) is run):
                continue  # the table gets events of it, which it does of no older run
            if run.task is not None:
                self._tasks[run.execution].append(run)
            elif _has_exited(run) and not run.core:
                self._ended[run.execution][run.component] += 1

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """See `Backend.resume`."""
        mine = [run for run in self._there.values() if run.execution == execution.id]
        former = self._tasks.pop(execution.id, ())
        if execution.tasks is not None:
            execution.tasks.restore(
                [one.task for one in former if one.task is not None and _has_exited(one)],
                [one.task for one in former if one.task is not None and _has_failed(one)],
                [one.task for one in mine if one.task is not None and (one.is_open or one.news)],
            )
        ended = self._ended.pop(execution.id, {})
        parts = {part.component.name: part for part in execution.parts}
        for name, count in ended.items():
            for _ in range(count if name in parts else 0):
                parts[name].count_exit()
        if mine:
            placed_ms = _placements(former)
            known = [run for run in mine if run.component in parts]
            table.resume(
                execution,
                [(parts[run.component], _component_before(run, placed_ms)) for run in known],
            )

    def state(self) -> VirtualAssignment:
        """See `Backend.state`."""
        return VirtualAssignment.of(
            AssignmentRow(*key, run.machine, run.since_ms, covered=False)
            for key, run in self._there.items()
        )

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`; atomic and durable."""
        found: list[NotDone] = []
        starts: dict[Key, RunRow] = {}
        stops: dict[Key, RunRow] = {}
        coming = [one for one in deltas if one.op not in (Op.STOP, Op.SHRINK)]
        try:
            lacking = self._give_ports([one for one in coming if one.machine in self._up])
        except self._away:
            return self._miss(deltas)
        for delta in deltas:
            key = (delta.execution, delta.component, delta.index)
            run = self._there.get(key)
            if delta.op in (Op.STOP, Op.SHRINK):
                if run is None or run.machine != delta.machine:
                    found.append(NotDone(delta, f"it is not on {delta.machine}"))
                else:
                    stops[key] = run
            elif delta.machine not in self._up:
                found.append(NotDone(delta, f"no executor runs on {delta.machine} now"))
            elif delta in lacking:
                found.append(NotDone(delta, lacking[delta]))
            else:
                order = self._document(delta)
                starts[key] = RunRow(
                    uuid4().hex, *key, delta.machine, order.core, order.document, at_ms,
                    ports=" ".join(map(str, order.ports)), task=order.task,
                )  # fmt: skip
        if not starts and not stops:
            return tuple(found)
        try:
            leaving = [run.id for run in stops.values()]
            self._rows.change(self._tenure, list(starts.values()), leaving)
        except self._away:
            known = {one.delta for one in found}
            return (*found, *self._miss([delta for delta in deltas if delta not in known]))
        for key in stops:
            del self._there[key]
        self._there.update(starts)
        return tuple(found)

    def _miss(self, deltas: Iterable[Delta]) -> tuple[NotDone, ...]:
        """Carry out none of the deltas: the database is unavailable."""
        logger.exception("nothing of a cycle could be written; it is decided again")
        self._doubted = True
        return tuple(NotDone(delta, "the database cannot be used now") for delta in deltas)

    def _give_ports(self, deltas: Sequence[Delta]) -> dict[Delta, str]:
        """Give components that start their ports; return those that lack one, with reasons."""
        if self._peers is None:
            return {}
        hosts = {name: one.address for one in self._executors for name in one.machines}

        def taken() -> Iterator[tuple[str, int]]:
            for run in self._rows.with_ports():
                for port in run.port_numbers:
                    yield hosts.get(run.machine, run.machine), port

        return self._peers.give_ports(deltas, hosts, taken())

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`; changes in the database get the current time."""
        if self._doubted:
            self._rows.stop_all_but(self._tenure, [run.id for run in self._there.values()])
            self._doubted = False
        found = self._machine_events(until_ms)
        for run in self._rows.news():
            found += self._events_of(run, until_ms)
        return tuple(found)

    def _machine_events(self, at_ms: int) -> list[BackendEvent]:
        """Return events for executors that are silent or have registered."""
        executors = self._rows.executors()
        now_s = self._steady_s()
        for one in executors:
            if one.id not in self._seen or self._seen[one.id][0] != one.renewals:
                self._seen[one.id] = (one.renewals, now_s)
            silent = now_s - self._seen[one.id][1] > self._lease_s
            if (
                silent
                and one.state is not ExecutorState.LOST
                and self._rows.lose(self._tenure, one, at_ms)
            ):
                logger.warning("executor %s has been silent for too long; it is lost", one.id)
        self._executors = tuple(self._rows.executors())
        known = {name for one in self._executors for name in one.machines}
        self._lose_unserved(known, at_ms)
        self._note_lost(known, now_s, at_ms)
        live = [one for one in self._executors if one.state is ExecutorState.LIVE]
        up = self._machines.intersection(name for one in live for name in one.machines)
        lost, back = sorted(self._up - up), sorted(up - self._up)
        self._up = up
        return [
            *(BackendEvent(EventKind.MACHINE_LOST, at_ms, name) for name in lost),
            *(BackendEvent(EventKind.MACHINE_BACK, at_ms, name) for name in back),
        ]

    def _lose_unserved(self, known: set[str], at_ms: int) -> None:
        """End runs on machines whose executor left between two reads.

        Nothing else would end them: no executor has them, so none reports their end.
        """
        gone = self._served - known
        if gone:
            self._rows.lose_unserved(self._tenure, gone, at_ms)
        self._served = known

    def _note_lost(self, known: set[str], now_s: float, at_ms: int) -> None:
        """Mark machines without an executor for too long as lost."""
        missing = self._machines - known
        self._unserved_s = {name: self._unserved_s.get(name, now_s) for name in missing}
        patience_s = max(self._lease_s, REGISTER_S)
        over = [name for name, since_s in self._unserved_s.items() if now_s - since_s > patience_s]
        before, self._lost_ms = (
            self._lost_ms,
            {name: self._lost_ms.get(name, at_ms) for name in sorted(over)},
        )
        if self._lost_ms.keys() - before.keys():
            told = f"{len(over):,} of {len(self._machines):,} machines have no executor"
            logger.warning("%s: %s; they are outages until one registers", told, _named(over))

    def _events_of(self, run: RunRow, at_ms: int) -> list[BackendEvent]:
        """Return the events of a changed run, once."""
        before = self._taken.get(run.id)
        self._taken[run.id] = run
        key = _key(run)
        mine = self._there.get(key)
        if mine is None or mine.id != run.id or (before is not None and before.state is run.state):
            return []
        found: list[BackendEvent] = []

        def tell(kind: EventKind) -> None:
            found.append(BackendEvent(kind, at_ms, run.machine, *key, run.detail))

        if run.started_ms is not None and (before is None or before.started_ms is None):
            tell(EventKind.STARTED)
        if run.is_open:
            self._there[key] = run
            return found
        tell(_ENDS[run.state])
        if _stays(run):
            self._there[key] = run  # it keeps its machine until all cores have ended
        else:
            del self._there[key]
        return found

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """See `Backend.set_machines`; runs on removed machines are stopped."""
        del at_ms
        self._machines = self._up = frozenset(machines)
        gone = [key for key, run in self._there.items() if run.machine not in self._machines]
        if gone:
            self._rows.change(self._tenure, (), [self._there[key].id for key in gone])
            for key in gone:
                del self._there[key]

    def machines(self) -> MachineReport:
        """See `Backend.machines`: by executors that report, are silent, or are missing."""
        silent = {
            name: one.lost_ms or 0
            for one in self._executors
            if one.state is ExecutorState.LOST
            for name in one.machines
            if name in self._machines
        }
        reports = (one for one in self._executors if one.state is not ExecutorState.LOST)
        live = self._machines.intersection(name for one in reports for name in one.machines)
        return MachineReport(silent | self._lost_ms, live)

    @property
    def is_silent(self) -> bool:
        """See `Backend.is_silent`: never, because a silent executor loses its machines."""
        return False

    def welcome_back(self) -> None:
        """See `Backend.welcome_back`."""
        for one in self._executors:
            if one.state is ExecutorState.BACK:
                self._rows.welcome(self._tenure, one.id)


def run_document_of(peers: PeerBook) -> Document:
    """Return a function that makes a component's order for its executor."""

    def document(delta: Delta) -> RunOrder:
        launch = peers.launch(delta)
        execution, component = launch.execution, launch.component
        entry = {
            "application": execution.application.name,
            "tenant": execution.tenant,
            "command": launch.command,
            "image": component.image,
            "environment": launch.environment,
            "resources": dict(component.resources.items_),
            "directory": component.directory,
            "timeout": None if component.timeout_ms is None else component.timeout_ms / 1000,
            "success": component.success,
        }
        return RunOrder(
            msgspec.json.encode(entry), component.core, launch.held.ports, launch.held.task
        )

    return document


def _named(machines: Iterable[str]) -> str:
    """Return the first few names of machines as text."""
    names = sorted(machines)
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _key(run: RunRow) -> Key:
    return run.execution, run.component, run.number


def _has_exited(run: RunRow) -> bool:
    return run.state is RunState.EXITED


def _has_failed(run: RunRow) -> bool:
    return run.state is RunState.FAILED


def _stays(run: RunRow) -> bool:
    """Return whether the component of an ended run keeps its machine: a core that waits."""
    return run.core and (_has_exited(run) or (run.task is not None and _has_failed(run)))


def _placements(former: Iterable[RunRow]) -> dict[tuple[Key, str], int]:
    """Return since when core components with tasks have had their machines, by key and machine.

    Parameters
    ----------
    former
        Ended runs of tasks, oldest first; a component that was stopped or lost had to be placed
        again.
    """
    placed_ms: dict[tuple[Key, str], int] = {}
    for run in former:
        if run.core and run.wanted and (_has_exited(run) or _has_failed(run)):
            placed_ms.setdefault((_key(run), run.machine), run.since_ms)
        else:
            placed_ms.pop((_key(run), run.machine), None)
    return placed_ms


def _component_before(run: RunRow, placed_ms: Mapping[tuple[Key, str], int]) -> HeldComponent:
    """Return a component as the table had it before its news."""
    up, ended = run.started_ms is not None and not run.news, _has_exited(run) and not run.news
    if run.task is not None and not run.news:
        ended = not run.is_open
    return HeldComponent(
        run.number, run.machine, placed_ms.get((_key(run), run.machine), run.since_ms),
        up or ended, ended, ports=run.port_numbers, task=None if ended else run.task,
    )  # fmt: skip
