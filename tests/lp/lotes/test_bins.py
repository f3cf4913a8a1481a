"""Bins: each maximal multiset once, and the most valuable one of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lp.lotes.instance import FIT_TOLERANCE
from lp.lotes.knapsack import best_bin, surrogate_bound, surrogate_weights
from lp.lotes.pricing import TooManyBinsError, enumerate_bins, how_many, scaled_requests


def test_figure_five() -> None:
    """A machine of 7 with classes of 2 and 3 holds (3,0), (2,1) or (0,2)."""
    bins = enumerate_bins(np.array([7.0]), np.array([[2.0], [3.0]]))
    assert bins.tolist() == [[3, 0], [2, 1], [0, 2]]


def test_a_full_machine_in_floating_point() -> None:
    """Twelve jobs of 0.01 fill 0.12 although 12 * 0.01 > 0.12 in binary arithmetic."""
    assert enumerate_bins(np.array([0.12]), np.array([[0.01]])).tolist() == [[12]]


def test_classes_that_do_not_fit_count_zero() -> None:
    """A class larger than the machine, or asking for what it lacks, never enters a bin."""
    bins = enumerate_bins(np.array([2.0, 0.0]), np.array([[1.0, 0.0], [3.0, 0.0], [1.0, 1.0]]))
    assert bins.tolist() == [[2, 0, 0]]


def test_refusals() -> None:
    """Classes that ask for nothing, and enumerations beyond the limit, are refused in words."""
    with pytest.raises(ValueError, match="asks for nothing"):
        enumerate_bins(np.array([1.0]), np.array([[0.0]]))
    with pytest.raises(TooManyBinsError, match="use the priced mode"):
        enumerate_bins(np.ones(2), np.full((9, 2), 0.02), limit=100_000)


def machine(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random machine and classes of which at most a dozen jobs fit."""
    rng = np.random.default_rng(seed)
    classes, size = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    request = rng.integers(0, 8, (classes, size)) / 10
    request[(request == 0).all(axis=1), 0] = 0.2
    return rng.integers(2, 12, size) / 10, request


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6))
def test_enumeration_against_brute_force(seed: int) -> None:
    """All multisets within the box of single-class limits: the maximal ones, each once."""
    capacity, request = machine(seed)
    scaled = scaled_requests(capacity, request)
    most = np.maximum(how_many(np.ones(capacity.size), scaled), 0)

    def fits(counts: np.ndarray) -> bool:
        return bool((counts @ np.where(np.isfinite(request), request, 0) <= capacity + 1e-9).all())

    box = [np.array(point) for point in itertools.product(*(range(m + 1) for m in most))]
    feasible = {tuple(point) for point in box if fits(point)}
    units = np.eye(len(request), dtype=int)
    maximal = {
        point for point in feasible if not any(fits(np.array(point) + unit) for unit in units)
    }
    found = [tuple(row) for row in enumerate_bins(capacity, request).tolist()]
    assert len(found) == len(set(found))
    assert set(found) == maximal


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_best_bin_against_enumeration(seed: int) -> None:
    """The priced bin is the most valuable of all bins, and its bound is its value."""
    capacity, request = machine(seed)
    scaled = scaled_requests(capacity, request)
    fitting = how_many(np.ones(capacity.size), scaled) > 0
    if not fitting.any():
        return
    values = np.random.default_rng(seed + 1).uniform(0.1, 1.0, int(fitting.sum()))
    counts, value, bound = best_bin(values, scaled[fitting], FIT_TOLERANCE, 10**6)
    every = enumerate_bins(capacity, request[fitting])
    assert value == pytest.approx((every @ values).max())
    assert value == pytest.approx(counts @ values)
    assert bound == pytest.approx(value)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 50))
def test_a_short_search_still_bounds(seed: int, work: int) -> None:
    """Cut after a few steps, the bound stays above the best bin and the bin stays feasible."""
    rng = np.random.default_rng(seed)
    scaled = rng.uniform(0.05, 0.4, (4, 2))
    values = rng.uniform(0.1, 1.0, 4)
    counts, value, bound = best_bin(values, scaled, FIT_TOLERANCE, work)
    best = (enumerate_bins(np.ones(2), scaled) @ values).max()
    assert value <= best + 1e-9 <= bound + 2e-9
    assert (counts @ scaled <= 1 + 1e-6).all()
    assert surrogate_bound(values, scaled, surrogate_weights(values, scaled)) >= best - 1e-9
