"""LoTES instances of a cluster: from a class file, from a workload's requests, or from a Plan.

The LPs work on plain arrays and names. This module turns machine groups into configurations and RDL
bundles into jobs: an atom of work w and lease l becomes w / l jobs of its bundle, each of length l;
FIFO matching turns a Plan's allocation into start and run times. Work with a label gets classes of
its own, which may run only on machines with that label.

Amounts are fractions of the largest machine, per resource, so that no solver sees mebibytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rdl.work_graph as wg
from dispatch.tables.jobs import JobGroup, jobs_of_rows
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.job_classes import ArrivalSample, ClassOptions, fit_job_classes
from lp.lotes.pipeline import LotesOptions, LotesResult, plan_lotes
from planner.cluster.cluster import Cluster
from planner.files import FileError, FileProblem, JobClass
from planner.request import Request
from rdl.resources import Resources
from rdl.work_graph import WorkGraph

_HOUR_MS = 3_600_000


class NoWorkError(ValueError):
    """A workload or Plan without jobs to make classes of."""


@dataclass(frozen=True, slots=True)
class JobSample:
    """Jobs of a workload or a Plan.

    Attributes
    ----------
    samples
        Jobs by label; None for jobs that may run anywhere. Requests are in the columns of
        `resources`, in canonical amounts.
    start_h, end_h
        From the first submission (the first start, of a Plan) to the last deadline (the last end).
    """

    resources: tuple[str, ...]
    samples: Mapping[str | None, ArrivalSample]
    start_h: float
    end_h: float

    @property
    def jobs(self) -> float:
        """Number of jobs."""
        return sum(sample.jobs for sample in self.samples.values())

    @property
    def rate_per_h(self) -> float:
        """Arrival rate of the work: jobs divided by the time in which they must be done."""
        return self.jobs / (self.end_h - self.start_h)


def instance_of_classes(
    cluster: Cluster, classes: tuple[JobClass, ...], path: str = "classes"
) -> LotesInstance:
    """Return the instance of a class file; a class that fits no machine stays, with no machines.

    Raises
    ------
    FileError
        If a mean time names machines that the cluster does not have.
    """
    _check_groups(cluster, classes, path)
    resources = _resources_of(cluster, (one.request for one in classes))
    unit = _units(cluster, resources)
    times = np.array([[one.mean_on(g.name) or np.inf for one in classes] for g in cluster.machines])
    fastest = times.min(axis=0)
    # A class that no group may run has no time; any value will do, because its rates are zero.
    fastest = np.where(np.isfinite(fastest), fastest, _HOUR_MS)
    described = JobClasses.of(
        [one.share for one in classes],
        _amounts((one.request for one in classes), resources) / unit,
        fastest / _HOUR_MS,
        names=[one.name for one in classes],
    )
    machines = _configurations(cluster, resources, unit)
    return LotesInstance.of(machines, described, speed=fastest / times)


def plan_work(
    cluster: Cluster, work: JobSample, seed: int, options: LotesOptions | None = None
) -> LotesResult:
    """Fit classes to the jobs of a workload or Plan, and run the offline stages.

    If rounding leaves a class without a machine, classes are merged until each class has one.

    Parameters
    ----------
    seed
        Seed of the clustering.

    Raises
    ------
    NoWorkError
        If there are no jobs.
    """
    most = ClassOptions().most_classes
    while True:
        instance = instance_of_work(cluster, work, np.random.default_rng(seed), most)
        result = plan_lotes(instance, options)
        if result.arrival_rate or not result.assignment.relaxed_rate or most == 1:
            return result
        most = max(1, min(most, len(instance.classes.names)) - 1)


def instance_of_work(
    cluster: Cluster, work: JobSample, rng: np.random.Generator, most: int
) -> LotesInstance:
    """Fit at most `most` classes to the jobs of each label, and return the instance.

    Raises
    ------
    NoWorkError
        If there are no jobs.
    """
    if not work.jobs:
        raise NoWorkError("there is no work to form job classes from")
    unit = _units(cluster, work.resources)
    fitted = {
        label: fit_job_classes(_divide_requests(sample, unit), rng, ClassOptions(most_classes=most))
        for label, sample in work.samples.items()
    }
    largest = max(fitted, key=lambda label: work.samples[label].jobs)
    names = [
        f"class-{index + 1}" if label is None else f"{label}-{index + 1}"
        for label, classes in fitted.items()
        for index in range(len(classes.names))
    ]
    joined = JobClasses.of(
        np.concatenate([fitted[x].share * work.samples[x].jobs for x in fitted]),
        np.concatenate([classes.request for classes in fitted.values()]),
        np.concatenate([classes.time_h for classes in fitted.values()]),
        names=names,
        scale=fitted[largest].scale,
    )
    allowed = [
        [
            float(label is None or label in group.labels)
            for label, classes in fitted.items()
            for _ in classes.names
        ]
        for group in cluster.machines
    ]
    machines = _configurations(cluster, work.resources, unit)
    return LotesInstance.of(machines, joined, speed=np.array(allowed))


def work_of_requests(cluster: Cluster, requests: Iterable[Request]) -> JobSample:
    """Return the jobs of compiled requests.

    For an `any`, the first satisfiable option counts. Void requests are best effort and are not
    counted.
    """
    jobs: list[JobGroup] = []
    start, end = np.inf, -np.inf
    for request in requests:
        graph = request.graph
        if graph.void:
            continue
        submitted_h = request.submitted_ms / _HOUR_MS
        step_h = graph.grid.step_ms / _HOUR_MS
        start = min(start, submitted_h)
        for atom in _taken_atoms(graph):
            row = graph.vertices[atom]
            shift = row[wg.SHIFT_FIRST] + row[wg.SHIFT_COUNT] - 1
            last = graph.shifts[shift] if len(graph.shifts) else 0
            end = max(end, float(row[wg.END] + last) * step_h)
            label = graph.labels[row[wg.LABEL]] if row[wg.LABEL] >= 0 else None
            count = float(row[wg.WORK] * row[wg.SHIFT_COUNT] / row[wg.LEASE])
            time_h = float(row[wg.LEASE]) * step_h
            jobs.append(JobGroup(submitted_h, graph.bundles[row[wg.BUNDLE]], label, time_h, count))
    return work_of_jobs(cluster, jobs, start, end)


def work_of_plan(
    cluster: Cluster, reservations: Iterable[Mapping[str, Any]], step_s: float
) -> JobSample:
    """Return the jobs of a plan file's allocations, with start and run times by FIFO matching."""
    jobs: list[JobGroup] = []
    start, end = np.inf, -np.inf
    for reservation in reservations:
        for atom in reservation["atoms"]:
            rows = atom["allocation"]
            if not rows:
                continue
            start = min(start, min(row[0] for row in rows) / 3600)
            end = max(end, max(row[1] for row in rows) / 3600)
            jobs += jobs_of_rows(Resources.from_json(atom["bundle"]), atom.get("on"), rows, step_s)
    return work_of_jobs(cluster, jobs, start, end)


