"""The arrays of a cell before the first event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch.simulation.cell.architecture import Architecture, CellScheduler, View
from dispatch.simulation.cell.kernels.arrays import (
    CellJobStates,
    CellMachines,
    Log,
    Precedence,
    Schedulers,
)
from dispatch.simulation.cell.workload import BATCH, I64, SERVICE, WHOLE, CellJobs, CellMix

Number = TypeVar("Number", np.int64, np.float64)


def free_machines(kind: I64, schedulers: int, view: View) -> CellMachines:
    """Return machines of which nothing is held."""
    count = len(kind)
    offered = (schedulers, count) if view is View.OFFER else (1, 1)
    zeros = (np.zeros(count, dtype=np.int64) for _ in range(3))
    return CellMachines(
        np.full(count, WHOLE, dtype=np.int64),
        np.full(count, WHOLE, dtype=np.int64),
        next(zeros),
        kind,
        next(zeros),
        next(zeros),
        np.zeros(offered, dtype=np.int64),
        np.zeros(offered, dtype=np.int64),
    )


def job_states(given: CellJobs, scheduler: I64) -> CellJobStates:
    """Return jobs of which no task is placed, each with its scheduler."""
    count = len(given.tasks)
    never = np.full(count, np.nan)
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(3)]
    return CellJobStates(
        given.arrival_s, given.length_s.copy(), given.type, given.cores, given.memory,
        given.allowed, given.serial, given.setup, scheduler, given.useful,
        given.tasks, given.tasks.copy(), given.tasks.copy(),
        zeros[0], zeros[1], never, never.copy(), zeros[2],
        np.full(count, -1, dtype=np.int64),
    )  # fmt: skip


def empty_log(most: int, level: I64, machines: int) -> Log:
    """Return a log for `most` claims; `level` is the precedence of each job, or empty."""
    what, which, first, tasks, cores, memory, owner, job, claim = np.zeros((9, most), np.int64)
    return Log(
        np.zeros(most), what, which, first, tasks, cores, memory, owner, job,
        np.zeros(most), np.zeros(most), claim, _precedence(most, level, machines),
    )  # fmt: skip


def _precedence(most: int, level: I64, machines: int) -> Precedence:
    jobs = len(level)
    claims = most if jobs else 0
    held = (int(level.max(initial=-1)) + 1, machines)
    older, newer, transaction, evictor = np.full((4, claims), -1, dtype=np.int64)
    return Precedence(
        level,
        np.zeros(held, dtype=np.int64),
        np.zeros(held, dtype=np.int64),
        np.full(machines, -1, dtype=np.int64),
        older,
        newer,
        transaction,
        evictor,
        np.zeros(claims),
        np.zeros(jobs, dtype=np.int64),
        np.zeros(jobs),
    )


def longer_log(log: Log) -> Log:
    """Return a log of the same events, claims and transactions with room for as many again."""
    held = log.precedence
    by_claim = {
        name: _longer(getattr(held, name))
        for name in ("older", "newer", "transaction", "evictor", "evicted_s")
        if len(held.level)
    }
    rest = log._asdict()
    rest.pop("precedence")
    grown = {name: _longer(column) for name, column in rest.items()}
    return Log(**grown, precedence=held._replace(**by_claim))


def _longer(column: NDArray[Number]) -> NDArray[Number]:
    return np.concatenate([column, np.zeros_like(column)])


def levels(architecture: Architecture, jobs: CellJobs) -> I64:
    """Return int64[job]: the precedence of each as a level from 0; empty where none evicts."""
    if not architecture.evicts:
        return np.zeros(0, dtype=np.int64)
    ranks = np.argsort(architecture.precedence).astype(np.int64)
    return ranks[jobs.type]


def idle_schedulers(mix: CellMix, architecture: Architecture, most: int, days: int) -> Schedulers:
    """Return schedulers with nothing to decide about, for claims of up to `most` tasks.

    Raises
    ------
    ValueError
        If the parts of the machines are no partition.
    """
    given = architecture.schedulers
    count = len(given)
    bounds = np.zeros(count + 1, dtype=np.int64)
    bounds[1:] = mix.machines
    if architecture.view is View.PART:
        parts = np.cumsum([one.part for one in given])
        if not math.isclose(parts[-1], 1.0):
            raise ValueError(f"parts of the machines sum to {parts[-1]:g}, not to 1")
        bounds[1:] = np.rint(parts * mix.machines)
    whole = architecture.view is not View.PART
    begins = np.zeros(count, dtype=np.int64) if whole else bounds[:-1].copy()
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(3)]
    empty = [np.full(count, -1, dtype=np.int64) for _ in range(3)]
    return Schedulers(
        begins,
        bounds[1:].copy(),
        np.array([[one.batch.job_s, one.service.job_s] for one in given]),
        np.array([[one.batch.task_s, one.service.task_s] for one in given]),
        np.array([_limit(one.limit, mix.machines) for one in given], dtype=np.int64),
        zeros[0],
        zeros[1],
        empty[0],
        empty[1],
        empty[2],
        zeros[2],
        np.zeros((count, most), dtype=np.int64),
        np.zeros((count, most), dtype=np.int64),
        np.zeros((count, days)),
        np.zeros((count, days), dtype=np.int64),
        np.zeros((count, days), dtype=np.int64),
    )


def _limit(part: float, machines: int) -> int:
    """Return the most that may be claimed; the whole cell is no limit, even on what is evicted."""
    return round(part * machines * WHOLE) if part < 1.0 else np.iinfo(np.int64).max // 2


def schedulers_of(schedulers: Sequence[CellScheduler], jobs: CellJobs) -> I64:
    """Return int64[job]: the scheduler of each; jobs of a type are dealt in turn.

    Raises
    ------
    ValueError
        If a type of jobs has no scheduler.
    """
    found = np.zeros(len(jobs.tasks), dtype=np.int64)
    for type_ in (BATCH, SERVICE):
        own = np.flatnonzero(jobs.type == type_)
        takers = [place for place, one in enumerate(schedulers) if type_ in one.types]
        if len(own) and not takers:
            raise ValueError(f"no scheduler takes jobs of type {type_}")
        if takers:
            found[own] = np.array(takers)[np.arange(len(own)) % len(takers)]
    return found
