"""Job classes: clusters that are there are found, weights count, windows slide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lp.lotes.instance import JobClasses
from lp.lotes.job_classes import (
    ArrivalSample,
    ClassOptions,
    fifo_leases,
    fit_job_classes,
    with_mix,
)


def blobs(rng: np.random.Generator) -> ArrivalSample:
    """Three well separated kinds of jobs with shares 0.6, 0.3, 0.1."""
    centres = np.array([[0.05, 0.05], [0.4, 0.1], [0.1, 0.5]])
    kind = rng.choice(3, size=6000, p=[0.6, 0.3, 0.1])
    request = np.abs(centres[kind] + rng.normal(0, 0.003, (6000, 2)))
    return ArrivalSample.of(rng.uniform(0, 24, 6000), request, np.array([0.1, 0.2, 0.4])[kind])


def test_separated_kinds_are_found() -> None:
    """With at most three classes the fit returns shares, requests and times of the three kinds."""
    sample = blobs(np.random.default_rng(1))
    classes = fit_job_classes(sample, np.random.default_rng(2), ClassOptions(most_classes=3))
    assert classes.share == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    assert classes.request[1] == pytest.approx([0.4, 0.1], abs=0.005)
    assert classes.time_h == pytest.approx([0.1, 0.2, 0.4])


def test_stops_before_a_class_below_one_percent() -> None:
    """Every class of a fit holds at least the least share of jobs."""
    classes = fit_job_classes(blobs(np.random.default_rng(3)), np.random.default_rng(4))
    assert classes.share.min() >= 0.01
    assert len(classes.names) >= 3


def test_one_kind_is_one_class() -> None:
    """Equal requests make one class, whatever their number; its rate is their mean."""
    sample = ArrivalSample.of([0, 1, 2], [[1.0, 2.0]] * 3, [1.0, 2.0, 3.0])
    classes = fit_job_classes(sample, np.random.default_rng(0))
    assert classes.share.tolist() == [1.0]
    assert classes.time_h.tolist() == [2.0]


@given(st.integers(0, 10**6))
def test_weights_count_as_repeated_rows(seed: int) -> None:
    """A row of weight w is w equal rows: same classes, same shares, same times."""
    rng = np.random.default_rng(seed)
    request = rng.integers(1, 5, (12, 2)).astype(float)
    weight, time = rng.integers(1, 4, 12), rng.uniform(0.1, 1, 12)
    arrival = np.zeros(12)
    folded = ArrivalSample.of(arrival, request, time, weight)
    repeated = ArrivalSample.of(
        np.repeat(arrival, weight), np.repeat(request, weight, axis=0), np.repeat(time, weight)
    )
    one, two = (fit_job_classes(s, np.random.default_rng(9)) for s in (folded, repeated))
    assert one.share == pytest.approx(two.share)
    assert one.request == pytest.approx(two.request)
    assert one.time_h == pytest.approx(two.time_h)


def test_nearest_class_of_a_new_component() -> None:
    """A request goes to the class nearest in units of the scale, not of the raw numbers."""
    classes = JobClasses.of([0.5, 0.5], [[1.0, 1000.0], [2.0, 1000.0]], [1, 1], scale=[1.0, 1000.0])
    assert classes.nearest([[1.9, 1500.0], [1.1, 100.0]]).tolist() == [1, 0]


def test_a_mix_of_known_classes_by_hand() -> None:
    """Shares and times are the sample's, requests stay; a class without jobs keeps its time."""
    classes = JobClasses.of([0.5, 0.3, 0.2], [[1.0], [5.0], [9.0]], [1.0, 2.0, 3.0])
    sample = ArrivalSample.of([0, 0, 0], [[1.2], [4.0], [0.8]], [2.0, 7.0, 6.0], [3, 6, 1])
    mixed = with_mix(classes, sample)
    assert mixed.share == pytest.approx([0.4, 0.6, 0.0], abs=1e-5)
    assert mixed.time_h == pytest.approx([3.0, 7.0, 3.0])
    assert mixed.request.tolist() == classes.request.tolist()
    with pytest.raises(ValueError, match="no jobs"):
        with_mix(classes, sample.window(1.0, 2.0))


def test_window_and_join() -> None:
    """A window keeps its left end and drops its right; joining adds jobs."""
    sample = ArrivalSample.of([0.0, 1.0, 2.0], [[1.0]] * 3, [1.0] * 3, [1, 2, 4])
    assert sample.window(1.0, 2.0).jobs == 2
    assert sample.join(sample.window(0.0, 1.0)).jobs == 8


def test_fifo_leases_by_hand() -> None:
    """2 2 3 1 0 1: leases 0-3 (two), 2-4, 5-6; the oldest start ends first."""
    leases = fifo_leases([2, 2, 3, 1, 0, 1], step_h=0.5)
    rows = list(zip(leases.arrival_h, leases.time_h, leases.weight, strict=True))
    assert rows == [(0.0, 1.5, 2.0), (1.0, 1.0, 1.0), (2.5, 0.5, 1.0)]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_fifo_leases_hold_the_allocation(allocation: list[int]) -> None:
    """Adding the leases up again gives the allocation at every step."""
    leases = fifo_leases(allocation, step_h=1.0)
    held = np.zeros(len(allocation))
    for start, time, weight in zip(leases.arrival_h, leases.time_h, leases.weight, strict=True):
        held[int(start) : int(start + time)] += weight
    assert held.tolist() == allocation


def test_bad_samples_say_where() -> None:
    """Negative requests, wrong shapes and empty samples are refused in words."""
    with pytest.raises(ValueError, match=r"request\[1\]"):
        ArrivalSample.of([0, 0], [[1.0], [-1.0]], [1, 1])
    with pytest.raises(ValueError, match="expected"):
        ArrivalSample.of([0], [[1.0], [1.0]], [1])
    with pytest.raises(ValueError, match="nothing to classify"):
        fit_job_classes(ArrivalSample.of([0], [[1.0]], [0.0]), np.random.default_rng(0))
