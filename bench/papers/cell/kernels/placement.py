"""Where tasks go: randomized first fit on what a scheduler sees (Omega, table 2)."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from bench.papers.cell.kernels.arrays import (
    I64,
    CellJobStates,
    CellMachines,
    Log,
    Rules,
    Schedulers,
)
from bench.papers.cell.kernels.compiled import inner
from bench.papers.cell.kernels.draws import draw
from bench.papers.cell.kernels.eviction import level_of, lower

# Numbers of `bench.papers.cell.architecture.Growth`.
NO_GROWTH = 0
GLOBAL_CAP = 2
RELATIVE_SIZE = 3

#: Machines that are drawn before all are looked at in turn.
DRAWS = 30


@inner
def find(
    cores: I64, memory: I64, kind: I64, bounds: tuple[int, int], task: I64, counts: I64
) -> int:
    """Return a machine that holds one more task, or -1.

    Parameters
    ----------
    bounds
        First machine, and first past the last.
    task
        Its cores, memory and the kinds of machines that it may run on.
    """
    begin, size = bounds[0], bounds[1] - bounds[0]
    for _ in range(DRAWS):
        machine = begin + draw(counts, size)
        if cores[machine] >= task[0] and memory[machine] >= task[1]:
            if (task[2] >> kind[machine]) & 1:
                return machine
    start = begin + draw(counts, size)
    machine = _first(cores, memory, kind, (start, begin + size), task)
    if machine < 0:
        machine = _first(cores, memory, kind, (begin, start), task)
    return machine


@inner
def _first(cores: I64, memory: I64, kind: I64, bounds: tuple[int, int], task: I64) -> int:
    """Return the first machine of some that holds one more task, or -1."""
    for machine in range(bounds[0], bounds[1]):
        if cores[machine] >= task[0] and memory[machine] >= task[1]:
            if (task[2] >> kind[machine]) & 1:
                return machine
    return -1


@inner
def _target(machines: CellMachines, jobs: CellJobStates, rules: Rules, job: int) -> int:
    """Return how many tasks to place: at first, those that shorten a job besides what is left."""
    left = jobs.left[job]
    if rules.growth == NO_GROWTH or jobs.attempts[job] > 1 or jobs.useful[job] <= left:
        return left
    most = jobs.useful[job]
    if rules.growth == RELATIVE_SIZE:
        most = min(most, rules.times * jobs.asked[job])
    elif rules.growth == GLOBAL_CAP:
        whole = machines.cores.size * 1000.0
        room = rules.cap * whole - (whole - machines.cores.sum())
        most = min(most, int(max(room, 0.0) / jobs.cores[job]))
    return max(left, most)


@inner
def _place(
    cores: I64,
    memory: I64,
    machines: CellMachines,
    schedulers: Schedulers,
    one: int,
    task: I64,
    counts: I64,
    span: tuple[int, int],
) -> int:
    """Choose machines for the claims of a span in the room that is given; return where it ended."""
    begin, end = span
    bounds = (schedulers.begin[one], schedulers.end[one])
    for count in range(begin, end):
        machine = find(cores, memory, machines.kind, bounds, task, counts)
        if machine < 0:
            return count
        cores[machine] -= task[0]
        memory[machine] -= task[1]
        schedulers.machine[one, count] = machine
        schedulers.seen[one, count] = machines.changed[machine]
    return end


@inner
def _room_for(cores: I64, memory: I64, log: Log, level: int) -> tuple[I64, I64]:
    """Return the capacity of each machine apart from the tasks that a level may not evict."""
    roomy_cores, roomy_memory = cores.copy(), memory.copy()
    held = log.precedence
    for machine in range(cores.size):
        evictable = lower(held.held_cores, held.held_memory, level, machine)
        roomy_cores[machine] += evictable[0]
        roomy_memory[machine] += evictable[1]
    return roomy_cores, roomy_memory


@inner
def choose(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    one: int,
    rules: Rules,
    counts: I64,
) -> None:
    """Choose machines for the tasks that are left of a scheduler's job; the cell stays as it is.

    Free capacity comes first, then that of tasks which the job may evict.
    """
    job = schedulers.job[one]
    task = np.array([jobs.cores[job], jobs.memory[job], jobs.allowed[job]])
    cores, memory = machines.cores, machines.memory
    if rules.offers:
        cores, memory = machines.offer_cores[one], machines.offer_memory[one]
    most = min(
        (schedulers.limit[one] - schedulers.held_cores[one]) // task[0],
        (schedulers.limit[one] - schedulers.held_memory[one]) // task[1],
    )
    wanted = min(_target(machines, jobs, rules, job), max(most, 0))
    free = _place(cores, memory, machines, schedulers, one, task, counts, (0, wanted))
    schedulers.wanted[one] = free
    level = level_of(log, job)
    if free < wanted and level > 0:
        roomy_cores, roomy_memory = _room_for(cores, memory, log, level)
        span = (free, wanted)
        schedulers.wanted[one] = _place(
            roomy_cores, roomy_memory, machines, schedulers, one, task, counts, span
        )
    for claim in range(free):
        cores[schedulers.machine[one, claim]] += task[0]
        memory[schedulers.machine[one, claim]] += task[1]
