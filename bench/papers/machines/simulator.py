"""Run a policy over a stream of jobs on machines: one compiled event loop, flat records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.papers.machines.measures import (
    SimulationOptions,
    SimulationResult,
    build_counters,
    build_measuring,
    result_of,
)
from bench.papers.machines.queues import (
    build_machine_queues,
    build_queues,
    enlarged_queues,
    jobs_by_class,
    reclassed_fleet,
)
from bench.papers.machines.slots import (
    build_slots,
    ends_of,
    enlarged_slots,
    grown,
    requests_of,
)
from bench.papers.machines.workload import JobChunk, Workload
from dispatch.machines.placement.policy import POLICIES, Policy
from dispatch.machines.placement.state import (
    Machines,
    build_fleet,
    build_rules,
    build_targets,
)
from lp.lotes.dispatch_table import DispatchTable
from lp.lotes.instance import JobClasses

if TYPE_CHECKING:
    from dispatch.machines.placement.kernels.scores import Targets


class MachineSimulator:
    """One run in progress: the owner of its mutable arrays.

    Parameters
    ----------
    machines
        Machines by configuration.
    speed
        Speed of each configuration for each class, shape (J, K); 0 forbids a pair.
    policy
        `lotes` needs `table`; the others ignore it.
    """

    def __init__(
        self,
        machines: Machines,
        speed: NDArray[np.float64],
        policy: Policy,
        table: DispatchTable | None = None,
        options: SimulationOptions | None = None,
    ) -> None:
        if policy == "lotes" and table is None:
            raise ValueError("policy 'lotes' needs a dispatch table: run lp.lotes.plan_lotes first")
        if policy not in POLICIES:
            raise ValueError(f"unknown policy {policy!r}: expected one of {', '.join(POLICIES)}")
        if speed.shape[0] != machines.count.size:
            raise ValueError(f"speed has {speed.shape[0]} rows for {machines.count.size} kinds")
        self.policy: Policy = policy
        self.options = options or SimulationOptions()
        classes = speed.shape[1]
        resources = machines.capacity.shape[1]
        lotes = policy == "lotes"
        self._fleet = build_fleet(machines, classes)
        self._targets = self._build_targets(machines, table if lotes else None, speed)
        self._queues = build_queues(classes + 1 if lotes else 1, 1024, resources)
        self._waiting = build_machine_queues(machines)
        self._counters = build_counters(self.options, classes, resources)
        self._measuring = build_measuring(self.options)
        self._slots = build_slots(resources, self._counters)
        self._rules = build_rules(
            POLICIES.index(policy),
            speed,
            tetris_hours=self.options.tetris_hours,
            memory=self.options.memory,
        )

    def _build_targets(
        self, machines: Machines, table: DispatchTable | None, speed: NDArray[np.float64]
    ) -> Targets:
        """Targets of a table for the fleet as it is now."""
        from dispatch.machines.placement.kernels.scores import index_scores

        targets = build_targets(self._fleet, machines, table, speed, self.options.sample)
        if self.options.work_conserving:
            targets.eligible[:] = speed > 0
        if table is not None:
            index_scores(self._fleet, targets)
        return targets

    def feed(self, jobs: JobChunk, draw: NDArray[np.float64], until_h: float = np.inf) -> None:
        """Run until the chunk's last arrival, or further until a time when it is given."""
        from bench.papers.machines.kernels import state
        from bench.papers.machines.kernels.loop import advance

        if self.options.record:
            self._record(jobs.arrival_h.size)
        chunk = state.Jobs(jobs.arrival_h, jobs.request, jobs.hours, jobs.job_class, draw)
        self._counters.whole[state.CURSOR] = 0
        while True:
            world = state.World(
                self._fleet,
                self._targets,
                self._queues,
                self._waiting,
                self._slots,
                self._counters,
                self._measuring,
                self._rules,
            )
            code = advance(world, chunk, until_h)
            if code == state.CONSUMED:
                return
            if code == state.MORE_SLOTS:
                self._slots = enlarged_slots(self._slots, self._counters)
            else:
                self._queues = enlarged_queues(self._queues)

    def start_all(self, limit_h: float) -> None:
        """Continue without arrivals, an hour at a time, until none waits or `limit_h` are over."""
        from bench.papers.machines.kernels.state import NOW, WAITING

        whole, real = self._counters.whole, self._counters.real
        end = float(real[NOW]) + limit_h
        none = _no_jobs(self._fleet.capacity.shape[1])
        while whole[WAITING] and real[NOW] < end:
            self.feed(none, np.empty(0), min(float(real[NOW]) + 1.0, end))

    def retarget(self, table: DispatchTable, classes: JobClasses) -> None:
        """Follow another table from now on: running and waiting jobs take their nearest class.

        Waiting jobs keep their order of arrival. The machines must be the same, and every class
        may run everywhere at speed one.

        Raises
        ------
        ValueError
            If the policy is not LoTES or the table covers other machines.
        """
        from bench.papers.machines.kernels.queues import CLASS, MACHINE, NUMBER

        if self.policy != "lotes" or table.machines != self._fleet.whole.shape[0]:
            raise ValueError("retarget needs policy 'lotes' and a table of the same machines")
        slots, queues = self._slots, self._queues
        ends = ends_of(slots, self._counters)
        held = queues.slot[queues.forest.leaf[:, 0] > -np.inf]
        held = held[np.argsort(slots.long[held, NUMBER], kind="stable")]
        resources = self._fleet.capacity.shape[1]
        for group in (ends, held):
            kinds = classes.nearest(requests_of(slots, group, resources))
            slots.whole[group, CLASS] = kinds
        machines = Machines.of_table(table)
        classes_now = len(table.classes)
        speed = np.ones((len(table.configurations), classes_now))
        self._rules = self._rules._replace(speed=speed)
        self._fleet = reclassed_fleet(self._fleet, classes_now)
        running = slots.whole[ends, MACHINE], slots.whole[ends, CLASS]
        np.add.at(jobs_by_class(self._fleet, classes_now), running, 1)
        self._targets = self._build_targets(machines, table, speed)
        self._requeue(held, classes_now)
        self._counters = self._counters._replace(
            class_started=np.zeros(classes_now, dtype=np.int64),
            class_wait=np.zeros(classes_now),
        )

    def _requeue(self, held: NDArray[np.int32], classes: int) -> None:
        """Waiting jobs, in order of arrival, join the queues of the classes that they have now."""
        from bench.papers.machines.kernels.queues import CLASS, append_job, queue_of

        slots, resources = self._slots, self._fleet.capacity.shape[1]
        size = int(self._queues.forest.level_size[0, 0])
        while size < held.size + 1:
            size *= 2
        self._queues = build_queues(classes + 1, size, resources)
        for slot, request in zip(held, requests_of(slots, held, resources), strict=True):
            kind = int(slots.whole[slot, CLASS])
            queue = queue_of(self._fleet, self._targets, self._rules, kind, request)
            append_job(self._queues, queue, slot, request)

    def _record(self, more: int) -> None:
        size = self._counters.start.size
        start, machine = grown(self._counters.start, size + more), self._counters.machine
        start[size:] = np.nan
        machine = grown(machine, size + more)
        machine[size:] = -1
        self._counters = self._counters._replace(start=start, machine=machine)

    def result(self) -> SimulationResult:
        """What has been result_of so far."""
        return result_of(self.policy, self._counters, self.options)


