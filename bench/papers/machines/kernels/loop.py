"""The machine-level event loop, compiled in one piece with the placement that it drives."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from bench.papers.machines.kernels.compiled import entry, inline
from bench.papers.machines.kernels.ends import heap_pop, look_ahead, next_bucket
from bench.papers.machines.kernels.queues import (
    ARRIVAL,
    CLASS,
    MACHINE,
    NUMBER,
    REQUEST,
    TIME,
    Slots,
    is_holdable,
    queue_for,
    queue_has_room,
    queue_push,
    shortest_queue,
)
from bench.papers.machines.kernels.starts import (
    enqueue_at_machine,
    refill,
    refill_greedy,
    start,
)
from bench.papers.machines.kernels.state import (
    AREA_RUNNING,
    AREA_WAITING,
    ARRIVED,
    CONSUMED,
    CURSOR,
    ENDED,
    EVENTS,
    FREE,
    HEAP,
    LATER,
    MEASURED,
    MORE_QUEUE,
    MORE_SLOTS,
    NOW,
    REFUSED,
    RUNNING,
    WAITING,
    Counters,
    Jobs,
    World,
)
from dispatch.machines.placement.kernels.arrays import GREEDY, LOTES, NONE
from dispatch.machines.placement.kernels.choices import choose
from dispatch.machines.placement.kernels.machines import release
from dispatch.machines.placement.kernels.scores import count_job


@inline
def _advance_clock(counters: Counters, warm_up: float, time: float) -> None:
    """Add up what ran, waited and was used until `time`."""
    real = counters.real
    since = max(real[NOW], warm_up)
    if time > since:
        span = time - since
        real[MEASURED] += span
        real[AREA_RUNNING] += span * counters.whole[RUNNING]
        real[AREA_WAITING] += span * counters.whole[WAITING]
        for r in range(counters.used.size):
            counters.area_used[r] += span * counters.used[r]
    real[NOW] = time


@inline
def _admit(slots: Slots, counters: Counters, jobs: Jobs, job: int) -> int:
    """Give an arriving job a slot."""
    whole = counters.whole
    whole[FREE] -= 1
    slot = slots.free[whole[FREE]]
    for r in range(jobs.request.shape[1]):
        slots.real[slot, REQUEST + r] = jobs.request[job, r]
    slots.real[slot, TIME] = jobs.hours[job]
    slots.real[slot, ARRIVAL] = jobs.arrival[job]
    slots.whole[slot, CLASS] = jobs.job_class[job]
    slots.long[slot, NUMBER] = whole[ARRIVED]
    whole[ARRIVED] += 1
    return slot


@inline
def _arrive(world: World, jobs: Jobs, machine: int, queue: int) -> None:
    """The next job of the chunk arrives: it starts, waits, or is refused for ever."""
    fleet, queues, waiting = world.fleet, world.queues, world.waiting
    slots, counters, rules = world.slots, world.counters, world.rules
    whole, job = counters.whole, counters.whole[CURSOR]
    k, request = jobs.job_class[job], jobs.request[job]
    slot = _admit(slots, counters, jobs, job)
    interval = int(counters.real[NOW] / world.measuring.interval)
    interval = min(interval, counters.interval_started.size - 1)
    counters.interval_arrived[interval] += 1
    if machine != NONE:
        start(world, slot, machine)
        return
    if not is_holdable(fleet, rules, k, request):
        whole[REFUSED] += 1
        slots.free[whole[FREE]] = slot
        whole[FREE] += 1
        return
    whole[WAITING] += 1
    if rules.policy == GREEDY:
        machine = shortest_queue(fleet, waiting, rules, k, request)
        enqueue_at_machine(fleet, waiting, slots, slot, machine)
    else:
        queue_push(queues, queue, slot, request)
    counters.interval_waiting[interval] = max(counters.interval_waiting[interval], whole[WAITING])


@inline
def _end(world: World) -> None:
    """The earliest job ends and its machine takes waiting ones."""
    fleet, targets, slots = world.fleet, world.targets, world.slots
    counters, rules = world.counters, world.rules
    whole = counters.whole
    slot = heap_pop(slots, whole)
    machine = slots.whole[slot, MACHINE]
    request = slots.real[slot, REQUEST : REQUEST + counters.used.size]
    release(fleet, machine, request)
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, slots.whole[slot, CLASS], -1)
    for r in range(counters.used.size):
        counters.used[r] -= request[r]
    whole[RUNNING] -= 1
    whole[ENDED] += 1
    slots.free[whole[FREE]] = slot
    whole[FREE] += 1
    if rules.policy == GREEDY:
        refill_greedy(world, machine)
    else:
        refill(world, machine)


@entry
def advance(world: World, jobs: Jobs, until: float) -> int:
    """Run events until the chunk of arrivals is consumed and, if finite, until a time.

    With an infinite `until` the loop stops at the last arrival, because the next chunk's first
    may come before the next end. Ends come before arrivals of the same instant.

    Returns
    -------
    int
        CONSUMED, or what the caller must enlarge before it calls again.
    """
    fleet, targets, queues = world.fleet, world.targets, world.queues
    slots, counters, rules = world.slots, world.counters, world.rules
    whole, warm_up = counters.whole, world.measuring.warm_up
    total = jobs.arrival.size
    while True:
        if whole[HEAP] == 0 and slots.turn[LATER] > 0:
            next_bucket(slots, whole)
        ends = slots.heap_time[0] if whole[HEAP] > 0 else np.inf
        job = whole[CURSOR]
        arrives = jobs.arrival[job] if job < total else np.inf
        time = min(ends, arrives)
        if (job >= total and until == np.inf) or time > until or time == np.inf:
            if until < np.inf:
                _advance_clock(counters, warm_up, until)
            return CONSUMED
        if ends > arrives:
            if whole[FREE] == 0:
                return MORE_SLOTS
            k, request = jobs.job_class[job], jobs.request[job]
            machine = choose(fleet, targets, rules, k, request, jobs.hours[job], jobs.draw[job])
            queue = NONE
            if machine == NONE and rules.policy != GREEDY:
                queue = queue_for(fleet, targets, rules, k, request)
                if not queue_has_room(queues, queue):
                    return MORE_QUEUE
            _advance_clock(counters, warm_up, time)
            _arrive(world, jobs, machine, queue)
            whole[CURSOR] += 1
        else:
            _advance_clock(counters, warm_up, time)
            _end(world)
        look_ahead(fleet, slots)
        whole[EVENTS] += 1
