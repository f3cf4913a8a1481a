"""A Plan carried out to its end by the dispatcher: every bundle a component, best effort alongside.

Each atom of each reservation is an execution that asks for what it holds at most, from a lease
before its first row until its last; an atom that cannot do with less than all is cores alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dispatch.accounts.promises import PromiseLedger, outcomes_in, shortfall
from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import DispatchOptions
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.states import FINAL_EXECUTION_STATES
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from dispatch.tables import LiveTables
from planner.plan.plan import Plan
from planner.reservations.reservation import AtomAllocation


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What came of a Plan that was carried out.

    Attributes
    ----------
    broken
        Reservations that lacked machines while they were due.
    reservations
        How many there were.
    stopped
        How often best effort was stopped.
    ticks
        Cycles of the dispatcher.
    """

    broken: frozenset[str]
    reservations: int
    stopped: int
    ticks: int


@dataclass(frozen=True, slots=True)
class _Work:
    """The execution of one occurrence of an atom."""

    name: str
    application: Application
    start_ms: int
    end_ms: int


def run_plan(
    plan: Plan,
    best_effort: Sequence[Application] = (),
    options: DispatchOptions | None = None,
    tables: LiveTables | None = None,
) -> PlanRun:
    """Carry a Plan out from its first step to the end of its last reservation.

    Parameters
    ----------
    best_effort
        Submitted at the beginning; it never ends.
    options
        How the dispatcher works; None as it does by default.
    tables
        Makes dispatch tables on the way; None makes none.
    """
    work = sorted(_work_of(plan), key=lambda one: one.start_ms)
    pool = MachinePool(plan.cluster)
    table = ExecutionTable(pool)
    loop = DispatchLoop(table, Dispatcher(options), InMemoryBackend(pool.names))
    follower = PlanFollower(plan, tables)
    promises = PromiseLedger()
    for number, application in enumerate(best_effort):
        table.submit(f"best-effort-{number}", application, 0)
    instants = _instants(plan, work)
    due = 0
    stopped = 0
    for now_ms in instants:
        while due < len(work) and work[due].start_ms <= now_ms:
            table.submit(work[due].name, work[due].application, now_ms)
            due += 1
        _end(table, work[:due], now_ms)
        if tables is not None:
            tables.refresh(plan, now_ms)
        directive = follower.follow(now_ms)
        stopped += len(loop.tick(directive).requeued)
        short = shortfall(directive, table)
        promises.observe(directive.at_ms, short.reservations)
    last_ms = instants[-1] if instants else 0
    promises.end(last_ms)
    outcomes = outcomes_in(plan, last_ms, promises.below_ms)
    broken = frozenset(id_ for id_, outcome in outcomes.items() if outcome.is_broken)
    return PlanRun(broken, len(outcomes), stopped, len(instants))


def _work_of(plan: Plan) -> list[_Work]:
    found: list[_Work] = []
    for reservation in plan.reservations():
        for atom in reservation.atoms:
            for path, rows in atom.occurrences():
                if len(rows):
                    found.append(_work(plan, reservation.id, path, atom, rows))
    return found


def _work(
    plan: Plan, reservation: str, path: str, atom: AtomAllocation, rows: NDArray[np.int64]
) -> _Work:
    least, most = int(rows[:, 2].min()), int(rows[:, 2].max())
    labels = frozenset([atom.label] if atom.label else ())
    components = [Component("core", least, True, atom.bundle, labels=labels)]
    if most > least:
        components.append(Component("more", most - least, False, atom.bundle, labels=labels))
    name = f"{reservation}/{path}"
    application = Application(name, tuple(components), reservation=reservation, atom=path)
    step_ms = plan.grid.step_ms
    return _Work(name, application, int(rows[0, 0]) * step_ms, int(rows[-1, 1]) * step_ms)


def _instants(plan: Plan, work: Sequence[_Work]) -> list[int]:
    """Return when the dispatcher is asked: around every change of what is held, and of machines."""
    step_ms = plan.grid.step_ms
    marks = {0}
    for reservation in plan.reservations():
        for atom in reservation.atoms:
            marks.update((atom.all_rows()[:, :2].reshape(-1) * step_ms).tolist())
            if atom.slots is not None:
                marks.update((atom.slots[:, :2].reshape(-1) * step_ms).tolist())
    for outage in plan.cluster.outages:
        marks.update((outage.start_ms, outage.end_ms))
    last_ms = max((one.end_ms for one in work), default=0)
    around = {mark + offset for mark in marks for offset in (-5000, -1000, 0, 1000, 2000)}
    return sorted(one for one in around if 0 <= one <= last_ms)


def _end(table: ExecutionTable, begun: Sequence[_Work], now_ms: int) -> None:
    """End the executions whose rows are over."""
    for one in begun:
        execution = table.get(one.name)
        if execution is None or one.end_ms > now_ms:
            continue
        if not execution.is_over:
            table.kill(one.name, now_ms, "its reservation is over")
        elif execution.state in FINAL_EXECUTION_STATES and not execution.holds:
            table.forget(one.name)
