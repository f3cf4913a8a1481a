"""Rayon's figures 12 and 14: agents on workloads A, B and C, relative to GREE as in the paper."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from bench.papers.agents import bench_agent
from bench.papers.cluster.planned_cluster import CONTAINER, request_of
from bench.papers.cluster.rayon_workload import RayonJob, RayonStage, RayonWorkload, rayon_workload
from bench.papers.experiment import (
    ExperimentEffort,
    ExperimentResult,
    Table,
    claims_table,
    figure_cells,
    figure_series,
    reading,
    spread_header,
)
from bench.papers.rayon import rayon_options, swim_file
from bench.papers.spread import Figure, figure_of, figures_json
from planner.agent import Agent, Limits, SolverAgent, SolverReport
from planner.agents.milp.agent import MILP
from planner.cluster.cluster import Cluster, MachineGroup
from planner.metrics import Metrics, measure, outcome_of
from planner.placement import Code
from planner.plan.plan import Plan
from planner.request import Request
from planner.workload.warm_up import load_kernels
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from service.pictures.experiments import ExperimentPanel


@dataclass(frozen=True, slots=True)
class PlanningTrial:
    """What an agent made of a set.

    Attributes
    ----------
    seconds
        Of the clock, for the answers alone.
    report
        Of a solver; None of any other agent.
    """

    seconds: float
    metrics: Metrics
    report: SolverReport | None


def trial_agent(name: str) -> Agent:
    """Return an agent; `milp-cold` is the solver by itself, without a greedy plan to start from."""
    if name == "milp-cold":
        return replace(MILP, name=name, start=(), fills=False)
    return bench_agent(name)


def planning_trial(
    agent: Agent, cluster: Cluster, requests: Sequence[Request], limits: Limits
) -> PlanningTrial:
    """Let an agent place requests on an empty Plan of a cluster; totals are all that counts."""
    view, asked = Plan(cluster, cluster.grid()).snapshot(), list(requests)
    report: SolverReport | None = None
    began = time.perf_counter()
    if isinstance(agent, SolverAgent):
        results, report = agent.solve(asked, view, limits)
    else:
        results = agent.plan(asked, view, limits)
    seconds = time.perf_counter() - began
    outcomes = [outcome_of(r, a, cluster.reference) for r, a in zip(asked, results, strict=True)]
    bound = None if report is None else report.bound
    metrics = measure(outcomes, cluster.nominal, cluster.grid().horizon, bound=bound)
    return PlanningTrial(seconds, metrics, report)


#: The agents: the printed GREE, the repaired one, and the solvers.
AGENTS: Final = ("gree", "gree-paper", "gree-l", "milp-cold", "exact")

#: Those that take all the time they are given.
SOLVERS: Final = frozenset({"milp-cold", "exact"})

#: Work over what the containers do while jobs come.
LOAD: Final = 8.0

_CONTAINERS_A_JOB: Final = 1
_STEP_S: Final = 30
_HOURS: Final = 0.1


@dataclass(frozen=True, slots=True)
class PlanningSet:
    """One set of jobs.

    Attributes
    ----------
    figure
        ``12`` or ``14``.
    kind, share
        Which workload alongside A, B or C, and how much of the jobs; 0 in figure 12.
    jobs
        How many.
    """

    figure: str
    kind: str
    share: float
    jobs: int

    @property
    def name(self) -> str:
        """Return how a table calls it."""
        if self.figure == "12":
            return f"{self.jobs} atoms of A"
        return f"{self.jobs} jobs, {self.share:.0%} of {self.kind}" if self.share else "all of A"


@dataclass(frozen=True, slots=True)
class PlanningFigures:
    """What an agent made of a set: the paper's four metrics, and the proven gap of a solver."""

    seconds: float
    acceptance: float
    preemption: int
    uniformity: float
    gap: float | None


@dataclass(frozen=True, slots=True)
class PlanningPoint:
    """One set of one seed, by every agent; jobs that fit no empty cluster are left out of it."""

    of: PlanningSet
    seed: int
    placeable: int
    load: float
    agents: dict[str, PlanningFigures]


