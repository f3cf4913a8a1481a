"""TenantShares: limited places of a process, of which one tenant takes at most half."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from service.access.user import User

#: Scope of users who act for all tenants.
_NONE: Final[frozenset[str]] = frozenset()


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
