"""RateLimit and TenantShares: limits of the calls and places of each user or tenant."""

from __future__ import annotations

import mmap
import threading
import time
from collections import Counter
from hashlib import blake2b
from typing import Final

from service.access.user import User

#: Size of a bucket, as seconds at the long-term rate.
BURST_S: Final = 2.0

#: Number of buckets, and how many of them may belong to one name. If others use all of these, the
#: one unused for longest is taken: after a long pause it would be full anyway.
_BUCKETS: Final = 65_536
_NEAR: Final = 8

#: Scope of users who act for all tenants.
_NONE: Final[frozenset[str]] = frozenset()


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


def share_of(most: int) -> int:
    """Return how much of a limit one tenant may use: half, but at least one."""
    return max(1, most // 2)


class TenantShares:
    """Counts taken places, in total and per tenant; thread-safe.

    A user takes a place for each of its tenants. Operators, admins, and all callers of a server
    without tokens act for all tenants: they may take every place.

    Parameters
    ----------
    most
        Total number of places.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._share = share_of(most)
        self._taken = 0
        self._of_tenant: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, user: User) -> bool:
        """Take a place; False if there is none, or if a tenant of the user has used its share."""
        tenants = user.scope or _NONE
        with self._lock:
            has_share = any(self._of_tenant.get(one, 0) >= self._share for one in tenants)
            if has_share or self._taken >= self.most:
                return False
            self._taken += 1
            self._of_tenant.update(tenants)
            return True

    def give_back(self, user: User) -> None:
        """Release a place that the user has taken."""
        with self._lock:
            self._taken -= 1
            for tenant in user.scope or _NONE:
                self._of_tenant[tenant] -= 1
                if not self._of_tenant[tenant]:
                    del self._of_tenant[tenant]
