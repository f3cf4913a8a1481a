"""Maintenance that recurs: every so many days, on some weekdays, on a wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from rdl.compile.calendar.civil_time import DAY_MS, first_instant

_MS: Final = timedelta(milliseconds=1)

#: Days that a zone's clock may be off from elapsed days: summer time, and a day that it never had.
_SLACK_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class Recurrence:
    """When an interval occurs again: on the clock of a zone, at the times of its first occurrence.

    Attributes
    ----------
    days
        Length of a period in days; 7 is weekly. With `weekdays` or `nth` it is 1.
    zone
        IANA name. Without an origin to find its clock by, a day is 24 hours.
    until_ms
        No occurrence lasts beyond it, ms from the origin; None is endless.
    weekdays
        Days (0 = Monday) on which an occurrence may start; empty is all.
    nth
        Which of a month's days of that name count: 1 is the first, -1 the last; empty is all.
    without
        Dates on which no occurrence starts, ascending.
    """

    days: int
    zone: str = "UTC"
    until_ms: int | None = None
    weekdays: frozenset[int] = frozenset()
    nth: frozenset[int] = frozenset()
    without: tuple[date, ...] = ()

    @property
    def needs_origin(self) -> bool:
        """Whether dates decide which occurrences there are."""
        return bool(self.weekdays or self.nth or self.without)

    def spans(
        self,
        first: tuple[int, int],
        origin: datetime | None,
        from_ms: int,
        to_ms: int,
    ) -> Iterator[tuple[int, int]]:
        """Yield the occurrences that overlap [from_ms, to_ms), in ms from the origin, ascending.

        Parameters
        ----------
        first
            Start and end of the first occurrence. Where dates decide and its own date does not
            count, the first one is later.
        origin
            Aware instant of 0 ms; None where there is none.
        """
        start_ms, end_ms = first
        ends_ms = to_ms if self.until_ms is None else min(to_ms, self.until_ms)
        passed = (from_ms - end_ms) // (self.days * DAY_MS) - _SLACK_DAYS
        number = max(0, passed)
        while True:
            start, end, day = self._occurrence(start_ms, end_ms, origin, number)
            if start >= ends_ms:
                return
            number += 1
            end = min(end, end if self.until_ms is None else self.until_ms)
            if end > max(from_ms, start) and (day is None or self._counts(day)):
                yield start, end

    def _occurrence(
        self, start_ms: int, end_ms: int, origin: datetime | None, number: int
    ) -> tuple[int, int, date | None]:
        """Return start and end of a period's occurrence, and the date on which it starts."""
        if origin is None:
            later_ms = number * self.days * DAY_MS
            return start_ms + later_ms, end_ms + later_ms, None
        zone, later = ZoneInfo(self.zone), timedelta(days=number * self.days)
        walls = [
            (origin + ms * _MS).astimezone(zone).replace(tzinfo=None) for ms in (start_ms, end_ms)
        ]
        start, end = ((first_instant(wall + later, zone) - origin) // _MS for wall in walls)
        if number == 0:  # as written, also in an hour that occurs twice
            start, end = start_ms, end_ms
        elif end <= start:  # clocks skip all of it: it follows, as long as it is written
            end = start + max(1, (walls[1] - walls[0]) // _MS)
        return start, end, (walls[0] + later).date()

    def _counts(self, day: date) -> bool:
        """Return whether an occurrence may start on a date."""
        if day in self.without or (self.weekdays and day.weekday() not in self.weekdays):
            return False
        if not self.nth:
            return True
        from_first = (day.day - 1) // 7 + 1
        in_month = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
        from_last = -((in_month.day - day.day) // 7 + 1)
        return from_first in self.nth or from_last in self.nth
