"""When a search ends: by time, by rounds, or because it is stopped."""

from __future__ import annotations

import time

from planner.agent import Limits


class Deadline:
    """When a search ends; its time starts now.

    Parameters
    ----------
    limits
        `time_s`, `work` (rounds) and `stop` end it.
    rounds
        Rounds if neither time nor work is limited.

    Attributes
    ----------
    rounds
        Rounds so far; the search counts them.
    """

    def __init__(self, limits: Limits, rounds: int) -> None:
        self.rounds = 0
        self._stop = limits.stop
        self._most = limits.work
        if limits.work is None and limits.time_s is None:
            self._most = rounds
        self._began = time.monotonic()
        self._time_s = limits.time_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Return whether the search must stop."""
        if self._stop is not None and self._stop():
            return True
        if self._time_s is not None and self.elapsed_s >= self._time_s:
            return True
        return self._most is not None and self.rounds >= self._most
