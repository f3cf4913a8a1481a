"""Compiled placement: indexes over machines and queues, the policies, and the event loop.

Kernels are compiled without numba's reference counting (`_nrt=False`): with some sixty arrays in a
call it took three quarters of the time. They therefore allocate nothing; scratch arrays live in
the tuples. `no_cpython_wrapper` spares compiling a Python entry where none is used. What the event
loop calls with whole tuples is compiled into it (`_inline`): a call copies every array's
description, which took three quarters of what was left.

The machine-level event loop lives in this file with the placement kernels it drives, because
numba's cache does not notice changes of functions that are compiled into another file's.

Two indexes keep a dispatch from looking at every machine:

- A `Forest` holds the componentwise largest room of blocks of 8 machines, of 64, and so on, one
  tree a configuration. The first machine that fits is found by descending where the block's room
  admits the request; a block whose components come from different machines costs a look inside.
- `Targets` keeps, for each configuration and class, one bit set of machines per score
  (target minus running), so that machines are met in order of score, then index.
"""

# Elements of arrays have no type of their own for mypy.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

FAN = 8
LEVELS = 10
SCORES = 64
TOLERANCE = 1e-9
NONE = -1

LOTES, GREEDY, TETRIS, BEST_FIT, SPREAD = 0, 1, 2, 3, 4

# Slots of `Counters.whole`.
FREE, SEQUENCE, HEAP, RUNNING, WAITING, CURSOR, EVENTS, STARTED, ENDED, LONG = range(10)
ARRIVED, REFUSED = 10, 11
WHOLE_SIZE = 12
# Slots of `Counters.real`.
NOW, WAIT_SUM, WAIT_MAX, AREA_RUNNING, AREA_WAITING, WAIT_SQUARES, MEASURED = range(7)
REAL_SIZE = 7

# What `advance` returns.
CONSUMED, MORE_SLOTS, MORE_QUEUE = 0, 1, 2

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])
_LOOKS = 8


class Forest(NamedTuple):
    """Componentwise maxima over blocks of leaves, one tree a group (see the module)."""

    leaf: Floats  # (leaves, C)
    node: Floats  # (nodes, C)
    base: Longs  # first leaf of each group
    level_base: Longs  # (groups, LEVELS) first node of each level; level 0 are the leaves
    level_size: Longs  # (groups, LEVELS)
    top: Longs  # highest level of each group
    values: Floats  # (C,) what `forest_set` writes
    wanted: Floats  # (C,) what `forest_next` looks for


class Fleet(NamedTuple):
    """Machines and what is left of them."""

    capacity: Floats  # (n, L)
    left: Floats  # (n, L)
    running: Ints  # (n,) jobs
    configuration: Ints  # (n,)
    closed: NDArray[np.bool_]  # (n,) takes no new jobs: drained, or with jobs waiting for it
    room: Forest  # C = L + 1: what is left, and its smallest part of the capacity


class Targets(NamedTuple):
    """LoTES: what each machine should run, what it runs, and machines by score."""

    bin_of: Ints  # (n,)
    bins: Ints  # (B, K)
    wheel: Floats  # (J, K)
    eligible: NDArray[np.bool_]  # (J, K) may be taken from the queue there
    running: Ints  # (n, K)
    best: Ints  # (J, K) highest possible score
    bits: Words  # one bit a machine, by configuration, class, score
    base: Longs  # (J, K) first word
    words: Longs  # (J,) words of one score
    holders: Ints  # (J, K, SCORES) machines of each score
    sample: Longs  # (1,) machines looked at in a configuration; 0 is all
    tried: NDArray[np.bool_]  # (J,) configurations that the wheel has met for this job
    done: NDArray[np.bool_]  # (K,) classes of which nothing fits the machine being filled


class Queues(NamedTuple):
    """First-in-first-out queues in which the first job that fits is found by a forest."""

    forest: Forest  # C = L: requests, negated
    slot: Ints  # (leaves,)
    tail: Longs  # (Q,) next position
    length: Longs  # (Q,)


class MachineQueues(NamedTuple):
    """Greedy: a queue of jobs at each machine, linked through the slots."""

    head: Ints
    tail: Ints
    forest: Forest  # C = 1: length, negated


class Slots(NamedTuple):
    """Jobs in the system, waiting or running; memory is reused when they end."""

    request: Floats  # (cap, L)
    hours: Floats  # processing time at speed one
    arrival: Floats
    job_class: Ints
    machine: Ints
    next: Ints
    sequence: Longs
    job: Longs
    free: Ints  # stack of free slots
    heap_time: Floats
    heap_slot: Ints


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


