"""Omega on a real Plan: planners that commit at the same time, and their conflicts (4.3, 5.2)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from statistics import mean
from typing import Any

import numpy as np

from bench.papers.experiment import ExperimentEffort, ExperimentResult, Table, spreads
from bench.papers.spread import spread_of
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import Cluster, MachineGroup
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.expressions import Atom, Offset, Window
from rdl.resources import Resources
from rdl.work_graph import LABEL
from service.pictures.experiments import ExperimentPanel, PanelSeries

_ARRIVAL, _DECIDED = 0, 1
_CORE = Resources.of({"cpu": 1000})


@dataclass(frozen=True, slots=True)
class OmegaRun:
    """What is run.

    Attributes
    ----------
    planners
        How many planners share the Plan; jobs are dealt to them in turn.
    jobs_per_s
        Poisson arrivals of jobs; each has 1 + Poisson(mean_tasks - 1) tasks of one core.
    duration_s
        Mean time of a task, exponential, at least a second.
    cells, cores
        Cells of machines, and the cores of one.
    t_job_s, t_task_s
        Time to decide about a job, and about each of its tasks (Omega: 0.1 s and 5 ms).
    length_s, slice_s
        How long jobs arrive, and the slices whose median busyness and its deviation are reported.
    all_or_nothing, coarse
        The transaction model, see the module.
    attempts
        Attempts after which a job is given up.
    """

    planners: int = 4
    jobs_per_s: float = 4.5
    mean_tasks: float = 10.0
    duration_s: float = 20.0
    cells: int = 128
    cores: int = 8
    t_job_s: float = 0.1
    t_task_s: float = 0.005
    length_s: float = 300.0
    slice_s: float = 60.0
    all_or_nothing: bool = False
    coarse: bool = False
    attempts: int = 100
    seed: int = 1


@dataclass(frozen=True, slots=True)
class OmegaFigures:
    """What came of a run.

    Attributes
    ----------
    conflict_fraction
        Conflicts a successful transaction: 0 = none, 3 = four attempts for the average job.
    busyness, busyness_mad
        Share of time that planners decide: median over slices, and median absolute deviation.
    wait_s
        Mean time from submission to the first attempt.
    jobs, given_up
        Jobs that were placed, and those that ran out of attempts.
    utilisation
        Committed core-seconds over capacity, while jobs arrive.
    """

    run: OmegaRun
    conflict_fraction: float
    busyness: float
    busyness_mad: float
    wait_s: float
    jobs: int
    given_up: int
    utilisation: float

    def to_json(self) -> dict[str, object]:
        """Return parameters and figures."""
        return asdict(self)


@dataclass(slots=True)
class _OmegaJob:
    number: int
    submitted: float
    tasks: int
    steps: int
    first_attempt: float | None = None
    attempts: int = 0
    conflicts: int = 0
    done: int = 0


@dataclass(slots=True)
class _Planner:
    queue: deque[_OmegaJob] = field(default_factory=deque)
    view: PlanSnapshot | None = None
    busy: list[tuple[float, float]] = field(default_factory=list)


def run_omega(run: OmegaRun) -> OmegaFigures:
    """Run one configuration to the end of its last job."""
    return _Simulation(run).finish()


class _Simulation:
    """One run: the Plan, the planners, and the event queue (time, kind, number)."""

    def __init__(self, run: OmegaRun) -> None:
        self.run = run
        self.rng = np.random.default_rng(run.seed)
        self.cluster = _cluster(run)
        self.plan = Plan(self.cluster, self.cluster.grid())
        self.agent: Agent = agent_named("earliest")
        self.planners = [_Planner() for _ in range(run.planners)]
        self.touched = np.zeros(run.cells, dtype=np.int64)
        self.jobs = self._draw_jobs()
        self.events: list[tuple[float, int, int]] = [
            (job.submitted, _ARRIVAL, job.number) for job in self.jobs
        ]
        heapq.heapify(self.events)

    def _draw_jobs(self) -> list[_OmegaJob]:
        run, rng = self.run, self.rng
        count = rng.poisson(run.jobs_per_s * run.length_s)
        at = np.sort(rng.uniform(0.0, run.length_s, count))
        tasks = 1 + rng.poisson(run.mean_tasks - 1, count)
        steps = np.maximum(1, np.ceil(rng.exponential(run.duration_s, count))).astype(int)
        return [
            _OmegaJob(number, float(a), int(n), int(d))
            for number, (a, n, d) in enumerate(zip(at, tasks, steps, strict=True))
        ]

    def finish(self) -> OmegaFigures:
        """Run all events and return the figures."""
        while self.events:
            now, kind, number = heapq.heappop(self.events)
            if kind == _ARRIVAL:
                planner = self.planners[number % len(self.planners)]
                planner.queue.append(self.jobs[number])
                if planner.view is None:
                    self._begin(planner, number % len(self.planners), now)
            else:
                self._commit(self.planners[number], number, now)
        return self._figures()

    def _begin(self, planner: _Planner, number: int, now: float) -> None:
        job = planner.queue[0]
        if job.first_attempt is None:
            job.first_attempt = now
        job.attempts += 1
        planner.view = self.plan.snapshot()
        end = now + self.run.t_job_s + self.run.t_task_s * (job.tasks - job.done)
        planner.busy.append((now, end))
        heapq.heappush(self.events, (end, _DECIDED, number))

    def _commit(self, planner: _Planner, number: int, now: float) -> None:
        job, view = planner.queue[0], planner.view
        assert view is not None
        planner.view = None
        tasks, cells, placed = self._decide(job, view, now)
        failed = self._transact(tasks, cells, placed, view.version)
        job.done += len(tasks) - failed
        job.conflicts += failed > 0
        if job.done == job.tasks or job.attempts >= self.run.attempts:
            planner.queue.popleft()
        if planner.queue:
            self._begin(planner, number, now)

    def _decide(
        self, job: _OmegaJob, view: PlanSnapshot, now: float
    ) -> tuple[list[Request], list[int], list[PlacementResult]]:
        """Place what is left of a job on the snapshot: random cells, earliest start."""
        grid = self.cluster.grid()
        start = min(int(now) + 1, grid.horizon - job.steps - 1)
        context = CompileContext(grid, start * grid.step_ms)
        atom = Atom(_CORE, 1, 1, job.steps * grid.step_ms, job.steps * grid.step_ms)
        window = Window(Offset(start * grid.step_ms), Offset(grid.horizon_ms), atom)
        plain = compile_expression(window, context)
        cells = self.rng.integers(0, self.run.cells, job.tasks - job.done).tolist()
        tasks = []
        for index, cell in enumerate(cells):
            on = plain.vertices.copy()
            on[0, LABEL] = 0
            graph = replace(plain, vertices=on, labels=(f"cell-{cell}",))
            name = f"{job.number}/{job.attempts}/{index}"
            tasks.append(Request(name, "t", "default", int(now * 1000), 1.0, 0, graph))
        return tasks, cells, list(self.agent.plan(tasks, view, Limits()))

    def _transact(
        self, tasks: list[Request], cells: list[int], placed: list[PlacementResult], version: int
    ) -> int:
        """Commit what holds under the transaction model; return how many tasks do not."""
        stale = [
            not result.placed or (self.run.coarse and self.touched[cell] > version)
            for cell, result in zip(cells, placed, strict=True)
        ]
        if self.run.all_or_nothing and any(stale):
            return len(tasks)
        kept = [index for index, late in enumerate(stale) if not late]
        changes: list[Change] = [Admit(tasks[i], placed[i], self.agent.name) for i in kept]
        prepared = self.plan.prepare(changes, version, atomic=self.run.all_or_nothing)
        if prepared.record is not None:
            self.plan.apply(prepared.record, prepared.takings)
            for index, outcome in zip(kept, prepared.outcomes, strict=True):
                if not isinstance(outcome, Conflict):
                    self.touched[cells[index]] = self.plan.version
        failed = len(prepared.conflicts)
        if self.run.all_or_nothing and failed:
            return len(tasks)
        return len(tasks) - len(kept) + failed

    def _figures(self) -> OmegaFigures:
        run = self.run
        placed = [job for job in self.jobs if job.done == job.tasks]
        conflicts = sum(job.conflicts for job in self.jobs)
        busy = _busyness(self.planners, run)
        middle = float(np.median(busy))
        waits = [job.first_attempt - job.submitted for job in self.jobs if job.first_attempt]
        asked = sum(job.tasks * job.steps for job in placed)
        return OmegaFigures(
            run=run,
            conflict_fraction=conflicts / max(1, len(placed)),
            busyness=middle,
            busyness_mad=float(np.median(np.abs(busy - middle))),
            wait_s=float(np.mean(waits)) if waits else 0.0,
            jobs=len(placed),
            given_up=len(self.jobs) - len(placed),
            utilisation=asked / (run.length_s * run.cells * run.cores),
        )


def _cluster(run: OmegaRun) -> Cluster:
    groups = tuple(
        MachineGroup(
            name=f"cell-{cell}",
            count=1,
            resources=Resources.of({"cpu": 1000 * run.cores}),
            labels=frozenset({f"cell-{cell}"}),
        )
        for cell in range(run.cells)
    )
    deciding_s = run.jobs_per_s * run.length_s * (run.t_job_s + run.t_task_s * run.mean_tasks)
    # Planners that cannot keep up, or place again and again, continue after the last arrival.
    horizon = int(2 * (run.length_s + deciding_s / run.planners) + 20 * run.duration_s)
    return Cluster(step_ms=1000, horizon_ms=horizon * 1000, machines=groups)


def _busyness(
    planners: list[_Planner], run: OmegaRun
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the busy share of each slice of the arrivals' time, mean over planners."""
    slices = max(1, round(run.length_s / run.slice_s))
    edges = np.linspace(0.0, run.length_s, slices + 1)
    busy = np.zeros(len(edges) - 1)
    for planner in planners:
        for start, end in planner.busy:
            overlap = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
            busy += np.maximum(0.0, overlap)
    return busy / (run.length_s / slices * len(planners))


