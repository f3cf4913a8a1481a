"""The arrays of a cell before the first event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.papers.cell.architecture import Architecture, CellScheduler, View
from bench.papers.cell.kernels.arrays import (
    CellJobStates,
    CellMachines,
    Log,
    Precedence,
    Schedulers,
)
from bench.papers.cell.workload import BATCH, I64, SERVICE, WHOLE, CellJobs, CellMix

Number = TypeVar("Number", np.int64, np.float64)

#: More than any number of jobs, or any amount.
_NO_BOUND: Final = int(np.iinfo(np.int64).max // 2)


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
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(4)]
    return CellJobStates(
        given.arrival_s, given.length_s.copy(), given.type, given.cores, given.memory,
        given.allowed, given.serial, given.setup, scheduler, given.useful,
        given.tasks, given.tasks.copy(), given.tasks.copy(),
        zeros[0], zeros[1], never, never.copy(), zeros[2], zeros[3],
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
    """Return a log of the same events, claims and transactions with space for as many again."""
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


def precedences(architecture: Architecture, types: I64, schedulers: I64, own: I64) -> I64:
    """Return int64[job]: precedences on the scale of the cell.

    Parameters
    ----------
    types, schedulers, own
        int64[job]: `BATCH` or `SERVICE`; which scheduler decides; its own precedence.
    """
    of_types = np.array(architecture.precedence, dtype=np.int64)
    of_schedulers = np.array([one.precedence for one in architecture.schedulers], dtype=np.int64)
    return of_types[types] + of_schedulers[schedulers] + own


def levels(precedence: I64) -> I64:
    """Return int64[job]: precedences as levels from 0; empty if all are the same."""
    scale, found = np.unique(precedence, return_inverse=True)
    return found.astype(np.int64) if len(scale) > 1 else np.zeros(0, dtype=np.int64)


def idle_schedulers(mix: CellMix, architecture: Architecture, most: int, days: int) -> Schedulers:
    """Return schedulers with nothing to decide about, for claims of up to `most` tasks.

    Raises
    ------
    ValueError
        If the parts of the machines are no partition, or a scheduler admits no job.
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
    zeros = [np.zeros(count, dtype=np.int64) for _ in range(4)]
    empty = [np.full(count, -1, dtype=np.int64) for _ in range(3)]
    return Schedulers(
        begins,
        bounds[1:].copy(),
        np.array([[one.batch.job_s, one.service.job_s] for one in given]),
        np.array([[one.batch.task_s, one.service.task_s] for one in given]),
        np.array([_limit(one.limit, mix.machines) for one in given], dtype=np.int64),
        zeros[0],
        zeros[1],
        np.array([_admitted(one.admits) for one in given], dtype=np.int64),
        zeros[3],
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
    return round(part * machines * WHOLE) if part < 1.0 else _NO_BOUND


def _admitted(most: int | None) -> int:
    """Return the most jobs that may wait.

    Raises
    ------
    ValueError
        If none may.
    """
    if most is not None and most < 1:
        raise ValueError(f"a scheduler admits {most} jobs; 1 is the least")
    return _NO_BOUND if most is None else most


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