class Rules(NamedTuple):
    """What stays fixed in a run."""

    policy: int
    speed: Floats  # (J, K)
    time_weight: float  # Tetris: weight of the hours
    memory: int  # resource that `spread` compares
    warm_up: float
    interval: float
    long_wait: float
    histogram_low: float
    histogram_per_decade: float


def _inner(kernel: _Kernel) -> _Kernel:
    """Compile a kernel that only kernels call."""
    compiled: _Kernel = njit(cache=True, _nrt=False, no_cpython_wrapper=True)(kernel)  # type: ignore[call-overload]
    return compiled


def _inline(kernel: _Kernel) -> _Kernel:
    """Compile a kernel into each of its callers."""
    compiled: _Kernel = njit(  # type: ignore[call-overload]
        cache=True, _nrt=False, no_cpython_wrapper=True, forceinline=True
    )(kernel)
    return compiled


def _entry(kernel: _Kernel) -> _Kernel:
    """Compile a kernel that Python calls."""
    compiled: _Kernel = njit(cache=True, _nrt=False)(kernel)  # type: ignore[call-overload]
    return compiled


def _lowest_bit(context, word):  # type: ignore[no-untyped-def]
    """Typing and code of `_trailing_zeros`, as numba's intrinsics are given."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), build


# Index of the lowest set bit of a word that is not zero.
_trailing_zeros: Callable[[np.uint64], np.uint64] = intrinsic(_lowest_bit)  # type: ignore[assignment]


# --- forests -------------------------------------------------------------------------------------


@_inner
def forest_set(forest: Forest, group: int, place: int) -> None:
    """Set one leaf to `forest.values` and repair the blocks above it."""
    values = forest.values
    columns = values.size
    leaf = forest.base[group] + place
    lowered = False
    for c in range(columns):
        if values[c] < forest.leaf[leaf, c]:
            lowered = True
        forest.leaf[leaf, c] = values[c]
    child = place
    for level in range(1, forest.top[group] + 1):
        parent = child // FAN
        row = forest.level_base[group, level] + parent
        changed = False
        lowering = False
        first = parent * FAN
        last = min(first + FAN, forest.level_size[group, level - 1])
        below = forest.level_base[group, level - 1]
        for c in range(columns):
            old = forest.node[row, c]
            if level == 1:
                new = forest.leaf[leaf, c]
            else:
                new = forest.node[below + child, c]
            if new < old and lowered:
                # The old maximum may have been this child's.
                for sibling in range(first, last):
                    if level == 1:
                        value = forest.leaf[forest.base[group] + sibling, c]
                    else:
                        value = forest.node[below + sibling, c]
                    if value > new:
                        new = value
                        if new == old:
                            break
            elif new < old:
                new = old
            if new != old:
                changed = True
                if new < old:
                    lowering = True
                forest.node[row, c] = new
        if not changed:
            return
        lowered = lowering
        child = parent


@_inner
def forest_next(forest: Forest, group: int, place: int) -> int:
    """First leaf at or after `place` that has `forest.wanted` within the tolerance, or NONE."""
    wanted = forest.wanted
    columns = wanted.size
    level = 0
    if place == 0:
        level = forest.top[group]
    while True:
        if place >= forest.level_size[group, level]:
            return NONE
        passes = True
        if level == 0:
            row = forest.base[group] + place
            for c in range(columns):
                if forest.leaf[row, c] + TOLERANCE < wanted[c]:
                    passes = False
                    break
            if passes:
                return place
        else:
            row = forest.level_base[group, level] + place
            for c in range(columns):
                if forest.node[row, c] + TOLERANCE < wanted[c]:
                    passes = False
                    break
            if passes:
                level -= 1
                place *= FAN
                continue
        place += 1
        while place % FAN == 0 and level < forest.top[group]:
            level += 1
            place //= FAN


@_entry
def forest_rebuild(forest: Forest) -> None:
    """Compute every block from the leaves."""
    columns = forest.leaf.shape[1]
    for group in range(forest.base.size):
        for level in range(1, forest.top[group] + 1):
            size = forest.level_size[group, level - 1]
            for parent in range(forest.level_size[group, level]):
                row = forest.level_base[group, level] + parent
                for c in range(columns):
                    largest = -np.inf
                    for child in range(parent * FAN, min(parent * FAN + FAN, size)):
                        if level == 1:
                            value = forest.leaf[forest.base[group] + child, c]
                        else:
                            value = forest.node[forest.level_base[group, level - 1] + child, c]
                        largest = max(largest, value)
                    forest.node[row, c] = largest


# --- machines ------------------------------------------------------------------------------------


@_inline
def fits(fleet: Fleet, machine: int, request: Floats) -> bool:
    """Whether a machine is open and has room for a request."""
    if fleet.closed[machine]:
        return False
    for r in range(request.size):
        if fleet.left[machine, r] + TOLERANCE < request[r]:
            return False
    return True


@_inline
def holds_empty(fleet: Fleet, group: int, request: Floats) -> bool:
    """Whether an empty machine of the configuration has room for a request."""
    if fleet.room.level_size[group, 0] == 0:
        return False
    machine = fleet.room.base[group]
    for r in range(request.size):
        if fleet.capacity[machine, r] + TOLERANCE < request[r]:
            return False
    return True


@_inline
def offer(fleet: Fleet, machine: int) -> None:
    """Tell the forest what is left of a machine; a closed one offers nothing."""
    size = fleet.left.shape[1]
    values = fleet.room.values
    smallest = np.inf
    for r in range(size):
        values[r] = fleet.left[machine, r]
        if fleet.capacity[machine, r] > 0.0:
            smallest = min(smallest, fleet.left[machine, r] / fleet.capacity[machine, r])
    values[size] = smallest
    if fleet.closed[machine]:
        for c in range(size + 1):
            values[c] = -np.inf
    group = fleet.configuration[machine]
    forest_set(fleet.room, group, machine - fleet.room.base[group])


@_inline
def want_room(fleet: Fleet, group: int, request: Floats) -> None:
    """Look for a request: its smallest part of a machine comes last."""
    size = request.size
    wanted = fleet.room.wanted
    smallest = np.inf
    machine = fleet.room.base[group]
    for r in range(size):
        wanted[r] = request[r]
        if fleet.capacity[machine, r] > 0.0:
            smallest = min(smallest, request[r] / fleet.capacity[machine, r])
    wanted[size] = min(smallest, 1.0)


@_inline
def first_fit_in(fleet: Fleet, group: int, request: Floats) -> int:
    """Lowest machine of a configuration that fits, or NONE."""
    if fleet.room.level_size[group, 0] == 0:
        return NONE
    want_room(fleet, group, request)
    place = forest_next(fleet.room, group, 0)
    return NONE if place == NONE else fleet.room.base[group] + place


@_inline
def occupy(fleet: Fleet, machine: int, request: Floats) -> None:
    """Take a request from a machine."""
    for r in range(request.size):
        fleet.left[machine, r] -= request[r]
    fleet.running[machine] += 1
    offer(fleet, machine)


@_inline
def release(fleet: Fleet, machine: int, request: Floats) -> None:
    """Give a request back; an empty machine is whole again, so that rounding does not add up."""
    fleet.running[machine] -= 1
    for r in range(request.size):
        if fleet.running[machine] == 0:
            fleet.left[machine, r] = fleet.capacity[machine, r]
        else:
            fleet.left[machine, r] += request[r]
    offer(fleet, machine)


# --- LoTES ---------------------------------------------------------------------------------------


@_inline
def score(targets: Targets, machine: int, k: int) -> int:
    """N_ijk - kappa_jk."""
    return targets.bins[targets.bin_of[machine], k] - targets.running[machine, k]


@_inline
def _bucket(targets: Targets, group: int, k: int, value: int) -> int:
    """Scores from the best possible downwards; the last bucket holds all that are lower."""
    return min(targets.best[group, k] - value, SCORES - 1)


@_inline
def _mark(targets: Targets, group: int, k: int, bucket: int, place: int, held: bool) -> None:
    word = targets.base[group, k] + bucket * targets.words[group] + place // 64
    bit = np.uint64(1) << np.uint64(place % 64)
    if held:
        targets.bits[word] |= bit
        targets.holders[group, k, bucket] += 1
    else:
        targets.bits[word] &= ~bit
        targets.holders[group, k, bucket] -= 1


@_inline
def count_job(fleet: Fleet, targets: Targets, machine: int, k: int, change: int) -> None:
    """A job of class k started (+1) or ended (-1) on a machine."""
    group = fleet.configuration[machine]
    place = machine - fleet.room.base[group]
    before = _bucket(targets, group, k, score(targets, machine, k))
    targets.running[machine, k] += change
    after = _bucket(targets, group, k, score(targets, machine, k))
    if before != after:
        _mark(targets, group, k, before, place, False)
        _mark(targets, group, k, after, place, True)


@_entry
def index_scores(fleet: Fleet, targets: Targets) -> None:
    """Fill the bit sets from scratch."""
    targets.bits[:] = 0
    targets.holders[:] = 0
    for machine in range(fleet.configuration.size):
        group = fleet.configuration[machine]
        for k in range(targets.running.shape[1]):
            bucket = _bucket(targets, group, k, score(targets, machine, k))
            _mark(targets, group, k, bucket, machine - fleet.room.base[group], True)


@_inner
def _best_by_score_order(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, most: int
) -> tuple[int, bool]:
    """Meet machines by score and index until one fits; False when `most` looks ran out."""
    looks = 0
    base, words = fleet.room.base[group], targets.words[group]
    for bucket in range(SCORES - 1):
        seen, total = 0, targets.holders[group, k, bucket]
        if total == 0:
            continue
        first = targets.base[group, k] + bucket * words
        for word in range(words):
            bits = targets.bits[first + word]
            while bits != np.uint64(0):
                machine = base + word * 64 + np.int64(_trailing_zeros(bits))
                if fits(fleet, machine, request):
                    return machine, True
                seen += 1
                looks += 1
                if looks >= most:
                    return NONE, False
                bits &= bits - np.uint64(1)
            if seen == total:
                break
    return NONE, targets.holders[group, k, SCORES - 1] == 0


@_inline
def _best_by_both(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, first: int
) -> int:
    """Meet machines by score and, in turns, those with room by index, until one way is decisive.

    Where the index of rooms meets a machine of the score that the other way has come down to, no
    machine that fits has a higher score, and none of that score a lower index.
    """
    want_room(fleet, group, request)
    base, words = fleet.room.base[group], targets.words[group]
    best, highest, place = first, score(targets, first, k), first - fleet.room.base[group]
    for bucket in range(SCORES - 1):
        seen, total = 0, targets.holders[group, k, bucket]
        if total == 0:
            continue
        ceiling = targets.best[group, k] - bucket
        row = targets.base[group, k] + bucket * words
        for word in range(words):
            bits = targets.bits[row + word]
            while bits != np.uint64(0):
                if highest == ceiling:
                    return best
                machine = base + word * 64 + np.int64(_trailing_zeros(bits))
                if fits(fleet, machine, request):
                    return machine
                place = forest_next(fleet.room, group, place + 1)
                if place == NONE:
                    return best
                value = score(targets, base + place, k)
                if value > highest:
                    best, highest = base + place, value
                seen += 1
                bits &= bits - np.uint64(1)
            if seen == total:
                break
    while place != NONE:
        value = score(targets, base + place, k)
        if value > highest:
            best, highest = base + place, value
        place = forest_next(fleet.room, group, place + 1)
    return best


@_inner
def _next_random(state: np.uint64) -> np.uint64:
    """One step of splitmix64."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_inner
