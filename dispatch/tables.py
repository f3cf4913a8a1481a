"""Dispatch tables of LoTES: job classes of a cluster, and the live tables of a dispatcher.

The LPs work on plain arrays and names. This module turns machine groups into configurations and RDL
bundles into jobs: an atom of work w and lease l becomes w / l jobs of its bundle, each of length l;
FIFO matching turns a Plan's allocation into start and run times. Work with a label gets classes of
its own, which may run only on machines with that label.

Amounts are fractions of the largest machine, per resource, so that no solver sees mebibytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import rdl.work_graph as wg
from dispatch.applications.application import Application
from lp.lotes.dispatch_table import DispatchTable
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.job_classes import ArrivalSample, ClassOptions, fifo_leases, fit_job_classes
from lp.lotes.pipeline import LotesOptions, LotesResult, plan_lotes
from planner.cluster.cluster import Cluster, MachineGroup
from planner.files import FileError, FileProblem, JobClass
from planner.plan.plan import Plan
from planner.request import Request
from rdl.resources import Resources
from rdl.work_graph import WorkGraph

_HOUR_MS = 3_600_000

#: How far ahead and how far back the sample reaches.
_SPAN_MS: Final = 24 * _HOUR_MS

#: Age at which a table is solved again.
_REFRESH_MS: Final = 600_000

#: Share of the live reservations whose arrival or end makes a new solve due immediately.
_MATTERS: Final = 0.1

#: Run time of a component of an application without a size.
_UNKNOWN_MS: Final = _HOUR_MS
_Held = tuple[Resources, str | None, NDArray[np.int64]]


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


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Equal jobs of one atom or component: arrival, bundle, label, run time and count."""

    arrival_h: float
    bundle: Resources
    label: str | None
    time_h: float
    count: float


def jobs_of_rows(
    bundle: Resources, label: str | None, rows: Sequence[Sequence[float]], step_s: float
) -> list[JobGroup]:
    """Return the jobs of one atom's rows ``[start_s, end_s, bundles]``, by FIFO matching.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    first, last = min(row[0] for row in rows), max(row[1] for row in rows)
    leases = fifo_leases(_heights(rows, first, last, step_s), step_s / 3600)
    return [
        JobGroup(first / 3600 + arrival, bundle, label, time, count)
        for arrival, time, count in zip(
            leases.arrival_h.tolist(), leases.time_h.tolist(), leases.weight.tolist(), strict=True
        )
    ]


def _heights(
    rows: Sequence[Sequence[float]], first: float, last: float, step_s: float
) -> NDArray[np.int64]:
    held = np.zeros(round((last - first) / step_s), dtype=np.int64)
    for start, end, bundles in rows:
        held[round((start - first) / step_s) : round((end - first) / step_s)] += int(bundles)
    return held


# The sample consists of the bundles of accepted allocations in the next day, one job per start, and
# the best-effort components that arrived in the last day, both as numbers per day. It is fitted and
# solved again every ten minutes, and immediately after a commit that changes many reservations.


@dataclass(frozen=True, slots=True)
class _Arrival:
    at_ms: int
    bundle: Resources
    label: str | None
    time_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class TableJob:
    """Input of one solve, copied from the Plan so that the solve does not read the Plan.

    Attributes
    ----------
    at_ms, plan_version
        Instant (ms from the origin) and version of the Plan that was read.
    cluster
        The machines.
    held
        Allocations of the next day: bundle, label and rows of each atom. They are matched into jobs
        later, because reading the Plan blocks other users of it.
    recent
        Jobs of best-effort components that arrived in the last day.
    """

    at_ms: int
    plan_version: int
    cluster: Cluster
    held: tuple[_Held, ...]
    recent: tuple[JobGroup, ...]

    def jobs(self) -> Iterator[JobGroup]:
        """Yield a day's jobs: one per start of a lease, and the recent ones."""
        step_ms = self.cluster.step_ms
        first, last = self.at_ms // step_ms, (self.at_ms + _SPAN_MS) // step_ms
        for bundle, label, rows in self.held:
            starts, ends = np.maximum(rows[:, 0], first), np.minimum(rows[:, 1], last)
            here = np.stack([starts, ends, rows[:, 2]], axis=1)[starts < ends]
            if len(here):
                timed = [[s * step_ms / 1000, e * step_ms / 1000, b] for s, e, b in here.tolist()]
                yield from jobs_of_rows(bundle, label, timed, step_ms / 1000)
        yield from self.recent


@dataclass(frozen=True, slots=True)
class _Solution:
    """A table (None if there was no work) with the machines and load it was computed for."""

    table: DispatchTable | None
    version: int
    machines: tuple[MachineGroup, ...]
    load: float | None
    problem: str


