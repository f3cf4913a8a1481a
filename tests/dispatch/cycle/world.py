"""A small world for the dispatcher: a Plan, machines, executions and a backend on one clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.cycle import Cycle
from dispatch.cycle.dispatcher import Dispatcher, move_to
from dispatch.cycle.options import DispatchOptions
from dispatch.entitlements.follower import PlanFollower
from dispatch.executions.execution import Execution
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from rdl.resources import Resources
from tests.builders import a_plan, a_request


def an_application(
    name: str,
    core: int = 1,
    elastic: int = 0,
    *,
    cpu: int = 1,
    elastic_cpu: int | None = None,
    labels: tuple[str, ...] = (),
    grow: int = 0,
    **rest: Any,
) -> Application:
    """Return an application of components of this many cores each: `m` core, `w` elastic."""
    where = frozenset(labels)
    found = [Component("m", core, True, Resources.of({"cpu": cpu * 1000}), labels=where)]
    if elastic:
        size = cpu if elastic_cpu is None else elastic_cpu
        asked = Resources.of({"cpu": size * 1000})
        found.append(Component("w", elastic, False, asked, labels=where, grow=grow))
    return Application(name, tuple(found), **rest)


@dataclass
class World:
    """Everything that a tick needs; seconds here, milliseconds inside."""

    cluster: Cluster
    plan: Plan
    options: DispatchOptions = field(default_factory=DispatchOptions)
    grace_s: int = 5

    def __post_init__(self) -> None:
        """Put the pieces together."""
        self.pool = MachinePool(self.cluster)
        self.table = ExecutionTable(self.pool)
        self.backend = InMemoryBackend(self.pool.names)
        self.follower = PlanFollower(self.plan, stop_grace_ms=self.grace_s * 1000)
        self.loop = DispatchLoop(self.table, Dispatcher(self.options), self.backend)

    def submit(self, application: Application, at_s: int = 0, **rest: Any) -> Execution:
        """Submit one; its id is its name."""
        return self.table.submit(application.name, application, at_s * 1000, **rest)

    def tick(self, at_s: float) -> Cycle:
        """Move to an instant and check what must hold at every one."""
        before = self.covered()
        self.directive = self.follower.follow(round(at_s * 1000))
        cycle = self.loop.tick(self.directive)
        self.check(before, cycle)
        return cycle

    def change(self, cluster: Cluster, at_s: int) -> None:
        """Describe the machines again, as the service does when the cluster is changed."""
        self.pool = MachinePool(cluster)
        self.backend.set_machines(self.pool.names, at_s * 1000)
        move_to(self.table, self.pool, at_s * 1000)

    def restart(self) -> None:
        """Forget what the dispatcher derived; executions and the backend stay."""
        self.loop = DispatchLoop(self.table, Dispatcher(self.options), self.backend)
        self.follower = PlanFollower(self.plan, stop_grace_ms=self.grace_s * 1000)

    def held(self, name: str) -> list[int]:
        """How many components of each part of an execution have machines."""
        execution = self.table.get(name)
        assert execution is not None
        return [len(part.held) for part in execution.parts]

    def state(self, name: str) -> ExecutionState:
        """Where an execution stands."""
        execution = self.table.get(name)
        assert execution is not None
        return execution.state

    def covered(self) -> set[tuple[str, str, int]]:
        """Keys of the components that are covered and run."""
        return {row.key for row in self.table.assignment().rows if row.covered}

    def check(self, before: set[tuple[str, str, int]], cycle: Cycle) -> None:
        """Assert the laws of every cycle."""
        assignment = self.table.assignment()
        held = {row.key: row.machine for row in assignment.rows}
        there = {row.key: row.machine for row in self.backend.state().rows}
        ended = {
            (execution.id, part.component.name, one.index)
            for execution in self.table
            for part in execution.parts
            for one in part.held
            if one.ended  # a core that is over keeps its machine until all of its replicas are
        }
        running = {key: machine for key, machine in held.items() if key not in ended}
        assert running == there, "the backend has what the table says"
        assert self.loop.dispatcher.check() == [], "what is kept follows from what is true"
        self._check_machines(assignment.rows)
        for execution in self.table:
            self._check_execution(execution)
        covered = self.covered()
        stopped = {
            (d.execution, d.component, d.index) for d in cycle.deltas if d.op in ("stop", "shrink")
        }
        assert not stopped & (covered - set(held)), "what is covered is not stopped"
        self._check_entitlements()

    def _check_machines(self, rows: Any) -> None:
        used: dict[str, dict[str, int]] = {}
        for row in rows:
            execution = self.table.get(row.execution)
            assert execution is not None
            (part,) = [p for p in execution.parts if p.component.name == row.component]
            for kind, amount in part.component.resources.items():
                here = used.setdefault(row.machine, {})
                here[kind] = here.get(kind, 0) + amount
            number = self.pool.number_of(row.machine)
            assert number is not None
            assert row.machine not in self.pool.down, "nothing runs on a machine that is gone"
            mask = self.pool.label_mask(part.component.labels)
            assert mask is None or mask[number], "labels are obeyed"
        for name, amounts in used.items():
            number = self.pool.number_of(name)
            for kind, amount in amounts.items():
                place = self.pool.resources.index(kind)
                assert amount <= self.pool.capacity[number][place], "no machine is over-committed"

    def _check_execution(self, execution: Execution) -> None:
        if execution.is_over:
            assert not execution.holds, "what is over holds nothing"
        for part in execution.parts:
            assert len(part.held) <= part.wanted + part.growth, "grants stay within demand"
            most = 0 if part.component.core else part.component.grow
            assert 0 <= part.growth <= most, "none grows above its own word"
            assert part.covered + part.granted <= part.wanted, "grants stay within demand"
        cores = [part for part in execution.parts if part.component.core]
        whole = all(len(part.held) == part.component.count for part in cores)
        if execution.state in (ExecutionState.STARTING, ExecutionState.RUNNING):
            assert whole, "what runs has all of its cores"
        elif not any(part.covered for part in cores):
            assert not execution.holds, "what waits without cover holds nothing"

    def _check_entitlements(self) -> None:
        for entitlement in self.directive.entitlements:
            left = entitlement.total()
            for execution in self.table.of_reservation(entitlement.reservation):
                for part in execution.parts:
                    for kind, amount in part.component.resources.items():
                        left[kind] = left.get(kind, 0) - amount * part.covered
            assert min(left.values()) >= 0, "cover stays within the entitlement"


def a_world(cluster: Cluster, *sources: str, **rest: Any) -> World:
    """Return a world whose Plan holds requests r1, r2, ... made of RDL texts."""
    requests = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(sources, 1)]
    return World(cluster, a_plan(cluster).holding(*requests).build(), **rest)