def _best_of_sample(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, draw: float
) -> int:
    """Section 5.2: only some machines of the configuration are looked at."""
    size = fleet.room.level_size[group, 0]
    state = np.uint64(draw * 4503599627370496.0) + np.uint64(group)
    best, highest = NONE, 0
    for _ in range(targets.sample[0]):
        state = _next_random(state)
        machine = fleet.room.base[group] + np.int64(state % np.uint64(size))
        if fits(fleet, machine, request):
            value = score(targets, machine, k)
            if best == NONE or value > highest or (value == highest and machine < best):
                best, highest = machine, value
    return best


@_inline
def best_by_score(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, draw: float
) -> int:
    """Machine of one configuration with the highest score that fits; ties to the lowest."""
    if fleet.room.level_size[group, 0] == 0:
        return NONE
    if 0 < targets.sample[0] < fleet.room.level_size[group, 0]:
        return _best_of_sample(fleet, targets, group, k, request, draw)
    # Mostly one of the first fits; where none does, the forest knows whether any machine would.
    machine, known = _best_by_score_order(fleet, targets, group, k, request, _LOOKS)
    if known:
        return machine
    first = first_fit_in(fleet, group, request)
    if first == NONE:
        return NONE
    return _best_by_both(fleet, targets, group, k, request, first)


