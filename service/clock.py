"""The wall clock as an argument: the service asks it, tests move it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

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


def instant_of(ms: int) -> datetime:
    """Return Unix milliseconds as an aware UTC instant, exactly."""
    return EPOCH + timedelta(milliseconds=ms)


def unix_ms(at: datetime) -> int:
    """Return an aware instant as Unix milliseconds, rounded down."""
    return (at - EPOCH) // timedelta(milliseconds=1)
