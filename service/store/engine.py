"""Engines: SQLite as a durable multi-process store, PostgreSQL by URL; and their `Driver`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from service.config import ConfigError

#: How long SQLite waits for another process's write, ms. A write is one append and takes
#: milliseconds.
_BUSY_MS = 30_000

#: How long PostgreSQL lets a transaction be idle, ms. Ours are never idle: one that is belongs to a
#: stopped process or a dead host.
_IDLE_MS = 5_000

#: How long a released connection counts as alive without a check, s. A check is a round trip, as
#: long as most statements; if a connection is lost within this time, the next call on it is
#: answered 503 as if the database were unavailable.
FRESH_S: Final = 1.0

#: Key of a connection's last use in the pool's records.
_USED_S: Final = "agenda_used_s"

#: How psycopg detects a dead host: seconds to connect; a silent connection is probed after 5 s, and
#: closed after 10 s without an answer.
_PATIENCE: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

#: Advice for errors of SQLite.
_ADVICE: Final = {
    "unable to open database file": "its folder must exist and be writable",
    "attempt to write a readonly database": "the file and its folder must be writable",
    "file is not a database": "the file is something else; name another",
    "database or disk is full": "free some disk space",
}


@contextmanager
def opening(url: str) -> Iterator[None]:
    """Report a database that cannot be opened, or is not Agenda's, as an invalid setting.

    Raises
    ------
    ConfigError
        With the reason, without the password of the URL.
    """
    try:
        yield
    except ArgumentError as error:
        raise ConfigError(
            f"{url.partition('://')[0]}://... is not a database URL ({error}); write "
            "sqlite:///agenda.db or postgresql+psycopg://user@host/database"
        ) from error
    except DBAPIError as error:
        why = " ".join(str(error.orig).split())
        advice = f"; {_ADVICE[why]}" if why in _ADVICE else ""
        shown = sa.make_url(url).render_as_string()
        raise ConfigError(f"the database {shown} cannot be opened: {why}{advice}") from error


def open_engine(url: str) -> sa.Engine:
    """Return an engine for `url` whose commits are on disk when they return.

    SQLite: write-ahead log, so readers never wait for a writer; full synchronisation, so a commit
    survives the loss of power; transactions take the write lock at their start, so that processes
    queue instead of failing midway.
    """
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite":
        known = _PATIENCE if made.get_backend_name() == "postgresql" else {}
        patience = {name: value for name, value in known.items() if name not in made.query}
        try:
            engine = sa.create_engine(
                url,
                pool_use_lifo=True,  # the connection used last has its statements prepared
                pool_size=8,
                max_overflow=24,
                connect_args=patience,
                isolation_level="READ COMMITTED",  # all statements are written for it
            )
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"a database of this kind needs the package {error.name}, which is not installed"
            ) from error
        event.listen(engine, "connect", _prepare_postgresql)
        event.listen(engine, "checkin", _note_use)
        event.listen(engine, "checkout", partial(_look_again, engine))
        return engine
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


def hold_lock(connection: sa.Connection, key: int) -> None:
    """Exclude other transactions that hold `key` until this one ends.

    SQLite's writers are serialised anyway. Later reads see the writes of earlier holders of the
    lock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _prepare_postgresql(connection: Any, _record: object) -> None:
    """Let the server roll back transactions of dead hosts, whose locks others wait for."""
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = {_IDLE_MS}")
    cursor.close()
    connection.commit()


def _note_use(_connection: Any, record: Any) -> None:
    record.info[_USED_S] = time.monotonic()


