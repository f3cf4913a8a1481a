"""Readers of public traces into jobs for machine-level simulation.

Google 2011: tasks are jobs, requests are parts of the largest machine. Alibaba 2017: instances of
batch tasks are jobs, requests are cores and normalised memory.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.papers.machines.workload import JobChunk
from lp.lotes.instance import JobClasses, MachineConfigurations
from lp.lotes.job_classes import ArrivalSample

GOOGLE_TASKS = "tasks_0_70756s.csv.gz"
GOOGLE_MACHINES = "machines.csv.gz"
GOOGLE_WINDOW_S = 70_756.0
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class TraceJobs:
    """Jobs of a trace in order of arrival.

    Attributes
    ----------
    arrival_h, hours
        Shape (n,).
    request
        Shape (n, L).
    weight
        Jobs that each row stands for, shape (n,).
    dropped
        Rows of the file without a start, a duration or a request.
    """

    arrival_h: NDArray[np.float64]
    hours: NDArray[np.float64]
    request: NDArray[np.float64]
    weight: NDArray[np.int64]
    dropped: int

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return int(self.weight.sum())

    @property
    def rate_per_h(self) -> float:
        """Mean arrival rate from the first arrival to the last."""
        span = float(self.arrival_h[-1] - self.arrival_h[0])
        return self.jobs / span if span > 0 else math.inf

    def sample(self, start_h: float = -math.inf, end_h: float = math.inf) -> ArrivalSample:
        """Arrivals of a window, to fit classes to."""
        whole = ArrivalSample.of(self.arrival_h, self.request, self.hours, self.weight)
        return whole.window(start_h, end_h)

    def after(self, start_h: float) -> TraceJobs:
        """Only the jobs that arrive after a time."""
        return self._subset(self.arrival_h > start_h)

    def between(self, start_h: float, end_h: float) -> TraceJobs:
        """Only the jobs that arrive in [start_h, end_h)."""
        return self._subset((self.arrival_h >= start_h) & (self.arrival_h < end_h))

    def _subset(self, kept: NDArray[np.bool_]) -> TraceJobs:
        return TraceJobs(
            self.arrival_h[kept], self.hours[kept], self.request[kept], self.weight[kept], 0
        )

    def random_part(self, share: float, rng: np.random.Generator) -> TraceJobs:
        """A random part of the jobs: each is kept with probability `share`."""
        weight = rng.binomial(self.weight, share)
        kept = weight > 0
        return TraceJobs(
            self.arrival_h[kept], self.hours[kept], self.request[kept], weight[kept], self.dropped
        )

    def with_classes(self, classes: JobClasses) -> JobChunk:
        """One job for each unit of weight, each with its nearest class."""
        kind = classes.nearest(self.request).astype(np.int32)
        return JobChunk.of(
            np.repeat(self.arrival_h, self.weight),
            np.repeat(self.request, self.weight, axis=0),
            np.repeat(self.hours, self.weight),
            np.repeat(kind, self.weight),
        )


def read_google_machines(folder: Path) -> MachineConfigurations:
    """Machine configurations of the Google 2011 trace, most frequent first (LoTES Table 1).

    Raises
    ------
    ValueError
        If the file lacks a column or holds something that is not a number; names file and line.
    """
    columns = read_columns(folder / GOOGLE_MACHINES, ("cpu_last", "mem_last"))
    profile = np.stack([_numbers(columns, name) for name in ("cpu_last", "mem_last")], axis=1)
    profile = np.round(profile[np.isfinite(profile).all(axis=1)], 2)
    kinds, count = np.unique(profile, axis=0, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return MachineConfigurations.of(count[order], kinds[order])


def read_google_tasks(folder: Path, *, window_s: float = GOOGLE_WINDOW_S) -> TraceJobs:
    """Tasks of the Google 2011 trace as jobs.

    A finished task takes what it ran; one that was killed or failed, from its first start to that;
    one still running at the window's end, from its first start to that end, which is too short.
    Tasks that never started are dropped.

    Raises
    ------
    ValueError
        As `read_google_machines`.
    """
    names = ("submit_s", "sched_s", "run_s", "last_s", "last_type", "cpu", "mem")
    columns = read_columns(folder / GOOGLE_TASKS, names)
    submit, start, run, last = (_numbers(columns, name) for name in names[:4])
    running = np.isin(np.array(columns["last_type"]), ("SCHEDULE", "UPD_RUN"))
    elapsed = np.where(running, window_s, last) - start
    seconds = np.where(np.isfinite(run), run, elapsed)
    request = np.stack([_numbers(columns, "cpu"), _numbers(columns, "mem")], axis=1)
    return _sort_by_arrival(submit, seconds, request, np.ones(submit.size, dtype=np.int64))


def read_columns(path: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Named columns of a CSV file, compressed or not, as text.

    Raises
    ------
    ValueError
        If a column is missing or a row is too short; names file and line.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = csv.reader(lines)
        header = next(rows, [])
        missing = [name for name in names if name not in header]
        if missing:
            raise ValueError(f"{path.name}: no column {missing[0]!r}; the header is {header}")
        wanted = [header.index(name) for name in names]
        found: list[list[str]] = [[] for _ in names]
        for number, row in enumerate(rows, start=2):
            if len(row) < len(header):
                raise ValueError(
                    f"{path.name}, line {number}: {len(row)} fields, expected {len(header)}"
                )
            for values, column in zip(found, wanted, strict=True):
                values.append(row[column])
    return dict(zip(names, found, strict=True))


def _numbers(columns: dict[str, list[str]], name: str) -> NDArray[np.float64]:
    """A column as numbers; empty fields are NaN."""
    values = columns[name]
    try:
        return np.array([float(value) if value else math.nan for value in values])
    except ValueError:
        line = next(i for i, value in enumerate(values, start=2) if not _is_number(value))
        raise ValueError(
            f"column {name!r}, line {line}: {values[line - 2]!r} is not a number"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def _sort_by_arrival(
    arrival_s: NDArray[np.float64],
    seconds: NDArray[np.float64],
    request: NDArray[np.float64],
    weight: NDArray[np.int64],
) -> TraceJobs:
    """Drop what cannot run and sort by arrival; equal arrivals keep the file's order."""
    sound = np.isfinite(arrival_s) & np.isfinite(request).all(axis=1) & (weight > 0)
    with np.errstate(invalid="ignore"):
        sound &= (seconds > 0) & (request >= 0).all(axis=1)
    order = np.flatnonzero(sound)
    order = order[np.argsort(arrival_s[order], kind="stable")]
    return TraceJobs(
        arrival_s[order] / _HOUR,
        seconds[order] / _HOUR,
        request[order],
        weight[order],
        int((~sound).sum()),
    )
