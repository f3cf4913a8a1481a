"""Jobs in the system, and the queues in which they wait for a machine."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.papers.machines.kernels.compiled import entry, inline, inner
from dispatch.machines.placement.kernels.arrays import LOTES, NONE, Floats, Ints, Longs
from dispatch.machines.placement.kernels.forest import (
    MaximaForest,
    forest_next,
    forest_next_best,
    forest_rebuild,
    forest_set,
)
from dispatch.machines.placement.kernels.machines import (
    CONFIGURATION,
    LEFT,
    Fleet,
    PlacementRules,
    holds_empty,
)
from dispatch.machines.placement.kernels.scores import Targets, score


class Queues(NamedTuple):
    """First-in-first-out queues in which the first job that fits is found by a forest."""

    forest: MaximaForest  # C = L: requests, negated
    slot: Ints  # (leaves,)
    tail: Longs  # (Q,) next position
    length: Longs  # (Q,)


class MachineQueues(NamedTuple):
    """Greedy: a queue of jobs at each machine, linked through the slots."""

    head: Ints
    tail: Ints
    forest: MaximaForest  # C = 1: length, negated


# Columns of `Slots.long`: place in the order of arrivals, and once running in that of starts.
NUMBER = 0
# Columns of `Slots.real`: processing time at speed one, and once running the end; arrival; request.
TIME, ARRIVAL, REQUEST = 1, 2, 5
# Columns of `Slots.whole`.
CLASS, MACHINE, NEXT = 6, 7, 8


class Slots(NamedTuple):
    """Jobs in the system, waiting or running; memory is reused when they end.

    A job is one row, which lies in one line of the cache where resources are up to three, seen as
    three kinds of number: the columns named above, then its request.
    """

    long: Longs  # (cap, W)
    real: Floats  # (cap, W), the same memory
    whole: Ints  # (cap, 2 W), the same memory
    free: Ints  # stack of free slots
    heap_time: Floats  # ends that are near
    heap_slot: Ints
    later: Ints  # first of the running jobs that end in each bucket of time to come
    pace: Floats  # (1,) buckets an hour
    turn: Longs  # (3,) see the event loop


@inner
def queue_push(queues: Queues, queue: int, slot: int, request: Floats) -> None:
    """Append a job; the caller has seen to it that there is a position."""
    place = queues.tail[queue]
    queues.slot[queues.forest.base[queue] + place] = slot
    for r in range(request.size):
        queues.forest.values[r] = -request[r]
    forest_set(queues.forest, queue, place)
    queues.tail[queue] += 1
    queues.length[queue] += 1


@inner
def queue_take(queues: Queues, queue: int, place: int) -> int:
    """Remove the job at a position; returns its slot."""
    for r in range(queues.forest.values.size):
        queues.forest.values[r] = -np.inf
    forest_set(queues.forest, queue, place)
    queues.length[queue] -= 1
    if queues.length[queue] == 0:
        queues.tail[queue] = 0
    return queues.slot[queues.forest.base[queue] + place]


@inner
def queue_compact(queues: Queues, queue: int) -> None:
    """Close the gaps that taken jobs left."""
    base = queues.forest.base[queue]
    kept = 0
    for place in range(queues.tail[queue]):
        if queues.forest.leaf[base + place, 0] > -np.inf:
            if kept < place:
                for r in range(queues.forest.values.size):
                    queues.forest.leaf[base + kept, r] = queues.forest.leaf[base + place, r]
                queues.slot[base + kept] = queues.slot[base + place]
            kept += 1
    for place in range(kept, queues.tail[queue]):
        for r in range(queues.forest.values.size):
            queues.forest.leaf[base + place, r] = -np.inf
    queues.tail[queue] = kept
    forest_rebuild(queues.forest)


@inner
def queue_has_room(queues: Queues, queue: int) -> bool:
    """Whether a job can be appended, after closing gaps if at least half are gaps."""
    size = queues.forest.level_size[queue, 0]
    if queues.tail[queue] == size and queues.length[queue] <= size // 2:
        queue_compact(queues, queue)
    return queues.tail[queue] < size


@inner
def want_jobs(fleet: Fleet, queues: Queues, machine: int) -> None:
    """Look for jobs that fit what is left of a machine."""
    for r in range(queues.forest.wanted.size):
        queues.forest.wanted[r] = -fleet.real[machine, LEFT + r]


@inline
def next_lotes(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    slots: Slots,
    rules: PlacementRules,
    machine: int,
) -> tuple[int, int]:
    """Section 4.3.2: queue and position of the job that the machine takes next, or NONE.

    Classes in order of score (ties to the lowest class), first in first out inside one, skipping
    what does not fit; a class without a target on the configuration is not served there. The last
    queue holds strays, jobs too large for every machine that their class may use; it comes last.
    """
    group = fleet.whole[machine, CONFIGURATION]
    classes = targets.bins.shape[1]
    want_jobs(fleet, queues, machine)
    done = targets.done
    for k in range(classes):
        done[k] = False
    while True:
        best, highest = NONE, 0
        for k in range(classes):
            if done[k] or queues.length[k] == 0 or not targets.eligible[group, k]:
                continue
            value = score(fleet, targets, machine, k)
            if best == NONE or value > highest:
                best, highest = k, value
        if best == NONE:
            break
        place = forest_next(queues.forest, best, 0)
        if place != NONE:
            return best, place
        done[best] = True
    return next_fifo(fleet, queues, slots, rules, machine, classes)


@inner
def next_fifo(
    fleet: Fleet, queues: Queues, slots: Slots, rules: PlacementRules, machine: int, queue: int
) -> tuple[int, int]:
    """Oldest waiting job of one queue that fits the machine and may run there, or NONE."""
    group = fleet.whole[machine, CONFIGURATION]
    want_jobs(fleet, queues, machine)
    place = forest_next(queues.forest, queue, 0)
    while place != NONE:
        slot = queues.slot[queues.forest.base[queue] + place]
        if rules.speed[group, slots.whole[slot, CLASS]] > 0.0:
            return queue, place
        place = forest_next(queues.forest, queue, place + 1)
    return NONE, NONE


@inner
def next_tetris(
    fleet: Fleet, queues: Queues, slots: Slots, rules: PlacementRules, machine: int
) -> tuple[int, int]:
    """Of the waiting jobs that fit, the one with the highest Tetris score; ties to the oldest."""
    want_jobs(fleet, queues, machine)
    group = fleet.whole[machine, CONFIGURATION]
    best, highest = NONE, -np.inf
    place = forest_next(queues.forest, 0, 0)
    while place != NONE:
        slot = queues.slot[queues.forest.base[0] + place]
        speed = rules.speed[group, slots.whole[slot, CLASS]]
        if speed > 0.0:
            value, total = 0.0, 0.0
            for r in range(fleet.capacity.shape[1]):
                value += slots.real[slot, REQUEST + r] * fleet.real[machine, LEFT + r]
                total += slots.real[slot, REQUEST + r]
            value -= total * rules.time_weight * slots.real[slot, TIME] / speed
            if value > highest:
                best, highest = place, value
        place = forest_next(queues.forest, 0, place + 1)
    return (NONE, NONE) if best == NONE else (0, best)


@inner
def shortest_queue(
    fleet: Fleet, waiting: MachineQueues, rules: PlacementRules, k: int, request: Floats
) -> int:
    """Machine with the fewest waiting jobs of those that could hold the request empty."""
    best, fewest = NONE, -np.inf
    for group in range(fleet.room.base.size):
        if rules.speed[group, k] <= 0.0 or not holds_empty(fleet, group, request):
            continue
        machine = waiting.forest.base[group] + forest_next_best(waiting.forest, group)
        value = waiting.forest.leaf[machine, 0]
        if value > fewest:
            best, fewest = machine, value
    return best


@inline
def is_stray(fleet: Fleet, targets: Targets, k: int, request: Floats) -> bool:
    """Whether no configuration that takes the class from its queue could ever hold the job."""
    for group in range(fleet.room.base.size):
        if targets.eligible[group, k] and holds_empty(fleet, group, request):
            return False
    return True


@inner
def is_holdable(fleet: Fleet, rules: PlacementRules, k: int, request: Floats) -> bool:
    """Whether any machine could ever run the job."""
    for group in range(fleet.room.base.size):
        if rules.speed[group, k] > 0.0 and holds_empty(fleet, group, request):
            return True
    return False


@inline
def queue_for(
    fleet: Fleet, targets: Targets, rules: PlacementRules, k: int, request: Floats
) -> int:
    """Queue in which a job of class k waits: its own with LoTES (strays share one), else one."""
    if rules.policy != LOTES:
        return 0
    if is_stray(fleet, targets, k, request):
        return targets.bins.shape[1]
    return k


@entry
def queue_of(fleet: Fleet, targets: Targets, rules: PlacementRules, k: int, request: Floats) -> int:
    """`queue_for`, for callers outside the event loop."""
    return queue_for(fleet, targets, rules, k, request)


@entry
def append_job(queues: Queues, queue: int, slot: int, request: Floats) -> None:
    """`queue_push`, for callers outside the event loop."""
    queue_push(queues, queue, slot, request)