def _taken_atoms(graph: WorkGraph) -> Iterator[int]:
    """Yield the atoms placed when every `any` takes the best of its satisfiable options."""
    stack = [len(graph.vertices) - 1]
    while stack:
        vertex = stack.pop()
        row = graph.vertices[vertex]
        if row[wg.KIND] == wg.ATOM:
            yield vertex
            continue
        first = row[wg.CHILD_FIRST]
        children = graph.children[first : first + row[wg.CHILD_COUNT]].tolist()
        if row[wg.KIND] == wg.ANY:
            able = [child for child in children if graph.vertices[child, wg.SATISFIABLE]]
            children = able[:1]
        stack += reversed(children)


def work_of_jobs(
    cluster: Cluster, jobs: Sequence[JobGroup], start_h: float, end_h: float
) -> JobSample:
    """Return the sample of jobs, by label, for the time [start_h, end_h)."""
    resources = _resources_of(cluster, (one.bundle for one in jobs))
    labels = sorted({one.label for one in jobs}, key=lambda label: label or "")
    samples = {}
    for label in labels:
        mine = [one for one in jobs if one.label == label]
        samples[label] = ArrivalSample.of(
            [one.arrival_h for one in mine],
            _amounts((one.bundle for one in mine), resources),
            [one.time_h for one in mine],
            [one.count for one in mine],
        )
    return JobSample(resources, samples, start_h, end_h)


def _divide_requests(sample: ArrivalSample, unit: NDArray[np.float64]) -> ArrivalSample:
    return ArrivalSample.of(sample.arrival_h, sample.request / unit, sample.time_h, sample.weight)


def _resources_of(cluster: Cluster, requests: Iterable[Resources]) -> tuple[str, ...]:
    return tuple(sorted(set(cluster.resources).union(*requests)))


def _amounts(bundles: Iterable[Resources], resources: tuple[str, ...]) -> NDArray[np.float64]:
    rows = [[float(bundle.get(name, 0)) for name in resources] for bundle in bundles]
    return np.array(rows).reshape(len(rows), len(resources))


def _units(cluster: Cluster, resources: tuple[str, ...]) -> NDArray[np.float64]:
    """Largest amount of any machine per resource; 1 for a resource that no machine has."""
    largest = _amounts((group.resources for group in cluster.machines), resources).max(axis=0)
    return np.where(largest > 0, largest, 1.0)


def _configurations(
    cluster: Cluster, resources: tuple[str, ...], unit: NDArray[np.float64]
) -> MachineConfigurations:
    groups = cluster.machines
    return MachineConfigurations.of(
        [group.count for group in groups],
        _amounts((group.resources for group in groups), resources) / unit,
        resources=resources,
        names=[group.name for group in groups],
    )


def request_of(cluster: Cluster, instance: LotesInstance, index: int) -> Resources:
    """Return the mean request of one class in whole canonical amounts."""
    resources = instance.configurations.resources
    amounts = instance.classes.request[index] * _units(cluster, resources)
    return Resources.of(
        {name: round(float(amount)) for name, amount in zip(resources, amounts, strict=True)}
    )


def _check_groups(cluster: Cluster, classes: tuple[JobClass, ...], path: str) -> None:
    known = [group.name for group in cluster.machines]
    problems = [
        FileProblem(
            f"no machines are called {group!r}",
            f"/classes/{index}/mean_time/{group}",
            fix=f"known are {', '.join(known)}",
        )
        for index, one in enumerate(classes)
        for group in one.mean_ms
        if group is not None and group not in known
    ]
    if problems:
        raise FileError(path, problems)
