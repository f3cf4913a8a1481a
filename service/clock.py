"""The wall clock as an argument: the service asks it, tests move it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Says what time it is."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        ...


class SystemClock:
    """The machine's clock; the only place in Agenda that reads it."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z."""
        return time.time_ns() // 1_000_000


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told to.

    Attributes
    ----------
    at_ms
        What :meth:`now_ms` returns.
    """

    at_ms: int = 1_767_571_200_000  # 2026-01-05T00:00:00Z

    def now_ms(self) -> int:
        """Return `at_ms`."""
        return self.at_ms

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.at_ms += round(seconds * 1000)


class FileClock:
    """A clock that a file sets and paces, so that a demonstration shows a day in minutes.

    Every process that is given the file tells the same time. :func:`set_pace` writes it.

    Parameters
    ----------
    path
        The file; it is read again whenever it has changed.
    machine
        The clock that time passes by.
    """

    def __init__(self, path: Path, machine: Clock | None = None) -> None:
        self._path = path
        self._machine: Final = machine or SystemClock()
        self._read_at = (-1, -1)
        self._machine_ms, self._shown_ms, self._speed = 0, 0, 1.0

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z, as the file has them."""
        found = self._path.stat()
        if (found.st_ino, found.st_mtime_ns) != self._read_at:
            entry = json.loads(self._path.read_text(encoding="utf-8"))
            pace = entry["machine_ms"], entry["shown_ms"], entry["speed"]
            self._machine_ms, self._shown_ms, self._speed = pace
            self._read_at = found.st_ino, found.st_mtime_ns
        passed_ms = self._machine.now_ms() - self._machine_ms
        return self._shown_ms + round(passed_ms * self._speed)


def set_pace(path: Path, shown_ms: int, speed: float, machine: Clock | None = None) -> None:
    """Let the :class:`FileClock` of a file show an instant now, and go so fast from now on.

    Parameters
    ----------
    shown_ms
        What it shows now, ms since 1970-01-01T00:00:00Z.
    speed
        Seconds that it continues in a second.
    """
    entry = {
        "machine_ms": (machine or SystemClock()).now_ms(), "shown_ms": shown_ms, "speed": speed,
    }  # fmt: skip
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(entry), encoding="utf-8")
    os.replace(beside, path)


def instant_of(ms: int) -> datetime:
    """Return Unix milliseconds as an aware UTC instant, exactly."""
    return EPOCH + timedelta(milliseconds=ms)


def unix_ms(at: datetime) -> int:
    """Return an aware instant as Unix milliseconds, rounded down."""
    return (at - EPOCH) // timedelta(milliseconds=1)
