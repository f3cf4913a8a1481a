"""How often a job runs, and when in its period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

import numpy as np

from planner.history.run import JobRun

_MINUTE, _HOUR = 60, 3_600
DAY_S: Final = 86_400
_PERIODS_S: Final = (
    5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 3 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 12 * _HOUR,
    DAY_S, 7 * DAY_S,
)  # fmt: skip
#: Tolerance for gaps between starts, as a share of a period, and the share of gaps that must be
#: whole periods within it.
_NEAR: Final = 0.2
_SHARE: Final = 0.8
_LEAST_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class JobPeriod:
    """A recurrence.

    Attributes
    ----------
    seconds
        Time from one run to the next.
    begin_s
        Median start of runs within the period. Periods of whole days count from local midnight of
        1970-01-01 in a zone, shorter ones from that in UTC.
    """

    seconds: int
    begin_s: int

    @property
    def is_of_days(self) -> bool:
        """Whether it is whole days, counted on the clock of a zone."""
        return self.seconds % DAY_S == 0


def clock_seconds(seconds: float, zone: tzinfo) -> float:
    """Return the local time of an instant in a zone, in seconds since 1970-01-01T00:00 there."""
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    return seconds + (offset.total_seconds() if offset else 0.0)


def period_of(runs: Sequence[JobRun], zone: tzinfo = UTC) -> JobPeriod | None:
    """Return the period of runs in order of start, or None if there is none.

    It is the longest common period for which most gaps are whole multiples, and half of them one
    period: missed runs do not hide it.
    """
    if len(runs) < _LEAST_RUNS:
        return None
    instants = np.array([run.began_s for run in runs])
    shown = np.array([clock_seconds(run.began_s, zone) for run in runs])
    for seconds in reversed(_PERIODS_S):
        begins = shown if seconds % DAY_S == 0 else instants
        gaps = np.diff(begins)
        periods = gaps / seconds
        near = (np.abs(periods - np.rint(periods)) <= _NEAR) & (np.rint(periods) >= 1)
        if near.mean() >= _SHARE and np.median(np.rint(periods)) == 1:
            return JobPeriod(seconds, _median_on_circle(begins, seconds))
    return None


def _median_on_circle(begins: np.ndarray, seconds: int) -> int:
    """Return the circular median of the starts within the period."""
    turns = begins % seconds / seconds * 2 * np.pi
    middle = np.angle(np.exp(1j * turns).mean())
    away = np.angle(np.exp(1j * (turns - middle)))
    return int((middle + np.median(away)) / (2 * np.pi) * seconds % seconds)
