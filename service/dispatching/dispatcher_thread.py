"""Dispatching: the follower, the dispatcher and a backend, ticking in one of the processes.

Every process takes applications and shows what became of them; the one that holds the lease in
the database ticks. A tick holds the Plan only while the follower reads it, writes what changed in
one transaction, and keeps nothing that a restart could not make again: applications are on disk,
and those that ran on a backend that has forgotten them are dispatched anew.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from dispatch.accounts.credits import CreditBook
from dispatch.accounts.promises import PromiseBook, below_entitlement
from dispatch.applications.application import Kind
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.cycle import Cycle
from dispatch.cycle.dispatcher import Dispatcher, DispatchOptions
from dispatch.cycle.machine_changes import move_to
from dispatch.cycle.uncovered import LineOptions
from dispatch.entitlements.directive import Directive
from dispatch.entitlements.follower import PlanFollower
from dispatch.entitlements.start_delay import StartDelays
from dispatch.executions.assignment import Delta
from dispatch.executions.execution import Execution
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState, TransitionError
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from dispatch.pool.ordering import ordering_named
from dispatch.warm_up import load_kernels
from planner.plan.changes import Release
from planner.plan.plan import Plan
from service.clock import Clock
from service.commits.replica import Replica
from service.dispatching.documents import assignment_of, read_document, status_of
from service.dispatching.table_solver import TableSolving
from service.metrics import Telemetry
from service.store import ApplicationRow, ApplicationRows, LeaseLostError, StatusRow
from service.store.driver import UNAVAILABLE


def run_time_of(table: ExecutionTable) -> Callable[[Delta], int | None]:
    """Return how long the in-memory backend lets a component run: cores of batch, their size."""

    def run_ms(delta: Delta) -> int | None:
        execution = table.get(delta.execution)
        if execution is None or execution.application.kind is not Kind.BATCH:
            return None
        core = any(
            part.component.core and part.component.name == delta.component
            for part in execution.parts
        )
        return execution.application.size_ms if core else None

    return run_ms


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a process ticks, and how long others wait for it.

    Attributes
    ----------
    tick_s
        Pause between two ticks; 0 never ticks by itself.
    takeover_s
        How long a process that has gone silent keeps others from dispatching.
    """

    tick_s: float
    takeover_s: float

    @property
    def lease_ms(self) -> int:
        """Return how long a process may dispatch after it said so."""
        return round(1000 * self.takeover_s)


@dataclass(frozen=True, slots=True)
class GivesBack:
    """How the dispatcher gives back what is not needed.

    Attributes
    ----------
    close
        Closes a reservation: all that it still holds.
    release
        Some rows of one, whose work was run above the entitlement.
    """

    close: Callable[[str], None]
    release: Callable[[Release], None]


logger = logging.getLogger("agenda.service")

#: Who is served first without cover: a higher priority, then interactive, then the oldest; whoever
#: arrives with a higher one may take elastic components of others, cores never.
LINE: Final = LineOptions(ordering_named("priority", preemptive=True), interactive_first=True)


