"""Runs as rows of a table: the largest number of containers in each bucket of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.history.run import JobRun

#: Most buckets for the longest run.
_BUCKETS: Final = 64
#: Most steps of a profile; fewer are used if they add little work.
_STEPS: Final = 5
_SPARE: Final = 0.05

Widths = NDArray[np.float64]


def bucket_seconds(runs: Sequence[JobRun], step_s: int) -> int:
    """Return the length of a bucket: whole steps, and at most 64 buckets for the longest run."""
    longest = max(run.length_s for run in runs)
    return step_s * max(1, int(np.ceil(longest / (_BUCKETS * step_s))))


def widths_of(run: JobRun, bucket_s: float, time_factor: float = 1.0) -> Widths:
    """Return the largest number of containers of a run in each bucket.

    Parameters
    ----------
    run
        The run.
    bucket_s
        Seconds per bucket.
    time_factor
        Factor for all times of the run.

    Returns
    -------
    Shape ``(buckets,)``, up to the end of the run.
    """
    count = max(1, int(np.ceil(run.length_s * time_factor / bucket_s - 1e-9)))
    widths = np.zeros(count)
    began = 0.0
    for stretch in run.stretches:
        ended = began + stretch.seconds * time_factor
        first = min(count - 1, int(began / bucket_s + 1e-9))
        last = min(count, max(first + 1, int(np.ceil(ended / bucket_s - 1e-9))))
        widths[first:last] = np.maximum(widths[first:last], stretch.width)
        began = ended
    return widths


def table_of(rows: Sequence[Widths]) -> NDArray[np.float64]:
    """Return rows of several lengths as one table, shape ``(runs, buckets)``, padded with 0."""
    table = np.zeros((len(rows), max(row.size for row in rows)))
    for place, row in enumerate(rows):
        table[place, : row.size] = row
    return table


@dataclass(frozen=True, slots=True)
class WidthProfile:
    """An allocation over time.

    Attributes
    ----------
    bucket_s
        Seconds per bucket.
    widths
        Whole containers per bucket, shape ``(buckets,)``.
    """

    bucket_s: int
    widths: Widths

    @property
    def length_s(self) -> int:
        """Return seconds until its end."""
        return self.bucket_s * self.widths.size

    @property
    def work_s(self) -> float:
        """Return container-seconds allocated."""
        return float(self.widths.sum() * self.bucket_s)

    def holds(self, widths: Widths) -> bool:
        """Return whether it covers the widths of a run in every bucket."""
        if widths.size > self.widths.size and widths[self.widths.size :].any():
            return False
        shared = min(widths.size, self.widths.size)
        return bool((widths[:shared] <= self.widths[:shared] + 1e-9).all())

    def steps(self) -> list[tuple[int, int]]:
        """Return a cover of the profile by few steps: (buckets, containers) of each.

        Uses the fewest steps that add at most 5 % to its work, and at most 5. The cover has the
        least work for its number of steps, by dynamic programming over the start of the last step.
        """
        cost, begins = _covers(self.widths, min(_STEPS, self.widths.size))
        enough = cost[:, -1] <= self.widths.sum() * (1 + _SPARE)
        count = int(np.argmax(enough)) if enough.any() else cost.shape[0] - 1
        steps: list[tuple[int, int]] = []
        end = self.widths.size
        while end:
            begin = int(begins[count, end])
            steps.append((end - begin, int(self.widths[begin:end].max())))
            end, count = begin, count - 1
        return steps[::-1]


def _covers(widths: Widths, most: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the least area to cover each prefix, and the start of the last step.

    Both have shape ``(most, buckets + 1)``; row k is for k + 1 steps.
    """
    size = widths.size
    highest = np.zeros((size, size + 1))
    for begin in range(size):
        highest[begin, begin + 1 :] = np.maximum.accumulate(widths[begin:])
    lengths = np.arange(size + 1)[None, :] - np.arange(size)[:, None]
    area = np.where(lengths > 0, highest * lengths, np.inf)
    cost = np.full((most, size + 1), np.inf)
    begins = np.zeros((most, size + 1), np.int64)
    cost[0, 1:] = area[0, 1:]
    cost[:, 0] = 0.0
    for used in range(1, most):
        options = cost[used - 1, :size, None] + area
        begins[used] = options.argmin(axis=0)
        cost[used, 1:] = options.min(axis=0)[1:]
    return cost, begins


def whole(widths: Widths, bucket_s: int) -> WidthProfile:
    """Return a profile of whole containers, without empty buckets at its end."""
    rounded = np.ceil(widths - 1e-9)
    last = np.flatnonzero(rounded)
    return WidthProfile(bucket_s, rounded[: last[-1] + 1] if last.size else np.ones(1))
