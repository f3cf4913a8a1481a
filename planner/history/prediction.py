"""Predict an allocation that holds the next run of a job with a stated confidence.

Rayon's section 6.2.4 shows that earlier runs predict the needs of the next one, and leaves
the method open. Here profiles are nested: quantiles of runs in each bucket, from the minimum to the
maximum, then the maximum made wider and longer by a factor. Each run is compared with the profiles
of all others: the first that holds the whole run is its bound. The allocation takes, in each
bucket, the bound of rank ``ceil((n + 1) q)`` among n runs: it holds the next run with a confidence
near q if runs are exchangeable (the jackknife+ of Barber, Candes, Ramdas and Tibshirani, Annals of
Statistics 49, 2021, for a family of sets). Drift and days of the week, which break exchangeability,
are removed first. `back_test` measures the remaining error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.history.effects import Drift, WeekdayEffect, drift_of, weekday_effect, weekday_of
from planner.history.run import (
    JobRun,
    WidthProfile,
    Widths,
    bucket_seconds,
    table_of,
    whole,
    widths_of,
)

#: Only the latest runs count.
LATEST: Final = 60
#: Fewest runs for a prediction.
LEAST_RUNS: Final = 3
#: Fewest runs of similar days to use alone; with fewer, all runs are scaled to their size.
_LEAST_ALIKE: Final = 8
_QUANTILES: Final = np.linspace(0.0, 1.0, 21)
_FACTORS: Final = tuple(float(factor) for factor in np.geomspace(1.05, 3.0, 22))
_LEVELS: Final = len(_QUANTILES) + len(_FACTORS)

#: Rules to compare with the prediction. Maximum is the largest width of all runs in each bucket:
#: the rule that YARN's resource estimator is compared with. Mean is their mean; peak is the largest
#: width for the longest length.
MAXIMUM: Final = "maximum"
MEAN: Final = "mean"
PEAK: Final = "peak"
PREDICTION: Final = "prediction"


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


@dataclass(slots=True)
class RuleScore:
    """The score of one rule.

    Attributes
    ----------
    runs
        Number of predicted runs.
    fits
        Number of runs that fit completely in the allocation.
    used_s
        Container-seconds that the runs used.
    allocated_s
        Container-seconds allocated for the runs.
    """

    runs: int = 0
    fits: int = 0
    used_s: float = 0.0
    allocated_s: float = 0.0

    @property
    def share(self) -> float:
        """Return the share of runs that fit."""
        return self.fits / self.runs if self.runs else float("nan")

    @property
    def over(self) -> float:
        """Return the over-allocation as a share of the used container-seconds."""
        return self.allocated_s / self.used_s - 1 if self.used_s else float("nan")

    def add(self, run: JobRun, profile: WidthProfile) -> None:
        """Count one run against the allocation of a rule."""
        self.runs += 1
        self.fits += profile.holds(widths_of(run, profile.bucket_s))
        self.used_s += run.work_s
        self.allocated_s += profile.work_s


def maximum(runs: Sequence[JobRun], step_s: int) -> WidthProfile:
    """Return the largest width of any run in each bucket."""
    return _over_runs(runs, step_s, lambda table: table.max(axis=0))


def mean(runs: Sequence[JobRun], step_s: int) -> WidthProfile:
    """Return the mean width of all runs in each bucket, rounded up."""
    return _over_runs(runs, step_s, lambda table: table.mean(axis=0))


def peak(runs: Sequence[JobRun], step_s: int) -> WidthProfile:
    """Return the largest width for the length of the longest run: a static allocation."""
    return _over_runs(runs, step_s, lambda table: np.full(table.shape[1], table.max()))


def _over_runs(
    runs: Sequence[JobRun], step_s: int, rule: Callable[[np.ndarray], np.ndarray]
) -> WidthProfile:
    bucket = bucket_seconds(runs, step_s)
    return whole(rule(table_of([widths_of(run, bucket) for run in runs])), bucket)


def back_test(
    jobs: Mapping[str, Sequence[JobRun]],
    confidence: float,
    step_s: int,
    share_out: float = 0.3,
    zone: tzinfo = UTC,
    least_runs: int = 8,
    go_on: Callable[[int, int], bool] = lambda done, all_: True,
) -> dict[str, RuleScore]:
    """Predict each of the later runs from those that ended before its start.

    Parameters
    ----------
    jobs
        Runs of each job in order of start.
    confidence
        As `predict` takes it.
    step_s
        The plan's step in seconds.
    share_out
        Share of the time from the first start to the last that is held out for tests, at its end.
    zone
        Time zone of days.
    least_runs
        Runs that must have ended before the first prediction of a job.
    go_on
        Called with the number of jobs done and of all jobs; returns whether to continue.

    Returns
    -------
    The score of each rule by name.
    """
    scores = {name: RuleScore() for name in (PREDICTION, MAXIMUM, MEAN, PEAK)}
    begins = [run.began_s for runs in jobs.values() for run in runs]
    if not begins:
        return scores
    since = max(begins) - share_out * (max(begins) - min(begins))
    for place, runs in enumerate(jobs.values()):
        for run in runs:
            if run.began_s < since:
                continue
            before = [other for other in runs if other.ended_s <= run.began_s]
            if len(before) >= max(least_runs, LEAST_RUNS):
                _score(scores, run, before, confidence, step_s, zone)
        if not go_on(place + 1, len(jobs)):
            break
    return scores


def _score(
    scores: Mapping[str, RuleScore],
    run: JobRun,
    before: Sequence[JobRun],
    confidence: float,
    step_s: int,
    zone: tzinfo,
) -> None:
    found = predict(before, confidence, step_s, run.began_s, zone)
    scores[PREDICTION].add(run, found.profile)
    for name, rule in ((MAXIMUM, maximum), (MEAN, mean), (PEAK, peak)):
        scores[name].add(run, rule(before, step_s))


def pooled(scores: Iterable[RuleScore]) -> RuleScore:
    """Return the sum of several scores."""
    total = RuleScore()
    for score in scores:
        total.runs += score.runs
        total.fits += score.fits
        total.used_s += score.used_s
        total.allocated_s += score.allocated_s
    return total
