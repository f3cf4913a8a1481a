"""The event loop: jobs arrive, schedulers decide and commit, tasks end."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from bench.papers.cell.kernels.arrays import (
    ALLOCATOR,
    ARRIVED,
    CLAIMS,
    DECIDED,
    END,
    EVENTS,
    F64,
    I64,
    OFFERED,
    SAMPLED,
    CellJobStates,
    CellMachines,
    Log,
    Rules,
    Schedulers,
)
from bench.papers.cell.kernels.compiled import entry, inner
from bench.papers.cell.kernels.heap import pop, push
from bench.papers.cell.kernels.placement import choose, find
from bench.papers.cell.kernels.queues import append, prepend
from bench.papers.cell.kernels.transactions import claim, commit, keep, release

_DAY_S = 86_400.0


@entry
def fill(machines: CellMachines, jobs: CellJobStates, log: Log, counts: I64) -> None:
    """Place the jobs that stand at the start, as far as there is room; the rest is forgotten."""
    bounds = (0, machines.cores.size)
    for job in range(jobs.left.size):
        if jobs.arrival_s[job] < np.inf:
            continue
        task = np.array([jobs.cores[job], jobs.memory[job], jobs.allowed[job]])
        placed = 0
        while placed < jobs.left[job]:
            machine = find(machines.cores, machines.memory, machines.kind, bounds, task, counts)
            if machine < 0:
                break
            claim(machines, machine, task[0], task[1])
            log.claim[counts[CLAIMS]] = machine
            counts[CLAIMS] += 1
            placed += 1
        if placed > 0:
            keep(log, counts, (task[0], task[1], jobs.length_s[job]), job, -1, placed, 0.0)
        jobs.left[job] = 0


@inner
def _begin(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    one: int,
    now: float,
) -> None:
    """Let a scheduler look at the cell and decide about the first of its queue."""
    job = schedulers.head[one]
    schedulers.head[one] = jobs.next[job]
    schedulers.job[one] = job
    if np.isnan(jobs.first_s[job]):
        jobs.first_s[job] = now
    jobs.attempts[job] += 1
    schedulers.waiting[one] -= 1
    choose(machines, jobs, schedulers, log, one, rules, counts)
    kind = jobs.type[job]
    tasks = max(jobs.left[job], schedulers.wanted[one])
    takes = schedulers.job_s[one, kind] + schedulers.task_s[one, kind] * tasks
    _spread_busy(schedulers.busy_s[one], now, min(now + takes, rules.length_s))
    push(log, counts, now + takes, DECIDED, one)


@inner
def _spread_busy(busy_s: F64, begin: float, end: float) -> None:
    """Add an interval to the days that it touches."""
    while begin < end:
        day = int(begin // _DAY_S)
        stop = min(end, (day + 1) * _DAY_S)
        busy_s[day] += stop - begin
        begin = stop


@inner
def _share(schedulers: Schedulers, one: int) -> int:
    """Return the dominant share, in parts that compare: all machines are the same."""
    return max(schedulers.held_cores[one], schedulers.held_memory[one])


@inner
def _ask_allocator(
    machines: CellMachines, schedulers: Schedulers, log: Log, counts: I64, rules: Rules, now: float
) -> None:
    """Have the allocator make the next offer, to whom dominant resource fairness says."""
    if counts[ALLOCATOR]:
        return
    chosen = -1
    for one in range(schedulers.job.size):
        if schedulers.job[one] < 0 and schedulers.head[one] >= 0:
            if chosen < 0 or _share(schedulers, one) < _share(schedulers, chosen):
                chosen = one
    if chosen < 0:
        return
    for machine in range(machines.cores.size):
        if machines.cores[machine] > machines.locked_cores[machine]:
            counts[ALLOCATOR] = 1
            push(log, counts, now + rules.offer_s, OFFERED, chosen)
            return


@inner
def _offer(machines: CellMachines, one: int) -> None:
    """Lock all that is free and in no offer for a scheduler."""
    for machine in range(machines.cores.size):
        cores = machines.cores[machine] - machines.locked_cores[machine]
        memory = machines.memory[machine] - machines.locked_memory[machine]
        machines.offer_cores[one, machine] = cores
        machines.offer_memory[one, machine] = memory
        machines.locked_cores[machine] += cores
        machines.locked_memory[machine] += memory


@inner
def _return_offer(machines: CellMachines, one: int) -> None:
    """Unlock what a scheduler was offered."""
    for machine in range(machines.cores.size):
        machines.locked_cores[machine] -= machines.offer_cores[one, machine]
        machines.locked_memory[machine] -= machines.offer_memory[one, machine]


@inner
def _finish(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    one: int,
    now: float,
) -> None:
    """Commit what a scheduler has decided; a job with tasks left goes back into its queue."""
    job, day = schedulers.job[one], int(now // _DAY_S)
    if rules.offers:
        _return_offer(machines, one)
    placed, conflict = commit(machines, jobs, schedulers, log, counts, rules, one, now)
    if conflict:
        schedulers.conflicts[one, day] += 1
        jobs.conflicts[job] += 1
    elif placed > 0:
        schedulers.successes[one, day] += 1
    schedulers.job[one] = -1
    if jobs.attempts[job] == 1:
        jobs.workers[job] = max(placed, jobs.asked[job])
    jobs.left[job] = max(0, jobs.left[job] - placed)
    if jobs.left[job] == 0:
        jobs.placed_s[job] = now
    elif jobs.attempts[job] >= rules.attempts:
        jobs.abandoned[job] = 1
    elif conflict:
        prepend(schedulers, jobs, one, job)
    else:
        append(schedulers, jobs, one, job)


@inner
def _go_on(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    one: int,
    now: float,
) -> None:
    """Begin the next decision of a scheduler, or ask for the offer that it needs."""
    if rules.offers:
        _ask_allocator(machines, schedulers, log, counts, rules, now)
    elif schedulers.job[one] < 0 and schedulers.head[one] >= 0:
        _begin(machines, jobs, schedulers, log, counts, rules, one, now)


@entry
def run(
    machines: CellMachines,
    jobs: CellJobStates,
    schedulers: Schedulers,
    log: Log,
    counts: I64,
    rules: Rules,
    used: F64,
) -> bool:
    """Run until `rules.length_s`, or until the log is full: then return False.

    Parameters
    ----------
    used
        float64[sample]: part of the cores that is held, each `sample_s`.
    """
    count = jobs.left.size
    most = log.claim.size - schedulers.machine.shape[1] - schedulers.job.size - 2
    whole = machines.cores.size * 1000.0
    while counts[CLAIMS] <= most:
        arrival = counts[ARRIVED]
        comes = jobs.arrival_s[arrival] if arrival < count else np.inf
        event = log.time[0] if counts[EVENTS] > 0 else np.inf
        now = min(comes, event)
        until = min(now, rules.length_s)
        while counts[SAMPLED] < used.size and counts[SAMPLED] * rules.sample_s <= until:
            used[counts[SAMPLED]] = 1.0 - machines.cores.sum() / whole
            counts[SAMPLED] += 1
        if now >= rules.length_s:
            return True
        if comes < event:
            one = jobs.scheduler[arrival]
            counts[ARRIVED] += 1
            if schedulers.waiting[one] >= schedulers.admits[one]:
                jobs.refused[arrival] = 1
                continue
            append(schedulers, jobs, one, arrival)
            _go_on(machines, jobs, schedulers, log, counts, rules, one, now)
            continue
        _, what, which = pop(log, counts)
        if what == END:
            release(machines, schedulers, log, which)
            if rules.offers:
                _ask_allocator(machines, schedulers, log, counts, rules, now)
        elif what == DECIDED:
            _finish(machines, jobs, schedulers, log, counts, rules, which, now)
            _go_on(machines, jobs, schedulers, log, counts, rules, which, now)
            if log.precedence.level.size > 0:  # others may have tasks to place again
                for other in range(schedulers.job.size):
                    _go_on(machines, jobs, schedulers, log, counts, rules, other, now)
        else:
            counts[ALLOCATOR] = 0
            _offer(machines, which)
            _begin(machines, jobs, schedulers, log, counts, rules, which, now)
            _ask_allocator(machines, schedulers, log, counts, rules, now)
    return False
