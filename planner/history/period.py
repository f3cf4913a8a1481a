"""How often a job comes, and when in its period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.history.run import JobRun

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_PERIODS_S: Final = (
    5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 3 * _HOUR, 4 * _HOUR, 6 * _HOUR, 8 * _HOUR, 12 * _HOUR,
    _DAY, 7 * _DAY,
)  # fmt: skip
#: Gaps between begins that are whole periods within this share of one, and how many must be.
_NEAR: Final = 0.2
_SHARE: Final = 0.8
_LEAST_RUNS: Final = 4


@dataclass(frozen=True, slots=True)
class Period:
    """A recurrence.

    Attributes
    ----------
    seconds
        From one run to the next.
    begin_s
        Where in the period runs begin, by their median; counted from midnight UTC.
    """

    seconds: int
    begin_s: int


def period_of(runs: Sequence[JobRun]) -> Period | None:
    """Return the period of runs in order of their begins, or None where there is none.

    The longest of the usual periods for which most gaps are whole multiples, and half of them one
    period: missed runs do not hide it.
    """
    begins = np.array([run.began_s for run in runs])
    if begins.size < _LEAST_RUNS:
        return None
    gaps = np.diff(begins)
    for seconds in reversed(_PERIODS_S):
        periods = gaps / seconds
        near = (np.abs(periods - np.rint(periods)) <= _NEAR) & (np.rint(periods) >= 1)
        if near.mean() >= _SHARE and np.median(np.rint(periods)) == 1:
            return Period(seconds, _median_on_circle(begins, seconds))
    return None


def _median_on_circle(begins: np.ndarray, seconds: int) -> int:
    """Return the place in the period that is nearest to all begins."""
    turns = begins % seconds / seconds * 2 * np.pi
    middle = np.angle(np.exp(1j * turns).mean())
    away = np.angle(np.exp(1j * (turns - middle)))
    return int((middle + np.median(away)) / (2 * np.pi) * seconds % seconds)
