"""Maintenance that recurs by days, weekdays or months, on a wall clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from rdl.compile.civil_time import DAY_MS, day_in, first_instant
from rdl.expressions import MonthDay

_MS: Final = timedelta(milliseconds=1)

#: Periods by which elapsed time may be off: summer time, a date skipped by a zone, a month.
_SLACK_PERIODS: Final = 3


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How an interval recurs: on the clock of a zone, at the times of its first occurrence.

    Attributes
    ----------
    days, months
        Length of a period: days (7 is weekly), or months of the calendar; the other is 0. With
        `weekdays` it is one day.
    zone
        IANA name. Without an origin, a day is 24 hours and a month 30 days.
    until_ms
        No occurrence ends after it, ms from the origin; None is endless.
    weekdays
        Days (0 = Monday) on which an occurrence may start; empty is all.
    day
        For periods of months: the day on which they start; None is that of the first occurrence.
    without
        Dates on which no occurrence starts, ascending.
    """

    days: int = 0
    months: int = 0
    zone: str = "UTC"
    until_ms: int | None = None
    weekdays: frozenset[int] = frozenset()
    day: MonthDay | None = None
    without: tuple[date, ...] = ()

    @property
    def needs_origin(self) -> bool:
        """Whether the occurrences depend on dates."""
        return bool(self.weekdays or self.months or self.without)

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
            Start and end of the first occurrence. If the rule excludes its date, the first
            occurrence is later.
        origin
            Aware instant of 0 ms, or None.
        """
        start_ms, end_ms = first
        ends_ms = to_ms if self.until_ms is None else min(to_ms, self.until_ms)
        if start_ms >= ends_ms:
            return  # no occurrence is earlier than the first, and the calendar may end so far ahead
        longest_ms = (self.days or 31 * self.months) * DAY_MS
        passed = (from_ms - end_ms) // longest_ms - _SLACK_PERIODS
        number = max(0, passed)
        while True:
            start, end, day = self._occurrence(start_ms, end_ms, origin, number)
            if start >= ends_ms:
                return
            number += 1
            end = min(end, end if self.until_ms is None else self.until_ms)
            counts = start >= start_ms and (day is None or self._counts(day))
            if counts and end > max(from_ms, start):
                yield start, end

    def _occurrence(
        self, start_ms: int, end_ms: int, origin: datetime | None, number: int
    ) -> tuple[int, int, date | None]:
        """Return start and end of a period's occurrence, and the date on which it starts."""
        if origin is None:
            later_ms = number * (self.days or 30 * self.months) * DAY_MS
            return start_ms + later_ms, end_ms + later_ms, None
        zone = ZoneInfo(self.zone)
        walls = [
            (origin + ms * _MS).astimezone(zone).replace(tzinfo=None) for ms in (start_ms, end_ms)
        ]
        later = self._later(walls[0].date(), number)
        start, end = ((first_instant(wall + later, zone) - origin) // _MS for wall in walls)
        if not later:  # as written, even in an hour that occurs twice
            start, end = start_ms, end_ms
        elif end <= start:  # the clock skips all of it: it follows the gap, with its full length
            end = start + max(1, (walls[1] - walls[0]) // _MS)
        return start, end, (walls[0] + later).date()

    def _counts(self, day: date) -> bool:
        """Return whether an occurrence may start on a date."""
        return day not in self.without and (not self.weekdays or day.weekday() in self.weekdays)

    def _later(self, first: date, number: int) -> timedelta:
        """Return the time from the date of the first occurrence to that of a later period."""
        if not self.months:
            return timedelta(days=number * self.days)
        month = 12 * first.year + first.month - 1 + number * self.months
        return day_in(month, self.day or MonthDay(first.day)) - first
