"""Predict an allocation that holds the next run of a job with a stated confidence.

Rayon's section 6.2.4 shows that earlier runs indicate what the next one needs, and leaves the
method open. Here profiles are nested: quantiles of runs in each bucket, from the minimum to the
maximum, then the maximum made wider and longer by a factor. Each run is compared with the profiles
of all others: the first that holds the whole run is its bound. The allocation takes, in each
bucket, the bound of rank ``ceil((n + 1) q)`` among n runs: it holds the next run with a confidence
near q if runs are exchangeable (the jackknife+ of Barber, Candes, Ramdas and Tibshirani, Annals of
Statistics 49, 2021, for a family of sets). Drift and days of the week, which break exchangeability,
are removed first. `back_test` measures the remaining error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.history.effects import Drift, WeekdayEffect, drift_of, weekday_effect, weekday_of
from planner.history.profile import WidthProfile, Widths, bucket_seconds, table_of, whole, widths_of
from planner.history.run import JobRun

#: Only the latest runs count.
LATEST: Final = 60
#: Fewest runs for a prediction.
LEAST_RUNS: Final = 3
#: Fewest runs of similar days to use alone; with fewer, all runs are scaled to their size.
_LEAST_ALIKE: Final = 8
_QUANTILES: Final = np.linspace(0.0, 1.0, 21)
_FACTORS: Final = tuple(float(factor) for factor in np.geomspace(1.05, 3.0, 22))
_LEVELS: Final = len(_QUANTILES) + len(_FACTORS)


class TooFewRunsError(ValueError):
    """A job has too few runs to predict the next one."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted need of the next run of a job.

    Attributes
    ----------
    profile
        The allocation.
    confidence
        Estimated probability that it holds the whole next run: at most n / (n + 1) for n runs.
    runs
        Number of runs used.
    drifts
        Trends that were removed.
    weekdays
        How days of the week differ, if they do.
    """

    profile: WidthProfile
    confidence: float
    runs: int
    drifts: tuple[Drift, ...]
    weekdays: WeekdayEffect | None


def predict(
    runs: Sequence[JobRun],
    confidence: float,
    step_s: int,
    next_s: float | None = None,
    zone: tzinfo = UTC,
) -> Prediction:
    """Predict the next run of a job.

    Parameters
    ----------
    runs
        Runs of one job in order of start; the latest 60 count.
    confidence
        Wanted probability, above 0 and below 1.
    step_s
        The plan's step in seconds; buckets are whole steps.
    next_s
        Start of the next run, for its day of the week; None to ignore days of the week.
    zone
        Time zone of days.

    Raises
    ------
    TooFewRunsError
        For fewer than 3 runs.
    """
    latest = list(runs[-LATEST:])
    if len(latest) < LEAST_RUNS:
        raise TooFewRunsError(f"{len(latest)} runs; at least {LEAST_RUNS} are needed")
    bucket = bucket_seconds(latest, step_s)
    rows, drifts = _without_drift(latest, bucket)
    works = np.array([row.sum() for row in rows])
    weekdays = None if next_s is None else weekday_effect(latest, works, zone)
    if weekdays is not None and next_s is not None:
        rows = _of_day(latest, rows, weekdays, weekday_of(next_s, zone), zone)
    table = table_of(rows)
    widths, reached = _allocation(table, confidence)
    covered = _covered(whole(widths, bucket))
    return Prediction(covered, reached, len(rows), drifts, weekdays)


def _without_drift(runs: Sequence[JobRun], bucket_s: int) -> tuple[list[Widths], tuple[Drift, ...]]:
    """Return the runs as rows, each scaled to the size of the next run."""
    wide = drift_of("width", np.array([float(run.peak) for run in runs]))
    long = drift_of("length", np.array([run.length_s for run in runs]))
    one = np.ones(len(runs))
    widths = wide.factors() if wide else one
    lengths = long.factors() if long else one
    rows = [
        widths_of(run, bucket_s, float(lengths[place])) * widths[place]
        for place, run in enumerate(runs)
    ]
    return rows, tuple(drift for drift in (wide, long) if drift)


def _of_day(
    runs: Sequence[JobRun],
    rows: Sequence[Widths],
    effect: WeekdayEffect,
    day: int,
    zone: tzinfo,
) -> list[Widths]:
    """Return rows for one day: those of similar days, or all rows scaled to its size."""
    alike = effect.days_of(day)
    days = [weekday_of(run.began_s, zone) for run in runs]
    own = [row for row, here in zip(rows, days, strict=True) if here in alike]
    if len(own) >= _LEAST_ALIKE:
        return own
    ratio = {here: share for group, share in effect.groups for here in group}
    return [
        row * (ratio.get(day, 1.0) / ratio.get(here, 1.0))
        for row, here in zip(rows, days, strict=True)
    ]


def _allocation(table: NDArray[np.float64], confidence: float) -> tuple[Widths, float]:
    """Return the widths to allocate, and the confidence that this many runs can give."""
    count = table.shape[0]
    order = np.argsort(table, axis=0, kind="stable")
    ranks = np.argsort(order, axis=0, kind="stable")
    ordered = np.take_along_axis(table, order, axis=0)
    grown = _Growth.of(table)
    bounds = table_of([_bound(table[run], ranks[run], ordered, grown) for run in range(count)])
    place = min(count, ceil((count + 1) * confidence - 1e-9))
    return np.sort(bounds, axis=0)[place - 1], place / (count + 1)


@dataclass(frozen=True, slots=True)
class _Growth:
    """Growth beyond all earlier runs: the buckets and lengths in which they differ."""

    wide: bool
    long: bool

    @classmethod
    def of(cls, table: NDArray[np.float64]) -> _Growth:
        wide = bool(np.ptp(table.max(axis=1)) > 0)
        return cls(wide, bool(np.ptp((table > 0).sum(axis=1)) > 0) or not wide)

    def widths(self, most: Widths, factor: float) -> Widths:
        """Return widths grown by a factor: the maximum over all stretches in time up to it."""
        if not self.long:
            return most * factor
        end = most.size - 1
        buckets = np.arange(ceil(most.size * factor - 1e-9))
        first = np.minimum((buckets / factor).astype(int), end)
        highest = [
            most[begin : place + 1].max()
            for begin, place in zip(first, np.minimum(buckets, end), strict=True)
        ]
        return np.array(highest) * (factor if self.wide else 1.0)


def _bound(
    row: Widths, ranks: NDArray[np.int64], ordered: NDArray[np.float64], growth: _Growth
) -> Widths:
    """Return the first profile of all other runs that holds the whole run.

    `ranks` are the run's ranks in the sorted columns: without the run, higher entries move down by
    one. If no profile holds it, the bound includes the run itself.
    """
    last = ordered.shape[0] - 2

    def level(number: int) -> Widths:
        quantile = _QUANTILES[min(number, len(_QUANTILES) - 1)]
        place = ceil(quantile * last - 1e-9)
        widths = np.where(place < ranks, ordered[place], ordered[place + 1])
        beyond = number - len(_QUANTILES)
        return widths if beyond < 0 else growth.widths(widths, _FACTORS[beyond])

    low, high = 0, _LEVELS
    while low < high:  # profiles are nested
        middle = (low + high) // 2
        if (row <= np.ceil(level(middle)[: row.size] - 1e-9)).all():
            high = middle
        else:
            low = middle + 1
    return level(low) if low < _LEVELS else np.maximum(row, level(len(_QUANTILES) - 1))


def _covered(profile: WidthProfile) -> WidthProfile:
    """Return a profile as covered by its few steps."""
    widths = [np.full(buckets, float(width)) for buckets, width in profile.steps()]
    return WidthProfile(profile.bucket_s, np.concatenate(widths))
