"""What a simulated run measures: its options, its counters, and the result they come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.policy import Policy

if TYPE_CHECKING:
    from bench.papers.machines.kernels.state import Counters, Measuring

#: Waits up to this share one bucket; above it buckets grow by a constant factor.
_HISTOGRAM_LOW_H = 1e-6
_HISTOGRAM_PER_DECADE = 20
_HISTOGRAM_SIZE = 2 + 10 * _HISTOGRAM_PER_DECADE


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How to run and what to measure.

    Attributes
    ----------
    warm_up_h
        Starts before this time are not measured.
    drain_until_h
        Continue after the last arrival until this time; None stops at the last arrival.
    start_all_h
        Continue after that, for at most so long, until every job has started: else those that wait
        longest are missing from the waits.
    tetris_hours
        Weight of the processing time in hours in the Tetris score (60 measures in minutes).
    sample
        LoTES section 5.2: machines looked at in a configuration; 0 looks at all.
    work_conserving
        LoTES: a machine with capacity also takes waiting classes without a target there, last. The
        paper never does, and idles (section 4.3.2).
    record
        Keep start and machine of every job (memory for every job).
    """

    warm_up_h: float = 0.0
    drain_until_h: float | None = None
    start_all_h: float = 0.0
    interval_h: float = 24.0
    long_wait_h: float = 1.0
    tetris_hours: float = 1.0
    sample: int = 0
    memory: int = 1
    work_conserving: bool = False
    record: bool = False
    horizon_h: float = 1_000.0


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a run measured; times in hours.

    Attributes
    ----------
    started
        Jobs that started after the warm-up; `wait_mean_h` and the rest are theirs.
    long_share
        Share of them that waited longer than `long_wait_h`.
    wait_quantile_h
        Upper edges of histogram buckets (12 % wide) that hold the 50, 90, 99 and 99.9 % quantiles.
    running_mean, waiting_mean, used_mean
        Means over time: jobs running and waiting, and resources in use, shape (L,).
    interval_wait_h, interval_started, interval_waiting
        Mean wait, starts and longest queue of each interval; a wait counts where the job starts.
    refused
        Jobs that no machine could ever hold.
    wait_histogram
        Started jobs by how long they waited; see `share_beyond`.
    """

    policy: Policy
    arrived: int
    started: int
    ended: int
    refused: int
    still_waiting: int
    running_now: int
    events: int
    wait_mean_h: float
    wait_max_h: float
    wait_deviation_h: float
    long_share: float
    wait_quantile_h: dict[str, float]
    running_mean: float
    waiting_mean: float
    used_mean: NDArray[np.float64]
    class_wait_h: NDArray[np.float64]
    interval_h: float
    interval_wait_h: NDArray[np.float64]
    interval_started: NDArray[np.int64]
    interval_waiting: NDArray[np.int64]
    start_h: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    machine: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    wait_histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def share_beyond(self, hours: float) -> float:
        """Return the share of the started jobs that waited longer, to 12 % of `hours` exact."""
        total = int(self.wait_histogram.sum())
        decades = np.log10(max(hours, _HISTOGRAM_LOW_H) / _HISTOGRAM_LOW_H)
        first = 1 + int(np.ceil(decades * _HISTOGRAM_PER_DECADE))
        return int(self.wait_histogram[first:].sum()) / total if total else 0.0

    def to_json(self) -> dict[str, object]:
        """Everything but the records of single jobs."""
        return {
            "policy": self.policy,
            "jobs": {
                "arrived": self.arrived,
                "started": self.started,
                "ended": self.ended,
                "refused": self.refused,
                "still_waiting": self.still_waiting,
                "running_now": self.running_now,
            },
            "events": self.events,
            "wait_h": {
                "mean": self.wait_mean_h,
                "max": self.wait_max_h,
                "deviation": self.wait_deviation_h,
                **self.wait_quantile_h,
            },
            "long_share": self.long_share,
            "running_mean": self.running_mean,
            "waiting_mean": self.waiting_mean,
            "used_mean": self.used_mean.tolist(),
            "class_wait_h": self.class_wait_h.tolist(),
            "interval_h": self.interval_h,
            "interval_wait_h": self.interval_wait_h.tolist(),
            "interval_started": self.interval_started.tolist(),
            "interval_waiting": self.interval_waiting.tolist(),
        }


def build_counters(options: SimulationOptions, classes: int, resources: int) -> Counters:
    """Counters at zero, with an interval for every time that the options allow."""
    from bench.papers.machines.kernels import state as kernels

    end = max(options.horizon_h, options.drain_until_h or 0.0) + options.start_all_h
    intervals = int(np.ceil(end / options.interval_h)) + 1
    return kernels.Counters(
        whole=np.zeros(kernels.WHOLE_SIZE, dtype=np.int64),
        real=np.zeros(kernels.REAL_SIZE),
        used=np.zeros(resources),
        area_used=np.zeros(resources),
        class_started=np.zeros(classes, dtype=np.int64),
        class_wait=np.zeros(classes),
        interval_started=np.zeros(intervals, dtype=np.int64),
        interval_wait=np.zeros(intervals),
        interval_arrived=np.zeros(intervals, dtype=np.int64),
        interval_waiting=np.zeros(intervals, dtype=np.int64),
        histogram=np.zeros(_HISTOGRAM_SIZE, dtype=np.int64),
        start=np.empty(0),
        machine=np.empty(0, dtype=np.int32),
    )


def build_measuring(options: SimulationOptions) -> Measuring:
    """What is measured, as kernels take it."""
    from bench.papers.machines.kernels.state import Measuring

    return Measuring(
        warm_up=options.warm_up_h,
        interval=options.interval_h,
        long_wait=options.long_wait_h,
        histogram_low=_HISTOGRAM_LOW_H,
        histogram_per_decade=float(_HISTOGRAM_PER_DECADE),
    )


def result_of(policy: Policy, counters: Counters, options: SimulationOptions) -> SimulationResult:
    """What the counters have come to so far."""
    from bench.papers.machines.kernels import state as kernels

    whole, real = counters.whole, counters.real
    started = int(whole[kernels.STARTED])
    count = max(started, 1)
    measured = max(float(real[kernels.MEASURED]), 1e-300)
    mean = float(real[kernels.WAIT_SUM]) / count
    last = int(real[kernels.NOW] / options.interval_h) + 1
    with np.errstate(invalid="ignore", divide="ignore"):
        class_wait = counters.class_wait / np.maximum(counters.class_started, 1)
        interval_wait = counters.interval_wait / np.maximum(counters.interval_started, 1)
    return SimulationResult(
        policy=policy,
        arrived=int(whole[kernels.ARRIVED]),
        started=started,
        ended=int(whole[kernels.ENDED]),
        refused=int(whole[kernels.REFUSED]),
        still_waiting=int(whole[kernels.WAITING]),
        running_now=int(whole[kernels.RUNNING]),
        events=int(whole[kernels.EVENTS]),
        wait_mean_h=mean,
        wait_max_h=float(real[kernels.WAIT_MAX]),
        wait_deviation_h=max(float(real[kernels.WAIT_SQUARES]) / count - mean**2, 0.0) ** 0.5,
        long_share=int(whole[kernels.LONG]) / count,
        wait_quantile_h=_quantiles(counters.histogram),
        running_mean=float(real[kernels.AREA_RUNNING]) / measured,
        waiting_mean=float(real[kernels.AREA_WAITING]) / measured,
        used_mean=counters.area_used / measured,
        class_wait_h=class_wait,
        interval_h=options.interval_h,
        interval_wait_h=interval_wait[:last],
        interval_started=counters.interval_started[:last].copy(),
        interval_waiting=counters.interval_waiting[:last].copy(),
        start_h=counters.start.copy(),
        machine=counters.machine.copy(),
        wait_histogram=counters.histogram.copy(),
    )


def _quantiles(histogram: NDArray[np.int64]) -> dict[str, float]:
    """Upper edges of the buckets that hold the quantiles; bucket 0 holds waits of zero."""
    total = int(histogram.sum())
    reached = np.cumsum(histogram)
    found = {}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
        bucket = int(np.searchsorted(reached, share * total)) if total else 0
        edge = _HISTOGRAM_LOW_H * 10 ** (bucket / _HISTOGRAM_PER_DECADE)
        found[name] = float(edge) if bucket else 0.0
    return found
