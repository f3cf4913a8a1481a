"""One tick: read events, run a cycle, apply the deltas and repair those that failed.

The service, the simulations and the tests all use this loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from dispatch.accounts.credits import CreditBook
from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.backends.interface import Backend, NotDone
from dispatch.cycle.cycle import Cycle
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import DispatchOptions
from dispatch.entitlements.directive import Directive
from dispatch.entitlements.follower import PlanFollower
from dispatch.entitlements.start_delay import StartDelays
from dispatch.executions.assignment import Op, VirtualAssignment
from dispatch.executions.execution import ComponentGroup, Execution, HeldComponent
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from dispatch.tables import LiveTables
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from rdl.resources import CPU, Resources

_HOUR_MS = 3_600_000
_ONE = Resources.of({CPU: 1000})


class DispatchLoop:
    """Advances executions, machines, a dispatcher and a backend from tick to tick.

    Attributes
    ----------
    table, dispatcher, backend
        As given; the machines are the table's pool.
    starts
        Learns the start delays of components; None to learn nothing.
    credit
        Adds up the work that ran early; None to credit nothing.
    """

    def __init__(
        self,
        table: ExecutionTable,
        dispatcher: Dispatcher,
        backend: Backend,
        starts: StartDelays | None = None,
        credit: CreditBook | None = None,
    ) -> None:
        self.table = table
        self.dispatcher = dispatcher
        self.backend = backend
        self.starts = starts
        self.credit = credit

    def tick(self, directive: Directive) -> Cycle:
        """Bring the machines in line with the Plan at the directive's instant.

        The instant may be later than planned, the same as the last, or earlier (after the clock was
        set back): the result depends only on the directive and the executions.
        """
        now_ms = directive.at_ms
        self.take_events(now_ms)
        self.table.release_idle(now_ms)
        cycle = self.dispatcher.run_cycle(directive, self.table, self.table.pool)
        deltas = self.table.assign_tasks(cycle.deltas, now_ms)
        not_done = self.backend.apply(deltas, now_ms)
        if not_done:
            self._pause(not_done, now_ms)
            reconcile(self.table, self.backend.state(), now_ms)
        self.take_events(now_ms)
        if self.credit is not None:
            self.credit.observe(now_ms)
        return cycle

    def take_events(self, until_ms: int) -> None:
        """Accept the backend's events up to an instant, and learn start delays from them."""
        for event in self.backend.events(until_ms):
            self.table.take(event)
        for component, delay_ms in self.table.take_starts():
            if self.starts is not None:
                self.starts.observe(component, delay_ms)

    def _pause(self, not_done: Iterable[NotDone], now_ms: int) -> None:
        """Pause the component groups of which a component could not be started.

        Deltas marked for retry do not pause: the next tick requests them again.
        """
        paused: set[tuple[str, str]] = set()
        for one in not_done:
            self.table.undo_task(one.delta)
            execution = self.table.get(one.delta.execution)
            if execution is None or one.delta.op in (Op.STOP, Op.SHRINK):
                continue
            execution.reason = one.reason
            group = (one.delta.execution, one.delta.component)
            if one.retry or group in paused:
                continue
            paused.add(group)
            for part in execution.parts:
                if part.component.name == one.delta.component:
                    self.table.pause(part, now_ms)


def reconcile(table: ExecutionTable, state: VirtualAssignment, now_ms: int) -> None:
    """Make the table match the backend's state: after a failed delta, or at a start.

    Components that the backend does not have are removed; components that only the backend has are
    adopted, so that the next cycle keeps or stops them. An execution that loses a core component is
    requeued.
    """
    there = state.by_key()
    for execution in table:
        for part in execution.parts:
            for held in list(part.held):
                row = there.pop((execution.id, part.component.name, held.index), None)
                if row is None and held.ended:
                    continue
                if row is None or row.machine != held.machine:
                    _lose(table, execution, part, held, now_ms)
                if row is not None and row.machine != held.machine:
                    there[row.key] = row
    for row in there.values():
        found = table.get(row.execution)
        parts = () if found is None else found.parts
        for part in parts:
            if found is not None and part.component.name == row.component:
                table.adopt(
                    found, part, HeldComponent(row.index, row.machine, row.since_ms, up=True)
                )


def _lose(
    table: ExecutionTable,
    execution: Execution,
    part: ComponentGroup,
    held: HeldComponent,
    now_ms: int,
) -> None:
    table.drop(execution, part, held)
    if part.component.core:
        reason = execution.reason or f"{part.component.name!r} could not run"
        table.requeue(execution, now_ms, reason)


@cache
def load_kernels() -> None:
    """Run two applications on tiny machines, without a table and with one, once per process.

    Loads the kernels of the queue, of placement and of dispatch tables from numba's cache in a
    second or two; if they are not cached yet, compiles them, which takes about a minute.
    """
    machines = (MachineGroup("m", 2, Resources.of({CPU: 4000})),)
    plan = Plan(cluster := Cluster(60_000, 24 * _HOUR_MS, machines), cluster.grid())
    tables, pool = LiveTables(), MachinePool(cluster)
    table = ExecutionTable(pool)
    dispatcher = Dispatcher(DispatchOptions("lotes"))
    loop = DispatchLoop(table, dispatcher, InMemoryBackend(pool.names))
    follower = PlanFollower(plan, tables)
    application = Application(
        "warm", (Component("m", 1, True, _ONE), Component("w", 1, False, _ONE))
    )
    for at_ms in (0, 2 * _HOUR_MS):
        tables.count_arrival(application, at_ms)
        table.submit(f"e{at_ms}", application, at_ms)
        loop.tick(follower.follow(at_ms))
        tables.refresh(plan, at_ms)
    loop.tick(follower.follow(2 * _HOUR_MS))
    table.kill("e0", 2 * _HOUR_MS)
    loop.tick(follower.follow(2 * _HOUR_MS))
