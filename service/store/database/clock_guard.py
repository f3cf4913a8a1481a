"""ClockGuard: a clock that runs ahead at once is not believed until somebody confirms it.

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

from rdl.time_grid import duration_text

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
    """Return what tells this boot of the host from others; empty where nothing does."""
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
                logger.error("%s", _said(gained))
            elif now - self._since >= BELIEVED_S * 1000:
                self._believe(offset, "it has stayed so")
            return now + self._followed

    @property
    def fault(self) -> str | None:
        """Why the wall clock is not believed, or None."""
        self.now_ms()
        if self._since is None:
            return None
        return _said(self._read()[0] - self._offset)

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
            "the clock of this host is believed, as %s: time goes on by %s",
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


def _said(gained_ms: int) -> str:
    return (
        f"the clock of this host went ahead by {_span(gained_ms)} at once; it is not followed, and "
        "nothing new is promised, until it is right again, 'agenda clock confirm' says that it is, "
        f"or {BELIEVED_S // 60} minutes have passed"
    )


def _span(ms: int) -> str:
    return duration_text(ms // 1000 * 1000)