@_inline
def choose_lotes(
    fleet: Fleet, targets: Targets, rules: Rules, k: int, request: Floats, draw: float
) -> int:
    """Section 4.3.1: the wheel, its other configurations, then any machine that fits.

    One uniform draw turns the wheel as often as needed: inside the part it fell into, its
    position is uniform again.
    """
    groups = targets.wheel.shape[0]
    tried = targets.tried
    left = 0.0
    for j in range(groups):
        tried[j] = False
        left += targets.wheel[j, k]
    position = draw
    while left > 1e-12:
        reached, chosen = 0.0, NONE
        aim = position * left
        for j in range(groups):
            share = targets.wheel[j, k]
            if tried[j] or share <= 0.0:
                continue
            chosen = j
            if aim < reached + share:
                break
            reached += share
        if chosen == NONE:
            break
        machine = best_by_score(fleet, targets, chosen, k, request, draw)
        if machine != NONE:
            return machine
        tried[chosen] = True
        share = targets.wheel[chosen, k]
        position = min(max((aim - reached) / share, 0.0), 1.0)
        left -= share
    for j in range(groups):
        if targets.wheel[j, k] <= 0.0 and rules.speed[j, k] > 0.0:
            if targets.sample[0] > 0:
                machine = best_by_score(fleet, targets, j, k, request, draw)
            else:
                machine = first_fit_in(fleet, j, request)
            if machine != NONE:
                return machine
    return NONE


