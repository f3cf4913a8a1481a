"""The machine-level event loop, compiled in one piece with the placement kernels it drives."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dispatch.placement.kernels.arrays import (
    GREEDY,
    LOTES,
    NONE,
    TETRIS,
    TOLERANCE,
    Floats,
    Ints,
    Longs,
)
from dispatch.placement.kernels.choices import choose
from dispatch.placement.kernels.compiled import entry, inline, inner, prefetch
from dispatch.placement.kernels.forest import forest_set
from dispatch.placement.kernels.machines import (
    CLOSED,
    CONFIGURATION,
    LEFT,
    Fleet,
    Rules,
    occupy,
    offer,
    release,
)
from dispatch.placement.kernels.queues import (
    ARRIVAL,
    CLASS,
    MACHINE,
    NEXT,
    NUMBER,
    REQUEST,
    TIME,
    MachineQueues,
    Queues,
    Slots,
    is_holdable,
    next_fifo,
    next_lotes,
    next_tetris,
    queue_for,
    queue_has_room,
    queue_push,
    queue_take,
    shortest_queue,
)
from dispatch.placement.kernels.scores import Targets, count_job

# Slots of `Counters.whole`.
FREE, SEQUENCE, HEAP, WAITING, CURSOR, EVENTS, STARTED, ENDED, LONG = range(9)
RUNNING, ARRIVED, REFUSED = 9, 10, 11
WHOLE_SIZE = 12
# Slots of `Counters.real`.
NOW, WAIT_SUM, WAIT_MAX, AREA_RUNNING, AREA_WAITING, WAIT_SQUARES, MEASURED = range(7)
REAL_SIZE = 7
# Slots of `Slots.turn`: the bucket of ends that was last taken into the heap; how many jobs end
# in later ones; the start with which the buckets' width is fitted again; the job of the bucket
# after that which is at hand next.
BUCKET, LATER, FIT_AT, AHEAD = range(4)
TURN_SIZE = 4

# What `advance` returns.
CONSUMED, MORE_SLOTS, MORE_QUEUE = 0, 1, 2

# Ends that a bucket holds on average, and what no number of a bucket exceeds.
_PER_BUCKET = 16.0
_LAST_BUCKET = 4e18


class Jobs(NamedTuple):
    """A chunk of arrivals in order of time."""

    arrival: Floats
    request: Floats  # (m, L)
    hours: Floats
    job_class: Ints
    draw: Floats  # uniform in [0, 1): the roulette's


class Counters(NamedTuple):
    """Scalars and sums of the run, as arrays so that kernels can change them."""

    whole: Longs
    real: Floats
    used: Floats  # (L,) resources in use now
    area_used: Floats  # (L,) integral over time
    class_started: Longs  # (K + 1,)
    class_wait: Floats  # (K + 1,)
    interval_started: Longs  # (I,)
    interval_wait: Floats
    interval_arrived: Longs
    interval_waiting: Longs  # longest queue seen
    histogram: Longs  # waits: zero, then by logarithm
    start: Floats  # (jobs,) recorded start of each job, or empty
    machine: Ints


# --- ends ----------------------------------------------------------------------------------------


@inner
def _earlier(slots: Slots, time: float, slot: int, at: int) -> bool:
    """Heap order against the entry `at`: time, then the order in which the jobs started."""
    if time != slots.heap_time[at]:
        return time < slots.heap_time[at]
    return slots.long[slot, NUMBER] < slots.long[slots.heap_slot[at], NUMBER]


@inner
def heap_push(slots: Slots, whole: Longs, time: float, slot: int) -> None:
    """Add the end of a job."""
    at = whole[HEAP]
    whole[HEAP] += 1
    while at > 0:
        parent = (at - 1) // 4
        if not _earlier(slots, time, slot, parent):
            break
        slots.heap_time[at], slots.heap_slot[at] = slots.heap_time[parent], slots.heap_slot[parent]
        at = parent
    slots.heap_time[at], slots.heap_slot[at] = time, slot


@inner
def heap_pop(slots: Slots, whole: Longs) -> int:
    """Remove the earliest end; returns its slot."""
    earliest = slots.heap_slot[0]
    whole[HEAP] -= 1
    size = whole[HEAP]
    time, slot = slots.heap_time[size], slots.heap_slot[size]
    at = 0
    while True:
        first = 4 * at + 1
        if first >= size:
            break
        least = first
        for child in range(first + 1, min(first + 4, size)):
            if _earlier(slots, slots.heap_time[child], slots.heap_slot[child], least):
                least = child
        if _earlier(slots, time, slot, least):
            break
        slots.heap_time[at], slots.heap_slot[at] = slots.heap_time[least], slots.heap_slot[least]
        at = least
    slots.heap_time[at], slots.heap_slot[at] = time, slot
    return earliest


@inner
def _bucket_of(slots: Slots, time: float) -> int:
    return int(min(time * slots.pace[0], _LAST_BUCKET))


@inner
def _link(slots: Slots, bucket: int, slot: int) -> None:
    """Put a job into the list of its bucket; lists are shared by buckets a whole ring apart."""
    at = bucket & (slots.later.size - 1)
    slots.whole[slot, NEXT] = slots.later[at]
    slots.later[at] = slot
    slots.turn[LATER] += 1


@inner
def _file_end(slots: Slots, whole: Longs, slot: int) -> None:
    """Into the heap if the job ends in a bucket that has been taken, else into its list."""
    time = slots.real[slot, TIME]
    bucket = _bucket_of(slots, time)
    if bucket <= slots.turn[BUCKET]:
        heap_push(slots, whole, time, slot)
    else:
        _link(slots, bucket, slot)


@inner
def push_end(slots: Slots, whole: Longs, slot: int) -> None:
    """Add the end of a job that starts now."""
    if whole[SEQUENCE] >= slots.turn[FIT_AT]:
        _fit_buckets(slots, whole)
    _file_end(slots, whole, slot)


@inner
def next_bucket(slots: Slots, whole: Longs) -> None:
    """Take the next bucket that holds jobs into the heap, which is empty; some job ends later."""
    turn, size = slots.turn, slots.later.size
    passed = 0
    while whole[HEAP] == 0:
        turn[BUCKET] += 1
        passed += 1
        if passed > size:
            turn[BUCKET] = _first_bucket(slots)
        at = turn[BUCKET] & (size - 1)
        slot = slots.later[at]
        slots.later[at] = NONE
        while slot != NONE:
            after = slots.whole[slot, NEXT]
            turn[LATER] -= 1
            _file_end(slots, whole, slot)
            slot = after
    turn[AHEAD] = slots.later[(turn[BUCKET] + 1) & (size - 1)]
    prefetch(slots.real, max(turn[AHEAD], 0))


@inline
def _look_ahead(fleet: Fleet, slots: Slots) -> None:
    """Ask for the memory of one job more of the bucket after this, and for its machine's.

    A list is a chain of reads that wait for memory one after another. One step an event has them
    done by the time that the bucket is taken. The list may change meanwhile: then some job is
    asked for in vain, or not asked for.
    """
    slot = slots.turn[AHEAD]
    if slot == NONE:
        return
    machine = slots.whole[slot, MACHINE]
    prefetch(fleet.real, machine)
    prefetch(fleet.room.leaf, machine)
    after = slots.whole[slot, NEXT]
    slots.turn[AHEAD] = after
    prefetch(slots.real, max(after, 0))


@inner
def _first_bucket(slots: Slots) -> int:
    """Lowest bucket of all jobs in the lists: after a ring without any that was due."""
    first = int(_LAST_BUCKET)
    for at in range(slots.later.size):
        slot = slots.later[at]
        while slot != NONE:
            first = min(first, _bucket_of(slots, slots.real[slot, TIME]))
            slot = slots.whole[slot, NEXT]
    return first


@inner
def _gather(slots: Slots) -> int:
    """Take all jobs out of the lists; returns the first of one long list."""
    chain = NONE
    for at in range(slots.later.size):
        slot = slots.later[at]
        slots.later[at] = NONE
        while slot != NONE:
            after = slots.whole[slot, NEXT]
            slots.whole[slot, NEXT] = chain
            chain = slot
            slot = after
    slots.turn[LATER] = 0
    return chain


@inner
def _fit_buckets(slots: Slots, whole: Longs) -> None:
    """Choose the width of buckets by the time that running jobs have left, and file them anew.

    Where times are exponential, `n` jobs with a mean of `m` left end at a rate of n / m.
    """
    chain = _gather(slots)
    near = whole[HEAP]
    now = slots.heap_time[0] if near > 0 else 0.0
    count, total, slot = near, 0.0, chain
    for at in range(near):
        now = min(now, slots.heap_time[at])
        total += slots.heap_time[at]
    while slot != NONE:
        count += 1
        total += slots.real[slot, TIME]
        slot = slots.whole[slot, NEXT]
    left = total / count - now if count > 0 else 0.0
    slots.pace[0] = count / (_PER_BUCKET * left) if left > 0.0 else 0.0
    slots.turn[BUCKET] = _bucket_of(slots, now)
    slots.turn[FIT_AT] = whole[SEQUENCE] + max(4 * count, slots.later.size)
    whole[HEAP] = 0
    for at in range(near):
        # The heap has at most `at` entries here, so that this one is still there.
        _file_end(slots, whole, slots.heap_slot[at])
    while chain != NONE:
        after = slots.whole[chain, NEXT]
        _file_end(slots, whole, chain)
        chain = after


@entry
def heap_all(slots: Slots, whole: Longs) -> None:
    """Take every end into the heap: before slots are enlarged, or looked at from outside."""
    slots.pace[0] = 0.0
    slots.turn[AHEAD] = NONE
    slots.turn[BUCKET] = 0
    slots.turn[FIT_AT] = 0
    chain = _gather(slots)
    while chain != NONE:
        after = slots.whole[chain, NEXT]
        heap_push(slots, whole, slots.real[chain, TIME], chain)
        chain = after


# --- starts and the loop -------------------------------------------------------------------------


@inline
def _measure_start(counters: Counters, rules: Rules, now: float, wait: float, k: int) -> None:
    """Count a start where it happens: the wait belongs to the interval of the start."""
    whole, real = counters.whole, counters.real
    interval = min(int(now / rules.interval), counters.interval_started.size - 1)
    counters.interval_started[interval] += 1
    counters.interval_wait[interval] += wait
    if now < rules.warm_up:
        return
    whole[STARTED] += 1
    real[WAIT_SUM] += wait
    real[WAIT_SQUARES] += wait * wait
    real[WAIT_MAX] = max(real[WAIT_MAX], wait)
    if wait > rules.long_wait:
        whole[LONG] += 1
    counters.class_started[k] += 1
    counters.class_wait[k] += wait
    bucket = 0
    if wait > 0.0:
        decades = np.log10(max(wait, rules.histogram_low) / rules.histogram_low)
        bucket = 1 + int(decades * rules.histogram_per_decade)
    counters.histogram[min(bucket, counters.histogram.size - 1)] += 1


@inline
def _start(
    fleet: Fleet,
    targets: Targets,
    slots: Slots,
    counters: Counters,
    rules: Rules,
    slot: int,
    machine: int,
) -> None:
    """A job starts on a machine now."""
    whole, now = counters.whole, counters.real[NOW]
    k, job = slots.whole[slot, CLASS], slots.long[slot, NUMBER]
    request = slots.real[slot, REQUEST : REQUEST + counters.used.size]
    occupy(fleet, machine, request)
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, k, 1)
    slots.whole[slot, MACHINE] = machine
    slots.long[slot, NUMBER] = whole[SEQUENCE]
    whole[SEQUENCE] += 1
    whole[RUNNING] += 1
    for r in range(request.size):
        counters.used[r] += request[r]
    speed = rules.speed[fleet.whole[machine, CONFIGURATION], k]
    slots.real[slot, TIME] = now + slots.real[slot, TIME] / speed
    push_end(slots, whole, slot)
    _measure_start(counters, rules, now, now - slots.real[slot, ARRIVAL], k)
    if counters.start.size > 0:
        counters.start[job] = now
        counters.machine[job] = machine


@inline
def _enqueue_at_machine(
    fleet: Fleet, waiting: MachineQueues, slots: Slots, slot: int, machine: int
) -> None:
    """Greedy: join a machine's queue; while it has one, newcomers do not pass."""
    slots.whole[slot, NEXT] = NONE
    if waiting.head[machine] == NONE:
        waiting.head[machine] = slot
        fleet.whole[machine, CLOSED] = 1
        offer(fleet, machine)
    else:
        slots.whole[waiting.tail[machine], NEXT] = slot
    waiting.tail[machine] = slot
    _lengthen(fleet, waiting, machine, 1)


