"""TurnPrecedence: new calls wait while the planner's thread has its turn to append."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Longest wait of a call, s: a turn takes a few ms.
_LONGEST_S: Final = 0.02


class TurnPrecedence:
    """Lets new calls wait while the planner's thread blocks all processes by its turn.

    Threads share the interpreter lock. Each statement of an append releases it, and to get it back
    the planner's thread waits for one that reads a request; meanwhile no process can append. So a
    new call waits here first. Its change would wait for the turn anyway; a read loses at most some
    ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make calls in `give_way` wait."""
        with self._lock:
            yield

    def give_way(self) -> None:
        """Wait until it is free, but only briefly."""
        if self._lock.locked() and self._lock.acquire(timeout=_LONGEST_S):
            self._lock.release()
