"""LoTES: machines indexed by score, and the choice that approaches a dispatch table's bins.

`Targets` keeps, for each configuration and class, one bit set of machines per score (target minus
running), so that machines are visited in order of score, then index.
"""

# Mypy does not know the types of array elements.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.kernels.arrays import NONE, Floats, Ints, Longs, Words
from dispatch.machines.placement.kernels.compiled import entry, inline, inner, trailing_zeros
from dispatch.machines.placement.kernels.forest import forest_next
from dispatch.machines.placement.kernels.machines import (
    BIN,
    CONFIGURATION,
    Fleet,
    PlacementRules,
    first_fit_in,
    fits,
    want_room,
)

SCORES = 64
_LOOKS = 8


class Targets(NamedTuple):
    """LoTES: target and current jobs of each machine, and machines by score."""

    bins: Ints  # (B, K)
    wheel: Floats  # (J, K)
    eligible: NDArray[np.bool_]  # (J, K) may be taken from the queue there
    best: Ints  # (J, K) highest possible score
    bits: Words  # by configuration, class, score: a bit per non-empty word, then a bit per machine
    base: Longs  # (J, K) first word
    over: Longs  # (J,) words of a score that say which words are not empty
    words: Longs  # (J,) words of a score, of both kinds
    scores: Words  # (J, K) a bit per score that some machine has
    sample: Longs  # (1,) machines examined in a configuration; 0 for all
    tried: NDArray[np.bool_]  # (J,) configurations that the wheel has tried for this job
    done: NDArray[np.bool_]  # (K,) classes of which nothing fits the machine being filled


@inline
def score(fleet: Fleet, targets: Targets, machine: int, k: int) -> int:
    """N_ijk - kappa_jk."""
    row = fleet.whole[machine]
    return targets.bins[row[BIN], k] - row[fleet.by_class + k]


@inline
def _bit(place: int) -> np.uint64:
    return np.uint64(1) << np.uint64(place)


@inline
def _bucket(targets: Targets, group: int, k: int, value: int) -> int:
    """Return the bucket of a score, from the best downwards; the last has all lower scores."""
    return min(targets.best[group, k] - value, SCORES - 1)


