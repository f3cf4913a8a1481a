"""When an improvement is over: by time, by rounds, or because it was stopped."""

from __future__ import annotations

import time

from planner.agent import Limits

#: Rounds of improvement where neither time nor work is limited.
_ROUNDS = 200


class Deadline:
    """When an improvement is over."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.rounds = 0
        self._until = None if limits.time_s is None else time.monotonic() + limits.time_s

    def over(self) -> bool:
        """Return whether to stop with the best so far."""
        limits = self.limits
        if limits.stop is not None and limits.stop():
            return True
        if self._until is not None and time.monotonic() >= self._until:
            return True
        most = limits.work
        if most is None:
            most = None if self._until is not None else _ROUNDS
        return most is not None and self.rounds >= most