def planning_point(
    of: PlanningSet, base: RayonWorkload, seed: int, solver_s: float
) -> PlanningPoint:
    """Draw one set and let every agent place it on an empty cluster.

    Parameters
    ----------
    base
        Where workload A comes from.
    solver_s
        Seconds of each solver.
    """
    workload = replace(
        base,
        machines=_CONTAINERS_A_JOB * of.jobs,
        containers_each=1,
        jobs=of.jobs,
        hours=_HOURS,
        load=LOAD,
        production=1.0,
        mix=(
            1.0 - of.share,
            of.share if of.kind == "B" else 0.0,
            of.share if of.kind == "C" else 0.0,
        ),
        step_s=_STEP_S,
    )
    jobs = rayon_workload(workload, np.random.default_rng((seed, of.jobs)))
    if of.figure == "12":
        jobs = [_as_atom(job) for job in jobs]
    cluster = _cluster_of(workload, jobs)
    requests = _compiled(jobs, cluster)
    offered = sum(job.work_s for job in jobs) / (workload.containers * _HOURS * 3600.0)
    load_kernels()
    agents = {
        name: _measured(name, cluster, requests, solver_s if name in SOLVERS else None)
        for name in AGENTS
    }
    return PlanningPoint(of, seed, len(requests), offered, agents)


def _as_atom(job: RayonJob) -> RayonJob:
    """Return a job as one stage, as wide as its widest."""
    widest = max(stage.tasks for stage in job.stages)
    return replace(job, stages=(RayonStage(widest, job.work_s),))


def _cluster_of(workload: RayonWorkload, jobs: Sequence[RayonJob]) -> Cluster:
    last = max(job.deadline_s or 0.0 for job in jobs)
    return Cluster(
        step_ms=workload.step_s * 1000,
        horizon_ms=round(last) * 1000,
        machines=(MachineGroup("node", workload.machines, CONTAINER),),
    )


def _compiled(jobs: Sequence[RayonJob], cluster: Cluster) -> list[Request]:
    """Return requests, all submitted at 0; a job that cannot be done in its window is left out."""
    found = []
    context = CompileContext(cluster.grid(), 0)
    for job in jobs:
        try:
            graph = compile_expression(request_of(job, 1.0, _STEP_S), context)
        except RdlError as error:
            if error.code == Code.MALFORMED:
                raise
            continue
        found.append(Request(job.name, f"t{job.tenant}", "default", 0, 1.0, 0, graph))
    return found


def _measured(
    name: str, cluster: Cluster, requests: list[Request], time_s: float | None
) -> PlanningFigures:
    trial = planning_trial(trial_agent(name), cluster, requests, Limits(time_s=time_s, seed=1))
    found = trial.metrics
    return PlanningFigures(
        trial.seconds, found.acceptance or 0.0, found.falls, found.uniformity or 0.0, found.gap
    )


_SIZES: Final = (100, 300, 1000)
_SHARES: Final = (0.1, 0.2, 0.5, 1.0)
_JOBS: Final = 100
_SOLVER_S: Final = 10.0

#: Metrics that are reported over GREE's; the time is reported as it is.
_RELATIVE: Final = ("acceptance", "preemption", "uniformity")
#: What the paper says of them; a name is ``<set>: <agent>, <metric>``.
_CLAIMS: Final = {
    "100 atoms of A: exact, acceptance": "above 1.2",
    "1000 atoms of A: exact, acceptance": "about 1",
    "100 atoms of A: gree-l, acceptance": "about 1",
    "1000 atoms of A: gree-l, acceptance": "about 1",
    "1000 atoms of A: gree-l, preemption": "below 1",
    "1000 atoms of A: gree-l, uniformity": "about 0.8",
    "1000 atoms of A: gree-l, seconds": "at most 0.13",
    "100 jobs, 20% of B: milp-cold, acceptance": "below 1",
    "100 jobs, 10% of C: milp-cold, acceptance": "below 1",
}


def run_planning(effort: ExperimentEffort) -> ExperimentResult:
    """Place growing sets of A, then 100 jobs with more and more of B and of C."""
    sets = _sets(effort.small)
    seeds = effort.seeds_or((1, 2, 3))
    workload = rayon_options(effort.small).workload
    limit = 0.3 if effort.small else _SOLVER_S
    parts = [partial(planning_point, of, workload, seed, limit) for of in sets for seed in seeds]
    with reading(swim_file()):
        points = effort.parts(parts)
    source = "drawn" if workload.trace is None else "swim-facebook-2009"
    params = {"load": LOAD, "solver_s": limit, "source": source, "seeds": list(seeds)}
    return _result(points, params)