def run_planners(effort: ExperimentEffort) -> ExperimentResult:
    """Run every transaction model with each number of planners."""
    planners = (1, 8) if effort.small else (1, 2, 4, 8, 16, 32)
    length_s = 20.0 if effort.small else 240.0
    runs = [
        OmegaRun(
            planners=count,
            length_s=length_s,
            slice_s=length_s / 12,
            coarse=coarse,
            all_or_nothing=gang,
            seed=seed,
        )
        for coarse, gang, count, seed in product(
            (False, True), (False, True), planners, effort.seeds_or((1, 2, 3))
        )
    ]
    return _result_of(effort.parts([partial(run_omega, run) for run in runs]))


def _result_of(figures: Sequence[OmegaFigures]) -> ExperimentResult:
    """Return conflict fraction, busyness and wait by transaction model and number of planners."""
    groups: dict[tuple[str, int], list[OmegaFigures]] = {}
    for one in figures:
        groups.setdefault((_model(one), one.run.planners), []).append(one)
    summaries = [_summary(model, count, ones) for (model, count), ones in groups.items()]
    document = {
        "experiment": "omega",
        "summaries": summaries,
        "rows": [one.to_json() for one in figures],
    }
    keys = ("conflict_fraction", "busyness", "wait_s")
    labels = ("conflicts a successful transaction", "busyness (median)", "mean wait, s")
    panels = [
        ExperimentPanel(label, "planners", label, _series(summaries, key), log_x=True)
        for key, label in zip(keys, labels, strict=True)
    ]
    table = Table.of(
        [key.replace("_", " ") for key in summaries[0]],
        [tuple(one.values()) for one in summaries],
    )
    return ExperimentResult(document, (table,), panels)


