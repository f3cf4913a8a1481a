"""Transactions: what a scheduler has chosen is taken as far as the rules allow; tasks end."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from dispatch.simulation.cell.kernels.arrays import (
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
from dispatch.simulation.cell.kernels.compiled import inner
from dispatch.simulation.cell.kernels.heap import push


@inner
def claim(machines: CellMachines, machine: int, cores: int, memory: int) -> None:
    """Take a task's room on a machine."""
    machines.cores[machine] -= cores
    machines.memory[machine] -= memory


@inner
def keep(
    log: Log, counts: I64, job: tuple[int, int, float], owner: int, placed: int, now: float
) -> None:
    """Note the newest `placed` claims as one transaction, and when its tasks end.

    Parameters
    ----------
    job
        Cores, memory and length of its tasks.
    """
    number = counts[TRANSACTIONS]
    counts[TRANSACTIONS] += 1
    log.first[number], log.tasks[number] = counts[CLAIMS] - placed, placed
    log.cores[number], log.memory[number], log.owner[number] = job[0], job[1], owner
    push(log, counts, now + job[2], END, number)


@inner
def release(machines: CellMachines, who: Schedulers, log: Log, number: int) -> None:
    """Give back what a transaction's tasks held."""
    cores, memory, owner = log.cores[number], log.memory[number], log.owner[number]
    for place in range(log.first[number], log.first[number] + log.tasks[number]):
        machine = log.claim[place]
        machines.cores[machine] += cores
        machines.memory[machine] += memory
        machines.changed[machine] += 1
    if owner >= 0:
        who.held_cores[owner] -= cores * log.tasks[number]
        who.held_memory[owner] -= memory * log.tasks[number]


@inner
def _fits(
    machines: CellMachines,
    who: Schedulers,
    one: int,
    place: int,
    demand: tuple[int, int],
    coarse: int,
) -> bool:
    """Return whether a claim meets no conflict."""
    machine = who.machine[one, place]
    if coarse and machines.changed[machine] != who.seen[one, place]:
        return False
    return machines.cores[machine] >= demand[0] and machines.memory[machine] >= demand[1]


@inner
def commit(
    machines: CellMachines,
    jobs: CellJobStates,
    who: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    one: int,
    now: float,
) -> tuple[int, bool]:
    """Take a scheduler's claims; return how many tasks were placed, and whether any met a conflict.

    All that is taken changes its machines once, after the last claim was judged: claims of one
    transaction do not conflict with each other.
    """
    job, wanted = who.job[one], who.wanted[one]
    cores, memory = jobs.cores[job], jobs.memory[job]
    first = counts[CLAIMS]
    for place in range(wanted):
        if _fits(machines, who, one, place, (cores, memory), rules.coarse):
            machine = who.machine[one, place]
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
    if placed > 0:
        length = jobs.length_s[job]
        if placed > jobs.left[job]:  # more workers than were asked for share the same work
            length *= jobs.left[job] / placed
        keep(log, counts, (cores, memory, length), one, placed, now)
        who.held_cores[one] += cores * placed
        who.held_memory[one] += memory * placed
    return placed, conflict
