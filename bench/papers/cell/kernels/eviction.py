"""Eviction: a job takes the capacity of tasks of lower precedence (Omega, 3.4)."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from bench.papers.cell.kernels.arrays import (
    I64,
    CellJobStates,
    CellMachines,
    Log,
    Schedulers,
)
from bench.papers.cell.kernels.compiled import inner
from bench.papers.cell.kernels.queues import append


@inner
def level_of(log: Log, job: int) -> int:
    """Return the precedence of a job; 0 if no one may evict."""
    return log.precedence.level[job] if log.precedence.level.size > 0 else 0


@inner
def lower(held_cores: I64, held_memory: I64, level: int, machine: int) -> tuple[int, int]:
    """Return the cores and memory that tasks below a level hold on a machine.

    It takes arrays alone: it is called for every task, and a log is long to hand over.
    """
    cores, memory = 0, 0
    for below in range(level):
        cores += held_cores[below, machine]
        memory += held_memory[below, machine]
    return cores, memory


@inner
def enlist(log: Log, number: int) -> None:
    """Note the claims of a transaction as the newest of their machines."""
    held = log.precedence
    if held.level.size == 0:
        return
    level = held.level[log.job[number]]
    for place in range(log.first[number], log.first[number] + log.tasks[number]):
        machine = log.claim[place]
        held.held_cores[level, machine] += log.cores[number]
        held.held_memory[level, machine] += log.memory[number]
        held.transaction[place] = number
        held.evictor[place] = -1
        before = held.newest[machine]
        held.older[place], held.newer[place] = before, -1
        if before >= 0:
            held.newer[before] = place
        held.newest[machine] = place


@inner
def delist(log: Log, place: int) -> None:
    """Take a claim from those of its machine."""
    held = log.precedence
    if held.level.size == 0:
        return
    number, machine = held.transaction[place], log.claim[place]
    level = held.level[log.job[number]]
    held.held_cores[level, machine] -= log.cores[number]
    held.held_memory[level, machine] -= log.memory[number]
    older, newer = held.older[place], held.newer[place]
    if older >= 0:
        held.newer[older] = newer
    if newer >= 0:
        held.older[newer] = older
    else:
        held.newest[machine] = older


@inner
def make_room(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    machine: int,
    job: int,
    now: float,
) -> None:
    """Evict tasks below a job's level from a machine until what is held there fits.

    Those of the lowest level give way first, and of these the newest.
    """
    held = log.precedence
    for below in range(held.level[job]):
        place = held.newest[machine]
        while place >= 0 and (machines.cores[machine] < 0 or machines.memory[machine] < 0):
            older = held.older[place]
            if held.level[log.job[held.transaction[place]]] == below:
                held.evictor[place], held.evicted_s[place] = job, now
                _evict(machines, jobs, schedulers, log, place, now)
            place = older


@inner
def _evict(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    place: int,
    now: float,
) -> None:
    """End a claim before its time; its task is left to be placed again."""
    number, machine = log.precedence.transaction[place], log.claim[place]
    delist(log, place)
    machines.cores[machine] += log.cores[number]
    machines.memory[machine] += log.memory[number]
    machines.changed[machine] += 1
    owner, job = log.owner[number], log.job[number]
    if owner >= 0:
        schedulers.held_cores[owner] -= log.cores[number]
        schedulers.held_memory[owner] -= log.memory[number]
    log.precedence.evictions[job] += 1
    log.precedence.lost_s[job] += now - log.begin_s[number]
    jobs.left[job] += 1
    if jobs.left[job] == 1:  # it was placed whole, so it is in no queue
        jobs.placed_s[job] = np.nan
        append(schedulers, jobs, jobs.scheduler[job], job)
