"""Rayon's jobs on the real Plan, follower, dispatcher and in-memory backend, in one event loop.

A job with a deadline asks for a reservation when it comes; where that is refused, it does not run.
Each of its stages is an execution of one core component and the rest elastic (of a gang, all core)
that draws on the atom of its stage. The next stage is submitted when the last has ended, and the
reservation is closed when all have. All other jobs are best effort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil

from bench.papers.cluster.job_progress import JobOutcome, JobProgress, RayonRun, Tally
from bench.papers.cluster.rayon_workload import RayonJob, RayonStage
from bench.papers.cluster.run_trace import RunTrace
from dispatch.accounts.promises import PromiseLedger, outcomes_in, shortfall
from dispatch.applications.application import Application, Component
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.cycle import Cycle
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.cycle.options import DispatchOptions, LineOptions, options_of
from dispatch.entitlements.directive import Directive
from dispatch.entitlements.follower import PlanFollower
from dispatch.entitlements.start_delay import StartDelays
from dispatch.executions.states import FINAL_EXECUTION_STATES
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from dispatch.pool.ordering import ordering_named
from dispatch.tables import LiveTables
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.cluster.policy import CapacityOverTime, Scope
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Change, Close
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.state import LIVE
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Atom, Expression, Offset, Order, Window
from rdl.resources import Resources

#: A container: one core and 2 GiB.
CONTAINER = Resources.of({"cpu": 1000, "memory": 2048})
_MEMORY_GIB = 128


@dataclass(frozen=True, slots=True)
class PlannedOptions:
    """The cluster, and how it is planned and dispatched.

    Attributes
    ----------
    machines, containers_each
        Of one core and 2 GiB a container.
    window_s, after_s
        How long jobs arrive, and how long the run continues at most.
    over
        Work asked for over the true work.
    production
        Share of the cluster that reservations may hold at any instant.
    agent, ordering
        Which agent plans; which of best effort goes first.
    start_s
        How long a container starts up, whole seconds.
    promise
        What reservations are promised.
    as_served
        Dispatch as a server does whose cluster file has no words on it: its policy, live tables of
        LoTES and learnt start delays; `ordering` is not read.
    """

    machines: int
    containers_each: int
    window_s: float
    after_s: float = 3_600.0
    step_s: int = 10
    over: float = 1.1
    production: str = "0.7"
    agent: str = "gree-l"
    ordering: str = "drf"
    start_s: float = 2.0
    promise: PromiseLevel = PromiseLevel.POOLED
    as_served: bool = False


def request_of(job: RayonJob, over: float, step_s: int) -> Expression:
    """Return what a job asks for: its stages in order, `over` times their work, by its deadline."""
    assert job.deadline_s is not None
    atoms = tuple(_atom(stage, over, step_s) for stage in job.stages)
    inner: Expression = atoms[0] if len(atoms) == 1 else Order(atoms)
    start = ceil(job.at_s / step_s) * step_s * 1000
    return Window(Offset(start), Offset(round(job.deadline_s * 1000)), inner)


def _atom(stage: RayonStage, over: float, step_s: int) -> Atom:
    if stage.gang:
        lease = ceil(over * stage.alone_s / step_s) * step_s * 1000
        return Atom(CONTAINER, stage.tasks, stage.tasks, lease, lease * stage.tasks)
    work = ceil(over * stage.work_s / step_s) * step_s * 1000
    return Atom(CONTAINER, 1, stage.tasks, step_s * 1000, work)


def run_planned_cluster(
    jobs: Sequence[RayonJob],
    options: PlannedOptions,
    look: Callable[[Plan], None] | None = None,
    trace: RunTrace | None = None,
) -> RayonRun:
    """Run jobs, in order of submission, tick by tick of a second.

    `look` is shown the Plan every minute and at the end, to check it; `trace` notes who holds what.
    """
    return _PlannedRun(jobs, options, look, trace).run()


class _PlannedRun:
    """One run: the Plan and its one writer, the dispatch loop, and how far every job is."""

    def __init__(
        self,
        jobs: Sequence[RayonJob],
        options: PlannedOptions,
        look: Callable[[Plan], None] | None,
        trace: RunTrace | None,
    ) -> None:
        self.jobs, self.options, self.look, self.trace = jobs, options, look, trace
        cluster = _cluster(options)
        self.plan = Plan(cluster, cluster.grid())
        self.agent = agent_named(options.agent)
        self.tables = LiveTables() if options.as_served else None
        self.follower = PlanFollower(self.plan, self.tables)
        pool = MachinePool(cluster)
        dispatcher = Dispatcher(_dispatch_options(cluster, options))
        backend = InMemoryBackend(pool.names, lambda _: round(options.start_s * 1000))
        self.starts = StartDelays() if options.as_served else None
        self.loop = DispatchLoop(ExecutionTable(pool), dispatcher, backend, self.starts)
        containers = options.machines * options.containers_each
        self.tally = Tally(jobs, containers, options.window_s)
        self.running: dict[str, JobProgress] = {}
        self.promises = PromiseLedger()
        self.requeued: dict[str, int] = {}
        self.ended: list[str] = []
        self.starting: set[str] = set()

    def run(self) -> RayonRun:
        """Run until everything has ended or the time is over."""
        arrived, now = 0, 0.0
        last = self.options.window_s + self.options.after_s
        while now <= last and (arrived < len(self.jobs) or self.running):
            if now % self.options.step_s == 0:
                self._commit(Advance(int(now) // self.options.step_s), now)
            self._advance(now)
            while arrived < len(self.jobs) and self.jobs[arrived].at_s <= now:
                self._arrive(self.jobs[arrived], now)
                arrived += 1
            self._tick(now)
            if self.look is not None and now % 60 == 0:
                self.look(self.plan)
            now += 1.0
        if self.look is not None:
            self.look(self.plan)
        return self._result(now)

    def _commit(self, change: Change, now: float) -> bool:
        prepared = self.plan.prepare([change], self.plan.version, at_ms=round(now * 1000))
        if prepared.record is not None:
            self.plan.apply(prepared.record)
        return not prepared.conflicts

    def _arrive(self, job: RayonJob, now: float) -> None:
        if job.deadline_s is not None and not self._reserve(job, now):
            return
        progress = JobProgress(job, now)
        self.tally.take(progress)
        self.running[job.name] = progress
        self._submit(progress, now)

    def _reserve(self, job: RayonJob, now: float) -> bool:
        """Ask for the reservation of a job; return whether it was granted."""
        expression = request_of(job, self.options.over, self.options.step_s)
        context = CompileContext(self.plan.grid, round(now * 1000))
        try:
            graph = compile_expression(expression, context)
        except RdlError:  # even on an empty cluster it does not fit its window
            return False
        tenant = f"t{job.tenant}"
        request = Request(job.name, tenant, "default", round(now * 1000), 1.0, 0, graph)
        result = self.agent.plan([request], self.plan.view(), Limits())[0]
        return result.placed and self._commit(
            Admit(request, result, self.agent.name, planner=self.agent), now
        )

    def _submit(self, progress: JobProgress, now: float) -> None:
        job, stage = progress.job, progress.stage
        path = "0" if len(job.stages) == 1 else f"0.{progress.number}"
        core = stage.tasks if stage.gang else 1
        components = [Component("core", core, True, CONTAINER)]
        if stage.tasks > core:
            components.append(Component("more", stage.tasks - core, False, CONTAINER))
        application = Application(f"{job.kind}-{progress.number}", tuple(components))
        if job.deadline_s is not None:
            application = replace(application, reservation=job.name, atom=path)
        # A later stage keeps its job's place in the line.
        at = round((now if job.deadline_s is not None else job.at_s) * 1000)
        name = f"{job.name}/{progress.number}"
        self.loop.table.submit(name, application, at, tenant=f"t{job.tenant}")
        if self.tables is not None:
            self.tables.count_arrival(application, at)

    def _advance(self, now: float) -> None:
        """Let every job work until now; end stages and jobs whose work is done."""
        for progress in list(self.running.values()):
            number = progress.number
            over = progress.advance(now)
            if not over and progress.number == number:
                continue
            name = f"{progress.job.name}/{number}"
            self.loop.table.finish(name, round(now * 1000), "its work is done")
            self.ended.append(name)
            if not over:
                self._submit(progress, now)
                continue
            del self.running[progress.job.name]
            if progress.job.deadline_s is not None:
                self._close(progress.job.name, now)

    def _close(self, name: str, now: float) -> None:
        """Release what is left of a reservation, unless all of it is past already."""
        reservation = self.plan.reservation(name)
        if reservation is not None and reservation.state in LIVE:
            self._commit(Close(name), now)

    def _follow(self, now_ms: int) -> Directive:
        """Read the Plan as a server does: with what is known of tables and late starts."""
        if self.tables is not None:
            self.tables.refresh(self.plan, now_ms)
        if self.starts is not None:
            self.follower.delays = self.starts.table()
        return self.follower.follow(now_ms)

    def _tick(self, now: float) -> None:
        directive = self._follow(round(now * 1000))
        cycle = self.loop.tick(directive)
        self._take(cycle)
        short = shortfall(directive, self.loop.table)
        self.promises.observe(directive.at_ms, short.reservations)
        self.tally.use(now, sum(progress.held for progress in self.running.values()))
        if self.trace is not None:
            self.trace.take(now, self.running.values())
        table = self.loop.table
        waiting: list[str] = []
        for name in self.ended:
            execution = table.get(name)
            assert execution is not None
            if execution.state in FINAL_EXECUTION_STATES and not execution.holds:
                table.forget(name)
            else:
                waiting.append(name)
        self.ended = waiting

    def _take(self, cycle: Cycle) -> None:
        """Follow how many containers each job has after a cycle."""
        changed = self.starting.union(delta.execution for delta in cycle.deltas)
        self.starting = {name for name in changed if self._count(name)}
        for name in cycle.requeued:
            job = name.partition("/")[0]
            self.requeued[job] = self.requeued.get(job, 0) + 1

    def _count(self, name: str) -> bool:
        """Count the containers of an execution; return whether some of them are starting."""
        job, _, number = name.partition("/")
        progress, execution = self.running.get(job), self.loop.table.get(name)
        if progress is None or execution is None or int(number) != progress.number:
            return False
        holds = sum(len(part.held) for part in execution.parts)
        up = sum(part.running for part in execution.parts)
        progress.hold(holds, up)
        return up < holds

    def _result(self, ended: float) -> RayonRun:
        self.promises.end(round(ended * 1000))
        run = self.tally.run()
        outcomes = tuple(self._outcome(one) for one in run.outcomes)
        found = outcomes_in(self.plan, round(ended * 1000), self.promises.below_ms)
        broken = frozenset(id_ for id_, one in found.items() if one.is_broken)
        return replace(run, outcomes=outcomes, broken=broken)

    def _outcome(self, one: JobOutcome) -> JobOutcome:
        name = one.job.name
        return replace(
            one,
            below_s=self.promises.longest_below_ms(name) / 1000,
            requeued=self.requeued.get(name, 0),
        )


def _dispatch_options(cluster: Cluster, options: PlannedOptions) -> DispatchOptions:
    if options.as_served:
        return options_of(cluster)
    return DispatchOptions(line=LineOptions(ordering=ordering_named(options.ordering)))


def _cluster(options: PlannedOptions) -> Cluster:
    resources = Resources.of({"cpu": 1000 * options.containers_each, "memory": _MEMORY_GIB * 1024})
    cap = CapacityOverTime("production", Scope(), instant=Decimal(options.production))
    # Deadlines lie up to four times a job's length behind its submission.
    horizon_s = options.window_s + options.after_s + 4 * 3_600
    return Cluster(
        step_ms=options.step_s * 1000,
        horizon_ms=int(horizon_s // options.step_s) * options.step_s * 1000,
        machines=(MachineGroup("node", options.machines, resources),),
        policies=(cap,),
        promise=options.promise,
    )
