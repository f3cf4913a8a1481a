"""RateLimit: how many calls a user may make, by a bucket of tokens for each (a leaky bucket)."""

from __future__ import annotations

import threading
import time
from typing import Final

#: Seconds' worth of calls that a user who has been silent may make at once.
BURST_S: Final = 2.0

#: Most users whose calls are counted; past that those who have been silent are forgotten.
_MOST: Final = 10_000


class RateLimit:
    """Counts the calls of each user; any thread may ask.

    Parameters
    ----------
    rate
        Calls a second of one user in the long run; 0: as many as it likes.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_S)
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait_of(self, name: str) -> float:
        """Count a call; return 0, or, where it is one too many, the seconds until one may come."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        with self._lock:
            left, at = self._left.get(name, (self._most, now))
            left = min(self._most, left + (now - at) * self._rate)
            if left < 1.0:
                return (1.0 - left) / self._rate
            self._left[name] = left - 1.0, now
            if len(self._left) > _MOST:
                self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop those whose bucket is full again: they are as if they had never called."""
        self._left = {name: one for name, one in self._left.items() if now - one[1] < BURST_S}
