"""Zoe's metrics of one simulated run: turnaround, queuing, slowdown, allocation, queue sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.simulator import SimulatedRun, SubmissionOutcome

PERCENTILES = (5, 25, 50, 75, 95)


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution: its mean and the percentiles of the papers' boxes (5, 25, 50, 75, 95)."""

    mean: float
    p5: float
    p25: float
    median: float
    p75: float
    p95: float

    @classmethod
    def of(cls, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Spread:
        """Return the spread of values, each counted by its weight; zeros if there is none."""
        if not values.size:
            return cls(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        if weights is None or not weights.sum() > 0:
            found = np.percentile(values, PERCENTILES)
            return cls(float(values.mean()), *(float(one) for one in found))
        order = np.argsort(values)
        reached = np.cumsum(weights[order]) / weights.sum()
        places = np.searchsorted(reached, np.array(PERCENTILES) / 100)
        found = values[order][np.minimum(places, values.size - 1)]
        mean = float(np.average(values, weights=weights))
        return cls(mean, *(float(one) for one in found))


@dataclass(frozen=True, slots=True)
class GroupMetrics:
    """What one group of applications met; times in s. `alone` is the run time in an empty pool."""

    completed: int
    rejected: int
    turnaround: Spread
    queuing: Spread
    slowdown: Spread
    alone: Spread


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """What a run met, by group (``all`` is every one), and how the pool was used.

    Allocation is the share of a resource that was allocated, weighted by time from the first to
    the last submission: what comes after is only emptying. So are the queue sizes.
    """

    groups: Mapping[str, GroupMetrics]
    allocation: Mapping[str, Spread]
    waiting: Spread
    running: Spread

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def measure_run(run: SimulatedRun, total: Mapping[str, int]) -> RunMetrics:
    """Return the metrics of a run on a pool of `total`."""
    labels = dict.fromkeys(outcome.submission.label for outcome in run.outcomes)
    groups = {"all": _group(run.outcomes)}
    for label in labels:
        if label:
            chosen = tuple(one for one in run.outcomes if one.submission.label == label)
            groups[label] = _group(chosen)
    last = float(run.outcomes[-1].submission.at) if run.outcomes else 0.0
    at = np.minimum([sample.at for sample in run.samples], last)
    weights = np.diff(at, append=last) if at.size else at
    allocation = {
        kind: Spread.of(np.array([1 - sample.free[kind] / most for sample in run.samples]), weights)
        for kind, most in total.items()
        if most
    }
    waiting = np.array([sample.waiting for sample in run.samples], dtype=np.float64)
    running = np.array([sample.running for sample in run.samples], dtype=np.float64)
    return RunMetrics(groups, allocation, Spread.of(waiting, weights), Spread.of(running, weights))


def _group(outcomes: tuple[SubmissionOutcome, ...]) -> GroupMetrics:
    ended = [one for one in outcomes if one.ended is not None]
    return GroupMetrics(
        len(ended),
        len(outcomes) - len(ended),
        Spread.of(np.array([float(one.turnaround) for one in ended])),
        Spread.of(np.array([float(one.queuing_time) for one in ended])),
        Spread.of(np.array([one.slowdown for one in ended])),
        Spread.of(np.array([float(one.submission.run) for one in ended])),
    )
