"""Live dispatch tables, computed from planned work and recent arrivals (LoTES 4).

The sample consists of the bundles of accepted allocations in the next day, one job per start, and
the best-effort components that arrived in the last day, both as numbers per day. It is fitted and
solved again every ten minutes, and immediately after a commit that changes many reservations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch.applications.application import Application
from dispatch.tables.job_classes import plan_work, work_of_jobs
from dispatch.tables.jobs import JobGroup, jobs_of_rows
from lp.lotes.dispatch_table import DispatchTable
from lp.lotes.pipeline import LotesOptions
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from rdl.resources import Resources

_HOUR_MS: Final = 3_600_000

#: How far ahead and how far back the sample reaches.
SPAN_MS: Final = 24 * _HOUR_MS

#: Age at which a table is solved again.
REFRESH_MS: Final = 600_000

#: Share of the live reservations whose arrival or end makes a new solve due immediately.
_MATTERS: Final = 0.1

#: Run time of a component of an application without a size.
_UNKNOWN_MS: Final = _HOUR_MS


_Held = tuple[Resources, str | None, NDArray[np.int64]]


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
        first, last = self.at_ms // step_ms, (self.at_ms + SPAN_MS) // step_ms
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
        self._forget_before(at_ms - SPAN_MS)
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
            fresh = 0 <= now_ms - solved_ms < REFRESH_MS
            same = plan.version == self._seen_version or (
                machines == plan.cluster.machines and abs(live - had) <= _MATTERS * max(had, 1)
            )
            self._seen_version = plan.version
            if fresh and same:
                return None
        self._forget_before(now_ms - SPAN_MS)
        self._solved = (now_ms, plan.cluster.machines, live)
        self._seen_version = plan.version
        held, recent = tuple(_holdings_today(plan, now_ms)), tuple(self._recent_jobs(plan.cluster))
        return TableJob(now_ms, plan.version, plan.cluster, held, recent)

    def solve(self, job: TableJob) -> None:
        """Fit classes, solve both LPs and store the table; without work there is no table.

        If the LPs reject the classes or the solver fails, there is no table either and `problem`
        gives the reason: a strategy without a table continues as best fit.
        """
        day_h = SPAN_MS / _HOUR_MS
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
    first, last = now_ms // step_ms, (now_ms + SPAN_MS) // step_ms
    meta = plan.table.meta
    for number in np.flatnonzero((meta["begin"] < last) & (meta["finish"] > first)).tolist():
        for atom in plan.table.holding(number).atoms:
            yield atom.bundle, atom.label, atom.all_rows().copy()


def _holds(group: MachineGroup, one: _Arrival) -> bool:
    fits = all(amount <= group.resources.get(kind, 0) for kind, amount in one.bundle.items())
    return fits and group.count > 0 and (one.label is None or one.label in group.labels)
