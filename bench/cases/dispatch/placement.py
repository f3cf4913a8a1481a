"""`placement`: the strategies that choose machines, as a server runs them.

Eight recorded hours of Google's tasks, on 24 machines of its kinds which they fill: every
fourth task is reserved when it comes, the others are best effort. And the example day, carried out
alongside best effort that takes what is left. LoTES makes its tables as a server does. Told are the
outcome of promises, waits of best effort, how often it was stopped, and what was idle while someone
waited, which is what a strategy wastes by fragmentation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from dispatch.applications.application import Application
    from dispatch.machines.placement.policy import Policy
    from planner.cluster.cluster import Cluster

NAME = "placement"

STRATEGIES: Final[tuple[Policy, ...]] = ("lotes", "best_fit", "spread", "tetris")
SEEDS: Final = (1, 2, 3)

#: Of the largest machine, millicores and MiB: the trace has shares of it.
_LARGEST: Final = (32_000, 128 * 1024)
_MACHINES: Final = 24
#: Share of the trace's tasks: this many fill the machines within a few hours.
_PART: Final = 0.03
_STEP_S: Final = 60
_TICK_S: Final = 10
#: Every this many tasks one is reserved.
_RESERVED: Final = 4
_AGENT: Final = "gree-l"


@dataclass(frozen=True, slots=True)
class _Job:
    """A task of the trace: when it came, what it took and for how long."""

    name: str
    at_s: int
    application: Application

    @property
    def size_s(self) -> int:
        """Its length."""
        assert self.application.size_ms is not None
        return self.application.size_ms // 1000


def run(small: bool) -> dict[str, object]:
    """Carry out each day with each strategy."""
    from bench.workloads.traces import traces_folder

    hours, seeds = (2, SEEDS[:1]) if small else (8, SEEDS)
    figures: dict[str, object] = {}
    folder = traces_folder()
    if folder is not None:
        for seed in seeds:
            cluster, jobs = _google(folder / "google2011", hours, seed)
            for strategy in STRATEGIES:
                figures[f"google_{seed}_{strategy}"] = _run_jobs(cluster, jobs, strategy, hours)
    for strategy in STRATEGIES:
        figures[f"example_{strategy}"] = _run_example(strategy, 60 if small else None)
    params = {"hours": hours, "seeds": seeds, "machines": _MACHINES, "strategies": STRATEGIES}
    return {"params": params | {"traces": folder is not None}, "figures": figures}


def _google(folder: Path, hours: int, seed: int) -> tuple[Cluster, list[_Job]]:
    """Return machines of the trace's kinds, and a part of its tasks after the first."""
    from bench.papers.machines.traces import read_google_machines, read_google_tasks
    from dispatch.applications.application import Application, Component
    from planner.files import cluster_from_json
    from rdl.resources import Resources

    kinds = read_google_machines(folder)
    counts = np.round(_MACHINES * kinds.count / kinds.count.sum()).astype(int)
    amounts = np.maximum(1, np.round(kinds.capacity * _LARGEST)).astype(int)
    cluster = cluster_from_json(
        {
            "step": f"{_STEP_S}s",
            "horizon": "2d",
            "machines": [
                {"name": f"kind{at}", "count": count,
                 "resources": {"cpu": f"{cpu}m", "memory": f"{memory} MiB"}}
                for at, (count, (cpu, memory)) in enumerate(
                    zip(counts.tolist(), amounts.tolist(), strict=True)
                )
                if count
            ],
        }
    )  # fmt: skip
    tasks = read_google_tasks(folder).between(1 / 3600, hours)
    tasks = tasks.random_part(_PART, np.random.default_rng(seed))
    asked = np.maximum(1, np.round(tasks.request * _LARGEST)).astype(int)
    jobs = []
    for at, (cpu, memory) in enumerate(asked.tolist()):
        resources = Resources.of({"cpu": cpu, "memory": memory})
        size_ms = 1000 * max(1, round(3600 * float(tasks.hours[at])))
        application = Application(
            f"job{at}", (Component("work", 1, True, resources),), size_ms=size_ms
        )
        jobs.append(_Job(f"job{at}", round(3600 * float(tasks.arrival_h[at])), application))
    return cluster, jobs


