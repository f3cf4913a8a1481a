"""Rayon's figures 12 and 14 on its workloads A, B and C: greedy agents and solvers on sets of jobs.

Figure 12: jobs of A as atoms, on a cluster of a container a job. Figure 14: 100 jobs on 100
containers, from A to gangs (B) and from A to workflows (C). All jobs have a deadline and are known
before the first is placed; values are their sizes. They come within six minutes, with `LOAD` times
the work that the cluster does in these: their windows reach far beyond, and at less work everything
fits. What B and C are like is ours (see `rayon_workload`), as is the time that a solver gets: the
paper's had up to an hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dispatch.simulation.cluster.planned_cluster import CONTAINER, request_of
from dispatch.simulation.cluster.rayon_workload import (
    RayonJob,
    RayonStage,
    RayonWorkload,
    rayon_workload,
)
from dispatch.simulation.experiments.planning_trial import planning_trial, trial_agent
from planner.agent import Limits
from planner.cluster.cluster import Cluster, MachineGroup
from planner.placement import Code
from planner.request import Request
from planner.workload.warm_up import load_kernels
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError

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
        Which workload beside A, B or C, and how much of the jobs; 0 in figure 12.
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
        trial.seconds, found.acceptance or 0.0, found.preemption, found.uniformity or 0.0, found.gap
    )
