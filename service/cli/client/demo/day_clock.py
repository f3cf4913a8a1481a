"""DayClock: the demo's time, which every process of it reads from one file."""

from __future__ import annotations

import time
from pathlib import Path

from service.clock import Clock, FileClock, SystemClock, instant_of, set_pace

_DAY_MS = 86_400_000


class DayClock:
    """Shows the midnight (UTC) with which yesterday began, and goes on as fast as it is told.

    Yesterday, so that a server that is started on the same database later is never before it.

    Parameters
    ----------
    folder
        Where the file is kept.
    machine
        The clock that time passes by; the machine's when absent.
    """

    def __init__(self, folder: Path, machine: Clock | None = None) -> None:
        self.path = folder / "clock.json"
        self._machine = machine or SystemClock()
        now_ms = self._machine.now_ms()
        self.midnight_ms = now_ms - now_ms % _DAY_MS - _DAY_MS
        set_pace(self.path, self.midnight_ms, 1.0, self._machine)
        self._clock = FileClock(self.path, self._machine)

    def now_ms(self) -> int:
        """Return what it shows, ms since 1970."""
        return self._clock.now_ms()

    def since_midnight_s(self) -> float:
        """Return how much of the day is over, seconds."""
        return (self.now_ms() - self.midnight_ms) / 1000

    def go(self, speed: float) -> None:
        """Go on from what it shows, `speed` seconds a second."""
        set_pace(self.path, self.now_ms(), speed, self._machine)

    def wait_until(self, hour: float) -> None:
        """Return when it shows that hour of the day, or a later one."""
        while self.since_midnight_s() < hour * 3600:
            time.sleep(0.05)

    def text(self) -> str:
        """Return the time of the day, such as ``06:12``."""
        return f"{instant_of(self.now_ms()):%H:%M}"
