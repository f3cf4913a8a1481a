"""WaitingLimit: how many requests of one tenant may wait to be planned at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from service.commits.changes.commands import Admission, Command, Renegotiation
from service.planning.shared_counts import SharedCounts
from service.problems import problem

_RETRY: Final = {"Retry-After": "1"}


class WaitingLimit:
    """Counts the requests that wait, by tenant; any thread may ask.

    Of two calls that two processes count at the same instant neither sees the other.

    Parameters
    ----------
    most
        Most of one tenant. One call with more is taken where none of its tenant waits.
    shared
        What the other processes of this server count; None: there is no other.
    """

    def __init__(self, most: int, shared: SharedCounts | None = None) -> None:
        self._most = most
        self._shared = shared
        self._waiting: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, command: Command) -> Iterator[None]:
        """Count the requests of a command while it waits.

        Raises
        ------
        ApiProblemError
            ``too_many`` where too many of a tenant wait already.
        """
        asked = _requests_of(command)
        with self._lock:
            for tenant, count in asked.items():
                waiting = self._waiting_of(tenant)
                if waiting and waiting + count > self._most:
                    detail = (
                        f"{waiting:,} requests of tenant {tenant!r} wait to be planned; "
                        f"at most {self._most:,} may"
                    )
                    raise problem("too_many", detail, headers=_RETRY)
            self._add(asked, 1)
        try:
            yield
        finally:
            with self._lock:
                self._add(asked, -1)

    def _waiting_of(self, tenant: str) -> int:
        others = 0 if self._shared is None else self._shared.of_others(tenant)
        return self._waiting.get(tenant, 0) + others

    def _add(self, asked: Mapping[str, int], sign: int) -> None:
        """Count requests of some tenants; one of whom nothing waits is dropped."""
        for tenant, count in asked.items():
            left = self._waiting.pop(tenant, 0) + sign * count
            if left:
                self._waiting[tenant] = left
            if self._shared is not None:
                self._shared.put(tenant, left)


def _requests_of(command: Command) -> Counter[str]:
    match command:
        case Admission(asks=asks):
            return Counter(ask.request.tenant for ask in asks)
        case Renegotiation(ask=ask):
            return Counter((ask.request.tenant,))
        case _:
            return Counter()