# --- the rivals ----------------------------------------------------------------------------------


@_inline
def choose_first_fit(fleet: Fleet, rules: Rules, k: int, request: Floats) -> int:
    """Lowest machine that fits."""
    for group in range(fleet.room.base.size):
        if rules.speed[group, k] <= 0.0:
            continue
        machine = first_fit_in(fleet, group, request)
        if machine != NONE:
            return machine
    return NONE


@_inner
def choose_tetris(fleet: Fleet, rules: Rules, k: int, request: Floats, hours: float) -> int:
    """Highest r . left - p (r . 1) of the machines that fit; blocks that cannot win are skipped."""
    best, highest = NONE, -np.inf
    work = 0.0
    for r in range(request.size):
        work += request[r]
    work *= rules.time_weight * hours
    forest = fleet.room
    for group in range(forest.base.size):
        if forest.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        cost = work / rules.speed[group, k]
        level, place = forest.top[group], 0
        while place < forest.level_size[group, level]:
            passes, reach = True, 0.0
            if level == 0:
                row = forest.base[group] + place
            else:
                row = forest.level_base[group, level] + place
            for r in range(request.size):
                value = forest.leaf[row, r] if level == 0 else forest.node[row, r]
                if value + TOLERANCE < request[r]:
                    passes = False
                    break
                reach += request[r] * value
            reach -= cost
            if passes and reach > highest:
                if level > 0:
                    level -= 1
                    place *= FAN
                    continue
                best, highest = row, reach
            place += 1
            while place % FAN == 0 and level < forest.top[group]:
                level += 1
                place //= FAN
    return best


@_inner
def choose_best_fit(fleet: Fleet, rules: Rules, k: int, request: Floats) -> int:
    """Least room left over, summed as parts of the machine; ties to the lowest."""
    best, least = NONE, np.inf
    for group in range(fleet.room.base.size):
        if fleet.room.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        want_room(fleet, group, request)
        place = forest_next(fleet.room, group, 0)
        while place != NONE:
            machine = fleet.room.base[group] + place
            over = 0.0
            for r in range(request.size):
                if fleet.capacity[machine, r] > 0.0:
                    over += (fleet.left[machine, r] - request[r]) / fleet.capacity[machine, r]
            if over < least:
                best, least = machine, over
            place = forest_next(fleet.room, group, place + 1)
    return best


@_inner
def choose_spread(fleet: Fleet, rules: Rules, k: int, request: Floats) -> int:
    """Fewest jobs, then most memory left; ties to the lowest."""
    best = NONE
    for group in range(fleet.room.base.size):
        if fleet.room.level_size[group, 0] == 0 or rules.speed[group, k] <= 0.0:
            continue
        want_room(fleet, group, request)
        place = forest_next(fleet.room, group, 0)
        while place != NONE:
            machine = fleet.room.base[group] + place
            if best == NONE or fleet.running[machine] < fleet.running[best]:
                best = machine
            elif (
                fleet.running[machine] == fleet.running[best]
                and fleet.left[machine, rules.memory] > fleet.left[best, rules.memory]
            ):
                best = machine
            place = forest_next(fleet.room, group, place + 1)
    return best


