"""Load the compiled loops of a dispatcher before its first tick."""

from __future__ import annotations

from functools import cache

from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import DispatchOptions
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from dispatch.tables.live_tables import LiveTables
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from rdl.resources import CPU, Resources

_HOUR_MS = 3_600_000
_ONE = Resources.of({CPU: 1000})


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
