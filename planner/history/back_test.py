"""Test how often predictions would have held later runs, and at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

import numpy as np

from planner.history.prediction import LEAST_RUNS, predict
from planner.history.profile import WidthProfile, bucket_seconds, table_of, whole, widths_of
from planner.history.run import JobRun

#: Rules to compare with the prediction. Maximum is the largest width of all runs in each bucket:
#: the rule that YARN's resource estimator is compared with. Mean is their mean; peak is the largest
#: width for the longest length.
MAXIMUM: Final = "maximum"
MEAN: Final = "mean"
PEAK: Final = "peak"
PREDICTION: Final = "prediction"


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
