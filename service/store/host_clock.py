"""HostClock: the time that all hosts of one database agree on; and its ClockGuard.

Hosts share a database, so its clock is theirs: on PostgreSQL each process asks it now and then and
adds the difference to its own clock. A SQLite file is used by one host, whose clock is everybody's.

ClockGuard: a clock that runs ahead at once is not believed until it is confirmed.

What the clock ends is over for good: reservations complete and leave the Plan, holds lapse, tokens
end, old answers are deleted. So a wall clock that suddenly gains on the steady clock of the kernel
is not followed: time continues by the steady clock until the wall clock is right again, an operator
confirms it (`agenda clock confirm`), or it has stayed there for :data:`BELIEVED_S`. The steady
clock counts suspended time, so the clock of a host that slept is believed.

The difference of both clocks is stored in the database for each boot of a host, so that a restart
of the server is no way round. After a reboot there is nothing to compare with, and the clock is
believed unless a jump was open when a server was last seen.
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

#: A wall clock that gains more than this on the steady one at once is not believed, ms.
JUMP_MS: Final = 60_000

#: One that stays ahead for so long is right, s.
BELIEVED_S: Final = 900

#: Seconds between two looks at the database, and a change of the difference that is stored, ms.
_LOOK_S: Final = 1.0
_STORED_MS: Final = 1_000

#: Two readings of the steady clock further apart than this have something in between, ms.
_APART_MS: Final = 100

#: Boots whose differences are kept.
_BOOTS: Final = 16

#: Settings of the database: differences by boot; the time of an open jump; the time confirmed last.
_OFFSETS, _OPEN, _CONFIRMED = "clock_offsets", "clock_jump", "clock_confirmed"


#: Difference from which on it is said, ms; less is the way to the database and back.
NOTICED_MS: Final = 2_000

#: Difference beyond which a host must not lead, ms.
BOUND_MS: Final = 30_000

#: Differences are corrected in steps of at least this, ms, so that time does not tremble.
_STEP_MS: Final = 100

_NOW: Final = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")


class ClockSettings(Protocol):
    """Where processes of one database keep what they know of the clock."""

    def find_setting(self, name: str) -> str | None:
        """Return a setting, or None."""
        ...

    def replace_setting(self, name: str, value: str) -> None:
        """Store a setting."""
        ...


def steady_ms() -> int:
    """Return ms since the host was started, time asleep included."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


def boot_id() -> str:
    """Return what tells this boot of the host from others; empty if nothing does."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def confirm_clock(settings: ClockSettings, wall_ms: int) -> None:
    """Let the processes of a database believe their clocks, which show about this."""
    settings.replace_setting(_CONFIRMED, json.dumps({"at_ms": wall_ms}))


class ClockGuard:
    """Judges a wall clock by the steady one.

    Parameters
    ----------
    settings
        Where it is kept what they differ by.
    wall
        Returns Unix ms.
    steady
        Returns ms since some instant of this boot.
    boot
        Names the boot; empty: nothing is known of it by other processes.
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
        #: The most that the wall clock was ahead of the steady one while it was believed: one that
        #: went back may return. And what it was ahead when it was followed last.
        self._offset = offset if known is None else known
        self._followed = self._offset
        self.now_ms()

    def now_ms(self) -> int:
        """Return Unix ms: by the wall clock, or by the steady one while that is not believed."""
        offset, now = self._read()
        with self._lock:
            gained = offset - self._offset
            if gained <= JUMP_MS:
                if self._since is not None:
                    logger.warning("the clock of this host is right again; it was not followed")
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
        """Why the wall clock is not believed, or None."""
        self.now_ms()
        if self._since is None:
            return None
        return _jump_text(self._read()[0] - self._offset)

    def look(self) -> None:
        """Exchange with other processes what is known of the clock; at most once a second.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database cannot be used now.
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
        """Return what the wall clock is ahead of the steady one, and the steady one."""
        while True:
            before, wall, after = self._steady(), self._wall(), self._steady()
            if after - before <= _APART_MS:
                return wall - before, before

    def _believe(self, offset: int, why: str) -> None:
        logger.warning(
            "the clock of this host is believed, as %s: time continues by %s",
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
        f"the clock of this host went ahead by {_span(gained_ms)} at once; it is not followed, and "
        "nothing new is promised, until it is right again, 'agenda clock confirm' says that it is, "
        f"or {BELIEVED_S // 60} minutes have passed"
    )


def _span(ms: int) -> str:
    return duration_text(ms // 1000 * 1000)


class HostClock:
    """A clock that agrees with the database's.

    Parameters
    ----------
    own
        This host's clock.
    engine
        The database that hosts share; None if one host uses it.

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
        """Record where it begins to matter, where it keeps this host from leading, and its end.

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
