"""Job classes from a sample of arrivals: k-means on requests, with as many classes as matter.

LoTES section 5.3.2: the number of classes grows until a new class has less than 1 % of the jobs.
Lloyd's algorithm is our own because samples carry weights: a plan's bundle represents one job per
start, and equal requests of a trace are one weighted point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lp.lotes.instance import JobClasses
from lp.result import FloatArray


@dataclass(frozen=True, slots=True)
class ArrivalSample:
    """Observed or planned arrivals of one window.

    Attributes
    ----------
    arrival_h
        Time of each arrival, hours, shape (n,).
    request
        Shape (n, L).
    time_h
        Processing time of each job, hours, shape (n,).
    weight
        Number of jobs that each row represents, shape (n,).
    """

    arrival_h: FloatArray
    request: FloatArray
    time_h: FloatArray
    weight: FloatArray

    @classmethod
    def of(
        cls,
        arrival_h: ArrayLike,
        request: ArrayLike,
        time_h: ArrayLike,
        weight: ArrayLike = 1.0,
    ) -> ArrivalSample:
        """Check and freeze arrays given in any form.

        Raises
        ------
        ValueError
            If shapes disagree, or a number is negative or not finite.
        """
        arrivals = np.array(arrival_h, dtype=np.float64)
        requests = np.array(request, dtype=np.float64)
        times = np.array(time_h, dtype=np.float64)
        weights = np.array(np.broadcast_to(np.asarray(weight, dtype=np.float64), arrivals.shape))
        if requests.ndim != 2 or len(requests) != arrivals.size or times.shape != arrivals.shape:
            raise ValueError(
                f"shapes {arrivals.shape}, {requests.shape}, {times.shape} of arrival_h, request "
                "and time_h: expected (n,), (n, L), (n,)"
            )
        for array, what in ((requests, "request"), (times, "time_h"), (weights, "weight")):
            wrong = np.argwhere(~(np.isfinite(array) & (array >= 0)))
            if wrong.size:
                raise ValueError(f"{what}[{int(wrong[0, 0])}]: expected numbers >= 0")
            array.flags.writeable = False
        arrivals.flags.writeable = False
        return cls(arrivals, requests, times, weights)

    @property
    def jobs(self) -> float:
        """Number of jobs that the sample represents."""
        return float(self.weight.sum())

    def window(self, start_h: float, end_h: float) -> ArrivalSample:
        """Arrivals in [start_h, end_h); re-fitting moves this window along the workload."""
        inside = (self.arrival_h >= start_h) & (self.arrival_h < end_h)
        return ArrivalSample.of(
            self.arrival_h[inside], self.request[inside], self.time_h[inside], self.weight[inside]
        )

    def join(self, other: ArrivalSample) -> ArrivalSample:
        """Both samples together, such as planned bundles and recent best-effort arrivals."""
        return ArrivalSample.of(
            np.concatenate([self.arrival_h, other.arrival_h]),
            np.concatenate([self.request, other.request]),
            np.concatenate([self.time_h, other.time_h]),
            np.concatenate([self.weight, other.weight]),
        )


@dataclass(frozen=True, slots=True)
class ClassOptions:
    """When to stop adding classes, and the effort for each clustering."""

    least_share: float = 0.01
    most_classes: int = 30
    restarts: int = 4
    iterations: int = 100


def fit_job_classes(
    sample: ArrivalSample,
    rng: np.random.Generator,
    options: ClassOptions | None = None,
    *,
    names: Sequence[str] | None = None,
) -> JobClasses:
    """Cluster a sample into job classes.

    Requests are compared in units of their standard deviation. Classes are ordered by share,
    largest first.

    Raises
    ------
    ValueError
        If the sample has no jobs, or none with a positive time.
    """
    options = options or ClassOptions()
    counted = (sample.weight > 0) & (sample.time_h > 0)
    if not counted.any():
        raise ValueError("the sample holds no jobs that take time: there is nothing to classify")
    request, weight, time = (
        array[counted] for array in (sample.request, sample.weight, sample.time_h)
    )
    scale = _scale(request, weight)
    points, point_of = np.unique(request / scale, axis=0, return_inverse=True)
    point_of = point_of.ravel()
    mass: FloatArray = np.bincount(point_of, weights=weight).astype(np.float64)
    labels = np.zeros(len(points), dtype=np.int64)
    for count in range(2, min(options.most_classes, len(points)) + 1):
        trial = _k_means(points, mass, count, rng, options)
        share = np.bincount(trial, weights=mass, minlength=count) / mass.sum()
        if share.min() < options.least_share:
            break
        labels = trial
    return _classes(request, weight, time, labels[point_of], scale, names)


def with_mix(classes: JobClasses, sample: ArrivalSample) -> JobClasses:
    """The same classes and requests, with the shares and mean times that a sample shows.

    A class without jobs in the sample keeps its time and gets a share of nearly zero.

    Raises
    ------
    ValueError
        If the sample holds no jobs.
    """
    if sample.jobs <= 0:
        raise ValueError("the sample holds no jobs: there is no mix to take from it")
    nearest = classes.nearest(sample.request)
    size = classes.share.size
    jobs = np.bincount(nearest, weights=sample.weight, minlength=size)
    work = np.bincount(nearest, weights=sample.weight * sample.time_h, minlength=size)
    time = np.where(work > 0, work / np.maximum(jobs, 1e-300), classes.time_h)
    share = np.maximum(jobs / jobs.sum(), 1e-6)
    return JobClasses.of(share, classes.request, time, names=classes.names, scale=classes.scale)


def fifo_leases(allocation: ArrayLike, step_h: float) -> ArrivalSample:
    """Derive the leases of one bundle from its allocation: first in, first out.

    Parameters
    ----------
    allocation
        Bundles allocated at each step, shape (T,), integers.
    step_h
        Length of a step in hours.

    Returns
    -------
    ArrivalSample
        One row for each run of leases with equal start and end; `request` has no columns yet.
    """
    held = np.concatenate([[0], np.asarray(allocation, dtype=np.int64), [0]])
    change = np.diff(held)
    starts = np.repeat(np.flatnonzero(change > 0), change[change > 0])
    ends = np.repeat(np.flatnonzero(change < 0), -change[change < 0])
    # Both are sorted, so equal leases are adjacent.
    first = np.ones(len(starts), dtype=np.bool_)
    first[1:] = (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1])
    at = np.flatnonzero(first)
    count = np.diff(np.append(at, len(starts)))
    return ArrivalSample.of(
        starts[at] * step_h, np.empty((len(at), 0)), (ends[at] - starts[at]) * step_h, count
    )


def _scale(request: FloatArray, weight: FloatArray) -> FloatArray:
    mean = np.average(request, axis=0, weights=weight)
    deviation = np.sqrt(np.average((request - mean) ** 2, axis=0, weights=weight))
    # A resource that never varies separates no classes; neither may its rounding noise.
    return np.where(deviation > 1e-12 * np.maximum(mean, 1e-300), deviation, 1.0)


def _k_means(
    points: FloatArray,
    mass: FloatArray,
    count: int,
    rng: np.random.Generator,
    options: ClassOptions,
) -> NDArray[np.int64]:
    """Labels of the best of several weighted Lloyd runs, shape (points,)."""
    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for _ in range(options.restarts):
        labels, cost = _lloyd(points, mass, _spread(points, mass, count, rng), options.iterations)
        if cost < least:
            best, least = labels, cost
    return best


def _spread(
    points: FloatArray, mass: FloatArray, count: int, rng: np.random.Generator
) -> FloatArray:
    """Draw starting centres far apart (k-means++)."""
    chosen = [int(rng.choice(len(points), p=mass / mass.sum()))]
    distance = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        pull = mass * distance
        chosen.append(int(rng.choice(len(points), p=pull / pull.sum())))
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.asarray(points[chosen])


def _lloyd(
    points: FloatArray, mass: FloatArray, centres: FloatArray, iterations: int
) -> tuple[NDArray[np.int64], float]:
    from scipy.cluster.vq import vq

    labels, distance = vq(points, centres)
    for _ in range(iterations):
        total = np.bincount(labels, weights=mass, minlength=len(centres))
        for column in range(points.shape[1]):
            sums = np.bincount(labels, weights=mass * points[:, column], minlength=len(centres))
            centres[:, column] = np.where(
                total > 0, sums / np.maximum(total, 1e-300), centres[:, column]
            )
        moved, distance = vq(points, centres)
        if (moved == labels).all():
            break
        labels = moved
    return labels.astype(np.int64), float(mass @ distance**2)


def _classes(
    request: FloatArray,
    weight: FloatArray,
    time: FloatArray,
    labels: NDArray[np.int64],
    scale: FloatArray,
    names: Sequence[str] | None,
) -> JobClasses:
    mass = np.bincount(labels, weights=weight)
    present = np.argsort(-mass, kind="stable")
    present = present[mass[present] > 0]
    means = [
        np.bincount(labels, weights=weight * column)[present] / mass[present]
        for column in (*request.T, time)
    ]
    return JobClasses.of(
        mass[present], np.stack(means[:-1], axis=1), means[-1], names=names, scale=scale
    )