@inline
def _lengthen(fleet: Fleet, waiting: MachineQueues, machine: int, change: int) -> None:
    group = fleet.whole[machine, CONFIGURATION]
    waiting.forest.values[0] = waiting.forest.leaf[machine, 0] - change
    forest_set(waiting.forest, group, machine - waiting.forest.base[group])


@inline
def _refill_greedy(
    fleet: Fleet,
    targets: Targets,
    waiting: MachineQueues,
    slots: Slots,
    counters: Counters,
    rules: Rules,
    machine: int,
) -> None:
    """Start the machine's own waiting jobs in order while the first one fits."""
    while waiting.head[machine] != NONE:
        slot = waiting.head[machine]
        for r in range(counters.used.size):
            left = fleet.real[machine, LEFT + r]
            if left + TOLERANCE < slots.real[slot, REQUEST + r]:
                return
        waiting.head[machine] = slots.whole[slot, NEXT]
        _lengthen(fleet, waiting, machine, -1)
        counters.whole[WAITING] -= 1
        if waiting.head[machine] == NONE:
            fleet.whole[machine, CLOSED] = 0
        _start(fleet, targets, slots, counters, rules, slot, machine)


@inline
def _refill(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    slots: Slots,
    counters: Counters,
    rules: Rules,
    machine: int,
) -> None:
    """Start waiting jobs on a machine that has room again, as the policy orders them."""
    while counters.whole[WAITING] > 0:
        if rules.policy == LOTES:
            queue, place = next_lotes(fleet, targets, queues, slots, rules, machine)
        elif rules.policy == TETRIS:
            queue, place = next_tetris(fleet, queues, slots, rules, machine)
        else:
            queue, place = next_fifo(fleet, queues, slots, rules, machine, 0)
        if place == NONE:
            return
        slot = queue_take(queues, queue, place)
        counters.whole[WAITING] -= 1
        _start(fleet, targets, slots, counters, rules, slot, machine)