class _Day:
    """One day under one strategy, from tick to tick."""

    def __init__(self, cluster: Cluster, strategy: Policy) -> None:
        from dispatch.accounts.credits import CreditBook
        from dispatch.accounts.promises import PromiseLedger
        from dispatch.backends.in_memory import InMemoryBackend
        from dispatch.cycle.dispatcher import Dispatcher
        from dispatch.cycle.options import options_of
        from dispatch.entitlements.follower import PlanFollower
        from dispatch.executions.table import ExecutionTable
        from dispatch.loop import DispatchLoop
        from dispatch.machines.machine_pool import MachinePool
        from dispatch.tables import LiveTables
        from planner.agents import agent_named
        from planner.plan.plan import Plan

        self.plan = Plan(cluster, cluster.grid())
        self.agent = agent_named(_AGENT)
        self.tables = LiveTables() if strategy == "lotes" else None
        self.follower = PlanFollower(self.plan, self.tables)
        self.table = ExecutionTable(MachinePool(cluster))
        options = replace(options_of(cluster), policy=strategy)
        backend = InMemoryBackend(self.table.pool.names, run_ms=self._size_of)
        self.credit = CreditBook()
        self.loop = DispatchLoop(self.table, Dispatcher(options), backend, credit=self.credit)
        self.promises = PromiseLedger()
        self.stopped = 0
        self.idle: list[float] = []
        self.first_ms: dict[str, int] = {}

    def _size_of(self, delta: object) -> int | None:
        execution = self.table.get(delta.execution)  # type: ignore[attr-defined]
        return None if execution is None else execution.application.size_ms

    def commit(self, change: object, now_ms: int) -> bool:
        """Commit one change; return whether the Plan took it."""
        prepared = self.plan.prepare([change], self.plan.version, at_ms=now_ms)  # type: ignore[list-item]
        if prepared.record is not None:
            self.plan.apply(prepared.record)
        return not prepared.conflicts

    def arrive(self, job: _Job, *, reserved: bool, now_ms: int) -> None:
        """Accept a task, and reserve for it; refused it is best effort."""
        application = job.application
        if reserved and self._reserve(job, now_ms):
            application = replace(application, reservation=job.name)
        execution = self.table.submit(job.name, application, now_ms)
        self.credit.watch(execution, self.plan)
        if self.tables is not None:
            self.tables.count_arrival(application, now_ms)

    def _reserve(self, job: _Job, now_ms: int) -> bool:
        from planner.agent import Limits
        from planner.plan.records.changes import Admit
        from planner.request import Request
        from rdl.compile.compiler import compile_expression
        from rdl.compile.context import CompileContext
        from rdl.compile.source import read_source

        length = -(-job.size_s // _STEP_S) * _STEP_S + _STEP_S
        bundle = job.application.components[0].resources
        text = f"window(atom(<{bundle}>, 1, 1, {length}, {length}), +0, +{2 * length + 3600})"
        graph = compile_expression(read_source(text), CompileContext(self.plan.grid, now_ms))
        request = Request(job.name, "default", "default", now_ms, 1.0, 0, graph)
        result = self.agent.plan([request], self.plan.view(), Limits())[0]
        admit = Admit(request, result, self.agent.name, planner=self.agent)
        return result.placed and self.commit(admit, now_ms)

    def tick(self, now_ms: int) -> None:
        """Run a cycle and look at what waits."""
        from dispatch.accounts.promises import shortfall
        from planner.plan.records.changes import Advance

        if now_ms // (1000 * _STEP_S) > self.plan.now:
            self.commit(Advance(now_ms // (1000 * _STEP_S)), now_ms)
        if self.tables is not None:
            self.tables.refresh(self.plan, now_ms)
        directive = self.follower.follow(now_ms)
        self.stopped += len(self.loop.tick(directive).requeued)
        self.promises.observe(directive.at_ms, shortfall(directive, self.table).reservations)
        for change in self.credit.due(self.plan, now_ms):
            self.commit(change, now_ms)
        waits = False
        for execution in list(self.table):
            if execution.started_ms is not None:
                self.first_ms.setdefault(execution.id, execution.started_ms)
            elif not execution.is_over:
                waits |= execution.application.reservation is None
        if waits:
            self.idle.append(self._free())

    def _free(self) -> float:
        """Return the share of cores that nothing runs on."""
        pool = self.table.pool
        at = pool.resources.index("cpu")
        used = sum(len(part.held) * part.amounts[at] for one in self.table for part in one.parts)
        return 1 - used / float(pool.capacity[:, at].sum())


def _run_jobs(
    cluster: Cluster, jobs: list[_Job], strategy: Policy, hours: int
) -> dict[str, object]:
    """Run tasks as they came; who has not started at the end has waited until then."""
    from dispatch.accounts.promises import outcomes_in

    began = time.process_time()
    day, due = _Day(cluster, strategy), 0
    for now_s in range(0, 3600 * hours + 1, _TICK_S):
        while due < len(jobs) and jobs[due].at_s <= now_s:
            day.arrive(jobs[due], reserved=due % _RESERVED == 0, now_ms=1000 * now_s)
            due += 1
        day.tick(1000 * now_s)
    end_ms = 3_600_000 * hours
    day.promises.end(end_ms)
    outcomes = list(outcomes_in(day.plan, end_ms, day.promises.below_ms).values())
    waits = np.array(
        [
            (day.first_ms.get(job.name, end_ms) - 1000 * job.at_s) / 1000
            for job in jobs[:due]
            if day.plan.table.number_of(job.name) is None
        ]
    )
    return {
        "jobs": due,
        "promised": len(outcomes),
        "broken": sum(one.is_broken for one in outcomes),
        "wait_mean_s": round(float(waits.mean()), 1),
        "wait_p95_s": round(float(np.percentile(waits, 95)), 1),
        "stopped": day.stopped,
        "idle_while_waiting": round(float(np.mean(day.idle)), 4) if day.idle else 0.0,
        "cpu_s": round(time.process_time() - began, 1),
    }


def _run_example(strategy: Policy, limit: int | None) -> dict[str, object]:
    """Admit the example day request by request, and carry it out alongside best effort."""
    from bench.papers.cluster.admission import admit_in_turn
    from bench.papers.cluster.plan_run import run_plan
    from bench.papers.promises import best_effort_of_a_day
    from dispatch.cycle.options import DispatchOptions
    from dispatch.tables import LiveTables
    from planner.agents import agent_named
    from planner.files import read_cluster, read_workload
    from planner.plan.plan import Plan
    from planner.workload.compile import compile_workload
    from service.example_day import SEED, write_example_day

    with TemporaryDirectory() as folder:
        files = write_example_day(Path(folder), SEED)
        cluster = read_cluster(files[0])
        lines = list(read_workload(files[1], cluster.origin))[:limit]
    plan = Plan(cluster, cluster.grid())
    admit_in_turn(plan, agent_named(_AGENT), compile_workload(lines, cluster).requests)
    tables = LiveTables() if strategy == "lotes" else None
    done = run_plan(plan, best_effort_of_a_day(), DispatchOptions(strategy), tables)
    return {
        "promised": done.reservations,
        "broken": len(done.broken),
        "stopped": done.stopped,
    }
