"""WaitingPlaces: how many calls of a process may wait for what takes long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
        self._most = max(1, threads // 2)
        self._places = threading.BoundedSemaphore(self._most)

    def take(self) -> bool:
        """Take a place; False where there is none."""
        return self._places.acquire(blocking=False)

    def give_back(self) -> None:
        """Give a place back."""
        self._places.release()

    def crowded(self) -> ApiProblemError:
        """Return the answer to a call that finds no place."""
        detail = (
            f"{self._most} calls wait for a solver or a displacement of this process, the most "
            "that may wait"
        )
        return problem("too_many", detail, headers=_RETRY)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold a place.

        Raises
        ------
        ApiProblemError
            ``too_many`` where all are taken.
        """
        if not self.take():
            raise self.crowded()
        try:
            yield
        finally:
            self.give_back()
