"""What changes from run to run: a drift, and the days of the week."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.history.run import JobRun

#: Effects are reported, and counted with, below this chance of seeing them if there is none.
_CHANCE: Final = 0.01
#: A drift below this share of the first value, over all runs, is no drift.
_LEAST_DRIFT: Final = 0.1
_LEAST_RUNS: Final = 8
_LEAST_A_DAY: Final = 3
#: Of a break: the fewest runs of the new level, the least step in the logarithm (a quarter), the
#: largest share of runs on the other's level, and deviations in a median deviation.
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
        The logarithm's change from one run to the next.
    runs
        Runs that it was seen in.
    """

    of: str
    slope: float
    runs: int

    @property
    def change(self) -> float:
        """Return the share by which the last run is above the first."""
        return float(np.expm1(self.slope * (self.runs - 1)))

    def factors(self) -> NDArray[np.float64]:
        """Return what brings each run to the size of the next one, shape ``(runs,)``.

        Between a half and twice: a trend is not carried on for ever.
        """
        ahead = self.slope * (self.runs - np.arange(self.runs, dtype=np.float64))
        factors: NDArray[np.float64] = np.exp(ahead)
        return np.clip(factors, 0.5, 2.0)


def drift_of(of: str, values: NDArray[np.float64]) -> Drift | None:
    """Return the trend of positive values, or None if there is none.

    Kendall's tau says whether values rise or fall with time, the slope is Theil's and Sen's: the
    median of the slopes between all pairs, which a single run far off does not move.
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
        Similar days, as numbers from Monday = 0, and the median work of their runs against that of
        all.
    """

    groups: tuple[tuple[tuple[int, ...], float], ...]

    def days_of(self, day: int) -> tuple[int, ...]:
        """Return the similar days to one."""
        for days, _ in self.groups:
            if day in days:
                return days
        return (day,)

    def text(self) -> str:
        """Return what it is, in words."""
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

    Working days against the others first (Mann and Whitney), then every day by itself (Kruskal and
    Wallis). Each date counts once, with the median of its runs: runs of one date tell nothing of
    each other. Each day of the week that takes part has at least 3 dates.
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
    """A history whose last runs need another amount than all before.

    Attributes
    ----------
    last
        How many runs are of the new level.
    before
        How many there were before.
    factor
        The median work of the last ones over that of those before.
    """

    last: int
    before: int
    factor: float


def level_break(works: Sequence[float]) -> LevelBreak | None:
    """Return where the work of runs jumped to another level and stayed there, None if nowhere.

    The median of the last k runs, 4 or more, is held against that of those before, twice as many at
    least, on a scale of factors. It is a break where they differ by a quarter or more, by more than
    three standard deviations of a single run (from the median deviation before), where at most one
    run in ten before came up to the new level (what comes back every week is none), and one in ten
    since is nearer to the old. Of several counts that which explains the runs best is taken.
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
