"""The arrays of a running cell."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]

# Events of the heap.
END = 0  # tasks of one transaction end
DECIDED = 1  # a scheduler has decided
OFFERED = 2  # the allocator hands out an offer

# Places of `Counts`.
EVENTS = 0  # entries of the heap
CLAIMS = 1  # entries of the claims of transactions
TRANSACTIONS = 2
ALLOCATOR = 3  # 1 while the allocator makes an offer
RANDOM = 4  # state of the random numbers, never 0
ARRIVED = 5  # jobs that came
SAMPLED = 6  # samples that were taken
SIZE = 7


class CellMachines(NamedTuple):
    """The state of the cell.

    Attributes
    ----------
    cores, memory
        int64[machine]: what is free, in thousandths of a machine.
    changed
        int64[machine]: how often anything changed on it.
    kind
        int64[machine]: what constraints name.
    locked_cores, locked_memory
        int64[machine]: what is in offers.
    offer_cores, offer_memory
        int64[scheduler, machine]: the offer of each.
    """

    cores: I64
    memory: I64
    changed: I64
    kind: I64
    locked_cores: I64
    locked_memory: I64
    offer_cores: I64
    offer_memory: I64


class CellJobStates(NamedTuple):
    """Jobs and how far each is; see `bench.papers.cell.workload.CellJobs`.

    Attributes
    ----------
    arrival_s
        float64[job]: inf for jobs that exist at the start.
    scheduler
        int64[job]: which decides about it.
    useful, asked, workers
        int64[job]: tasks up to which more shorten it; tasks asked for; tasks that it got at once.
    left, attempts, conflicts
        int64[job]: tasks not placed yet; attempts, and those that met a conflict.
    first_s, placed_s
        float64[job]: when the first attempt began, and when the last task was placed; nan before.
    abandoned
        int64[job]: 1 where it was given up.
    refused
        int64[job]: 1 where its scheduler did not admit it.
    next
        int64[job]: the one that waits behind it, or -1.
    """

    arrival_s: F64
    length_s: F64
    type: I64
    cores: I64
    memory: I64
    allowed: I64
    serial: F64
    setup: F64
    scheduler: I64
    useful: I64
    asked: I64
    workers: I64
    left: I64
    attempts: I64
    conflicts: I64
    first_s: F64
    placed_s: F64
    abandoned: I64
    refused: I64
    next: I64


class Schedulers(NamedTuple):
    """Schedulers: what is fixed, and what each does now.

    Attributes
    ----------
    begin, end
        int64[scheduler]: its machines.
    job_s, task_s
        float64[scheduler, type]: its decision times.
    limit
        int64[scheduler]: most cores or memory that it may hold, in thousandths of a machine.
    held_cores, held_memory
        int64[scheduler]: what its tasks hold.
    admits, waiting
        int64[scheduler]: jobs of its queue with which it admits no more; those in its queue.
    head, tail
        int64[scheduler]: its queue of jobs, -1 if it is empty.
    job
        int64[scheduler]: the job that it decides about, or -1.
    wanted
        int64[scheduler]: claims it will make.
    machine, seen
        int64[scheduler, claim]: which machine each claim is on, and `changed` of it by then.
    busy_s, conflicts, successes
        float64[scheduler, day], int64[scheduler, day] twice: time spent on decisions; transactions
        with a conflict, and those without that placed something.
    """

    begin: I64
    end: I64
    job_s: F64
    task_s: F64
    limit: I64
    held_cores: I64
    held_memory: I64
    admits: I64
    waiting: I64
    head: I64
    tail: I64
    job: I64
    wanted: I64
    machine: I64
    seen: I64
    busy_s: F64
    conflicts: I64
    successes: I64


class Precedence(NamedTuple):
    """Which claims may be evicted for which jobs, and which were; empty if none may.

    Attributes
    ----------
    level
        int64[job]: its precedence, from 0; a job may evict tasks of lower levels.
    held_cores, held_memory
        int64[level, machine]: what the tasks of each level hold.
    newest
        int64[machine]: its newest claim, or -1.
    older, newer
        int64[claim]: the claims of the same machine alongside it, or -1.
    transaction
        int64[claim]: which made it.
    evictor, evicted_s
        int64[claim], float64[claim]: the job for which it was evicted, or -1, and when.
    evictions, lost_s
        int64[job], float64[job]: how many of its tasks were evicted, and the seconds they had run.
    """

    level: I64
    held_cores: I64
    held_memory: I64
    newest: I64
    older: I64
    newer: I64
    transaction: I64
    evictor: I64
    evicted_s: F64
    evictions: I64
    lost_s: F64


class Log(NamedTuple):
    """Events to come, and what runs.

    Attributes
    ----------
    time, what, which
        float64, int64, int64[event]: a heap by time.
    first, tasks, cores, memory, owner
        int64[transaction]: its claims, one a task; what each takes; the scheduler, -1 at the start.
    job, begin_s, end_s
        int64, float64, float64[transaction]: of which job, when its tasks began, when they end.
    claim
        int64[claim]: machine.
    precedence
        Who may evict whom.
    """

    time: F64
    what: I64
    which: I64
    first: I64
    tasks: I64
    cores: I64
    memory: I64
    owner: I64
    job: I64
    begin_s: F64
    end_s: F64
    claim: I64
    precedence: Precedence


class Rules(NamedTuple):
    """The architecture's numbers; see `bench.papers.cell.architecture.Architecture`."""

    offers: int
    coarse: int
    gang: int
    attempts: int
    offer_s: float
    length_s: float
    sample_s: float
    growth: int
    cap: float
    times: int
