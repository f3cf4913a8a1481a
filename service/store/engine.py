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

#: How long SQLite waits for another process's write, ms. A write is one append: milliseconds.
_BUSY_MS = 30_000

#: How long PostgreSQL lets a transaction wait for its next statement, ms. Ours wait for no one: one
#: that is silent for so long was begun by a process that is stopped or a host that is gone.
_IDLE_MS = 5_000

#: For how long a connection that was released is taken to stand, s. To ask is a way to the
#: database and back, as long as most statements take; one that is lost within this time costs the
#: call that meets it, which is answered 503 as if the database were unavailable.
FRESH_S: Final = 1.0

#: Where the pool keeps when a connection was used last.
_USED_S: Final = "agenda_used_s"

#: How psycopg finds out that a host is gone: seconds to connect; a connection that is silent is
#: asked after 5 s, and given up where 10 s bring no answer.
_PATIENCE: Final = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}

#: What would be right, by what SQLite says.
_ADVICE: Final = {
    "unable to open database file": "its folder must be there and may be written",
    "attempt to write a readonly database": "the file and its folder must be writable",
    "file is not a database": "the file holds something else; name another",
    "database or disk is full": "free capacity on the disk",
}


@contextmanager
def opening(url: str) -> Iterator[None]:
    """Tell a database that cannot be opened, or is none of ours, as a setting that cannot work.

    Raises
    ------
    ConfigError
        Saying why, without the password of the URL.
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
    survives the loss of power; transactions take the write lock at once, so two processes queue
    instead of failing in the middle.
    """
    made = sa.make_url(url)
    if made.get_backend_name() != "sqlite":
        known = _PATIENCE if made.get_backend_name() == "postgresql" else {}
        patience = {name: value for name, value in known.items() if name not in made.query}
        try:
            engine = sa.create_engine(
                url,
                pool_use_lifo=True,  # the connection used last knows its statements
                pool_size=8,
                max_overflow=24,
                connect_args=patience,
                isolation_level="READ COMMITTED",  # what every statement of the store is right for
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
    """Let no other transaction that holds `key` run before this one has ended.

    SQLite's writers come one after the other anyway. What is read afterwards is what anyone who
    held the lock before has left.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _prepare_postgresql(connection: Any, _record: object) -> None:
    """Let the server undo what a host that is gone has begun: others wait for its locks."""
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = {_IDLE_MS}")
    cursor.close()
    connection.commit()


def _note_use(_connection: Any, record: Any) -> None:
    record.info[_USED_S] = time.monotonic()


def _look_again(engine: sa.Engine, connection: Any, record: Any, _held: Any) -> None:
    """Ask a connection that no one has used for a while whether it still stands.

    Raises
    ------
    sqlalchemy.exc.InvalidatePoolError
        If it does not: it is replaced, and so are those made before it.
    """
    used_s = record.info.get(_USED_S)
    if used_s is None or time.monotonic() - used_s < FRESH_S:
        return
    try:
        engine.dialect.do_ping(connection)
    except engine.dialect.loaded_dbapi.Error as error:
        raise sa.exc.InvalidatePoolError(str(error)) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would start transactions on its own, late
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


#: Connections that are kept between statements; the pool's ways cost as much as a small statement.
_MOST_KEPT: Final = 2


class UnavailableError(Exception):
    """The database is unavailable, full or locked; what was begun was not made."""


class OutdatedError(UnavailableError):
    """The log is in the format of another version of Agenda; this one must not write to it."""


#: What says so, from statements as text and from expressions.
UNAVAILABLE: Final = (UnavailableError, sa.exc.OperationalError, sa.exc.InterfaceError)


class Statement:
    """A statement of SQLAlchemy that a driver runs as text.

    To build and compile one costs some 0.15 ms of processor time, several times what SQLite takes
    for the statement itself. What runs at every commit is compiled once.

    Attributes
    ----------
    text
        As the driver writes it.
    """

    def __init__(self, engine: sa.Engine, expression: sa.Executable) -> None:
        compiled = expression.compile(dialect=engine.dialect)  # type: ignore[attr-defined]
        self.text = str(compiled)
        self._order: Sequence[str] | None = compiled.positiontup
        self._fixed = {name: one for name, one in compiled.params.items() if one is not None}

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """Return values by the name of their bind parameter as the driver takes them."""
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
    """Runs the few statements of every commit and every read without ceremony.

    They run on connections of the engine, which are prepared, pooled and released as everywhere.

    Parameters
    ----------
    engine
        Whose connections are used.

    Attributes
    ----------
    integrity_error
        What the driver raises for a key that is there already.
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
        """Release the connections that are kept."""
        while self._kept:
            self._kept.pop()[1].close()

    def statement(self, expression: sa.Executable) -> Statement:
        """Return a statement, compiled for this database."""
        return Statement(self._engine, expression)

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """Return what a query finds.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        with self._connect() as connection, self._alone(connection):
            cursor = connection.cursor()
            statement.run(cursor, **values)
            return list(cursor.fetchall())

    def changed(self, statement: Statement, **values: Any) -> int:
        """Run one statement, durable when this returns; return how many rows it changed.

        On PostgreSQL that is one round trip, where a transaction is three.

        Raises
        ------
        UnavailableError
            As :meth:`transaction`.
        """
        with self._connect() as connection, self._alone(connection):
            return statement.run(connection.cursor(), **values)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor whose statements are durable together, or none of them.

        Raises
        ------
        UnavailableError
            If the database cannot be used now. Only where the connection was lost in the commit
            itself may the statements be durable nevertheless.
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
        """Make each statement a transaction of its own; on SQLite that is so anyway."""
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
        """Return a connection: one that was just used, else one of the engine's."""
        try:
            used_s, connection = self._kept.pop()
        except IndexError:
            return self._engine.raw_connection()
        if time.monotonic() - used_s < FRESH_S or self._stands(connection):
            return connection
        return self._engine.raw_connection()

    def _stands(self, connection: Any) -> bool:
        """Return whether a connection can still be used; one that cannot is thrown away."""
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
        """Keep a connection for the next statement; the engine's pool has the others."""
        if len(self._kept) < _MOST_KEPT:
            self._kept.append((time.monotonic(), connection))
        else:
            connection.close()
