"""Windows across changes of clocks, against civil time as the standard library has it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rdl.compile import civil_time
from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Absolute, Atom, Every, Offset, TimeOfDay, Window
from rdl.oracle import periods as oracle
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START

MS = timedelta(milliseconds=1)
MINUTE = 60_000
DAY = 86_400_000
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 1, MINUTE, MINUTE)
ORIGIN = datetime(1990, 1, 1, tzinfo=UTC)
GRID = TimeGrid(MINUTE, 50 * 366 * 1440, ORIGIN)

#: Zones and days on which their clocks change by an hour, half an hour, at midnight, or by a day.
CHANGES = (
    ("Europe/Berlin", date(2026, 3, 29)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/New_York", date(2026, 3, 8)),
    ("America/New_York", date(2026, 11, 1)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Australia/Lord_Howe", date(2026, 10, 4)),
    ("America/Havana", date(2026, 3, 8)),
    ("America/Havana", date(2026, 11, 1)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Asia/Kathmandu", date(2026, 6, 1)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("Africa/Casablanca", date(2026, 3, 22)),
    ("Asia/Pyongyang", date(2018, 5, 5)),
    ("UTC", date(2026, 1, 1)),
)


def _shown(at: datetime, zone: ZoneInfo) -> datetime:
    return at.astimezone(zone).replace(tzinfo=None)


@lru_cache(maxsize=4096)
def _reference(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which clocks show `wall` or more, found by looking at them.

    In steps of five minutes: here windows and changes lie on them.
    """
    at = wall.replace(tzinfo=UTC) - timedelta(days=2)
    while _shown(at, zone) < wall:
        left = wall - _shown(at, zone)
        at += max(timedelta(minutes=5), left - timedelta(hours=27))
    return at


def _expected(zone: ZoneInfo, first: datetime, last: datetime) -> tuple[datetime, datetime]:
    start, end = _reference(first, zone), _reference(last, zone)
    return (start, end) if start < end else (start, start + (last - first))


def _both(window: Window, start_ms: int, day: datetime, zone: ZoneInfo) -> set[tuple[int, int]]:
    """Return what the compiler and the oracle make of a window in a civil day."""
    frame = civil_time.Frame(start_ms, day, zone, in_period=True)
    judge = oracle.OracleFrame(start_ms, day, zone, repeats=True)
    found = (civil_time.window_ms(window, frame, GRID, 0), oracle.window_of(window, judge, GRID, 0))
    assert all(start is not None for start, _ in found)
    return {(start or 0, end) for start, end in found}


