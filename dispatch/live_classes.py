"""Live dispatch tables: classes of the work that is planned and of what came of late (LoTES 4).

The sample is the bundles of accepted allocations in the next day, one job a start, and the
best-effort components that arrived in the last day, both counted by the day. It is fitted and
solved anew every ten minutes, and at once after a commit that matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatch.application import Application
from dispatch.job_classes import NoWorkError, instance_of_work, work_of_jobs
from dispatch.jobs import Job, jobs_of_rows
from lp.lotes.dispatch_table import DispatchTable
from lp.lotes.pipeline import LotesOptions, plan_lotes
from planner.cluster import Cluster, MachineGroup
from planner.plan import Plan
from rdl.resources import Resources

_HOUR_MS: Final = 3_600_000

#: How far ahead and how far back the sample reaches.
SPAN_MS: Final = 24 * _HOUR_MS

#: A table is solved anew when it is this old.
REFRESH_MS: Final = 600_000

#: And at once when as large a share of the live reservations has come or gone.
_MATTERS: Final = 0.1

#: Run time of a component whose application says none.
_UNKNOWN_MS: Final = _HOUR_MS


@dataclass(frozen=True, slots=True)
class _Arrival:
    at_ms: int
    bundle: Resources
    label: str | None
    time_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class TableJob:
    """What a table is to be made of: all that was read of the Plan, so that solving needs none.

    Attributes
    ----------
    at_ms, plan_version
        Of when.
    cluster, jobs
        Machines and a day's jobs.
    """

    at_ms: int
    plan_version: int
    cluster: Cluster
    jobs: tuple[Job, ...]


class LiveTables:
    """Keeps the dispatch table of a Plan that changes; a `dispatch.follower.TableSource`.

    Parameters
    ----------
    seed
        Of the clustering.
    options
        Of the LPs.

    Attributes
    ----------
    load
        Arrivals of the sample over those the table sustains; above 1 queues grow. None without a
        table.
    problem
        Why the last solve gave no table, or empty.
    """

    def __init__(self, seed: int = 0, options: LotesOptions | None = None) -> None:
        self.load: float | None = None
        self.problem = ""
        self._seed = seed
        self._options = options or LotesOptions()
        self._arrivals: deque[_Arrival] = deque()
        self._table: DispatchTable | None = None
        self._version = 0
        self._solved: tuple[int, tuple[MachineGroup, ...], int] | None = None
        self._seen_version = -1

    def table_at(self, plan: Plan, now_ms: int) -> tuple[DispatchTable | None, int]:
        """Return the table and its version, 0 where there is none; see `due` for its age.

        A table of other machines than the Plan's is none.
        """
        if self._solved is None or self._solved[1] != plan.cluster.machines:
            return None, 0
        return self._table, self._version

    def arrived(self, application: Application, at_ms: int) -> None:
        """Count the components of a best-effort application into the sample."""
        if application.reservation is not None:
            return
        time_ms = application.size_ms or _UNKNOWN_MS
        for component in application.components:
            label = min(component.labels, default=None)
            self._arrivals.append(
                _Arrival(at_ms, component.resources, label, time_ms, component.count)
            )

    def due(self, plan: Plan, now_ms: int) -> TableJob | None:
        """Return what to solve now, or None while the table is good."""
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
        while self._arrivals and self._arrivals[0].at_ms < now_ms - SPAN_MS:
            self._arrivals.popleft()
        self._solved = (now_ms, plan.cluster.machines, live)
        self._seen_version = plan.version
        jobs = (*self._planned(plan, now_ms), *self._recent(plan.cluster))
        return TableJob(now_ms, plan.version, plan.cluster, jobs)

    def solve(self, job: TableJob) -> None:
        """Fit classes, solve both LPs and keep the table; without work there is none."""
        day_h = SPAN_MS / _HOUR_MS
        rng = np.random.default_rng(self._seed)
        self._version += 1
        self._table, self.load, self.problem = None, None, ""
        try:
            work = work_of_jobs(job.cluster, job.jobs, 0.0, day_h)
            result = plan_lotes(instance_of_work(job.cluster, work, rng), self._options)
        except NoWorkError as error:
            self.problem = str(error)
            return
        self._table = result.table
        self.load = result.load(work.rate_per_h)

    def refresh(self, plan: Plan, now_ms: int) -> None:
        """Solve where a table is due, while the caller waits: for simulations and tests."""
        job = self.due(plan, now_ms)
        if job is not None:
            self.solve(job)

    def _planned(self, plan: Plan, now_ms: int) -> Iterator[Job]:
        """Yield the jobs of what is held in the next day."""
        step_ms = plan.grid.step_ms
        first, last = now_ms // step_ms, (now_ms + SPAN_MS) // step_ms
        meta = plan.table.meta
        held = np.flatnonzero((meta["begin"] < last) & (meta["finish"] > first))
        for number in held.tolist():
            for atom in plan.table.holding(number).atoms:
                rows = atom.all_rows().copy()
                rows[:, 0], rows[:, 1] = np.maximum(rows[:, 0], first), np.minimum(rows[:, 1], last)
                rows = rows[rows[:, 0] < rows[:, 1]]
                if len(rows):
                    timed = [
                        [s * step_ms / 1000, e * step_ms / 1000, b] for s, e, b in rows.tolist()
                    ]
                    yield from jobs_of_rows(atom.bundle, atom.label, timed, step_ms / 1000)

    def _recent(self, cluster: Cluster) -> Iterator[Job]:
        """Yield the jobs of the best-effort components of the last day that machines could run."""
        for one in self._arrivals:
            known = one.label is None or one.label in cluster.labels
            if known and all(kind in cluster.resources for kind in one.bundle):
                time_h = one.time_ms / _HOUR_MS
                yield Job(one.at_ms / _HOUR_MS, one.bundle, one.label, time_h, float(one.count))
