"""Driver: the few statements that every commit and every read runs, without ceremony.

SQLAlchemy's expressions cost some 0.15 ms of processor time each, several times what SQLite takes
for the statement itself. What runs at every commit goes to the driver as text, on connections of
the same engine: they are prepared, pooled and given back as everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa

from service.store.database import engine as engines

#: Connections that are kept between statements; the pool's ways cost as much as a small statement.
_MOST_KEPT: Final = 2


class UnavailableError(Exception):
    """The database is away, full or locked; what was begun was not made."""


class OutdatedError(UnavailableError):
    """The log is in the format of another version of Agenda; this one must not write to it."""


#: What says so, from statements as text and from expressions.
UNAVAILABLE: Final = (UnavailableError, sa.exc.OperationalError, sa.exc.InterfaceError)


class Driver:
    """Statements as text, with ``?`` for each parameter, whatever the driver writes for it.

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
        self._mark = "?" if dialect.paramstyle == "qmark" else "%s"
        assert dialect.loaded_dbapi is not None
        dbapi = dialect.loaded_dbapi
        self.integrity_error: type[Exception] = dbapi.IntegrityError
        self._away: tuple[type[Exception], ...] = (dbapi.OperationalError, dbapi.InterfaceError)
        self._kept: list[tuple[float, Any]] = []

    def close(self) -> None:
        """Give the connections back that are kept."""
        while self._kept:
            self._kept.pop()[1].close()

    def statement(self, text: str) -> str:
        """Return a statement as the driver writes it."""
        return text.replace("?", self._mark)

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return what a query finds.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        with self._connect() as connection, self._alone(connection):
            cursor = connection.cursor()
            cursor.execute(statement, tuple(parameters))
            return list(cursor.fetchall())

    def changed(self, statement: str, parameters: Sequence[object] = ()) -> int:
        """Carry out one statement, durable when this returns; return how many rows it tells of.

        On PostgreSQL that is one way to the database and back, where a transaction is three.

        Raises
        ------
        UnavailableError
            As :meth:`transaction`.
        """
        with self._connect() as connection, self._alone(connection):
            cursor = connection.cursor()
            cursor.execute(statement, tuple(parameters))
            return int(cursor.rowcount)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor whose statements are durable together, or none of them.

        Raises
        ------
        UnavailableError
            If the database cannot be used now. Only where the connection was lost in the commit
            itself may the statements be durable all the same.
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
        if time.monotonic() - used_s < engines.FRESH_S or self._stands(connection):
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