class LiveTables:
    """Maintains the dispatch table of a changing Plan; a `TableSource` of the follower.

    `solve` may run in a thread of its own: it reads only its job, and its result replaces the
    previous one atomically.

    Parameters
    ----------
    seed
        Seed of the clustering.
    options
        Options of the LPs.

    """

    def __init__(self, seed: int = 0, options: LotesOptions | None = None) -> None:
        self._seed = seed
        self._options = options or LotesOptions()
        self._arrivals: deque[_Arrival] = deque()
        self._latest = _Solution(None, 0, (), None, "")
        self._solved: tuple[int, tuple[MachineGroup, ...], int] | None = None
        self._seen_version = -1

    @property
    def load(self) -> float | None:
        """Arrival rate over the rate that the table sustains, or None; above 1 queues grow."""
        return self._latest.load

    @property
    def problem(self) -> str:
        """Reason why the last solve gave no table, or empty."""
        return self._latest.problem

    def table_at(self, plan: Plan, now_ms: int) -> tuple[DispatchTable | None, int]:
        """Return the table and its version, 0 if there is none; see `due` for its age.

        A table for machines other than the Plan's is ignored.
        """
        latest = self._latest
        current = latest.machines == plan.cluster.machines
        return (latest.table, latest.version) if current else (None, 0)

    def count_arrival(self, application: Application, at_ms: int) -> None:
        """Add the components of a best-effort application to the sample."""
        if application.reservation is not None:
            return
        self._forget_before(at_ms - _SPAN_MS)
        time_ms = application.size_ms or _UNKNOWN_MS
        for component in application.components:
            label = min(component.labels, default=None)
            self._arrivals.append(
                _Arrival(at_ms, component.resources, label, time_ms, component.count)
            )

    def due(self, plan: Plan, now_ms: int) -> TableJob | None:
        """Return the job to solve now, or None while the table is current."""
        live = plan.live_count(None, None)
        if self._solved is not None:
            solved_ms, machines, had = self._solved
            fresh = 0 <= now_ms - solved_ms < _REFRESH_MS
            same = plan.version == self._seen_version or (
                machines == plan.cluster.machines and abs(live - had) <= _MATTERS * max(had, 1)
            )
            self._seen_version = plan.version
            if fresh and same:
                return None
        self._forget_before(now_ms - _SPAN_MS)
        self._solved = (now_ms, plan.cluster.machines, live)
        self._seen_version = plan.version
        held, recent = tuple(_holdings_today(plan, now_ms)), tuple(self._recent_jobs(plan.cluster))
        return TableJob(now_ms, plan.version, plan.cluster, held, recent)

    def solve(self, job: TableJob) -> None:
        """Fit classes, solve both LPs and store the table; without work there is no table.

        If the LPs reject the classes or the solver fails, there is no table either and `problem`
        gives the reason: a strategy without a table continues as best fit.
        """
        day_h = _SPAN_MS / _HOUR_MS
        table, load, problem = None, None, ""
        try:
            work = work_of_jobs(job.cluster, tuple(job.jobs()), 0.0, day_h)
            result = plan_work(job.cluster, work, self._seed, self._options)
            table, load = result.table, result.load(work.rate_per_h)
            if load is None:
                table, problem = None, "machines are too few for each kind of work"
        except (ValueError, RuntimeError) as error:
            problem = str(error)
        machines = job.cluster.machines
        self._latest = _Solution(table, self._latest.version + 1, machines, load, problem)

    def refresh(self, plan: Plan, now_ms: int) -> None:
        """Solve synchronously if a table is due: for simulations and tests."""
        job = self.due(plan, now_ms)
        if job is not None:
            self.solve(job)

    def _forget_before(self, at_ms: int) -> None:
        while self._arrivals and self._arrivals[0].at_ms < at_ms:
            self._arrivals.popleft()

    def _recent_jobs(self, cluster: Cluster) -> Iterator[JobGroup]:
        """Yield the jobs of the last day's best-effort components that some machine can run."""
        for one in self._arrivals:
            if any(_holds(group, one) for group in cluster.machines):
                time_h = one.time_ms / _HOUR_MS
                yield JobGroup(
                    one.at_ms / _HOUR_MS, one.bundle, one.label, time_h, float(one.count)
                )


def _holdings_today(plan: Plan, now_ms: int) -> Iterator[_Held]:
    """Yield the allocations of all atoms of reservations that have some in the next day."""
    step_ms = plan.grid.step_ms
    first, last = now_ms // step_ms, (now_ms + _SPAN_MS) // step_ms
    meta = plan.table.meta
    for number in np.flatnonzero((meta["begin"] < last) & (meta["finish"] > first)).tolist():
        for atom in plan.table.holding(number).atoms:
            yield atom.bundle, atom.label, atom.all_rows().copy()


def _holds(group: MachineGroup, one: _Arrival) -> bool:
    fits = all(amount <= group.resources.get(kind, 0) for kind, amount in one.bundle.items())
    return fits and group.count > 0 and (one.label is None or one.label in group.labels)
