"""Recurrences by months and by lists of dates: the compiler against the oracle, and by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.codecs.json_codec import from_json, to_json
from rdl.compile.civil_time import ORIGIN, periods
from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
from rdl.compile.recurrences import anchor_ms, passed_over
from rdl.errors import RdlError
from rdl.expressions import Absolute, Atom, Every, MonthDay, TimeOfDay, Window
from rdl.meaning.outline import outline_of
from rdl.meaning.request_meaning import meaning_lines, meaning_of
from rdl.operators import MONTH_MS
from rdl.oracle.periods import is_over, periods_of
from rdl.oracle.satisfaction import check
from rdl.resources import Resources
from rdl.text.formatter import format_expression, format_pretty
from rdl.text.parser import parse
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START, occurrence_path

HOUR_MS = 3_600_000
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 1, HOUR_MS, HOUR_MS)
ORIGIN_AT = datetime(2026, 1, 1, tzinfo=UTC)
GRID = TimeGrid(HOUR_MS, 24 * 800, ORIGIN_AT)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")

month_days = (st.integers(1, 31) | st.just(-1)).map(MonthDay) | st.tuples(
    st.sampled_from([1, 2, 3, 4, -1]), st.integers(0, 6)
).map(lambda pair: MonthDay(*pair))
clock_times = st.integers(0, 47).map(lambda half: TimeOfDay(half * HOUR_MS // 2))
instants = st.integers(0, 24 * 400).map(lambda hour: Absolute(ORIGIN_AT + timedelta(hours=hour)))
dates = st.sets(st.integers(0, 400), min_size=1, max_size=5).map(
    lambda days: tuple(date(2026, 1, 1) + timedelta(days=day) for day in sorted(days))
)


@st.composite
def recurrences(draw: st.DrawFn) -> Every:
    """By months, or by days with a list of dates."""
    zone = draw(st.sampled_from(ZONES))
    window = Window(draw(st.none() | clock_times), draw(clock_times), ATOM)
    if draw(st.booleans()):
        days = draw(st.none() | st.sets(st.integers(0, 6), min_size=1, max_size=2))
        named = None if days is None else tuple(sorted(days))
        anchor = draw(st.none() | clock_times | instants)
        return Every(24 * HOUR_MS, window, None, None, anchor, zone, days=named, dates=draw(dates))
    months = draw(st.sampled_from([1, 1, 2, 3, 12]))
    anchors = instants if months > 1 else st.none() | clock_times | instants
    return Every(
        MONTH_MS * months,
        window,
        draw(st.integers(1, 4)),
        None,
        draw(anchors),
        zone,
        without=draw(st.just(()) | dates),
        months=months,
        day=draw(st.none() | month_days),
    )


@given(recurrences(), st.integers(0, 24 * 300))
def test_the_oracle_and_the_compiler_lay_out_the_same_periods(every: Every, hour: int) -> None:
    """Their first ten from any submission on, and which of them are over before it."""
    submitted = hour * HOUR_MS
    anchor = anchor_ms(every, None, ORIGIN, GRID, submitted)

    laid = list(islice(periods(every, anchor, GRID), 10))
    seen = list(islice(periods_of(every, anchor, GRID), 10))

    assert [(one.start_ms, one.end_ms) for one in laid] == [
        (one.start_ms, one.end_ms) for one in seen
    ]
    assert [passed_over(every, one, GRID, submitted) for one in laid] == [
        is_over(every, one, GRID, submitted) for one in seen
    ]


@given(recurrences())
def test_recurrences_are_written_as_they_are_read(every: Every) -> None:
    """As text, over several lines and in one, and as JSON."""
    assert parse(format_expression(every)) == every
    assert parse(format_pretty(every)) == every
    assert from_json(to_json(every)) == every


def runs(text: str, submitted: str = "2026-01-01", clock: str = "%a %d %b %y %H:%M") -> list[str]:
    """Return when the windows of a request with one atom begin, in Berlin."""
    zone = ZoneInfo("Europe/Berlin")
    at = datetime.fromisoformat(submitted).replace(tzinfo=UTC)
    graph = compile_source(
        text, CompileContext(GRID, (at - ORIGIN_AT) // timedelta(milliseconds=1))
    )
    rows, found = {}, []
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        for k, shift in enumerate(graph.shifts[row[12] : row[12] + row[13]].tolist()):
            start = int(row[START]) + shift
            assert start < int(row[END]) + shift
            rows[occurrence_path(graph, vertex, k)] = [(start, start + 1, 1)]
            found.append(GRID.instant_at(GRID.ms(start)))
    assert check(graph.expression, GRID, graph.submitted * HOUR_MS, rows, {}) is None
    return [one.astimezone(zone).strftime(clock) for one in sorted(found)]


HOUR = "window(atom(<1 cpu>, 1, 1, 1h, 1h), 18:00, 19:00)"
DAY = "%d %b"


@pytest.mark.parametrize(
    ("rest", "days"),
    [
        ("1mo, {}, day=last, times=4", ["31 Jan", "28 Feb", "31 Mar", "30 Apr"]),
        ("1mo, {}, day=31, times=3", ["31 Jan", "28 Feb", "31 Mar"]),
        ("1mo, {}, times=2, anchor=2026-01-15T00:00:00+01:00", ["01 Feb", "01 Mar"]),
        ("1mo, {}, day=first mon, times=3", ["05 Jan", "02 Feb", "02 Mar"]),
        ("1mo, {}, day=last fri, times=3", ["30 Jan", "27 Feb", "27 Mar"]),
        ("1mo, {}, day=fourth thu, times=2, except=[2026-01-22]", ["26 Feb", "26 Mar"]),
        ("3mo, {}, day=last, times=3, anchor=2026-03-01T00:00:00+01:00",
         ["31 Mar", "30 Jun", "30 Sep"]),
        ("1y, {}, day=2, times=2, anchor=2026-02-01T00:00:00+01:00", ["02 Feb", "02 Feb"]),
        ("1mo, {}, until=2026-04-02T00:00:00+02:00", ["01 Jan", "01 Feb", "01 Mar"]),
        ("1d, {}, dates=[2026-02-03, 2026-01-09..2026-01-10]", ["09 Jan", "10 Jan", "03 Feb"]),
        ("1d, {}, days=[mon], dates=[2026-01-07], times=3", ["05 Jan", "07 Jan", "12 Jan"]),
        ("1d, {}, dates=[2026-01-07, 2026-01-09], except=[2026-01-07]", ["09 Jan"]),
        ("1d, {}, dates=[2026-01-07, 2026-01-09], times=1", ["07 Jan"]),
    ],
)  # fmt: skip
def test_days_of_months_and_dates_are_those_of_the_calendar(rest: str, days: list[str]) -> None:
    """By hand, with a calendar of 2026."""
    text = f'every({rest.format(HOUR)}, zone="Europe/Berlin", same_offset=false)'
    assert runs(text, clock=DAY) == days


def test_a_month_that_is_under_way_counts_until_its_window_is_over() -> None:
    """Asked on its day before and after the window; 18:00 in winter and in summer."""
    text = f'every(1mo, {HOUR}, day=last, times=2, zone="Europe/Berlin", same_offset=false)'
    assert runs(text, "2026-02-28") == ["Sat 28 Feb 26 18:00", "Tue 31 Mar 26 18:00"]
    assert runs(text, "2026-02-28T19:00") == ["Tue 31 Mar 26 18:00", "Thu 30 Apr 26 18:00"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'every(1mo, {HOUR}, zone="UTC")', "a recurrence by months needs an end"),
        (f"every(1mo, {HOUR}, times=2)", "a period of months needs a zone"),
        (f'every(3mo, {HOUR}, times=2, zone="UTC")', "needs the month that it counts from"),
        (f'every(1d, {HOUR}, day=last, times=2, zone="UTC")', "needs a period of months"),
        (f'every(1mo, {HOUR}, days=[mon], times=2, zone="UTC")', "need a period of one day"),
        (f'every(7d, {HOUR}, dates=[2026-01-07], zone="UTC")', "dates need a period of one day"),
        (f'every(0mo, {HOUR}, times=1, zone="UTC")', "'0mo' is not plausible"),
        (f'every(1mo, {HOUR}, times=1, zone="UTC", day=32)', "'32' is no day of a month"),
        (f'every(1mo, {HOUR}, times=1, zone="UTC", day=fifth mon)', "'fifth mon' is no day"),
        (f'every(1mo, {HOUR}, times=1, zone="UTC", day=first)', "'first' is no day of a month"),
        (f'every(1mo, {HOUR}, times=1, zone="UTC", day=[1])', "day is a day of the month"),
        (f'every(1d, {HOUR}, dates=[2025-12-24], zone="UTC")', "0 of its dates are left"),
        (f'every(1d, {HOUR}, dates=[2026-01-07], times=2, zone="UTC")', "1 of its dates are left"),
        (f'every(1mo, {HOUR}, times=40, zone="UTC", same_offset=false)', "past the plan's horizon"),
    ],
)
def test_what_no_calendar_has_is_refused(text: str, said: str) -> None:
    """With what is wrong and what would be right."""
    with pytest.raises(RdlError) as caught:
        runs(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        (f"1mo, {HOUR}, times=3, day=last fri",
         "1mo, 3 times, day last fri, by the calendar of UTC"),
        (f"1d, {HOUR}, dates=[2026-01-07]", "1d, on 1 dates, by the calendar of UTC"),
        (f"1d, {HOUR}, days=[mon], dates=[2026-01-07], times=2",
         "1d, 2 times, on mon, also on 1 dates, by the calendar of UTC"),
    ],
)  # fmt: skip
def test_months_and_dates_are_told_in_words(rest: str, said: str) -> None:
    """As the outline of a request says them."""
    assert outline_of(parse(f'every({rest}, zone="UTC")'))[0].said == said


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("1mo, {}, times=2, day=last fri", "every month, on the last fri, "),
        ("1mo, {}, times=2", "every month, on day 1, "),
        ("1y, {}, times=2, anchor=2026-02-01T00:00:00Z", "every year, on day 1, "),
        ("1d, {}, dates=[2026-01-07, 2026-01-09]", "every date of a list, on 2 dates, "),
        ("1d, {}, days=[mon], dates=[2026-01-07], times=2",
         "every day, on mon, also on 1 date, "),
    ],
)  # fmt: skip
def test_a_request_says_how_often_it_runs(rest: str, said: str) -> None:
    """In the words of `agenda rdl check`."""
    text = f'every({rest.format(HOUR)}, zone="UTC")'
    meaning = meaning_of(compile_source(text, CompileContext(GRID, 0)))
    assert meaning is not None
    assert dict(meaning_lines(meaning, GRID))["runs"] == f"{said}by the calendar of UTC, 2 runs"
