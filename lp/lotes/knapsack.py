"""Compiled search for the most valuable bin: an integer knapsack over several resources."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_SWEEPS = 3
_CUTS = 40
_GOLDEN = 0.6180339887498949


@njit(cache=True)
def surrogate_bound(values: Floats, scaled: Floats, weights: Floats) -> float:
    """Value of a full machine whose resources are summed with `weights` (which sum to one)."""
    worst = 0.0
    for k in range(values.size):
        load = 0.0
        for res in range(weights.size):
            load += weights[res] * scaled[k, res]
        if load <= 0.0:
            return np.inf
        worst = max(worst, values[k] / load)
    return worst


@njit(cache=True)
def surrogate_weights(values: Floats, scaled: Floats) -> Floats:
    """Weights whose surrogate bound is least: golden section over every pair of resources.

    The bound is the largest of 1 / linear, so convex along any segment of the simplex.
    """
    size = scaled.shape[1]
    weights = np.full(size, 1.0 / size)
    trial = weights.copy()
    for _ in range(_SWEEPS):
        for a in range(size):
            for b in range(a + 1, size):
                total = weights[a] + weights[b]
                low, high = 0.0, total
                trial[:] = weights
                for _ in range(_CUTS):
                    left = high - _GOLDEN * (high - low)
                    right = low + _GOLDEN * (high - low)
                    trial[a], trial[b] = left, total - left
                    at_left = surrogate_bound(values, scaled, trial)
                    trial[a], trial[b] = right, total - right
                    if at_left <= surrogate_bound(values, scaled, trial):
                        high = right
                    else:
                        low = left
                middle = 0.5 * (low + high)
                trial[a], trial[b] = middle, total - middle
                if surrogate_bound(values, scaled, trial) <= surrogate_bound(
                    values, scaled, weights
                ):
                    weights[:] = trial
    return weights


@njit(cache=True)
def _count_fit(left: Floats, need: Floats, tolerance: float) -> int:
    """Number of jobs of one class that fit the free capacity."""
    count = np.inf
    for res in range(need.size):
        if need[res] > 0.0:
            count = min(count, (left[res] + tolerance) / need[res])
    return int(np.floor(count + tolerance))


@njit(cache=True)
def _by_density(
    values: Floats, scaled: Floats, weights: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Classes by value per unit of the weighted resource, best first, and these values."""
    loads = np.zeros(values.size)
    for k in range(values.size):
        for res in range(weights.size):
            loads[k] += weights[res] * scaled[k, res]
    order = np.argsort(-values / loads)
    return order, (values / loads)[order]


@njit(cache=True)
def _room(left: Floats, weights: Floats) -> float:
    """Free capacity of the weighted resource."""
    room = 0.0
    for res in range(weights.size):
        room += weights[res] * max(left[res], 0.0)
    return room


@njit(cache=True)
def best_bin(
    values: Floats, scaled: Floats, tolerance: float, work: int
) -> tuple[NDArray[np.int32], float, float]:
    """Find the most valuable bin of one machine by depth-first search with the surrogate bound.

    Parameters
    ----------
    values
        Value of one job of each class, all > 0, shape (K,).
    scaled
        Requests as fractions of the machine, shape (K, L); every class fits at least once.
    tolerance
        Excess over the capacity that still counts as fitting.
    work
        Maximum number of search steps.

    Returns
    -------
    tuple
        Counts, shape (K,); their value; a proven upper bound (the value itself if the search was
        exhaustive).
    """
    classes, size = scaled.shape
    weights = surrogate_weights(values, scaled)
    order, density = _by_density(values, scaled, weights)
    best, counts = np.zeros(classes, np.int32), np.zeros(classes, np.int32)
    left, value = np.ones((classes + 1, size)), np.zeros(classes + 1)
    best_value, depth, steps = 0.0, 0, 0
    while True:
        if depth == classes:
            if value[classes] > best_value:
                best_value = float(value[classes])
                for d in range(classes):
                    best[order[d]] = counts[d]
            depth -= 1
            # Back to the deepest class that has a job to remove.
            while depth >= 0 and counts[depth] == 0:
                depth -= 1
            if depth < 0:
                return best, best_value, best_value
            counts[depth] -= 1
            steps += depth == classes - 1  # the next leaf follows immediately
        else:
            steps += 1
            if steps > work:
                return best, best_value, max(best_value, density[0] * (1.0 + size * tolerance))
            reach = density[depth] * (_room(left[depth], weights) + size * tolerance)
            if value[depth] + reach <= best_value * (1.0 + 1e-12):
                # Nothing below improves: set the state as if this branch had been searched to its
                # end.
                for d in range(depth, classes):
                    counts[d] = 0
                value[classes] = 0.0
                depth = classes
                continue
            counts[depth] = _count_fit(left[depth], scaled[order[depth]], tolerance)
        k = order[depth]
        left[depth + 1] = left[depth] - counts[depth] * scaled[k]
        value[depth + 1] = value[depth] + counts[depth] * values[k]
        depth += 1


@njit(cache=True)
def topped_up(
    jobs: NDArray[np.int32], scaled: Floats, order: NDArray[np.int64], tolerance: float
) -> NDArray[np.int32]:
    """The bin `jobs` filled up with jobs, class by class in `order`; shape (K,)."""
    full = jobs.copy()
    left = np.ones(scaled.shape[1])
    for k in range(jobs.size):
        if jobs[k] > 0:
            left -= jobs[k] * scaled[k]
    for k in order:
        more = max(_count_fit(left, scaled[k], tolerance), 0)
        if more > 0:
            full[k] += more
            left -= more * scaled[k]
    return full
