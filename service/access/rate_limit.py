"""RateLimit: limits the calls of each user by a token bucket."""

from __future__ import annotations

import mmap
import threading
import time
from hashlib import blake2b
from typing import Final

#: Size of a bucket, as seconds at the long-term rate.
BURST_S: Final = 2.0

#: Number of buckets, and how many of them may belong to one name. If others use all of these, the
#: one unused for longest is taken: after a long pause it would be full anyway.
_BUCKETS: Final = 65_536
_NEAR: Final = 8


class RateLimit:
    """Counts the calls of each user; thread-safe, also across processes forked from its creator.

    The buckets are in shared memory without locks between processes, so that of two calls that two
    processes count within the same microsecond, one may not count.

    Parameters
    ----------
    rate
        Long-term calls per second of one user; 0 for no limit.
    """

    def __init__(self, rate: float, buckets: int = _BUCKETS) -> None:
        self._rate = rate
        self._most = max(1.0, rate * BURST_S)
        self._buckets = buckets
        held = memoryview(mmap.mmap(-1, 8 * 3 * buckets))
        columns = [held[8 * buckets * n : 8 * buckets * (n + 1)] for n in range(3)]
        self._names = columns[0].cast("Q")
        self._left, self._at = columns[1].cast("d"), columns[2].cast("d")
        self._lock = threading.Lock()

    def wait_of(self, user: str) -> float:
        """Count a call of a user identity; return the seconds until it is allowed, or 0."""
        if not self._rate:
            return 0.0
        now = time.monotonic()
        with self._lock:
            place = self._place_of(user, now)
            left = min(self._most, self._left[place] + (now - self._at[place]) * self._rate)
            if left < 1.0:
                return (1.0 - left) / self._rate
            self._left[place], self._at[place] = left - 1.0, now
        return 0.0

    def _place_of(self, name: str, now: float) -> int:
        """Return the index of a user's bucket; a new one is full."""
        key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
        near = [(key + step) % self._buckets for step in range(_NEAR)]
        for place in near:
            if self._names[place] == key:
                return place
        place = min(near, key=self._at.__getitem__)
        self._names[place], self._left[place], self._at[place] = key, self._most, now
        return place
