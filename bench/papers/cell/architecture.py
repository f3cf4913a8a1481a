"""Architectures: which schedulers a cell has, what each sees, and how what it wants is taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from bench.papers.cell.workload import BATCH, SERVICE

#: Seconds to decide about a job, and about each of its tasks (Omega, section 4).
T_JOB_S: Final = 0.1
T_TASK_S: Final = 0.005


class View(IntEnum):
    """What a scheduler sees of the cell."""

    SHARED = 0
    """All of it; claims are checked when it commits (Omega)."""

    PART = 1
    """Machines of its own (static partition)."""

    OFFER = 2
    """What no one holds, locked while it decides (Mesos)."""


class Growth(IntEnum):
    """How many workers a MapReduce job is given beyond what it asks for (Omega, section 6)."""

    NONE = 0
    """None."""

    MAX_PARALLELISM = 1
    """As many as shorten it."""

    GLOBAL_CAP = 2
    """Those too, while the cell holds less than a part of its cores."""

    RELATIVE_SIZE = 3
    """Up to a multiple of what it asks for."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Seconds to decide: `job_s`, and `task_s` for each task."""

    job_s: float = T_JOB_S
    task_s: float = T_TASK_S


@dataclass(frozen=True, slots=True)
class CellScheduler:
    """One scheduler.

    Attributes
    ----------
    types
        Types of jobs that it takes; jobs of a type are dealt to its schedulers in turn.
    batch, service
        How long it decides about jobs of each type.
    part
        Part of the machines that are its own (`View.PART`).
    limit
        Largest part of the cell that it may claim.
    admits
        Most jobs in its queue: those that come while this many wait are refused. None for no bound.
    precedence
        Of its jobs, apart from that of their types and their own.
    """

    types: tuple[int, ...]
    batch: Decision = Decision()
    service: Decision = Decision()
    part: float = 1.0
    limit: float = 1.0
    admits: int | None = None
    precedence: int = 0


@dataclass(frozen=True, slots=True)
class Architecture:
    """Schedulers, and the rules of their transactions.

    Attributes
    ----------
    coarse
        A claim conflicts where its machine changed at all since the scheduler looked; else where it
        does not fit any more.
    gang
        A transaction is taken whole or not at all; else what does not conflict is taken.
    attempts
        Attempts after which a job with tasks left is abandoned.
    offer_s
        How long the allocator takes for an offer.
    precedence
        Of batch and of service jobs. A job's precedence is the sum of that of its type, that of
        its scheduler and its own (`CellJobs.precedence`): one scale for the cell. A job takes the
        capacity of tasks of lower precedence where it finds none that is free; where all have the
        same, none does.
    growth, cap, times
        Workers beyond what MapReduce jobs ask for; the part of the cell's cores up to which
        (`Growth.GLOBAL_CAP`), and the multiple of what is asked (`Growth.RELATIVE_SIZE`).
    fitted
        The workers that shorten a job most are predicted by a model fitted to its runs before; else
        twice as many halve it, as far as the job has activities.
    """

    name: str
    view: View
    schedulers: tuple[CellScheduler, ...]
    coarse: bool = False
    gang: bool = False
    attempts: int = 1_000
    offer_s: float = 0.001
    precedence: tuple[int, int] = (0, 0)
    growth: Growth = Growth.NONE
    cap: float = 0.6
    times: int = 4
    fitted: bool = False

    def rules(self, *, coarse: bool, gang: bool) -> Architecture:
        """Return the same schedulers under other rules (Omega, figure 14)."""
        return replace(self, coarse=coarse, gang=gang)


def single_path(t_job_s: float) -> Architecture:
    """Return one scheduler that decides about every job the same way (figures 5a, 6a)."""
    same = Decision(t_job_s)
    both = CellScheduler((BATCH, SERVICE), same, same)
    return Architecture("monolithic, single path", View.SHARED, (both,))


def multi_path(service: Decision) -> Architecture:
    """Return one scheduler with a fast path for batch jobs (figures 5b, 6b)."""
    both = CellScheduler((BATCH, SERVICE), service=service)
    return Architecture("monolithic, multi-path", View.SHARED, (both,))


def partitioned(service: Decision, batch_part: float = 0.5) -> Architecture:
    """Return a scheduler for each type, with machines of its own (section 3.2)."""
    two = (
        CellScheduler((BATCH,), part=batch_part),
        CellScheduler((SERVICE,), service=service, part=1 - batch_part),
    )
    return Architecture("static partition", View.PART, two)


def two_level(service: Decision) -> Architecture:
    """Return a framework for each type, fed by offers of a fair allocator (figure 7)."""
    two = (CellScheduler((BATCH,)), CellScheduler((SERVICE,), service=service))
    return Architecture("two-level", View.OFFER, two)


def shared_state(service: Decision, batch: Decision = Decision(), batches: int = 1) -> Architecture:
    """Return `batches` batch schedulers and one for service jobs on one cell (figures 5c to 14)."""
    found = (
        *(CellScheduler((BATCH,), batch=batch) for _ in range(batches)),
        CellScheduler((SERVICE,), service=service),
    )
    return Architecture("shared state", View.SHARED, found)