class Dispatching:
    """The dispatcher of one process; idle while another process has the lease.

    Parameters
    ----------
    replica, clock
        The Plan, the store and the time.
    pace
        How often it ticks.
    gives_back
        Tells the Plan what is not needed any more.
    telemetry
        Where ticks are counted.

    Attributes
    ----------
    rows
        The applications on disk.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        pace: Pace,
        gives_back: GivesBack,
        telemetry: Telemetry,
    ) -> None:
        self._replica = replica
        self.rows: ApplicationRows = replica.store.applications
        self._clock = clock
        self._pace = pace
        self._gives_back = gives_back
        self._telemetry = telemetry
        self._holder = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._until_ms = -1
        self._loop: DispatchLoop | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._ticking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="agenda-dispatcher", daemon=True)

    def start(self) -> None:
        """Tick from now on, in a thread of its own."""
        if self._pace.tick_s > 0 and self._thread.ident is None:
            self._thread.start()

    def nudge(self) -> None:
        """Tick soon: something has changed that should not wait."""
        self._wake.set()

    def close(self) -> None:
        """Finish the tick under way and let another process go on."""
        self._closing.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._until_ms >= 0:
            self.rows.give_up_lease(self._holder)
        if self._loop is not None:
            self._tables.close()

    def _run(self) -> None:
        # Before there is a lease to lose: a first tick that compiles takes longer than others wait.
        try:
            load_kernels()
        except Exception:
            logger.exception("loops could not be loaded; the first tick tries again")
        while not self._closing.is_set():
            try:
                self.tick()
            except UNAVAILABLE:
                logger.exception("a tick of the dispatcher waits for the database")
            except Exception:
                logger.exception("a tick of the dispatcher failed; it begins anew")
                self._loop = None
            self._wake.wait(self._pace.tick_s)
            self._wake.clear()

    def tick(self) -> Cycle | None:
        """Run one cycle; return it, or None where another process dispatches or nothing is to do.

        Any thread may call it.
        """
        with self._ticking:
            clock_ms = self._clock.now_ms()
            if not self._has_lease(clock_ms):
                self._loop = None
                return None
            loop = self._open(self._replica.plan_ms(clock_ms))
            if loop is None:
                return None
            with self._telemetry.ticks.time():
                now_ms = self._replica.plan_ms(clock_ms)
                directive = self._follow(loop, now_ms)
                cycle = loop.tick(directive)
                self._tables.settle()
                self._measure(directive, loop.table)
                self._write(loop, cycle)
                self._give_back(now_ms)
            self._telemetry.below.set(len(cycle.below))
            return cycle

    def _measure(self, directive: Directive, table: ExecutionTable) -> None:
        """Add up how long promises are not kept."""
        self._promises.observe(directive, below_entitlement(directive, table))
        for time_ms in self._promises.take_ended(directive):
            self._telemetry.time_below.observe(time_ms / 1000)

    def _give_back(self, now_ms: int) -> None:
        """Give back what work above the entitlement has made unnecessary."""
        with self._replica.newest() as plan:
            due = self._credit.due(plan, now_ms)
        for change in due:
            self._gives_back.release(change)

    def _has_lease(self, clock_ms: int) -> bool:
        left_ms, lease_ms = self._until_ms - clock_ms, self._pace.lease_ms
        if lease_ms // 2 < left_ms <= lease_ms:
            return True
        held = self.rows.lease(self._holder, clock_ms, clock_ms + lease_ms)
        self._until_ms = clock_ms + lease_ms if held else -1
        return held

    def _open(self, now_ms: int) -> DispatchLoop | None:
        """Take in what was submitted or is unwanted; begin anew where there is nothing to go on."""
        anew = self._loop is None
        rows = self.rows.open(fresh=not anew)
        if anew:
            if not rows:
                return None
            self._start_over()
        loop = self._loop
        assert loop is not None
        for row in rows:
            self._submit(loop.table, row)
        for id_ in self.rows.unwanted():
            self._end(loop.table, id_, now_ms)
        return loop

    def _start_over(self) -> None:
        with self._replica.newest() as plan:
            self._pool = MachinePool(plan.cluster)
            self._plan: Plan = plan
            self._tables = TableSolving(
                beside=self._pace.tick_s > 0, told=self._telemetry.table_load.set
            )
            self._follower = PlanFollower(plan, self._tables.tables)
        table = ExecutionTable(self._pool)
        self._told: dict[str, bytes] = {}
        self._closers: set[str] = set()
        self._said: Cycle | None = None
        backend = InMemoryBackend(self._pool.names, run_ms=run_time_of(table))
        dispatcher = Dispatcher(DispatchOptions("lotes", LINE))
        self._starts = StartDelays()
        self._promises = PromiseBook()
        self._credit = CreditBook()
        self._loop = DispatchLoop(table, dispatcher, backend, self._starts, self._credit)
        self._backend = backend

    def _submit(self, table: ExecutionTable, row: ApplicationRow) -> None:
        if table.get(row.id) is not None:
            return
        document = read_document(row.document)
        if document.close_on_end:
            self._closers.add(row.id)
        execution = table.submit(
            row.id,
            document.application,
            row.submitted_ms,
            tenant=row.tenant,
            after=document.after,
        )
        if document.application.reservation is not None:
            with self._replica.newest() as plan:
                self._credit.watch(execution, plan)
        self._tables.tables.arrived(document.application, row.submitted_ms)

    @staticmethod
    def _end(table: ExecutionTable, id_: str, now_ms: int) -> None:
        execution = table.get(id_)
        if execution is None or execution.is_over:
            return
        try:
            table.kill(id_, now_ms, "its owner ended it")
        except TransitionError:
            logger.exception("%s cannot be ended", id_)

    def _follow(self, loop: DispatchLoop, now_ms: int) -> Directive:
        """Read the Plan, and follow it onto other machines."""
        with self._replica.newest() as plan:
            if plan is not self._plan:
                self._plan = plan
                self._follower = PlanFollower(plan, self._tables.tables)
            if plan.cluster.machines != self._pool.cluster.machines:
                self._pool = MachinePool(plan.cluster)
                self._backend.set_machines(self._pool.names, now_ms)
                move_to(loop.table, self._pool, now_ms)
            self._follower.delays = self._starts.table()
            directive = self._follower.follow(now_ms)
            self._tables.follow(plan, now_ms)
            return directive

    def _write(self, loop: DispatchLoop, cycle: Cycle) -> None:
        """Write what has changed since the last tick, and forget what is over."""
        statuses: list[StatusRow] = []
        news = loop.table.take_news()
        for execution in news:
            status = msgspec.json.encode(status_of(execution))
            if self._told.get(execution.id) != status:
                self._told[execution.id] = status
                over = execution.state in FINAL_EXECUTION_STATES
                statuses.append(StatusRow(execution.id, execution.state.value, over, status))
        last = self._said
        moved = (
            last is None
            or bool(cycle.deltas)
            or bool(statuses)
            or (last.plan_version, last.table_version) != (cycle.plan_version, cycle.table_version)
        )
        if not moved:
            return
        try:
            self.rows.write(self._holder, statuses, assignment_of(loop.table, cycle))
        except LeaseLostError:
            logger.warning("another process dispatches by now")
            self._until_ms, self._loop = -1, None
            return
        except UNAVAILABLE:  # all of it is written again, by the next tick that can
            self._said = None
            for execution in news:
                self._told.pop(execution.id, None)
                loop.table.note(execution)
            raise
        self._said = cycle
        for execution in [one for one in news if _is_forgettable(one)]:
            loop.table.forget(execution.id)
            self._told.pop(execution.id, None)
            self._release(loop.table, execution)

    def _release(self, table: ExecutionTable, execution: Execution) -> None:
        """Give back the rest of a reservation whose work is done, where its owner wants that."""
        reservation = execution.application.reservation
        wanted = execution.id in self._closers
        self._closers.discard(execution.id)
        if reservation is None or not wanted or table.of_reservation(reservation):
            return
        if execution.state is ExecutionState.COMPLETED:
            self._gives_back.close(reservation)


def _is_forgettable(execution: Execution) -> bool:
    return execution.state in FINAL_EXECUTION_STATES and not execution.holds