def _look_again(engine: sa.Engine, connection: Any, record: Any, _held: Any) -> None:
    """Check whether a connection that was unused for a while is still alive.

    Raises
    ------
    sqlalchemy.exc.InvalidatePoolError
        If it is not: it is replaced, and so are all older ones.
    """
    used_s = record.info.get(_USED_S)
    if used_s is None or time.monotonic() - used_s < FRESH_S:
        return
    try:
        engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error as error:
        raise sa.exc.InvalidatePoolError(str(error)) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would start transactions itself, too late
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    (mode,) = cursor.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise ConfigError(
            f"the Plan must be on a disk with SQLite's write-ahead log, which this database "
            f"does not keep (its journal is {mode!r}); write sqlite:///agenda.db"
        )
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediate(connection: sa.Connection) -> None:
    read_only = connection.get_execution_options().get("agenda_read_only", False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


#: Connections kept between statements; the pool's overhead is as large as a small statement.
_MOST_KEPT: Final = 2


class UnavailableError(Exception):
    """The database is unavailable, full or locked; the change was not made."""


class OutdatedError(UnavailableError):
    """The log is in the format of another version of Agenda; this one must not write to it."""


#: Errors of an unavailable database, from text statements and from expressions.
UNAVAILABLE: Final = (UnavailableError, sa.exc.OperationalError, sa.exc.InterfaceError)


class Statement:
    """A statement of SQLAlchemy that a driver runs as text.

    Building and compiling a statement takes some 0.15 ms of CPU time, several times as long as
    SQLite needs to run it. Statements of every commit are compiled once.

    Attributes
    ----------
    text
        SQL text for the driver.
    """

    def __init__(self, engine: sa.Engine, expression: sa.Executable) -> None:
        compiled = expression.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self.text = str(compiled)
        self._order: Sequence[str] | None = compiled.positiontup
        self._fixed = {name: one for name, one in compiled.params.items() if one is not None}

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return values by bind parameter in the form that the driver expects."""
        if self._order is None:
            return {**self._fixed, **values}
        return tuple(values[name] if name in values else self._fixed[name] for name in self._order)

    def run(self, cursor: Any, **values: Any) -> int:
        """Run it once; return how many rows it changed."""
        cursor.execute(self.text, self.parameters(values))
        return int(cursor.rowcount)

    def run_each(self, cursor: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each row, if there is any."""
        if rows:
            cursor.executemany(self.text, [self.parameters(row) for row in rows])


class Driver:
    """Runs the frequent statements of commits and reads with little overhead.

    They run on connections of the engine, which are prepared, pooled and released as usual.

    Parameters
    ----------
    engine
        Engine whose connections are used.

    Attributes
    ----------
    integrity_error
        Exception of the driver for a duplicate key.
    on_sqlite
        Whether it is SQLite.
    """

    def __init__(self, engine: sa.Engine) -> None:
        dialect = engine.dialect
        self._engine = engine
        self.on_sqlite = dialect.name == "sqlite"
        assert dialect.loaded_dbapi is not None
        dbapi = dialect.loaded_dbapi
        self.integrity_error: type[Exception] = dbapi.IntegrityError
        self._away: tuple[type[Exception], ...] = (dbapi.OperationalError, dbapi.InterfaceError)
        self._kept: list[tuple[float, Any]] = []

    def close(self) -> None:
        """Close the kept connections."""
        while self._kept:
            self._kept.pop()[1].close()

    def statement(self, expression: sa.Executable) -> Statement:
        """Return a statement, compiled for this database."""
        return Statement(self._engine, expression)

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        with self._connect() as connection, self._alone(connection):
            cursor = connection.cursor()
            statement.run(cursor, **values)
            return list(cursor.fetchall())

    def changed(self, statement: Statement, **values: Any) -> int:
        """Run and commit one statement; return how many rows it changed.

        On PostgreSQL this is one round trip, while a transaction takes three.

        Raises
        ------
        UnavailableError
            As :meth:`transaction`.
        """
        with self._connect() as connection, self._alone(connection):
            return statement.run(connection.cursor(), **values)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor whose statements are committed together or not at all.

        Raises
        ------
        UnavailableError
            If the database is unavailable. If the connection was lost during the commit itself, the
            statements may be durable.
        """
        with self._connect() as connection:
            try:
                cursor = connection.cursor()
                if self.on_sqlite:
                    cursor.execute("BEGIN IMMEDIATE")
                yield cursor
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def _alone(self, connection: Any) -> Iterator[None]:
        """Make each statement its own transaction; on SQLite this is the default."""
        if self.on_sqlite:
            yield
            return
        own = connection.dbapi_connection
        own.autocommit = True
        try:
            yield
        finally:
            if not own.closed:
                own.autocommit = False

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        try:
            connection = self._borrow()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        except self._away as error:
            raise UnavailableError(str(error)) from error

    def _borrow(self) -> Any:
        """Return a connection: a recently used one, else one of the engine's pool."""
        try:
            used_s, connection = self._kept.pop()
        except IndexError:
            return self._engine.raw_connection()
        if time.monotonic() - used_s < FRESH_S or self._stands(connection):
            return connection
        return self._engine.raw_connection()

    def _stands(self, connection: Any) -> bool:
        """Return whether a connection is still alive; a dead one is discarded."""
        dialect = self._engine.dialect
        assert dialect.loaded_dbapi is not None
        try:
            dialect.do_ping(connection.dbapi_connection)
        except dialect.loaded_dbapi.Error as error:
            connection.invalidate(error)
            connection.close()
            return False
        return True

    def _give_back(self, connection: Any) -> None:
        """Keep a connection for the next statement, or return it to the engine's pool."""
        if len(self._kept) < _MOST_KEPT:
            self._kept.append((time.monotonic(), connection))
        else:
            connection.close()
