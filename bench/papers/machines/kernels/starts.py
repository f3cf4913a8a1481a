"""Jobs start: at once, or from a queue when a machine has capacity again."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from bench.papers.machines.kernels.compiled import inline
from bench.papers.machines.kernels.ends import push_end
from bench.papers.machines.kernels.queues import (
    ARRIVAL,
    CLASS,
    MACHINE,
    NEXT,
    NUMBER,
    REQUEST,
    TIME,
    MachineQueues,
    Slots,
    next_fifo,
    next_lotes,
    next_tetris,
    queue_take,
)
from bench.papers.machines.kernels.state import (
    LONG,
    NOW,
    RUNNING,
    SEQUENCE,
    STARTED,
    WAIT_MAX,
    WAIT_SQUARES,
    WAIT_SUM,
    WAITING,
    Counters,
    Measuring,
    World,
)
from dispatch.machines.placement.kernels.arrays import LOTES, NONE, TETRIS, TOLERANCE
from dispatch.machines.placement.kernels.forest import forest_set
from dispatch.machines.placement.kernels.machines import (
    CLOSED,
    CONFIGURATION,
    LEFT,
    Fleet,
    occupy,
    offer,
)
from dispatch.machines.placement.kernels.scores import count_job


@inline
def _measure_start(
    counters: Counters, measuring: Measuring, now: float, wait: float, k: int
) -> None:
    """Count a start where it happens: the wait belongs to the interval of the start."""
    whole, real = counters.whole, counters.real
    interval = min(int(now / measuring.interval), counters.interval_started.size - 1)
    counters.interval_started[interval] += 1
    counters.interval_wait[interval] += wait
    if now < measuring.warm_up:
        return
    whole[STARTED] += 1
    real[WAIT_SUM] += wait
    real[WAIT_SQUARES] += wait * wait
    real[WAIT_MAX] = max(real[WAIT_MAX], wait)
    if wait > measuring.long_wait:
        whole[LONG] += 1
    counters.class_started[k] += 1
    counters.class_wait[k] += wait
    bucket = 0
    if wait > 0.0:
        decades = np.log10(max(wait, measuring.histogram_low) / measuring.histogram_low)
        bucket = 1 + int(decades * measuring.histogram_per_decade)
    counters.histogram[min(bucket, counters.histogram.size - 1)] += 1


@inline
def start(world: World, slot: int, machine: int) -> None:
    """A job starts on a machine now."""
    fleet, targets, slots = world.fleet, world.targets, world.slots
    counters, rules = world.counters, world.rules
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
    _measure_start(counters, world.measuring, now, now - slots.real[slot, ARRIVAL], k)
    if counters.start.size > 0:
        counters.start[job] = now
        counters.machine[job] = machine


@inline
def enqueue_at_machine(
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
def refill_greedy(world: World, machine: int) -> None:
    """Start the machine's own waiting jobs in order while the first one fits."""
    fleet, waiting, slots = world.fleet, world.waiting, world.slots
    counters = world.counters
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
        start(world, slot, machine)


@inline
def refill(world: World, machine: int) -> None:
    """Start waiting jobs on a machine that has capacity again, as the policy orders them."""
    fleet, targets, queues = world.fleet, world.targets, world.queues
    slots, counters, rules = world.slots, world.counters, world.rules
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
        start(world, slot, machine)
