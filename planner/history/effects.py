"""Changes from run to run: drift, days of the week, and jumps to another level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.history.run import JobRun

#: An effect counts if the probability of seeing it by chance is below this.
_CHANCE: Final = 0.01
#: A smaller drift over all runs, as a share of the first value, does not count.
_LEAST_DRIFT: Final = 0.1
_LEAST_RUNS: Final = 8
_LEAST_A_DAY: Final = 3
#: For a break: fewest runs at the new level, smallest step of the logarithm (a quarter), largest
#: share of runs at the other level, and standard deviations per median deviation.
_FEWEST_AFTER: Final = 4
_LEAST_STEP: Final = math.log(1.25)
_SELDOM: Final = 0.1
_TO_DEVIATION: Final = 1.4826
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Drift:
    """A trend over the runs.

    Attributes
    ----------
    of
        ``"width"`` or ``"length"``.
    slope
        Change of the logarithm from one run to the next.
    runs
        Number of runs.
    """

    of: str
    slope: float
    runs: int

    @property
    def change(self) -> float:
        """Return the relative change from the first run to the last."""
        return float(np.expm1(self.slope * (self.runs - 1)))

    def factors(self) -> NDArray[np.float64]:
        """Return the factor from each run to the size of the next one, shape ``(runs,)``.

        Clipped to 0.5 to 2, since a trend does not continue forever.
        """
        ahead = self.slope * (self.runs - np.arange(self.runs, dtype=np.float64))
        factors: NDArray[np.float64] = np.exp(ahead)
        return np.clip(factors, 0.5, 2.0)


def drift_of(of: str, values: NDArray[np.float64]) -> Drift | None:
    """Return the trend of positive values, or None if there is none.

    Kendall's tau decides whether there is a trend; the slope is that of Theil and Sen: the median
    of the slopes between all pairs, which is robust to single outliers.
    """
    if values.size < _LEAST_RUNS or np.ptp(values) == 0:
        return None
    from scipy.stats import kendalltau, theilslopes

    order = np.arange(values.size)
    if not kendalltau(order, values).pvalue < _CHANCE:
        return None
    drift = Drift(of, float(theilslopes(np.log(values), order).slope), values.size)
    return drift if abs(drift.change) >= _LEAST_DRIFT else None


@dataclass(frozen=True, slots=True)
class WeekdayEffect:
    """Days of the week whose runs differ in work.

    Attributes
    ----------
    groups
        Similar days, as numbers from Monday = 0, and the ratio of the median work of their runs to
        that of all runs.
    """

    groups: tuple[tuple[tuple[int, ...], float], ...]

    def days_of(self, day: int) -> tuple[int, ...]:
        """Return the days similar to a day."""
        for days, _ in self.groups:
            if day in days:
                return days
        return (day,)

    def text(self) -> str:
        """Return the effect in words."""
        parts = [
            f"{' '.join(DAYS[day] for day in days)} {ratio - 1:+.0%}" for days, ratio in self.groups
        ]
        return "; ".join(parts)


def weekday_of(seconds: float, zone: tzinfo = UTC) -> int:
    """Return the day of the week of an instant, Monday = 0."""
    return datetime.fromtimestamp(seconds, zone).weekday()


def weekday_effect(
    runs: Sequence[JobRun], works: NDArray[np.float64], zone: tzinfo = UTC
) -> WeekdayEffect | None:
    """Return how days of the week differ, or None if they do not.

    First compares working days with the others (Mann and Whitney), then single days (Kruskal and
    Wallis). Each date counts once, with the median of its runs, since runs of one date are not
    independent. Only days of the week with at least 3 dates take part.
    """
    from scipy.stats import kruskal, mannwhitneyu

    days, works = _by_date(runs, works, zone)
    counts = np.bincount(days, minlength=7)
    present = [day for day in range(7) if counts[day] >= _LEAST_A_DAY]
    middle = float(np.median(works))
    if len(present) < 2 or np.ptp(works) == 0:
        return None
    ends = works[days >= 5]
    rest = works[days < 5]
    if min(ends.size, rest.size) >= _LEAST_A_DAY and mannwhitneyu(ends, rest).pvalue < _CHANCE:
        return WeekdayEffect(
            (
                ((0, 1, 2, 3, 4), float(np.median(rest)) / middle),
                ((5, 6), float(np.median(ends)) / middle),
            )
        )
    groups = [works[days == day] for day in present]
    if np.ptp(np.concatenate(groups)) == 0 or not kruskal(*groups).pvalue < _CHANCE:
        return None
    return WeekdayEffect(
        tuple(
            ((day,), float(np.median(group)) / middle)
            for day, group in zip(present, groups, strict=True)
        )
    )


def _by_date(
    runs: Sequence[JobRun], works: NDArray[np.float64], zone: tzinfo
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the day of the week and the median work of each date."""
    dates: dict[date, list[float]] = {}
    for run, work in zip(runs, works, strict=True):
        dates.setdefault(datetime.fromtimestamp(run.began_s, zone).date(), []).append(float(work))
    return (
        np.array([day.weekday() for day in dates]),
        np.array([float(np.median(found)) for found in dates.values()]),
    )


@dataclass(frozen=True, slots=True)
class LevelBreak:
    """A history whose last runs need a different amount from all earlier ones.

    Attributes
    ----------
    last
        Number of runs at the new level.
    before
        Number of earlier runs.
    factor
        The median work of the last runs over that of the earlier ones.
    """

    last: int
    before: int
    factor: float


def level_break(works: Sequence[float]) -> LevelBreak | None:
    """Return where the work of runs jumped to another level and stayed there, None if nowhere.

    Compares the median of the last k runs, 4 or more, with that of the earlier ones, at least twice
    as many, on a logarithmic scale. It is a break if they differ by a quarter or more, and by more
    than three standard deviations of a single run (from the earlier median deviation), if at most
    one in ten of the earlier runs reached the new level (a weekly pattern is no break), and at most
    one in ten of the later runs is nearer to the old level. If several k are possible, it
    returns the one that explains the runs best.
    """
    if min(works, default=0.0) <= 0.0:
        return None
    levels, found = np.log(np.array(works)), list[tuple[float, LevelBreak]]()
    for last in range(_FEWEST_AFTER, len(works) // 3 + 1):
        old, new = levels[:-last], levels[-last:]
        middle, reached = float(np.median(old)), float(np.median(new))
        spread = _TO_DEVIATION * float(np.median(np.abs(old - middle)))
        step = reached - middle
        came_up = np.mean(old >= reached if step > 0 else old <= reached)
        stayed_down = np.mean(np.abs(new - middle) < np.abs(new - reached))
        apart = max(float(came_up), float(stayed_down)) <= _SELDOM
        if not apart or abs(step) < max(_LEAST_STEP, 3 * spread):
            continue
        left = float(np.abs(old - middle).sum() + np.abs(new - reached).sum())
        found.append((left, LevelBreak(last, len(old), float(np.exp(step)))))
    return min(found, key=lambda one: one[0])[1] if found else None
