"""Engines: SQLite as a durable multi-process store, PostgreSQL by URL."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from service.config import ConfigError

#: How long SQLite waits for another process's write, ms. A write is one append: milliseconds.
_BUSY_MS = 30_000


def open_engine(url: str) -> sa.Engine:
    """Return an engine for `url` whose commits are on disk when they return.

    SQLite: write-ahead log, so readers never wait for a writer; full synchronisation, so a commit
    survives the loss of power; transactions take the write lock at once, so two processes queue
    instead of failing in the middle.
    """
    if sa.make_url(url).get_backend_name() != "sqlite":
        try:
            return sa.create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=24)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"a database of this kind needs the package {error.name}, which is not installed"
            ) from error
    engine = sa.create_engine(
        url,
        poolclass=QueuePool,
        pool_use_lifo=True,  # the connection used last has its pages and statements at hand
        pool_size=8,
        max_overflow=24,
        connect_args={"check_same_thread": False, "timeout": _BUSY_MS / 1000},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would start transactions on its own, late
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={_BUSY_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediate(connection: sa.Connection) -> None:
    read_only = connection.get_execution_options().get("agenda_read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
