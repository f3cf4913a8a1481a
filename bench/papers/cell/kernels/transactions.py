"""Transactions: what a scheduler has chosen is taken as far as the rules allow; tasks end."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from bench.papers.cell.kernels.arrays import (
    CLAIMS,
    END,
    I64,
    TRANSACTIONS,
    CellJobStates,
    CellMachines,
    Log,
    Rules,
    Schedulers,
)
from bench.papers.cell.kernels.compiled import inner
from bench.papers.cell.kernels.eviction import (
    delist,
    enlist,
    level_of,
    lower,
    make_room,
)
from bench.papers.cell.kernels.heap import push


@inner
def claim(machines: CellMachines, machine: int, cores: int, memory: int) -> None:
    """Take a task's capacity on a machine."""
    machines.cores[machine] -= cores
    machines.memory[machine] -= memory


@inner
def keep(
    log: Log,
    counts: I64,
    task: tuple[int, int, float],
    job: int,
    owner: int,
    placed: int,
    now: float,
) -> None:
    """Note the newest `placed` claims as one transaction, and when its tasks end.

    Parameters
    ----------
    task
        Cores, memory and length of each of its tasks.
    """
    number = counts[TRANSACTIONS]
    counts[TRANSACTIONS] += 1
    log.first[number], log.tasks[number] = counts[CLAIMS] - placed, placed
    log.cores[number], log.memory[number], log.owner[number] = task[0], task[1], owner
    log.job[number], log.begin_s[number], log.end_s[number] = job, now, now + task[2]
    enlist(log, number)
    push(log, counts, now + task[2], END, number)


@inner
def release(machines: CellMachines, schedulers: Schedulers, log: Log, number: int) -> None:
    """Release what those of a transaction's tasks held that were not evicted."""
    cores, memory, owner = log.cores[number], log.memory[number], log.owner[number]
    evicts, ended = log.precedence.level.size > 0, 0
    for place in range(log.first[number], log.first[number] + log.tasks[number]):
        if evicts:
            if log.precedence.evictor[place] >= 0:
                continue
            delist(log, place)
        ended += 1
        machine = log.claim[place]
        machines.cores[machine] += cores
        machines.memory[machine] += memory
        machines.changed[machine] += 1
    if owner >= 0:
        schedulers.held_cores[owner] -= cores * ended
        schedulers.held_memory[owner] -= memory * ended


@inner
def _growth_factor(jobs: CellJobStates, job: int, workers: int) -> float:
    """Return how much of its length a job takes with more workers than it asked for."""
    more = workers / jobs.asked[job]
    shared = 1.0 - jobs.serial[job] - jobs.setup[job]
    return jobs.serial[job] + shared / more + jobs.setup[job] * more


@inner
def commit(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    one: int,
    now: float,
) -> tuple[int, bool]:
    """Take a scheduler's claims; return how many tasks were placed, and whether any met a conflict.

    All that is taken changes its machines once, after the last claim was judged: claims of one
    transaction do not conflict with each other. Until then a machine from which tasks will be
    evicted holds more than it can.
    """
    job, wanted = schedulers.job[one], schedulers.wanted[one]
    cores, memory, level = jobs.cores[job], jobs.memory[job], level_of(log, job)
    held, first = log.precedence, counts[CLAIMS]
    for place in range(wanted):
        machine = schedulers.machine[one, place]
        if rules.coarse and machines.changed[machine] != schedulers.seen[one, place]:
            continue
        below = lower(held.held_cores, held.held_memory, level, machine)
        free = (machines.cores[machine] + below[0], machines.memory[machine] + below[1])
        if free[0] >= cores and free[1] >= memory:
            claim(machines, machine, cores, memory)
            log.claim[counts[CLAIMS]] = machine
            counts[CLAIMS] += 1
    placed = counts[CLAIMS] - first
    conflict = placed < wanted
    if rules.gang and placed < jobs.left[job]:
        for place in range(first, counts[CLAIMS]):
            claim(machines, log.claim[place], -cores, -memory)
        counts[CLAIMS] = first
        return 0, conflict
    for place in range(first, counts[CLAIMS]):
        machines.changed[log.claim[place]] += 1
        if level > 0:
            make_room(machines, jobs, schedulers, log, log.claim[place], job, now)
    if placed > 0:
        if placed > jobs.left[job]:  # more workers than were requested share the same work
            jobs.length_s[job] *= _growth_factor(jobs, job, placed)
        keep(log, counts, (cores, memory, jobs.length_s[job]), job, one, placed, now)
        schedulers.held_cores[one] += cores * placed
        schedulers.held_memory[one] += memory * placed
    return placed, conflict