def simulate(
    machines: Machines,
    workload: Workload,
    policy: Policy,
    rng: np.random.Generator,
    *,
    speed: NDArray[np.float64] | None = None,
    table: DispatchTable | None = None,
    options: SimulationOptions | None = None,
) -> SimulationResult:
    """Run one policy over one workload.

    Parameters
    ----------
    rng
        Gives the workload its own stream and the roulette another, so that policies compared
        under equal seeds see the same jobs.

    Raises
    ------
    ValueError
        If the policy is unknown, needs a table, or shapes disagree.
    """
    options = options or SimulationOptions()
    speeds = np.ones((machines.count.size, workload.classes)) if speed is None else speed
    jobs_rng, wheel_rng = rng.spawn(2)
    simulator = MachineSimulator(machines, np.ascontiguousarray(speeds), policy, table, options)
    for chunk in workload.chunks(jobs_rng):
        simulator.feed(chunk, wheel_rng.random(chunk.arrival_h.size))
    if options.drain_until_h is not None:
        simulator.feed(_no_jobs(workload.resources), np.empty(0), options.drain_until_h)
    simulator.start_all(options.start_all_h)
    return simulator.result()


def _no_jobs(resources: int) -> JobChunk:
    empty = np.empty(0)
    return JobChunk(empty, np.empty((0, resources)), empty, np.empty(0, dtype=np.int32))
