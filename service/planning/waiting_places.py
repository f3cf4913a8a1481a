"""WaitingPlaces: how many calls of a process may wait for what takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.access.actor import present_actor
from service.access.tenant_shares import TenantShares, share_of
from service.access.user import User
from service.problems import ApiProblemError, problem

_RETRY: Final = {"Retry-After": "5"}


class WaitingPlaces:
    """Places for calls that wait for a solver or for a search of whom to displace.

    Parameters
    ----------
    threads
        That answer calls; half of them may wait so, and the others serve who asks for less.
    """

    def __init__(self, threads: int) -> None:
        self._places = TenantShares(max(1, threads // 2))

    def take(self, user: User) -> bool:
        """Take a place; False where there is none, or where a tenant of the user has its share."""
        return self._places.take(user)

    def give_back(self, user: User) -> None:
        """Give a place back."""
        self._places.give_back(user)

    def crowded(self) -> ApiProblemError:
        """Return the answer to a call that finds no place."""
        most = self._places.most
        detail = (
            f"{most} calls may wait for a solver or a displacement of this process, and "
            f"{share_of(most)} of one tenant; as many wait"
        )
        return problem("too_many", detail, headers=_RETRY)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold a place for the caller of this thread.

        Raises
        ------
        ApiProblemError
            ``too_many`` where all are taken, or the share of a tenant is.
        """
        user = present_actor().user
        if not self.take(user):
            raise self.crowded()
        try:
            yield
        finally:
            self.give_back(user)
