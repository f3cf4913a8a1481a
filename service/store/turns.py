"""Turns: processes of one host that share a SQLite file append one after the other.

SQLite makes a writer that finds the file locked sleep and look again, longer each time; under load
most of a commit's time is then sleep. A lock of the operating system wakes the next writer as soon
as the one before it is done, and because a turn begins before the newest version is read, nobody
prepares in vain. It is a courtesy only: what keeps the log right is its head.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """Which process may append now; one that dies gives its turn back.

    Parameters
    ----------
    database
        The SQLite file, or None for a database that arranges its writers itself.
    """

    def __init__(self, database: str | None) -> None:
        path = None if database is None else Path(f"{database}-turn")
        self._file = None if path is None else path.open("ab")
        self._mine = threading.RLock()
        self._depth = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn and hold it; a turn within a turn of this thread is the same one."""
        if self._file is None:
            yield
            return
        with self._mine:
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock's file."""
        if self._file is not None:
            self._file.close()