@_inline
def choose(
    fleet: Fleet, targets: Targets, rules: Rules, k: int, request: Floats, hours: float, draw: float
) -> int:
    """The machine that the policy gives an arriving job, or NONE."""
    if rules.policy == LOTES:
        return choose_lotes(fleet, targets, rules, k, request, draw)
    if rules.policy == GREEDY:
        return choose_first_fit(fleet, rules, k, request)
    if rules.policy == TETRIS:
        return choose_tetris(fleet, rules, k, request, hours)
    if rules.policy == BEST_FIT:
        return choose_best_fit(fleet, rules, k, request)
    return choose_spread(fleet, rules, k, request)


@_entry
def place_job(
    fleet: Fleet, targets: Targets, rules: Rules, k: int, request: Floats, hours: float, draw: float
) -> int:
    """`choose`, for callers outside the event loop."""
    return choose(fleet, targets, rules, k, request, hours, draw)


@_entry
def place_job_among(
    fleet: Fleet,
    targets: Targets,
    rules: Rules,
    k: int,
    request: Floats,
    hours: float,
    draw: float,
    allowed: NDArray[np.bool_],
    shut: NDArray[np.bool_],
) -> int:
    """`choose` among the allowed machines; the others are closed for the moment."""
    for machine in range(allowed.size):
        shut[machine] = not allowed[machine] and not fleet.closed[machine]
        if shut[machine]:
            fleet.closed[machine] = True
            offer(fleet, machine)
    found = choose(fleet, targets, rules, k, request, hours, draw)
    for machine in range(allowed.size):
        if shut[machine]:
            fleet.closed[machine] = False
            offer(fleet, machine)
    return found


@_entry
def change_machine(
    fleet: Fleet, targets: Targets, rules: Rules, machine: int, k: int, request: Floats, change: int
) -> None:
    """A job of class k started (+1) or ended (-1) on a machine."""
    if change > 0:
        occupy(fleet, machine, request)
    else:
        release(fleet, machine, request)
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, k, change)


@_entry
def open_machine(fleet: Fleet, machine: int, is_open: bool) -> None:
    """Offer a machine to new jobs, or not."""
    fleet.closed[machine] = not is_open
    offer(fleet, machine)


# --- queues --------------------------------------------------------------------------------------


@_inner
def queue_push(queues: Queues, queue: int, slot: int, request: Floats) -> None:
    """Append a job; the caller has seen to it that there is a position."""
    place = queues.tail[queue]
    queues.slot[queues.forest.base[queue] + place] = slot
    for r in range(request.size):
        queues.forest.values[r] = -request[r]
    forest_set(queues.forest, queue, place)
    queues.tail[queue] += 1
    queues.length[queue] += 1


@_inner
def queue_take(queues: Queues, queue: int, place: int) -> int:
    """Remove the job at a position; returns its slot."""
    for r in range(queues.forest.values.size):
        queues.forest.values[r] = -np.inf
    forest_set(queues.forest, queue, place)
    queues.length[queue] -= 1
    if queues.length[queue] == 0:
        queues.tail[queue] = 0
    return queues.slot[queues.forest.base[queue] + place]


@_inner
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


@_inner
def queue_has_room(queues: Queues, queue: int) -> bool:
    """Whether a job can be appended, after closing gaps if at least half are gaps."""
    size = queues.forest.level_size[queue, 0]
    if queues.tail[queue] == size and queues.length[queue] <= size // 2:
        queue_compact(queues, queue)
    return queues.tail[queue] < size


@_inner
def want_jobs(fleet: Fleet, queues: Queues, machine: int) -> None:
    """Look for jobs that fit what is left of a machine."""
    for r in range(queues.forest.wanted.size):
        queues.forest.wanted[r] = -fleet.left[machine, r]


@_inline
def next_lotes(
    fleet: Fleet, targets: Targets, queues: Queues, slots: Slots, rules: Rules, machine: int
) -> tuple[int, int]:
    """Section 4.3.2: queue and position of the job that the machine takes next, or NONE.

    Classes in order of score (ties to the lowest class), first in first out inside one, skipping
    what does not fit; a class without a target on the configuration is not served there. The last
    queue holds strays, jobs too large for every machine that their class may use; it comes last.
    """
    group = fleet.configuration[machine]
    classes = targets.running.shape[1]
    want_jobs(fleet, queues, machine)
    done = targets.done
    for k in range(classes):
        done[k] = False
    while True:
        best, highest = NONE, 0
        for k in range(classes):
            if done[k] or queues.length[k] == 0 or not targets.eligible[group, k]:
                continue
            value = score(targets, machine, k)
            if best == NONE or value > highest:
                best, highest = k, value
        if best == NONE:
            break
        place = forest_next(queues.forest, best, 0)
        if place != NONE:
            return best, place
        done[best] = True
    return next_fifo(fleet, queues, slots, rules, machine, classes)