def _model(figures: OmegaFigures) -> str:
    detection = "coarse" if figures.run.coarse else "fine"
    return f"{detection}, {'all-or-nothing' if figures.run.all_or_nothing else 'incremental'}"


def _summary(model: str, planners: int, ones: Sequence[OmegaFigures]) -> dict[str, Any]:
    conflicts = [one.conflict_fraction for one in ones]
    return {
        "model": model,
        "planners": planners,
        "seeds": len(ones),
        "conflict_fraction": mean(conflicts),
        "spread": spread_of(conflicts),
        "busyness": mean(one.busyness for one in ones),
        "busyness_mad": mean(one.busyness_mad for one in ones),
        "wait_s": mean(one.wait_s for one in ones),
        "jobs": sum(one.jobs for one in ones),
        "given_up": sum(one.given_up for one in ones),
    }


def _series(summaries: Sequence[dict[str, Any]], key: str) -> list[PanelSeries]:
    found = []
    for model in dict.fromkeys(one["model"] for one in summaries):
        mine = [one for one in summaries if one["model"] == model]
        spread = spreads(one["spread"] for one in mine) if key == "conflict_fraction" else []
        found.append(
            PanelSeries(
                model, [one["planners"] for one in mine], [one[key] for one in mine], spread
            )
        )
    return found