@inline
def _advance_clock(counters: Counters, rules: Rules, time: float) -> None:
    """Add up what ran, waited and was used until `time`."""
    real = counters.real
    since = max(real[NOW], rules.warm_up)
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
def _arrive(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    waiting: MachineQueues,
    slots: Slots,
    counters: Counters,
    jobs: Jobs,
    rules: Rules,
    machine: int,
    queue: int,
) -> None:
    """The next job of the chunk arrives: it starts, waits, or is refused for ever."""
    whole, job = counters.whole, counters.whole[CURSOR]
    k, request = jobs.job_class[job], jobs.request[job]
    slot = _admit(slots, counters, jobs, job)
    interval = int(counters.real[NOW] / rules.interval)
    interval = min(interval, counters.interval_started.size - 1)
    counters.interval_arrived[interval] += 1
    if machine != NONE:
        _start(fleet, targets, slots, counters, rules, slot, machine)
        return
    if not is_holdable(fleet, rules, k, request):
        whole[REFUSED] += 1
        slots.free[whole[FREE]] = slot
        whole[FREE] += 1
        return
    whole[WAITING] += 1
    if rules.policy == GREEDY:
        machine = shortest_queue(fleet, waiting, rules, k, request)
        _enqueue_at_machine(fleet, waiting, slots, slot, machine)
    else:
        queue_push(queues, queue, slot, request)
    counters.interval_waiting[interval] = max(counters.interval_waiting[interval], whole[WAITING])


