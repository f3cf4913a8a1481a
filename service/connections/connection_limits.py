"""ConnectionLimits: limits of the clients of a server process, in total and per address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from service.problems import ProblemDocument

_RETRY: Final = {"Retry-After": "1"}


class ConnectionLimits:
    """Counts the connections, in total and per address.

    Parameters
    ----------
    most, most_of_one
        Most connections in total, and from one address.
    proxies
        Addresses of proxies, which limit their own clients: the limit per address does not apply.
    """

    def __init__(self, most: int, most_of_one: int, proxies: Iterable[str] = ()) -> None:
        self._proxies = frozenset(proxies)
        self._most = most
        self._most_of_one = most_of_one
        self._of_one: Counter[str] = Counter()

    def refusal(self, address: str) -> ProblemDocument | None:
        """Return why another connection from an address is refused, or None."""
        if self._of_one.total() >= self._most:
            detail = f"{self._most} clients are connected, the maximum of this server"
            return ProblemDocument("unavailable", detail, headers=_RETRY)
        if self._of_one[address] >= self._most_of_one and address not in self._proxies:
            detail = f"{self._most_of_one} connections come from {address}, the maximum"
            return ProblemDocument("too_many", detail, headers=_RETRY)
        return None

    def enter(self, address: str) -> Callable[[], None]:
        """Count a connection; return the function that ends the count."""
        self._of_one[address] += 1
        return partial(self._leave, address)

    def _leave(self, address: str) -> None:
        self._of_one[address] -= 1
        if not self._of_one[address]:
            del self._of_one[address]