def _sets(small: bool) -> list[PlanningSet]:
    sizes, kinds, shares = ((30, 100), "B", (0.2,)) if small else (_SIZES, "BC", _SHARES)
    return [
        *(PlanningSet("12", "A", 0.0, size) for size in sizes),
        PlanningSet("14", "A", 0.0, _JOBS),
        *(PlanningSet("14", kind, share, _JOBS) for kind in kinds for share in shares),
    ]


def _result(points: list[PlanningPoint], params: dict[str, Any]) -> ExperimentResult:
    groups: dict[PlanningSet, list[PlanningPoint]] = {}
    for point in points:
        groups.setdefault(point.of, []).append(point)
    found = {of: _figures_of(same) for of, same in groups.items()}
    rows = [
        (of.name, agent, *figure_cells(figures, _COLUMNS))
        for of, agents in found.items()
        for agent, figures in agents.items()
    ]
    claimed = _claimed(found)
    claims = {name: _CLAIMS[name] for name in claimed}
    document = {
        "experiment": "rayon-planning",
        "params": params,
        "rows": [
            {**dataclasses.asdict(of), "agent": agent, "figures": figures_json(figures)}
            for of, agents in found.items()
            for agent, figures in agents.items()
        ],
        "claimed": figures_json(claimed),
        "claims": claims,
    }
    header = ["set", "agent", *spread_header(_HEADS)]
    tables = (Table.of(header, rows), claims_table("over gree", claimed, claims))
    return ExperimentResult(document, tables, _panels(found))


_COLUMNS: Final = ("value", "acceptance", "preemption", "uniformity", "gap", "seconds")
_HEADS: Final = ("value held", "acceptance / gree", "preemption / gree", "uniformity / gree",
                 "gap", "seconds")  # fmt: skip

#: Figures of every agent.
_Agents = dict[str, dict[str, Figure]]


def _figures_of(points: Sequence[PlanningPoint]) -> _Agents:
    """Return the figures of every agent on one set, over the seeds."""
    found: _Agents = {}
    for name in AGENTS:
        own = [point.agents[name] for point in points]
        figures = {
            "value": figure_of([one.acceptance for one in own]),
            "seconds": figure_of([one.seconds for one in own]),
        }
        for metric in _RELATIVE if _holds_much(points, name) else _RELATIVE[:1]:
            base = [float(getattr(point.agents["gree"], metric)) for point in points]
            values = [float(getattr(one, metric)) for one in own]
            if all(base):
                pairs = zip(values, base, strict=True)
                figures[metric] = figure_of([value / of for value, of in pairs])
        gaps = [one.gap for one in own if one.gap is not None]
        if gaps:
            figures["gap"] = figure_of(gaps)
        found[name] = figures
    return found


def _holds_much(points: Sequence[PlanningPoint], name: str) -> bool:
    """Return whether an agent's plans have a shape to speak of: a tenth of GREE's value."""
    return all(
        point.agents[name].acceptance >= 0.1 * point.agents["gree"].acceptance for point in points
    )


def _claimed(found: dict[PlanningSet, _Agents]) -> dict[str, Figure]:
    """Return the figures that the paper says something of, among the sets that were run."""
    named = {
        f"{of.name}: {agent}, {metric}": figure
        for of, agents in found.items()
        for agent, figures in agents.items()
        for metric, figure in figures.items()
    }
    return {name: named[name] for name in _CLAIMS if name in named}


def _panels(found: dict[PlanningSet, _Agents]) -> list[ExperimentPanel]:
    """Draw each metric over the size of figure 12, then over the shares of figure 14."""
    panels = []
    lines = (
        ("figure 12: atoms of A", "atoms", [of for of in found if of.figure == "12"]),
        *(
            (f"figure 14: from A to {kind}", f"% of {kind}",
             [of for of in found if of.figure == "14" and of.kind in ("A", kind)])
            for kind in "BC"
        ),
    )  # fmt: skip
    for title, x_label, sets in lines:
        if len(sets) < 2:
            continue
        x = [of.jobs if of.figure == "12" else 100 * of.share for of in sets]
        for metric in ("acceptance", "preemption", "uniformity", "seconds"):
            series = [
                figure_series(agent, x, [found[of][agent][metric] for of in sets])
                for agent in AGENTS
                if all(metric in found[of][agent] for of in sets)
            ]
            timed = metric == "seconds"
            y_label = "s" if timed else f"{metric} / gree"
            panels.append(ExperimentPanel(title, x_label, y_label, series, log_y=timed, least=1e-4))
    return panels
