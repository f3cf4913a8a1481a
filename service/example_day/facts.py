"""Published figures of the example day, and functions that draw numbers from them.

The figures are from the day of Facebook's 2009 cluster that SWIM publishes (5,894 jobs; Chen,
Ganapathi, Griffith and Katz, "The Case for Evaluating MapReduce Performance Using Workload Suites",
UCB/EECS-2011-21): a tenth of the jobs reads 99.8 % of the bytes; the quantiles of the bytes that
these jobs read, and of the bytes that they shuffle per byte read, are below; 19 % of these jobs
only map. The busiest hour has 2.7 times the jobs of the median hour.

Only generator.random() is called, and its rounded results are transformed here: the bit stream of
NumPy's PCG64 is fixed, but its distributions may change between versions.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

GB = 1e9

#: (quantile, bytes) of the input of the largest tenth of the jobs.
INPUT_BYTES: tuple[tuple[float, float], ...] = (
    (0.0, 0.61 * GB),
    (0.10, 0.94 * GB),
    (0.25, 2.1 * GB),
    (0.50, 7.5 * GB),
    (0.75, 31 * GB),
    (0.90, 80 * GB),
    (0.95, 131 * GB),
    (0.99, 490 * GB),
    (1.0, 7550 * GB),
)

#: (quantile, bytes shuffled per byte read) of the jobs that shuffle.
SHUFFLE_RATIO: tuple[tuple[float, float], ...] = (
    (0.0, 1e-5),
    (0.10, 4e-5),
    (0.25, 0.015),
    (0.50, 1.03),
    (0.75, 2.1),
    (0.90, 4.4),
    (1.0, 9.0),
)

MAP_ONLY = 0.19

#: Ratio of the arrivals in the busiest hour to those in the median hour.
PEAK_TO_MEDIAN = 2.7


def draw_quantile(table: Sequence[tuple[float, float]], generator: np.random.Generator) -> float:
    """Draw a value whose quantiles are those of `table`, log-linear in between."""
    at = float(generator.random())
    above = min(max(1, bisect.bisect_right([q for q, _ in table], at)), len(table) - 1)
    (low, below_value), (high, above_value) = table[above - 1], table[above]
    share = (at - low) / (high - low)
    logs = math.log(below_value), math.log(above_value)
    return math.exp(logs[0] + share * (logs[1] - logs[0]))


def draw_between(low: float, high: float, generator: np.random.Generator) -> float:
    """Return a uniform number in [low, high)."""
    return low + (high - low) * float(generator.random())


def draw_whole(low: int, high: int, generator: np.random.Generator) -> int:
    """Return a uniform whole number in [low, high]."""
    return low + int((high - low + 1) * float(generator.random()))


def draw_one(choices: Sequence[tuple[T, float]], generator: np.random.Generator) -> T:
    """Draw a choice from (choice, share) pairs; shares need not sum to one."""
    left = float(generator.random()) * sum(share for _, share in choices)
    for choice, share in choices:
        left -= share
        if left < 0:
            return choice
    return choices[-1][0]


def hourly_rate(hour: float) -> float:
    """Return the arrival rate at `hour` (0-24) relative to the median: low at night, one peak.

    1 + 0.6 cos has its median at 1; a peak of an hour at 15:00 reaches `PEAK_TO_MEDIAN`.
    """
    daily = 1.0 + 0.6 * math.cos((hour - 15.0) / 24.0 * 2.0 * math.pi)
    return PEAK_TO_MEDIAN if 15.0 <= hour < 16.0 else daily