@given(
    st.sampled_from(CHANGES),
    st.integers(-2, 2),
    st.integers(0, 287),
    st.integers(1, 288),
)
@example(("Europe/Berlin", date(2026, 3, 29)), 0, 26, 8)  # 02:10 to 02:50, skipped
@example(("Australia/Lord_Howe", date(2026, 10, 4)), 0, 25, 3)  # half an hour, skipped
def test_windows_are_intervals_on_the_clock_of_any_zone(
    change: tuple[str, date], days: int, first: int, length: int
) -> None:
    """Times of day and durations agree, and no window is longer than written but for the change."""
    zone = ZoneInfo(change[0])
    day = datetime.combine(change[1] + timedelta(days=days), time())
    begin = _reference(day, zone)
    opens, closes = first * 5 * MINUTE, (first + length) * 5 * MINUTE
    start, end = _expected(zone, day + opens * MS, day + closes * MS)
    wanted = {((start - ORIGIN) // MS, (end - ORIGIN) // MS)}
    begin_ms = (begin - ORIGIN) // MS

    counted = Window(Offset(opens), Offset(closes), ATOM)
    assert _both(counted, begin_ms, day, zone) == wanted
    if start < _reference(day + timedelta(days=1), zone):
        by_clock = Window(TimeOfDay(opens), TimeOfDay(closes % DAY), ATOM)
        assert _both(by_clock, begin_ms, day, zone) == wanted
    shown = _shown(end, zone) - _shown(start, zone)
    back = max(end - start - shown, 0 * MS)
    assert end - start <= (closes - opens) * MS + back


def test_nights_through_a_gap_stay_half_an_hour_long() -> None:
    """A nightly run in New York has its half hour on the night of the change too."""
    text = "every(1d, window(atom(<4 cpu>, 1, 1, 30m, 30m), 02:15, 02:45), times=5,"
    grid = TimeGrid(15 * MINUTE, 8 * 96, datetime(2026, 3, 5, 5, tzinfo=UTC))
    graph = compile_source(
        f'{text} zone="America/New_York", same_offset=false)', CompileContext(grid)
    )

    zone = ZoneInfo("America/New_York")
    rows = [graph.vertices[vertex] for vertex in graph.atoms.tolist()]
    begins = [_shown(grid.instant_at(grid.ms(int(row[START]))), zone) for row in rows]
    assert {int(row[END] - row[START]) for row in rows} == {2}
    assert [f"{begin:%d %H:%M}" for begin in begins] == [
        *("05 02:15", "06 02:15", "07 02:15", "08 03:00", "09 02:15")
    ]


def test_a_nightly_window_that_clocks_skip_is_right_after_the_gap() -> None:
    """02:15 to 02:45 in New York on 8 March 2026 is 03:00 to 03:30, and as 2h15m to 2h45m too."""
    zone = ZoneInfo("America/New_York")
    day = datetime(2026, 3, 8)  # noqa: DTZ001 - a clock's
    begin = (datetime(2026, 3, 8, 5, tzinfo=UTC) - ORIGIN) // MS
    gap = (datetime(2026, 3, 8, 7, tzinfo=UTC) - ORIGIN) // MS
    times = (TimeOfDay(135 * MINUTE), TimeOfDay(165 * MINUTE))
    lengths = (Offset(135 * MINUTE), Offset(165 * MINUTE))

    for start, end in (times, lengths, (times[0], lengths[1]), (lengths[0], times[1])):
        found = _both(Window(start, end, ATOM), begin, day, zone)
        assert found == {(gap, gap + 30 * MINUTE)}


@pytest.mark.parametrize("zone", [change[0] for change in CHANGES[::2]])
@pytest.mark.parametrize("hour", [14, 20])
def test_an_anchor_that_is_an_instant_keeps_its_time_of_day(zone: str, hour: int) -> None:
    """Periods begin when clocks show what they showed at the anchor, the first at the anchor."""
    at = datetime(2026, 3, 5, hour, tzinfo=ZoneInfo(zone))
    every = Every(DAY, ATOM, anchor=Absolute(at), zone=zone)
    anchor = GRID.instant_ms(at)

    found = list(islice(civil_time.periods(every, anchor, GRID), 30))
    judged = list(islice(oracle.periods_of(every, anchor, GRID), 30))

    assert found[0].start_ms == anchor
    begins = [GRID.instant_at(one.start_ms).astimezone(ZoneInfo(zone)) for one in found]
    assert {one.time() for one in begins} == {time(hour)}
    assert [(one.start_ms, one.end_ms) for one in found] == [
        (one.start_ms, one.end_ms) for one in judged
    ]


def test_a_day_that_a_zone_never_had_is_no_period() -> None:
    """Samoa went from 29 to 31 December 2011."""
    every = Every(DAY, ATOM, zone="Pacific/Apia")
    anchor = GRID.instant_ms(datetime(2011, 12, 29, 12, tzinfo=ZoneInfo("Pacific/Apia")))

    found = list(islice(civil_time.periods(every, anchor, GRID), 2))
    judged = list(islice(oracle.periods_of(every, anchor, GRID), 2))

    assert [one.frame.day for one in found] == [
        datetime(2011, 12, 29),  # noqa: DTZ001 - a clock's
        datetime(2011, 12, 31),  # noqa: DTZ001 - a clock's
    ]
    assert [one.start_ms for one in judged] == [one.start_ms for one in found]


def test_a_night_that_is_too_short_by_a_change_of_clocks_says_so() -> None:
    """One offset for all runs leaves nothing of 06:00 to 07:00 where clocks go back in between."""
    text = "every(1d, window(atom(<4 cpu>, 1, 1, 1h, 1h), 06:00, 07:00), times=7,"
    grid = TimeGrid(15 * MINUTE, 8 * 96, datetime(2026, 10, 29, 4, tzinfo=UTC))
    with pytest.raises(RdlError, match=r"clocks change on 2026-11-01 .*same_offset=false"):
        compile_source(f'{text} zone="America/New_York")', CompileContext(grid))
    free = f'{text} zone="America/New_York", same_offset=false)'
    assert len(compile_source(free, CompileContext(grid)).atoms) == 7
