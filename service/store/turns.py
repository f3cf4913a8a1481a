"""Turns: processes that share a database append one after the other.

A turn begins before the newest version is read, so that no preparation is wasted, and a waiting
process collects more changes for its commit. Turns are an optimisation only: the log's head
guarantees correctness. A SQLite writer that finds the file locked sleeps and retries with growing
pauses; under load most of a commit's time would be sleep. A lock of the operating system wakes the
next writer as soon as the previous one is done. Processes of several hosts take turns by an
advisory lock of PostgreSQL; a process that is stopped in its turn blocks the others only for a
moment.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

#: Key of PostgreSQL's advisory lock for a turn, and the longest wait for it, ms.
_KEY: Final = 0x5455524E
_WAIT_MS: Final = 500


class Turns:
    """Turns of processes to append; a process that dies releases its turn.

    Parameters
    ----------
    engine
        The database: a SQLite file, or PostgreSQL.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._lock = (
            _FileLock(f"{engine.url.database}-turn")
            if engine.dialect.name == "sqlite"
            else _SharedLock(engine)
        )
        self._mine = threading.RLock()
        self._depth = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn and hold it; reentrant within a thread."""
        with self._mine:
            if self._depth == 0:
                self._lock.take()
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._lock.give()

    def close(self) -> None:
        """Close the lock."""
        self._lock.close()


class _FileLock:
    """A lock of the operating system, for the processes of one host."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab")  # noqa: SIM115 - open as long as the store is

    def take(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def give(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self._file.close()


class _SharedLock:
    """An advisory lock of PostgreSQL, on its own connection; after a timeout it is skipped."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._connection: Any = None
        dbapi = engine.dialect.loaded_dbapi
        assert dbapi is not None
        self._away = (sa.exc.SQLAlchemyError, dbapi.Error)

    def take(self) -> None:
        try:
            if self._connection is None:
                held = self._engine.raw_connection()
                held.detach()
                self._connection = held.dbapi_connection
                self._connection.autocommit = True
                self._connection.execute(f"SET lock_timeout = {_WAIT_MS}")
            # Both in one message, to save a round trip.
            both = f"BEGIN; SELECT pg_advisory_xact_lock({_KEY})"
            self._connection.execute(both, prepare=False)
        except self._away:
            self.give()

    def give(self) -> None:
        try:
            if self._connection is not None:
                self._connection.rollback()
        except self._away:
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._away):
                connection.close()
