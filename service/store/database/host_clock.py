"""HostClock: the time that all hosts of one database tell, and how far this host's clock is off it.

Hosts share a database, so its clock is theirs: on PostgreSQL each process asks it now and then and
adds the difference to its own clock. A SQLite file is used by one host, whose clock is everybody's.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

import sqlalchemy as sa

from service.clock import Clock
from service.store.database.clock_guard import ClockGuard, ClockSettings

logger = logging.getLogger("agenda.service")

#: Difference from which on it is said, ms; less is the way to the database and back.
NOTICED_MS: Final = 2_000

#: Difference beyond which a host must not lead, ms.
BOUND_MS: Final = 30_000

#: Differences are corrected in steps of at least this, ms, so that time does not tremble.
_STEP_MS: Final = 100

_NOW: Final = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")


class HostClock:
    """A clock that agrees with the database's.

    Parameters
    ----------
    own
        This host's clock.
    engine
        The database that hosts share; None where one host uses it.

    Attributes
    ----------
    ahead_ms
        How far the host's clock is ahead of the database's, as measured last.
    """

    def __init__(self, own: Clock, engine: sa.Engine | None = None) -> None:
        self._own = own
        self._engine = engine
        self.ahead_ms = 0
        self._said = 0
        self._saying = threading.Lock()
        self._guard: ClockGuard | None = None

    def begin_to_doubt(self, settings: ClockSettings) -> None:
        """Follow no clock that runs ahead at once; what is known of it is kept in settings."""
        self._guard = ClockGuard(settings, self._agreed_ms)

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        return self._agreed_ms() if self._guard is None else self._guard.now_ms()

    def _agreed_ms(self) -> int:
        """Return what the clocks of all hosts show."""
        return self._own.now_ms() - self.ahead_ms

    @property
    def jump(self) -> str | None:
        """Why the clock is not followed, or None."""
        return None if self._guard is None else self._guard.fault

    def look(self) -> None:
        """Exchange with other processes what is known of the clock; at most once a second.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database cannot be used now.
        """
        if self._guard is not None:
            self._guard.look()

    def measure(self) -> None:
        """Compare the two clocks; a difference that matters is written into the log.

        Raises
        ------
        sqlalchemy.exc.OperationalError
            If the database cannot be asked now.
        """
        if self._engine is None:
            return
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            before_ms = self._own.now_ms()
            theirs_ms = int(connection.execute(_NOW).scalar_one())
            after_ms = self._own.now_ms()
        ahead_ms = (before_ms + after_ms) // 2 - theirs_ms
        if abs(ahead_ms - self.ahead_ms) > _STEP_MS + (after_ms - before_ms) // 2:
            self.ahead_ms = ahead_ms
        self._say()

    @property
    def fault(self) -> str | None:
        """Why this host must not lead, or None."""
        return self._difference() if abs(self.ahead_ms) > BOUND_MS else None

    def _difference(self) -> str:
        way = "ahead of" if self.ahead_ms > 0 else "behind"
        seconds = abs(self.ahead_ms) / 1000
        return (
            f"the clock of this host is {seconds:.1f} s {way} the database's; "
            "set both by the same time server"
        )

    def _say(self) -> None:
        """Write down where it begins to matter, where it keeps this host from leading, and its end.

        Several threads measure; one of them says it.
        """
        with self._saying:
            said, self._said = (
                self._said,
                sum(abs(self.ahead_ms) >= bound_ms for bound_ms in (NOTICED_MS, BOUND_MS + 1)),
            )
            if self._said > said:
                led = "; it does not lead and is not ready" if self.fault else ""
                logger.warning("%s%s", self._difference(), led)
            elif said > self._said == 0:
                logger.info("the clock of this host agrees with the database's again")
            elif said > self._said:
                logger.warning("%s; it may lead again", self._difference())
