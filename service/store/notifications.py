"""Notifications: processes learn of each other's commits immediately.

PostgreSQL notifies every listening session. The listener is one connection per process; if it is
lost, the process polls once a second until it listens again. SQLite has no notifications: readers
poll.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import sqlalchemy as sa

from service.store.engine import UnavailableError

logger = logging.getLogger("agenda.service")

#: Channel on which all processes of a database listen.
CHANNEL: Final = "agenda"

#: Notifications: the log has grown; an application was submitted or ended.
LOG: Final = "log"
APPLICATIONS: Final = "applications"

#: Longest pause between two checks for notifications, s; also the polling interval without a
#: connection.
_PAUSE_S: Final = 1.0

#: Notifications within this time are combined, s.
_TOGETHER_S: Final = 0.02


def tell(connection: sa.Connection, what: str) -> None:
    """Notify all listeners when the transaction commits; nothing on SQLite."""
    if connection.dialect.name == "postgresql":
        connection.execute(_TELL, {"channel": CHANNEL, "what": what})


_TELL: Final = sa.text("SELECT pg_notify(:channel, :what)")


class Listener:
    """Calls functions on notifications, in a thread of its own.

    Parameters
    ----------
    engine
        The database. The thread does nothing on SQLite.
    heard
        Called with the notification, `LOG` or `APPLICATIONS`, and with both if some may have been
        missed. It may raise errors of an unavailable database.
    each
        Called about once a second while the database is available.

    Attributes
    ----------
    listens
        Whether the process is notified; otherwise it polls.
    """

    def __init__(
        self, engine: sa.Engine, heard: Callable[[str], None], each: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._heard = heard
        self._each = each
        self.listens = False
        self._checked = 0.0
        dbapi = engine.dialect.loaded_dbapi
        assert dbapi is not None
        self._away = (sa.exc.SQLAlchemyError, dbapi.Error, UnavailableError)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agenda-listener", daemon=True)

    def start(self) -> None:
        """Listen from now on."""
        if self._engine.dialect.name == "postgresql":
            self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _PAUSE_S)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with self._listening() as connection:
                    self._all()  # earlier notifications are not repeated
                    while not self._closing.is_set():
                        self._take(connection)
            except self._away as error:
                if self.listens:
                    why = " ".join(str(error).split())
                    logger.warning("no notifications, polling once a second: %s", why)
                self.listens = False
            with contextlib.suppress(*self._away):  # users of the database report it
                self._all()
            self._closing.wait(_PAUSE_S)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[Any]:
        """Yield a separate listening connection, outside the pool."""
        held = self._engine.raw_connection()
        held.detach()
        connection = held.dbapi_connection
        assert connection is not None
        try:
            connection.autocommit = True
            connection.execute(f"LISTEN {CHANNEL}")
            if not self.listens:
                logger.info("listening to the other processes of this database")
            self.listens = True
            yield connection
        finally:
            held.close()

    def _take(self, connection: Any) -> None:
        """Process the notifications of a short time together."""
        told = {one.payload for one in connection.notifies(timeout=_PAUSE_S, stop_after=1)}
        if told:
            self._closing.wait(_TOGETHER_S)
            told |= {one.payload for one in connection.notifies(timeout=0)}
        for what in sorted(told):
            self._heard(what)
        if time.monotonic() - self._checked >= _PAUSE_S:
            self._check()

    def _check(self) -> None:
        self._checked = time.monotonic()
        self._each()

    def _all(self) -> None:
        self._check()
        for what in (APPLICATIONS, LOG):
            self._heard(what)