@_inner
def next_fifo(
    fleet: Fleet, queues: Queues, slots: Slots, rules: Rules, machine: int, queue: int
) -> tuple[int, int]:
    """Oldest waiting job of one queue that fits the machine and may run there, or NONE."""
    group = fleet.configuration[machine]
    want_jobs(fleet, queues, machine)
    place = forest_next(queues.forest, queue, 0)
    while place != NONE:
        slot = queues.slot[queues.forest.base[queue] + place]
        if rules.speed[group, slots.job_class[slot]] > 0.0:
            return queue, place
        place = forest_next(queues.forest, queue, place + 1)
    return NONE, NONE


@_inner
def next_tetris(
    fleet: Fleet, queues: Queues, slots: Slots, rules: Rules, machine: int
) -> tuple[int, int]:
    """Of the waiting jobs that fit, the one with the highest Tetris score; ties to the oldest."""
    want_jobs(fleet, queues, machine)
    group = fleet.configuration[machine]
    best, highest = NONE, -np.inf
    place = forest_next(queues.forest, 0, 0)
    while place != NONE:
        slot = queues.slot[queues.forest.base[0] + place]
        speed = rules.speed[group, slots.job_class[slot]]
        if speed > 0.0:
            value, total = 0.0, 0.0
            for r in range(fleet.left.shape[1]):
                value += slots.request[slot, r] * fleet.left[machine, r]
                total += slots.request[slot, r]
            value -= total * rules.time_weight * slots.hours[slot] / speed
            if value > highest:
                best, highest = place, value
        place = forest_next(queues.forest, 0, place + 1)
    return (NONE, NONE) if best == NONE else (0, best)


@_inner
def shortest_queue(
    fleet: Fleet, waiting: MachineQueues, rules: Rules, k: int, request: Floats
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


@_inner
def forest_next_best(forest: Forest, group: int) -> int:
    """First leaf that holds the largest first component."""
    level = forest.top[group]
    if level == 0:
        forest.wanted[0] = forest.leaf[forest.base[group], 0]
    else:
        forest.wanted[0] = forest.node[forest.level_base[group, level], 0]
    return forest_next(forest, group, 0)


# --- the event loop ------------------------------------------------------------------------------


@_inner
def _earlier(slots: Slots, time: float, slot: int, at: int) -> bool:
    """Heap order against the entry `at`: time, then the order in which the jobs started."""
    if time != slots.heap_time[at]:
        return time < slots.heap_time[at]
    return slots.sequence[slot] < slots.sequence[slots.heap_slot[at]]


@_inner
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


@_inner
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


@_inline
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


@_inline
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
    k = slots.job_class[slot]
    request = slots.request[slot]
    occupy(fleet, machine, request)
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, k, 1)
    slots.machine[slot] = machine
    slots.sequence[slot] = whole[SEQUENCE]
    whole[SEQUENCE] += 1
    whole[RUNNING] += 1
    for r in range(request.size):
        counters.used[r] += request[r]
    hours = slots.hours[slot] / rules.speed[fleet.configuration[machine], k]
    heap_push(slots, whole, now + hours, slot)
    _measure_start(counters, rules, now, now - slots.arrival[slot], k)
    if counters.start.size > 0:
        counters.start[slots.job[slot]] = now
        counters.machine[slots.job[slot]] = machine


@_inline
def _enqueue_at_machine(
    fleet: Fleet, waiting: MachineQueues, slots: Slots, slot: int, machine: int
) -> None:
    """Greedy: join a machine's queue; while it has one, newcomers do not pass."""
    slots.next[slot] = NONE
    if waiting.head[machine] == NONE:
        waiting.head[machine] = slot
        fleet.closed[machine] = True
        offer(fleet, machine)
    else:
        slots.next[waiting.tail[machine]] = slot
    waiting.tail[machine] = slot
    _lengthen(fleet, waiting, machine, 1)