@inline
def _end(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    waiting: MachineQueues,
    slots: Slots,
    counters: Counters,
    rules: Rules,
) -> None:
    """The earliest job ends and its machine takes waiting ones."""
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
        _refill_greedy(fleet, targets, waiting, slots, counters, rules, machine)
    else:
        _refill(fleet, targets, queues, slots, counters, rules, machine)


@entry
def advance(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    waiting: MachineQueues,
    slots: Slots,
    counters: Counters,
    jobs: Jobs,
    rules: Rules,
    until: float,
) -> int:
    """Run events until the chunk of arrivals is consumed and, if finite, until a time.

    With an infinite `until` the loop stops at the last arrival, because the next chunk's first
    may come before the next end. Ends come before arrivals of the same instant.

    Returns
    -------
    int
        CONSUMED, or what the caller must enlarge before it calls again.
    """
    whole = counters.whole
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
                _advance_clock(counters, rules, until)
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
            _advance_clock(counters, rules, time)
            _arrive(fleet, targets, queues, waiting, slots, counters, jobs, rules, machine, queue)
            whole[CURSOR] += 1
        else:
            _advance_clock(counters, rules, time)
            _end(fleet, targets, queues, waiting, slots, counters, rules)
        _look_ahead(fleet, slots)
        whole[EVENTS] += 1
