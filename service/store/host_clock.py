"""HostClock: the time that all hosts of one database agree on; and its ClockGuard.

Hosts share the database's clock: on PostgreSQL each process queries it regularly and adds the
difference to its own clock. A SQLite file is used by one host, whose clock applies to all
processes. ClockGuard: a forward jump of the clock is not trusted until it is confirmed. Effects of
time cannot be undone: reservations complete and leave the Plan, holds expire, tokens end, old
answers are deleted. So if the wall clock suddenly gains on the kernel's monotonic clock, time
continues by the monotonic clock until the wall clock is right again, an operator confirms it
(`agenda clock confirm`), or it has stayed ahead for :data:`BELIEVED_S`. The monotonic clock counts
suspended time, so the clock of a host that was suspended is trusted.

The difference of both clocks is stored in the database for each boot of a host, so that a server
restart does not bypass the check. After a reboot there is nothing to compare with, and the clock is
trusted unless there was an unconfirmed jump when a server last ran.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import sqlalchemy as sa

from rdl.time_grid import duration_text
from service.clock import Clock

logger = logging.getLogger("agenda.service")

#: Largest trusted jump of the wall clock against the monotonic one, ms.
JUMP_MS: Final = 60_000

#: Time after which a clock that stays ahead is trusted, s.
BELIEVED_S: Final = 900

#: Seconds between two exchanges with the database, and the least change of a stored difference, ms.
_LOOK_S: Final = 1.0
_STORED_MS: Final = 1_000

#: Two readings of the monotonic clock further apart than this were interrupted, ms.
_APART_MS: Final = 100

#: Number of boots whose differences are stored.
_BOOTS: Final = 16

#: Settings in the database: differences by boot; time of an unconfirmed jump; last confirmed time.
_OFFSETS, _OPEN, _CONFIRMED = "clock_offsets", "clock_jump", "clock_confirmed"


#: Least difference that is logged, ms; less may be the round trip to the database.
NOTICED_MS: Final = 2_000

#: Largest difference with which a host may lead, ms.
BOUND_MS: Final = 30_000

#: Least correction of the difference, ms, so that time does not jitter.
_STEP_MS: Final = 100

_NOW: Final = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")


class ClockSettings(Protocol):
    """Shared settings of the processes of one database about the clock."""

    def find_setting(self, name: str) -> str | None:
        """Return a setting, or None."""
        ...

    def replace_setting(self, name: str, value: str) -> None:
        """Store a setting."""
        ...


def steady_ms() -> int:
    """Return ms since the host's boot, including suspended time."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def boot_id() -> str:
    """Return the id of this boot of the host; empty if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def confirm_clock(settings: ClockSettings, wall_ms: int) -> None:
    """Let the processes of a database trust their clocks, which show about this time."""
    settings.replace_setting(_CONFIRMED, json.dumps({"at_ms": wall_ms}))


class ClockGuard:
    """Checks the wall clock against the monotonic clock.

    Parameters
    ----------
    settings
        Storage of their difference.
    wall
        Returns Unix ms.
    steady
        Returns ms since some instant of this boot.
    boot
        Id of the boot; empty to share nothing with other processes.
    """

    def __init__(
        self,
        settings: ClockSettings,
        wall: Callable[[], int],
        steady: Callable[[], int] = steady_ms,
        boot: str | None = None,
    ) -> None:
        self._settings = settings
        self._wall, self._steady = wall, steady
        self._boot = boot_id() if boot is None else boot
        self._lock = threading.Lock()
        self._since: int | None = None
        self._looked = -_LOOK_S
        offset, now = self._read()
        known = self._stored(_OFFSETS).get(self._boot) if self._boot else None
        self._kept: int | None = known
        left = self._stored(_OPEN)
        self._is_open = bool(left)
        if known is None and left:
            known = left["at_ms"] - now
        #: Largest lead of the wall clock over the monotonic one while it was trusted, because a
        #: clock that went back may return; and its lead when it was last followed.
        self._offset = offset if known is None else known
        self._followed = self._offset
        self.now_ms()

    def now_ms(self) -> int:
        """Return Unix ms: by the wall clock, or by the monotonic one while that is not trusted."""
        offset, now = self._read()
        with self._lock:
            gained = offset - self._offset
            if gained <= JUMP_MS:
                if self._since is not None:
                    logger.warning(
                        "the clock of this host is correct again; meanwhile it was not trusted"
                    )
                self._offset, self._followed = max(self._offset, offset), offset
                self._since = None
            elif self._since is None:
                self._since = now
                logger.error("%s", _jump_text(gained))
            elif now - self._since >= BELIEVED_S * 1000:
                self._believe(offset, "it has stayed so")
            return now + self._followed

    @property
    def fault(self) -> str | None:
        """Reason why the wall clock is not trusted, or None."""
        self.now_ms()
        if self._since is None:
            return None
        return _jump_text(self._read()[0] - self._offset)

    def look(self) -> None:
        """Exchange clock data with other processes; at most once a second.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database is unavailable.
        """
        moment = time.monotonic()
        if moment < self._looked + _LOOK_S:
            return
        self._looked = moment
        now_ms = self.now_ms()
        if self._since is not None:
            confirmed = self._stored(_CONFIRMED).get("at_ms")
            offset, now = self._read()
            if confirmed is None or abs(offset + now - confirmed) >= BELIEVED_S * 1000:
                self._settings.replace_setting(_OPEN, json.dumps({"at_ms": now_ms}))
                self._is_open = True
                return
            with self._lock:
                self._believe(offset, "it was confirmed")
        if self._boot and (self._kept is None or abs(self._offset - self._kept) > _STORED_MS):
            self._store_offset()
        if self._is_open:
            self._settings.replace_setting(_OPEN, "{}")
            self._is_open = False

    def _read(self) -> tuple[int, int]:
        """Return the lead of the wall clock over the monotonic one, and the monotonic time."""
        while True:
            before, wall, after = self._steady(), self._wall(), self._steady()
            if after - before <= _APART_MS:
                return wall - before, before

    def _believe(self, offset: int, why: str) -> None:
        logger.warning(
            "the clock of this host is trusted, because %s: time advances by %s",
            why,
            _span(offset - self._followed),
        )
        self._offset, self._followed, self._since = offset, offset, None

    def _store_offset(self) -> None:
        known = self._stored(_OFFSETS)
        known.pop(self._boot, None)
        others = list(known.items())[-(_BOOTS - 1) :]
        kept = {**dict(others), self._boot: self._offset}
        self._settings.replace_setting(_OFFSETS, json.dumps(kept))
        self._kept = self._offset

    def _stored(self, name: str) -> dict[str, Any]:
        found = self._settings.find_setting(name)
        document: dict[str, Any] = {} if found is None else json.loads(found)
        return document


def _jump_text(gained_ms: int) -> str:
    return (
        f"the clock of this host jumped ahead by {_span(gained_ms)}; it is not trusted, and "
        "nothing new is promised, until it is correct again, 'agenda clock confirm' says that it "
        "is, "
        f"or {BELIEVED_S // 60} minutes have passed"
    )


def _span(ms: int) -> str:
    return duration_text(ms // 1000 * 1000)


class HostClock:
    """A clock that follows the database's clock.

    Parameters
    ----------
    own
        This host's clock.
    engine
        The database shared by hosts; None if only one host uses it.

    Attributes
    ----------
    ahead_ms
        Lead of the host's clock over the database's, as last measured.
    """

    def __init__(self, own: Clock, engine: sa.Engine | None = None) -> None:
        self._own = own
        self._engine = engine
        self.ahead_ms = 0
        self._said = 0
        self._saying = threading.Lock()
        self._guard: ClockGuard | None = None

    def begin_to_doubt(self, settings: ClockSettings) -> None:
        """Guard against jumps of the clock, with state in `settings`."""
        self._guard = ClockGuard(settings, self._agreed_ms)

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        return self._agreed_ms() if self._guard is None else self._guard.now_ms()

    def _agreed_ms(self) -> int:
        """Return the common time of all hosts."""
        return self._own.now_ms() - self.ahead_ms

    @property
    def jump(self) -> str | None:
        """Reason why the clock is not followed, or None."""
        return None if self._guard is None else self._guard.fault

    def look(self) -> None:
        """Exchange clock data with other processes; at most once a second.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database is unavailable.
        """
        if self._guard is not None:
            self._guard.look()

    def measure(self) -> None:
        """Compare the two clocks; log a significant difference.

        Raises
        ------
        sqlalchemy.exc.OperationalError
            If the database is unavailable.
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
        """Reason why this host must not lead, or None."""
        return self._difference() if abs(self.ahead_ms) > BOUND_MS else None

    def _difference(self) -> str:
        way = "ahead of" if self.ahead_ms > 0 else "behind"
        seconds = abs(self.ahead_ms) / 1000
        return (
            f"the clock of this host is {seconds:.1f} s {way} the database's; "
            "synchronise both with the same time server"
        )

    def _say(self) -> None:
        """Log when the difference becomes significant, prevents leading, and ends.

        Several threads measure; only one of them logs.
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
