"""Recurrences of iCalendar: read, written, and the same runs both ways."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rdl.compile.civil_time import periods
from rdl.expressions import Absolute, Atom, Every, MonthDay, Offset, Window
from rdl.meaning.icalendar import RuleTextError, read_rule, write_rule
from rdl.operators import MONTH_MS
from rdl.resources import Resources
from rdl.text.formatter import format_pretty
from rdl.time_grid import TimeGrid

DAY_MS = 86_400_000
FIRST = Absolute(datetime(2026, 1, 5, tzinfo=UTC))
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 1, 60_000, 60_000)
START = "DTSTART;TZID=Europe/Berlin:{}T180000\n"


def days(every: Every, most: int = 40) -> list[str]:
    """Return the first dates on which a recurrence runs, in its zone."""
    assert isinstance(every.anchor, Absolute)
    grid = TimeGrid(1, 10**14, every.anchor.at)
    found = islice(periods(every, 0, grid), most if every.times is None else every.times)
    return [one.frame.day.strftime("%d %b %y") for one in found if one.frame.day is not None]


@pytest.mark.parametrize(
    ("start", "rule", "dates"),
    [
        ("20260105", "RRULE:FREQ=DAILY;COUNT=3", ["05 Jan 26", "06 Jan 26", "07 Jan 26"]),
        ("20260105", "RRULE:FREQ=DAILY;INTERVAL=2;UNTIL=20260109", ["05 Jan 26", "07 Jan 26",
                                                                   "09 Jan 26"]),
        ("20260105", "RRULE:FREQ=WEEKLY;COUNT=2", ["05 Jan 26", "12 Jan 26"]),
        ("20260105", "RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;COUNT=2", ["05 Jan 26", "19 Jan 26"]),
        ("20260105", "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=3", ["05 Jan 26", "07 Jan 26",
                                                              "12 Jan 26"]),
        ("20260105", "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=3\nEXDATE;TZID=Europe/Berlin:"
         "20260107T180000", ["05 Jan 26", "12 Jan 26"]),
        ("20260131", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=2", ["31 Jan 26", "28 Feb 26"]),
        ("20260130", "RRULE:FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", ["30 Jan 26", "27 Feb 26"]),
        ("20260112", "RRULE:FREQ=MONTHLY;BYDAY=2MO;UNTIL=20260309T170000Z",
         ["12 Jan 26", "09 Feb 26", "09 Mar 26"]),
        ("20260112", "RRULE:FREQ=MONTHLY;INTERVAL=3;COUNT=2", ["12 Jan 26", "12 Apr 26"]),
        ("20260112", "RRULE:FREQ=YEARLY;COUNT=2", ["12 Jan 26", "12 Jan 27"]),
        ("20260526", "RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1TU;COUNT=2", ["26 May 26", "25 May 27"]),
        ("20260112", "RDATE;TZID=Europe/Berlin:20260120T180000,20260301T180000",
         ["12 Jan 26", "20 Jan 26", "01 Mar 26"]),
        ("20260112", "RRULE:FREQ=WEEKLY;BYDAY=MO,TU;COUNT=2\nRDATE;VALUE=DATE:20260117",
         ["12 Jan 26", "13 Jan 26", "17 Jan 26"]),
    ],
)  # fmt: skip
def test_a_rule_runs_on_the_dates_that_it_names(start: str, rule: str, dates: list[str]) -> None:
    """By hand, with a calendar; EXDATE removes what COUNT counts."""
    every = read_rule(START.format(start) + rule + "\n", ATOM)
    if every.times is None:
        assert every.has_only_dates
    assert days(every, len(dates) + 1) == dates


def test_an_event_becomes_a_window() -> None:
    """A whole VEVENT, folded; other lines are passed over."""
    text = (
        "BEGIN:VEVENT\r\nSUMMARY:close of the month\r\nDTSTART;TZID=Europe\r\n /Berlin:"
        "20260131T180000\r\nDTEND;TZID=Europe/Berlin:20260201T060000\r\n"
        "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3\r\nEND:VEVENT\r\n"
    )
    assert format_pretty(read_rule(text, ATOM)) == (
        "every(\n  1mo, window(atom(<1 cpu>, 1, 1, 1m, 1m), 0s, 12h),\n  times=3, "
        'anchor=2026-01-31T17:00:00Z, zone="Europe/Berlin", day=last\n)'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RRULE:FREQ=DAILY", "there is no DTSTART"),
        ("DTSTART:20260105T180000\nRRULE:FREQ=DAILY", "DTSTART has no zone"),
        ("DTSTART;TZID=Mars/Base:20260105T180000", "unknown time zone 'Mars/Base'"),
        ("DTSTART:20261305T180000Z", "'20261305T180000Z' is no time"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=HOURLY", "FREQ=HOURLY is not read"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY;BYHOUR=3", "'BYHOUR', which no recurrence"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY;COUNT=0", "COUNT=0 is not plausible"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY;COUNT=2;UNTIL=20270101", "both COUNT and"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=MONTHLY", "by months needs an end"),
        ("DTSTART:20260131T180000Z\nRRULE:FREQ=MONTHLY;COUNT=2", "takes the last day instead"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=MONTHLY;BYDAY=MO;COUNT=2", "such a BYDAY is not"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=WEEKLY;BYDAY=TU,WE;COUNT=2", "no date of its RRULE"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU", "is not read"),
        ("DTSTART:20260105T180000Z\nDURATION:P\nRRULE:FREQ=DAILY", "'P' is no duration"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260105T180000Z",
         "no run is left"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY\nEXDATE:20260106T190000Z", "another time of"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=DAILY\nEXDATE;TZID=Europe/Berlin:20260106T180000",
         "another time of"),
        ("DTSTART:20260115T180000Z\nRRULE:FREQ=YEARLY;BYMONTHDAY=15;COUNT=3", "in every month"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=x;COUNT=2", "such a"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=MONTHLY;BYDAY=1MO;BYSETPOS=3;COUNT=2", "such a BYD"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=YEARLY;INTERVAL=200;COUNT=2", "of 2400 months"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=2\nRDATE:20260130T180000Z",
         "RDATE has dates after others"),
        ("DTSTART:20260105T180000Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE\nRDATE:20260102T180000Z",
         "before DTSTART"),
        ("BEGIN:VEVENT\nEND:VEVENT\nBEGIN:VEVENT\nEND:VEVENT", "there are 2 events"),
    ],
)  # fmt: skip
def test_what_no_recurrence_says_is_refused(text: str, said: str) -> None:
    """With what is not read."""
    with pytest.raises(RuleTextError) as caught:
        read_rule(text, ATOM)
    assert said in str(caught.value)


def test_a_list_of_dates_is_written_as_far_as_it_runs() -> None:
    """Until its end, and as often as it is to run."""
    listed = tuple(date(2026, 1, day) for day in (10, 20, 30))
    every = Every(DAY_MS, ATOM, None, None, FIRST, "UTC", dates=listed)
    assert days(read_rule(write_rule(every), ATOM)) == ["10 Jan 26", "20 Jan 26", "30 Jan 26"]
    twice = replace(every, times=2)
    assert days(read_rule(write_rule(twice), ATOM)) == ["10 Jan 26", "20 Jan 26"]
    ends = replace(every, until=Absolute(datetime(2026, 1, 25, tzinfo=UTC)))
    assert days(read_rule(write_rule(ends), ATOM)) == ["10 Jan 26", "20 Jan 26"]


@pytest.mark.parametrize("until", ["99991231T235959Z", "99991231"])
def test_a_time_zone_and_a_far_end_do_not_mislead(until: str) -> None:
    """The zone's own DTSTART is no date of the event; the year 9999 stands for a late end."""
    text = (
        "BEGIN:VTIMEZONE\nDTSTART:19700101T000000\nEND:VTIMEZONE\nBEGIN:VEVENT\n"
        f"DTSTART;TZID=Asia/Tokyo:20260105T180000\nRRULE:FREQ=YEARLY;UNTIL={until}\n"
        "END:VEVENT\n"
    )
    every = read_rule(text, ATOM)
    assert (every.zone, every.times) == ("Asia/Tokyo", 7973)


