"""The wall clock as an argument, so that tests can set the time."""

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
    """Returns the time."""

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
    """A clock that is set explicitly.

    Attributes
    ----------
    at_ms
        Time returned by :meth:`now_ms`.
    """

    at_ms: int = 1_767_571_200_000  # 2026-01-05T00:00:00Z

    def now_ms(self) -> int:
        """Return `at_ms`."""
        return self.at_ms

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self.at_ms += round(seconds * 1000)


class FileClock:
    """A clock set and paced by a file, so that a demonstration shows a day in minutes.

    All processes with the same file have the same time. :func:`set_pace` writes it.

    Parameters
    ----------
    path
        The file; it is read again when it has changed.
    machine
        The underlying clock.
    """

    def __init__(self, path: Path, machine: Clock | None = None) -> None:
        self._path = path
        self._machine: Final = machine or SystemClock()
        self._read_at = (-1, -1)
        self._machine_ms, self._shown_ms, self._speed = 0, 0, 1.0

    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01T00:00:00Z according to the file."""
        found = self._path.stat()
        if (found.st_ino, found.st_mtime_ns) != self._read_at:
            entry = json.loads(self._path.read_text(encoding="utf-8"))
            pace = entry["machine_ms"], entry["shown_ms"], entry["speed"]
            self._machine_ms, self._shown_ms, self._speed = pace
            self._read_at = found.st_ino, found.st_mtime_ns
        passed_ms = self._machine.now_ms() - self._machine_ms
        return self._shown_ms + round(passed_ms * self._speed)


def set_pace(path: Path, shown_ms: int, speed: float, machine: Clock | None = None) -> None:
    """Set the time of the :class:`FileClock` of a file, and its speed from now on.

    Parameters
    ----------
    shown_ms
        Its new time, ms since 1970-01-01T00:00:00Z.
    speed
        Seconds that it advances per second.
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
