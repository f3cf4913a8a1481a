"""Queues of jobs, one a scheduler."""

from __future__ import annotations

from bench.papers.cell.kernels.arrays import CellJobStates, Schedulers
from bench.papers.cell.kernels.compiled import inner


@inner
def append(schedulers: Schedulers, jobs: CellJobStates, one: int, job: int) -> None:
    """Put a job at the end of a scheduler's queue."""
    jobs.next[job] = -1
    if schedulers.head[one] < 0:
        schedulers.head[one] = job
    else:
        jobs.next[schedulers.tail[one]] = job
    schedulers.tail[one] = job
    schedulers.waiting[one] += 1


@inner
def prepend(schedulers: Schedulers, jobs: CellJobStates, one: int, job: int) -> None:
    """Put a job at the head of a scheduler's queue."""
    jobs.next[job] = schedulers.head[one]
    schedulers.head[one] = job
    schedulers.waiting[one] += 1
    if jobs.next[job] < 0:
        schedulers.tail[one] = job