@st.composite
def recurrences(draw: st.DrawFn) -> Every:
    """Recurrences that iCalendar can say, anchored at one of their dates."""
    zone = draw(st.sampled_from(("Europe/Berlin", "America/New_York", "UTC")))
    first = datetime(2026, 1, 1, 18)  # noqa: DTZ001 - a reading of a wall clock
    day = first + timedelta(days=draw(st.integers(0, 400)))
    of = draw(st.sampled_from((ATOM, Window(Offset(0), Offset(7_200_000), ATOM))))
    times, anchor = draw(st.integers(1, 12)), Absolute(_at(day, zone))
    match draw(st.integers(0, 2)):
        case 0:
            number = draw(st.sampled_from((*range(1, 32), -1)))
            ordinal = MonthDay(draw(st.sampled_from((1, 2, 3, 4, -1))), draw(st.integers(0, 6)))
            months = draw(st.sampled_from((1, 2, 3, 12)))
            on = draw(st.sampled_from((MonthDay(number), ordinal)))
            return Every(MONTH_MS * months, of, times, None, anchor, zone, months=months, day=on)
        case 1:
            named = tuple(sorted({day.weekday(), *draw(st.sets(st.integers(0, 6)))}))
            without = tuple(
                (day + timedelta(days=k)).date() for k in sorted(draw(st.sets(st.integers(1, 20))))
            )
            return Every(DAY_MS, of, times, None, anchor, zone, days=named, without=without)
        case _:
            return Every(DAY_MS * draw(st.integers(1, 20)), of, times, None, anchor, zone)


def _at(day: datetime, zone: str) -> datetime:
    return day.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@given(recurrences())
def test_what_is_written_runs_on_the_same_dates_when_it_is_read(every: Every) -> None:
    """From the first date on, by days, weeks, months and years."""
    try:
        text = write_rule(every)
        read = read_rule(text, ATOM)
    except RuleTextError as error:
        # A yearly 29 February, or day 31, is another thing in iCalendar.
        assume("takes the last day instead" not in str(error))
        raise
    assert days(read) == days(every)
    assert isinstance(read.of, Window) == isinstance(every.of, Window)


@pytest.mark.parametrize(
    ("every", "said"),
    [
        (Every(DAY_MS, ATOM, 2), "needs a date to begin at"),
        (Every(DAY_MS, ATOM, 2, None, FIRST, "UTC", holidays="fr"), "the calendar 'fr'"),
        (Every(DAY_MS, ATOM, None, FIRST, FIRST, "UTC"), "it has no run"),
        (Every(DAY_MS, ATOM, 2, None, Offset(0), "UTC"), "needs a date to begin at"),
        (Every(DAY_MS, Window(Offset(60_000), Offset(DAY_MS), ATOM), 2, None,
               Absolute(datetime(2026, 1, 5, tzinfo=UTC)), "UTC"), "does not begin with the"),
    ],
)  # fmt: skip
def test_what_icalendar_cannot_say_is_refused(every: Every, said: str) -> None:
    """With what would be right."""
    with pytest.raises(RuleTextError) as caught:
        write_rule(every)
    assert said in str(caught.value)