@_inline
def _lengthen(fleet: Fleet, waiting: MachineQueues, machine: int, change: int) -> None:
    group = fleet.configuration[machine]
    waiting.forest.values[0] = waiting.forest.leaf[machine, 0] - change
    forest_set(waiting.forest, group, machine - waiting.forest.base[group])


@_inline
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
        for r in range(fleet.left.shape[1]):
            if fleet.left[machine, r] + TOLERANCE < slots.request[slot, r]:
                return
        waiting.head[machine] = slots.next[slot]
        _lengthen(fleet, waiting, machine, -1)
        counters.whole[WAITING] -= 1
        if waiting.head[machine] == NONE:
            fleet.closed[machine] = False
        _start(fleet, targets, slots, counters, rules, slot, machine)


@_inline
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


@_inline
def is_stray(fleet: Fleet, targets: Targets, k: int, request: Floats) -> bool:
    """Whether no configuration that takes the class from its queue could ever hold the job."""
    for group in range(fleet.room.base.size):
        if targets.eligible[group, k] and holds_empty(fleet, group, request):
            return False
    return True


@_inner
def is_holdable(fleet: Fleet, rules: Rules, k: int, request: Floats) -> bool:
    """Whether any machine could ever run the job."""
    for group in range(fleet.room.base.size):
        if rules.speed[group, k] > 0.0 and holds_empty(fleet, group, request):
            return True
    return False


@_inline
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


@_inline
def _queue_of(fleet: Fleet, targets: Targets, rules: Rules, k: int, request: Floats) -> int:
    if rules.policy != LOTES:
        return 0
    if is_stray(fleet, targets, k, request):
        return targets.running.shape[1]
    return k


@_entry
def queue_of(fleet: Fleet, targets: Targets, rules: Rules, k: int, request: Floats) -> int:
    """Queue in which a job of class k waits."""
    return _queue_of(fleet, targets, rules, k, request)


@_entry
def append_job(queues: Queues, queue: int, slot: int, request: Floats) -> None:
    """`queue_push`, for callers outside the event loop."""
    queue_push(queues, queue, slot, request)


@_inline
def _admit(slots: Slots, counters: Counters, jobs: Jobs, job: int) -> int:
    """Give an arriving job a slot."""
    whole = counters.whole
    whole[FREE] -= 1
    slot = slots.free[whole[FREE]]
    for r in range(jobs.request.shape[1]):
        slots.request[slot, r] = jobs.request[job, r]
    slots.hours[slot] = jobs.hours[job]
    slots.arrival[slot] = jobs.arrival[job]
    slots.job_class[slot] = jobs.job_class[job]
    slots.job[slot] = whole[ARRIVED]
    whole[ARRIVED] += 1
    return slot


@_inline
def _arrive(
    fleet: Fleet,
    targets: Targets,
    queues: Queues,
    waiting: MachineQueues,
    slots: Slots,
    counters: Counters,
    jobs: Jobs,
    rules: Rules,
    queue: int,
) -> None:
    """The next job of the chunk arrives: it starts, waits, or is refused for ever."""
    whole, job = counters.whole, counters.whole[CURSOR]
    k, request = jobs.job_class[job], jobs.request[job]
    slot = _admit(slots, counters, jobs, job)
    machine = choose(fleet, targets, rules, k, request, jobs.hours[job], jobs.draw[job])
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


@_inline
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
    machine = slots.machine[slot]
    release(fleet, machine, slots.request[slot])
    if rules.policy == LOTES:
        count_job(fleet, targets, machine, slots.job_class[slot], -1)
    for r in range(counters.used.size):
        counters.used[r] -= slots.request[slot, r]
    whole[RUNNING] -= 1
    whole[ENDED] += 1
    slots.free[whole[FREE]] = slot
    whole[FREE] += 1
    if rules.policy == GREEDY:
        _refill_greedy(fleet, targets, waiting, slots, counters, rules, machine)
    else:
        _refill(fleet, targets, queues, slots, counters, rules, machine)


@_entry
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
            queue = _queue_of(fleet, targets, rules, k, request)
            if rules.policy != GREEDY and not queue_has_room(queues, queue):
                return MORE_QUEUE
            _advance_clock(counters, rules, time)
            _arrive(fleet, targets, queues, waiting, slots, counters, jobs, rules, queue)
            whole[CURSOR] += 1
        else:
            _advance_clock(counters, rules, time)
            _end(fleet, targets, queues, waiting, slots, counters, rules)
        whole[EVENTS] += 1
