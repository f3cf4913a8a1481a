"""Instants and periods: civil days through clock changes, anchors, and what a grid cannot carry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile.civil_time import ORIGIN, Frame, first_instant, instant_ms, periods
from rdl.expressions import Absolute, AfterSubmission, Atom, Every, Offset
from rdl.oracle.periods import first_instant as oracle_first_instant
from rdl.resources import Resources
from rdl.time_grid import TimeGrid, TimeGridError

PARIS = ZoneInfo("Europe/Paris")
HOUR = 3_600_000
DAY = 24 * HOUR
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 1, 1, 1)
MARCH = TimeGrid(60_000, 100_000, datetime(2026, 3, 27, tzinfo=UTC))


def _wall(*numbers: int) -> datetime:
    return datetime(*numbers)  # type: ignore[arg-type]  # noqa: DTZ001 - what a clock shows


def test_a_time_that_clocks_skip_is_the_first_instant_after_the_gap() -> None:
    """In Paris 02:30 does not exist on 29 March 2026; clocks go from 02:00 to 03:00 = 01:00 UTC."""
    assert first_instant(_wall(2026, 3, 29, 2, 30), PARIS) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert first_instant(_wall(2026, 3, 29, 2), PARIS) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert first_instant(_wall(2026, 3, 29, 3), PARIS) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_time_that_exists_twice_is_the_first() -> None:
    """In Paris 02:30 exists twice on 25 October 2026: at 00:30 and at 01:30 UTC."""
    instant = first_instant(_wall(2026, 10, 25, 2, 30), PARIS)

    assert instant == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_midnight_that_does_not_exist_starts_the_day_late() -> None:
    """Clocks in Havana skip from 00:00 to 01:00 on 8 March 2026: the day begins at 05:00 UTC."""
    havana = ZoneInfo("America/Havana")

    assert first_instant(_wall(2026, 3, 8), havana) == datetime(2026, 3, 8, 5, tzinfo=UTC)


def test_a_day_that_a_zone_skipped_begins_when_the_next_does() -> None:
    """Samoa had no 30 December 2011: all of it is the first instant of the 31st."""
    apia = ZoneInfo("Pacific/Apia")

    assert first_instant(_wall(2011, 12, 30, 15), apia) == datetime(2011, 12, 30, 10, tzinfo=UTC)


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 12, 31)),  # noqa: DTZ001 - a clock's
    st.sampled_from(["Europe/Paris", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"]),
)
def test_the_oracle_reads_clocks_alike(wall: datetime, zone: str) -> None:
    """Two derivations of the first instant agree to the millisecond."""
    wall = wall.replace(microsecond=wall.microsecond // 1000 * 1000)
    both = [find(wall, ZoneInfo(zone)) for find in (first_instant, oracle_first_instant)]

    assert abs(both[0] - both[1]) < timedelta(milliseconds=1)


def test_civil_days_have_23_24_and_25_hours() -> None:
    """Three days around the spring change in Paris, from the civil day of the anchor."""
    every = Every(DAY, ATOM, zone="Europe/Paris")
    anchor = MARCH.instant_ms(datetime(2026, 3, 28, 11, tzinfo=UTC))

    days = list(islice(periods(every, anchor, MARCH), 3))

    assert [(day.end_ms - day.start_ms) // HOUR for day in days] == [24, 23, 24]
    assert MARCH.instant_at(days[0].start_ms) == datetime(2026, 3, 27, 23, tzinfo=UTC)


def test_times_inside_a_civil_day_are_what_its_clocks_show() -> None:
    """Ten hours into the day of the change is 10:00 on the wall: nine hours after midnight."""
    every = Every(DAY, ATOM, zone="Europe/Paris")
    anchor = MARCH.instant_ms(datetime(2026, 3, 28, 11, tzinfo=UTC))
    frames = [period.frame for period in islice(periods(every, anchor, MARCH), 2)]

    ten = [instant_ms(Offset(10 * HOUR), frame, MARCH, 0) - frame.start_ms for frame in frames]

    assert ten == [10 * HOUR, 9 * HOUR]


def test_plain_periods_count_from_the_anchor() -> None:
    """Without a zone period k is [anchor + kP, anchor + (k+1)P), and times count from its start."""
    grid = TimeGrid(1000, 100)

    second = list(islice(periods(Every(5000, ATOM), 700, grid), 2))[1]

    assert (second.start_ms, second.end_ms, second.frame) == (
        5700,
        10_700,
        Frame(5700, in_period=True),
    )
    assert instant_ms(Offset(2000), second.frame, grid, 300) == 7700


def test_submission_and_instants_ignore_the_period() -> None:
    """``+2h`` is from the submission and an RFC 3339 time is itself, inside every period."""
    at = datetime(2026, 3, 27, 2, tzinfo=timezone(timedelta(hours=1)))

    assert instant_ms(AfterSubmission(2000), Frame(99_000), MARCH, 300) == 2300
    assert instant_ms(Absolute(at), Frame(99_000), MARCH, 300) == HOUR


@pytest.mark.parametrize(
    ("every", "grid", "said"),
    [
        (Every(5500, ATOM), TimeGrid(1000, 9), "not a multiple of the step 1s"),
        (Every(DAY, ATOM, zone="Europe/Paris"), TimeGrid(1000, 9), "no origin"),
        (Every(DAY + HOUR, ATOM, zone="Europe/Paris"), MARCH, "whole number of days"),
        (Every(DAY * 4_000_000, ATOM, zone="Europe/Paris"), MARCH, "outside the calendar"),
    ],
)
def test_periods_that_a_grid_cannot_carry(every: Every, grid: TimeGrid, said: str) -> None:
    """Each says what is wrong, at the first period asked for."""
    with pytest.raises(TimeGridError, match=said):
        next(periods(every, 0, grid))


def test_a_civil_time_past_the_calendar_is_refused() -> None:
    """Ten thousand years into a civil day is no time that clocks can show."""
    every = Every(DAY, ATOM, zone="Europe/Paris")
    frame = next(periods(every, 0, MARCH)).frame

    with pytest.raises(TimeGridError, match="outside the calendar"):
        instant_ms(Offset(DAY * 3_700_000), frame, MARCH, 0)
    assert instant_ms(Offset(5), ORIGIN, MARCH, 0) == 5