@inline
def _enter(targets: Targets, group: int, k: int, bucket: int, place: int) -> None:
    """Add a machine to the bit set of a score."""
    bits, over = targets.bits, targets.over[group]
    row = targets.base[group, k] + bucket * targets.words[group]
    word = place // 64
    held = bits[row + over + word]
    bits[row + over + word] = held | _bit(place % 64)
    if held == np.uint64(0):
        bits[row + word // 64] |= _bit(word % 64)
        targets.scores[group, k] |= _bit(bucket)


@inline
def _leave(targets: Targets, group: int, k: int, bucket: int, place: int) -> None:
    """Remove a machine from the bit set of a score."""
    bits, over = targets.bits, targets.over[group]
    row = targets.base[group, k] + bucket * targets.words[group]
    word = place // 64
    held = bits[row + over + word] & ~_bit(place % 64)
    bits[row + over + word] = held
    if held != np.uint64(0):
        return
    bits[row + word // 64] &= ~_bit(word % 64)
    for above in range(over):
        if bits[row + above] != np.uint64(0):
            return
    targets.scores[group, k] &= ~_bit(bucket)


@inline
def count_job(fleet: Fleet, targets: Targets, machine: int, k: int, change: int) -> None:
    """Account for a job of class k that started (+1) or ended (-1) on a machine."""
    group = fleet.whole[machine, CONFIGURATION]
    place = machine - fleet.room.base[group]
    value = score(fleet, targets, machine, k)
    fleet.whole[machine, fleet.by_class + k] += change
    before = _bucket(targets, group, k, value)
    after = _bucket(targets, group, k, value - change)
    if before != after:
        _leave(targets, group, k, before, place)
        _enter(targets, group, k, after, place)


@entry
def index_scores(fleet: Fleet, targets: Targets) -> None:
    """Fill the bit sets from scratch."""
    targets.bits[:] = 0
    targets.scores[:] = 0
    for machine in range(fleet.whole.shape[0]):
        group = fleet.whole[machine, CONFIGURATION]
        for k in range(targets.bins.shape[1]):
            bucket = _bucket(targets, group, k, score(fleet, targets, machine, k))
            _enter(targets, group, k, bucket, machine - fleet.room.base[group])


@inner
def _best_by_score_order(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, most: int
) -> tuple[int, bool]:
    """Visit machines by score and index until one fits; False after `most` visits."""
    looks = 0
    base, over = fleet.room.base[group], targets.over[group]
    scores = targets.scores[group, k]
    while scores != np.uint64(0):
        bucket = np.int64(trailing_zeros(scores))
        if bucket == SCORES - 1:
            return NONE, False
        row = targets.base[group, k] + bucket * targets.words[group]
        for above in range(over):
            words = targets.bits[row + above]
            while words != np.uint64(0):
                word = above * 64 + np.int64(trailing_zeros(words))
                bits = targets.bits[row + over + word]
                while bits != np.uint64(0):
                    machine = base + word * 64 + np.int64(trailing_zeros(bits))
                    if fits(fleet, machine, request):
                        return machine, True
                    looks += 1
                    if looks >= most:
                        return NONE, False
                    bits &= bits - np.uint64(1)
                words &= words - np.uint64(1)
        scores &= scores - np.uint64(1)
    return NONE, True


@inline
def _best_by_both(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, first: int
) -> int:
    """Alternate between machines by score and fitting machines by index until one decides.

    When the search by free capacity reaches a machine with the score that the search by score has
    come down to, no fitting machine has a higher score, and none with that score has a lower index.
    """
    want_room(fleet, group, request)
    base, over = fleet.room.base[group], targets.over[group]
    best, highest, place = first, score(fleet, targets, first, k), first - base
    scores = targets.scores[group, k] & ~_bit(SCORES - 1)
    while scores != np.uint64(0):
        bucket = np.int64(trailing_zeros(scores))
        if highest == targets.best[group, k] - bucket:
            return best
        row = targets.base[group, k] + bucket * targets.words[group]
        for above in range(over):
            words = targets.bits[row + above]
            while words != np.uint64(0):
                word = above * 64 + np.int64(trailing_zeros(words))
                bits = targets.bits[row + over + word]
                while bits != np.uint64(0):
                    if highest == targets.best[group, k] - bucket:
                        return best
                    machine = base + word * 64 + np.int64(trailing_zeros(bits))
                    if fits(fleet, machine, request):
                        return machine
                    place = forest_next(fleet.room, group, place + 1)
                    if place == NONE:
                        return best
                    value = score(fleet, targets, base + place, k)
                    if value > highest:
                        best, highest = base + place, value
                    bits &= bits - np.uint64(1)
                words &= words - np.uint64(1)
        scores &= scores - np.uint64(1)
    while place != NONE:
        value = score(fleet, targets, base + place, k)
        if value > highest:
            best, highest = base + place, value
        place = forest_next(fleet.room, group, place + 1)
    return best


@inner
def _next_random(state: np.uint64) -> np.uint64:
    """Return the next state of splitmix64."""
    z = state + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def _best_of_sample(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, draw: float
) -> int:
    """Return the best machine of a random sample of the configuration (section 5.2)."""
    size = fleet.room.level_size[group, 0]
    state = np.uint64(draw * 4503599627370496.0) + np.uint64(group)
    best, highest = NONE, 0
    for _ in range(targets.sample[0]):
        state = _next_random(state)
        machine = fleet.room.base[group] + np.int64(state % np.uint64(size))
        if fits(fleet, machine, request):
            value = score(fleet, targets, machine, k)
            if best == NONE or value > highest or (value == highest and machine < best):
                best, highest = machine, value
    return best


@inline
def best_by_score(
    fleet: Fleet, targets: Targets, group: int, k: int, request: Floats, draw: float
) -> int:
    """Return the fitting machine of a configuration with the highest score; ties to the lowest."""
    if fleet.room.level_size[group, 0] == 0:
        return NONE
    if 0 < targets.sample[0] < fleet.room.level_size[group, 0]:
        return _best_of_sample(fleet, targets, group, k, request, draw)
    # One of the first usually fits; otherwise the forest says whether any machine does.
    machine, known = _best_by_score_order(fleet, targets, group, k, request, _LOOKS)
    if known:
        return machine
    first = first_fit_in(fleet, group, request)
    if first == NONE:
        return NONE
    return _best_by_both(fleet, targets, group, k, request, first)


@inline
def choose_lotes(
    fleet: Fleet, targets: Targets, rules: PlacementRules, k: int, request: Floats, draw: float
) -> int:
    """Choose by the wheel, then among its other configurations, then any that fits (4.3.1).

    One uniform draw turns the wheel as often as needed: within the segment it fell into, its
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
