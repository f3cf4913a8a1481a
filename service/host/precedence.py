"""TurnPrecedence: new calls wait while the planner's thread has its turn to append."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Longest wait of a call, s: a turn takes a few ms.
_LONGEST_S: Final = 0.02


class TurnPrecedence:
    """Keeps threads of one process from each other where one of them keeps all processes waiting.

    Threads share one interpreter. Each statement of an append lets another thread have it, and to
    have it back the planner's thread waits for one that reads a request; meanwhile no one can
    append. A call that begins waits here first. Its change would wait for the turn as well; a call
    that changes nothing loses some ms at most.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let those who give way wait."""
        with self._lock:
            yield

    def give_way(self) -> None:
        """Wait until no one holds it, or for a moment."""
        if self._lock.locked() and self._lock.acquire(timeout=_LONGEST_S):
            self._lock.release()
