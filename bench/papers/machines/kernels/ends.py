"""When running jobs end: a heap of what ends soon, buckets of what ends later."""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from bench.papers.machines.kernels.compiled import entry, inline, inner
from bench.papers.machines.kernels.queues import MACHINE, NEXT, NUMBER, TIME, Slots
from bench.papers.machines.kernels.state import (
    AHEAD,
    BUCKET,
    FIT_AT,
    HEAP,
    LATER,
    SEQUENCE,
)
from dispatch.machines.placement.kernels.arrays import NONE, Longs
from dispatch.machines.placement.kernels.compiled import prefetch
from dispatch.machines.placement.kernels.machines import Fleet

# Ends that a bucket holds on average, and what no number of a bucket exceeds.
_PER_BUCKET = 16.0
_LAST_BUCKET = 4e18


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
def look_ahead(fleet: Fleet, slots: Slots) -> None:
    """Ask for the memory of one job more of the bucket after this, and for its machine's.

    A list is a chain of reads that wait for memory one after another. One step an event has them
    done by the time that the bucket is taken. The list may change meanwhile: then some job is
    requested without success, or not asked for.
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
    """Choose the width of buckets by the time that running jobs have left, and file them again.

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
