"""Compiled loops of Lagrangian decomposition (docs/exact.md, 2).

A multiplier says what a request is charged for a step at which it runs. It is the same for all
steps of a bucket. At any multipliers >= 0

    sum over requests of max(0, worth - least charge of a placement)
    + sum over steps of the most that requests which fit together can be charged there

is at least the value of any plan: what accepted requests are charged by the first sum, the second
sum gives back, since what runs at a step fits. Prices do the same with what fits in parts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from planner.agents.exact.kernels.arrays import F64, I64, Int
from planner.agents.exact.kernels.compiled import compiled, inlined_entry
from planner.kernel_cache import borrowed

# Cells of `MultiplierDescent.state`.
BEST: Final = 0  # least bound seen
DELTA: Final = 1  # what steps hope to gain
FAILURES: Final = 2  # evaluations since the bound improved by a good part of it
STATE: Final = 3

#: Sets of one bucket that are looked at before their bound stands for the best of them.
_MOST_SETS: Final = 20_000

_PATIENCE: Final = 40  # failures before steps hope for less
_LESS: Final = 0.8
_GOOD_PART: Final = 0.02
_MEMORY: Final = 0.7  # part of the last direction in the next one

# Rows of `KnapsackSpace.item`.
_REQUEST: Final = 0
_ORDER: Final = 1
_TAKEN: Final = 2
_CURRENT: Final = 3
ITEM_ROWS: Final = 4


class BlockSet(NamedTuple):
    """Requests that are one block each.

    Attributes
    ----------
    start, end, length
        int64[request]: window and length.
    fits
        int64[request, column - start]: 1 where it may begin.
    worth
        float64[request].
    kept
        int64[request]: 1 where it may not be lost.
    need
        int64[row, request]: in units of the row.
    """

    start: I64
    end: I64
    length: I64
    fits: I64
    worth: F64
    kept: I64
    need: I64


class StepBuckets(NamedTuple):
    """Columns with equal multipliers.

    Attributes
    ----------
    marks
        int64[bucket + 1]: first column of each, and the end.
    of_column
        int64[column].
    room
        int64[row, bucket]: most that is free at a column of it, in units of the row.
    """

    marks: I64
    of_column: I64
    room: I64


class KnapsackSpace(NamedTuple):
    """Scratch of one thread.

    Attributes
    ----------
    most
        float64[row, item + 1, units + 1]: most that this and later items can be charged in room of
        one row; items for as many windows as meet a bucket.
    item, amount
        int64[ITEM_ROWS, request], int64[row, request]: the items of one bucket.
    charge, key
        float64[request].
    left
        int64[row].
    prefix
        float64[column + 1].
    """

    most: F64
    item: I64
    amount: I64
    charge: F64
    key: F64
    left: I64
    prefix: F64


class MultiplierDescent(NamedTuple):
    """One descent: float64[request, bucket] each, and float64[STATE].

    `weight`, float64[request], scales the steps of a request: about what it pays a column.
    """

    multipliers: F64
    best: F64
    slope: F64
    direction: F64
    weight: F64
    state: F64


class DescentAim(NamedTuple):
    """Value that no bound can pass, and the hope at which a descent ends."""

    target: float
    small: float


@inlined_entry
def _fill_tables(s: KnapsackSpace, b: StepBuckets, at: int, count: int) -> None:
    """Write what items from each one on can be charged at most within each row alone."""
    for row in range(b.room.shape[0]):
        units = b.room[row, at]
        s.most[row, count, : units + 1] = 0.0
        for k in range(count - 1, -1, -1):
            i = s.item[_ORDER, k]
            amount, charge = s.amount[row, i], s.charge[i]
            here, after = s.most[row, k], s.most[row, k + 1]
            for c in range(min(amount, units + 1)):
                here[c] = after[c]
            if amount <= units:
                shorter, same = after[: units + 1 - amount], after[amount : units + 1]
                out = here[amount : units + 1]
                for c in range(units + 1 - amount):
                    with_it, without = shorter[c] + charge, same[c]
                    out[c] = with_it if with_it > without else without


@inlined_entry
def _most_from(s: KnapsackSpace, k: int) -> float:
    """Return a bound on what items from `k` on can be charged in what is left of all rows."""
    most = s.most[0, k, s.left[0]]
    for row in range(1, s.left.shape[0]):
        most = min(most, s.most[row, k, s.left[row]])
    return float(most)


@inlined_entry
def _goes_in(s: KnapsackSpace, k: int) -> bool:
    """Return whether item `k` fits, and is of a best set where there is one row alone."""
    i, rows = s.item[_ORDER, k], s.left.shape[0]
    for row in range(rows):
        if s.amount[row, i] > s.left[row]:
            return False
    if rows > 1:
        return True
    with_it = s.charge[i] + s.most[0, k + 1, s.left[0] - s.amount[0, i]]
    return bool(with_it >= s.most[0, k + 1, s.left[0]])


@compiled
def _best_set(s: KnapsackSpace, b: StepBuckets, at: int, count: int) -> float:
    """Return the most that items which fit together can be charged, by depth-first search.

    Row `_TAKEN` says which they are. The bound of all sets where there are too many to look at.
    """
    _fill_tables(s, b, at, count)
    for row in range(b.room.shape[0]):
        s.left[row] = b.room[row, at]
    for k in range(count):
        s.item[_TAKEN, k] = s.item[_CURRENT, k] = 0
    root = _most_from(s, 0)
    rounding = 1e-9 * root
    best, value, k = -1.0, 0.0, 0
    for _ in range(_MOST_SETS):
        if k < count and value + _most_from(s, k) > best + rounding:
            s.item[_CURRENT, k] = 0
            if _goes_in(s, k):
                i = s.item[_ORDER, k]
                s.item[_CURRENT, k] = 1
                value += s.charge[i]
                for row in range(s.left.shape[0]):
                    s.left[row] -= s.amount[row, i]
            k += 1
            continue
        if k == count and value > best:
            best = value
            for j in range(count):
                s.item[_TAKEN, s.item[_ORDER, j]] = s.item[_CURRENT, j]
            if best >= root - rounding:
                return root
        k -= 1
        while k >= 0 and s.item[_CURRENT, k] == 0:
            k -= 1
        if k < 0:
            return min(root, best + rounding)
        i = s.item[_ORDER, k]
        s.item[_CURRENT, k] = 0
        value -= s.charge[i]
        for row in range(s.left.shape[0]):
            s.left[row] += s.amount[row, i]
        k += 1
    return root


@inlined_entry
def _list_items(
    f: BlockSet, s: KnapsackSpace, b: StepBuckets, d: MultiplierDescent, at: int
) -> Int:
    """List the requests that are charged in a bucket, those that pay most for room first."""
    count = 0
    for r in range(f.start.shape[0]):
        charge = d.multipliers[r, at]
        if charge <= 0.0 or f.start[r] >= b.marks[at + 1] or f.end[r] <= b.marks[at]:
            continue  # nothing to gain, or its window does not meet the bucket
        share = 1e-9
        for row in range(b.room.shape[0]):
            s.amount[row, count] = f.need[row, r]
            share += f.need[row, r] / max(1, b.room[row, at])
        s.item[_REQUEST, count] = r
        s.charge[count], s.key[count] = charge, -charge / share
        count += 1
    order = np.argsort(s.key[:count])
    for k in range(count):
        s.item[_ORDER, k] = order[k]
    return count


@compiled
def _fill_buckets(f: BlockSet, s: KnapsackSpace, b: StepBuckets, d: MultiplierDescent) -> float:
    """Return what requests that fit together are charged at most in all columns; add to slopes."""
    total = 0.0
    for at in range(b.room.shape[1]):
        count = _list_items(f, s, b, d, at)
        if count == 0:
            continue
        size = b.marks[at + 1] - b.marks[at]
        total += size * _best_set(s, b, at, count)
        for k in range(count):
            if s.item[_TAKEN, k] == 1:
                d.slope[s.item[_REQUEST, k], at] += size
    return total


@inlined_entry
def _best_start(f: BlockSet, s: KnapsackSpace, b: StepBuckets, d: MultiplierDescent, r: int) -> Int:
    """Return the start of least charge, or -1; prefix sums of its charges stay in `s.prefix`."""
    first, length = f.start[r], f.length[r]
    s.prefix[0] = 0.0
    for t in range(first, f.end[r]):
        charge = d.multipliers[r, b.of_column[t]]
        s.prefix[t - first + 1] = s.prefix[t - first] + charge
    best, least = -1, np.inf
    for t in range(f.end[r] - first - length + 1):
        cost = s.prefix[t + length] - s.prefix[t]
        if f.fits[r, t] == 1 and cost < least:
            best, least = t, cost
    return best


@compiled
def _place_blocks(f: BlockSet, s: KnapsackSpace, b: StepBuckets, d: MultiplierDescent) -> float:
    """Return what all requests are worth more than they are charged; begin the slopes."""
    total = 0.0
    d.slope[:, :] = 0.0
    for r in range(f.start.shape[0]):
        at = _best_start(f, s, b, d, r)
        if at < 0:
            continue
        gain = f.worth[r] - (s.prefix[at + f.length[r]] - s.prefix[at])
        if gain <= 0.0 and f.kept[r] == 0:
            continue
        total += gain
        begin = f.start[r] + at
        end = begin + f.length[r]
        for bucket in range(b.of_column[begin], b.of_column[end - 1] + 1):
            held = min(b.marks[bucket + 1], end) - max(b.marks[bucket], begin)
            d.slope[r, bucket] -= held
    return total


@compiled
def evaluate(f: BlockSet, s: KnapsackSpace, b: StepBuckets, d: MultiplierDescent) -> float:
    """Return the bound at the present multipliers, and write its slope."""
    placed = _place_blocks(f, s, b, d)
    return placed + _fill_buckets(f, s, b, d)


@inlined_entry
def _step(b: StepBuckets, d: MultiplierDescent, missing: float) -> None:
    """Change the multipliers along the smoothed slope (Polyak), each request by its weight."""
    square = 1e-12
    requests, buckets = d.slope.shape
    for r in range(requests):
        for at in range(buckets):
            size = b.marks[at + 1] - b.marks[at]
            way = d.slope[r, at] / size * d.weight[r] + _MEMORY * d.direction[r, at]
            if way > 0.0 and d.multipliers[r, at] <= 0.0:
                way = 0.0
            d.direction[r, at] = way
            square += way * way * size / d.weight[r]
    for r in range(requests):
        for at in range(buckets):
            moved = d.multipliers[r, at] - missing / square * d.direction[r, at]
            d.multipliers[r, at] = max(0.0, moved)


@compiled
def descend(
    f: BlockSet,
    s: KnapsackSpace,
    b: StepBuckets,
    d: MultiplierDescent,
    rounds: int,
    aim: DescentAim,
) -> bool:
    """Evaluate `rounds` times, with a step after each; return whether steps hope for no more.

    Steps aim at a bound that is lower by what they hope for. After some failures they hope for
    less, from the best multipliers.
    """
    f, s, b, d = borrowed(f), borrowed(s), borrowed(b), borrowed(d)
    state = d.state
    for _ in range(rounds):
        bound = evaluate(f, s, b, d)
        state[FAILURES] += 1.0
        if bound < state[BEST]:
            if bound < state[BEST] - _GOOD_PART * state[DELTA]:
                state[FAILURES] = 0.0
            state[BEST] = bound
            d.best[:, :] = d.multipliers
        if state[FAILURES] >= _PATIENCE:
            state[DELTA] *= _LESS
            state[FAILURES] = 0.0
            d.multipliers[:, :] = d.best
            d.direction[:, :] = 0.0
            if state[DELTA] < aim.small:
                return True
            continue
        _step(b, d, bound - max(aim.target, state[BEST] - state[DELTA]))
    return False
