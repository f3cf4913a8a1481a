"""Queues of jobs, one a scheduler."""

from __future__ import annotations

from dispatch.simulation.cell.kernels.arrays import CellJobStates, Schedulers
from dispatch.simulation.cell.kernels.compiled import inner


@inner
def append(who: Schedulers, jobs: CellJobStates, one: int, job: int) -> None:
    """Put a job at the end of a scheduler's queue."""
    jobs.next[job] = -1
    if who.head[one] < 0:
        who.head[one] = job
    else:
        jobs.next[who.tail[one]] = job
    who.tail[one] = job


@inner
def prepend(who: Schedulers, jobs: CellJobStates, one: int, job: int) -> None:
    """Put a job at the head of a scheduler's queue."""
    jobs.next[job] = who.head[one]
    who.head[one] = job
    if jobs.next[job] < 0:
        who.tail[one] = job
