"""Windows by times of day, weekdays and dates: the compiler against the oracle, and by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.compile import recurrences
from rdl.compile.civil_time import Period, periods
from rdl.compile.compiler import compile_expression, compile_source
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Atom, Every, Expression, TimeOfDay, Window
from rdl.limits import SourceLimits
from rdl.oracle.satisfaction import Violation, check
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START, WorkGraph, occurrence_path

HOUR_MS = 3_600_000
STEP_MS = HOUR_MS // 2
#: Steps of two weeks.
FORTNIGHT = 14 * 48
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC")
#: Mondays; clocks go forward in Europe and America in the first two, and back in the third.
ORIGINS = tuple(
    datetime(*day, tzinfo=UTC)
    for day in ((2026, 3, 23), (2026, 3, 2), (2026, 10, 19), (2026, 6, 1))
)
ATOM = Atom(Resources.of({"cpu": 1000}), 1, 1, STEP_MS, STEP_MS)

clock_times = st.integers(0, 47).map(lambda half: TimeOfDay(half * STEP_MS))


@st.composite
def nights(draw: st.DrawFn) -> Expression:
    """One atom in a window by times of day, in each day that counts, or once."""
    zone = draw(st.sampled_from(ZONES))
    window = Window(draw(st.none() | clock_times), draw(clock_times), ATOM)
    if draw(st.booleans()):
        return Window(window.start, window.end, ATOM, zone)
    days = draw(st.none() | st.sets(st.integers(0, 6), min_size=1))
    dates = draw(st.sets(st.integers(0, 20), max_size=5))
    return Every(
        24 * HOUR_MS,
        window,
        draw(st.none() | st.integers(1, 4)),
        None,
        draw(st.none() | clock_times),
        zone,
        draw(st.booleans()),
        None if days is None else tuple(sorted(days)),
        tuple(date(2026, 3, 20) + timedelta(days=day) for day in sorted(dates)),
    )


def _placed(graph: WorkGraph, at: int) -> Violation | None:
    """Say what the oracle makes of every atom one step long at its window's start plus `at`.

    `at` below zero counts from the end; the occurrences that share a window move with it.
    """
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        start = int(row[START]) + at if at >= 0 else int(row[END]) + at
        shifts = graph.shifts[row[12] : row[12] + row[13]].tolist()
        for k, shift in enumerate(shifts):
            rows[occurrence_path(graph, vertex, k)] = [(start + shift, start + shift + 1, 1)]
    return check(graph.expression, graph.grid, graph.submitted * STEP_MS, rows, {})


@given(nights(), st.sampled_from(ORIGINS), st.integers(0, 70))
def test_the_oracle_and_the_compiler_read_the_same_calendar(
    expression: Expression, origin: datetime, submitted: int
) -> None:
    """The first and the last step of what the compiler leaves satisfy it, those beside do not."""
    context = CompileContext(TimeGrid(STEP_MS, FORTNIGHT, origin), submitted * STEP_MS)
    try:
        graph = compile_expression(expression, context)
    except RdlError:
        return  # such as a window that passes the end of its day
    assert _placed(graph, 0) is None
    assert _placed(graph, -1) is None
    before = _moved_out(graph, -1)
    after = _moved_out(graph, 1)
    assert before is not None
    assert after is not None


def _moved_out(graph: WorkGraph, by: int) -> Violation | None:
    """Say what the oracle makes of the first atom one step before or past its window."""
    row = graph.vertices[graph.atoms[0]]
    at = int(row[START]) - 1 if by < 0 else int(row[END])
    rows = {}
    for vertex in graph.atoms.tolist():
        held = graph.vertices[vertex]
        shifts = graph.shifts[held[12] : held[12] + held[13]].tolist()
        start = at if vertex == graph.atoms[0] else int(held[START])
        for k, shift in enumerate(shifts):
            rows[occurrence_path(graph, vertex, k)] = [(start + shift, start + shift + 1, 1)]
    return check(graph.expression, graph.grid, graph.submitted * STEP_MS, rows, {})


def _windows(text: str, *, origin: datetime, submitted: str = "0h") -> list[tuple[str, str]]:
    """Return the local windows of each occurrence of a request with one atom, in Berlin."""
    from zoneinfo import ZoneInfo

    from rdl.durations import parse_duration

    grid = TimeGrid(60_000, 30 * 1440, origin)
    graph = compile_source(text, CompileContext(grid, parse_duration(submitted)))
    zone = ZoneInfo("Europe/Berlin")
    found = []
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        for shift in graph.shifts[row[12] : row[12] + row[13]].tolist():
            ends = (grid.instant_at(grid.ms(int(row[at]) + shift)) for at in (START, END))
            first, last = (end.astimezone(zone).strftime("%a %d %H:%M") for end in ends)
            found.append((first, last))
    return found


JUNE = datetime(2026, 6, 1, tzinfo=UTC)  # a Monday, 02:00 in Berlin


def test_a_deadline_by_time_of_day_is_the_next_one() -> None:
    """By six, asked at two in the night and at eight in the morning of Berlin."""
    text = 'deadline(atom(<1 cpu>, 1, 1, 1m, 1m), 06:00, zone="Europe/Berlin")'

    assert _windows(text, origin=JUNE) == [("Mon 01 02:00", "Mon 01 06:00")]
    assert _windows(text, origin=JUNE, submitted="6h") == [("Mon 01 08:00", "Tue 02 06:00")]


def test_weeknights_pass_midnight_and_leave_dates_out() -> None:
    """Nights of weekdays from 22:00 to 06:00, without Tuesday the second."""
    text = (
        "every(1d, window(atom(<1 cpu>, 1, 1, 1m, 1m), 22:00, 06:00), days=[mon..fri], times=5, "
        'except=[2026-06-02], anchor=14:00, zone="Europe/Berlin")'
    )

    assert _windows(text, origin=JUNE) == [
        ("Mon 01 22:00", "Tue 02 06:00"),
        ("Wed 03 22:00", "Thu 04 06:00"),
        ("Thu 04 22:00", "Fri 05 06:00"),
        ("Fri 05 22:00", "Sat 06 06:00"),
        ("Mon 08 22:00", "Tue 09 06:00"),
    ]


def test_a_day_whose_window_is_over_does_not_count() -> None:
    """Asked at ten, a window from 00:00 to 06:00 begins on the next day."""
    text = (
        "every(1d, window(atom(<1 cpu>, 1, 1, 1m, 1m), 00:00, 06:00), times=2, "
        'zone="Europe/Berlin")'
    )

    assert _windows(text, origin=JUNE, submitted="8h") == [
        ("Tue 02 00:00", "Tue 02 06:00"),
        ("Wed 03 00:00", "Wed 03 06:00"),
    ]


def test_a_time_that_clocks_skip_is_the_end_of_the_gap() -> None:
    """On 29 March 2026 Berlin has no 02:30."""
    text = (
        "every(1d, window(atom(<1 cpu>, 1, 1, 1m, 1m), 02:30, 05:00), times=2, "
        'same_offset=false, anchor=2026-03-28T00:00:00Z, zone="Europe/Berlin")'
    )

    assert _windows(text, origin=datetime(2026, 3, 28, tzinfo=UTC)) == [
        ("Sat 28 02:30", "Sat 28 05:00"),
        ("Sun 29 03:00", "Sun 29 05:00"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("window(atom(<1 cpu>, 1, 1, 1m, 1m), 06:00, 08:00)", "a time of day needs a zone"),
        ("every(1d, atom(<1 cpu>, 1, 1, 1m, 1m), days=[mon])", "days needs a zone"),
        (
            'every(7d, atom(<1 cpu>, 1, 1, 1m, 1m), days=[mon], zone="UTC")',
            "days of the week need a period of one day; write every(1d, ...)",
        ),
        (
            'every(1d, window(atom(<1 cpu>, 1, 1, 1m, 1m), 22:00, 06:00), zone="UTC")',
            "from 22:00 to 06:00 it passes 00:00, where one day ends and the next begins; "
            "write anchor=14:00",
        ),
        (
            "every(1d, all(window(atom(<1 cpu>, 1, 1, 1m, 1m), 22:00, 06:00), "
            'atom(<1 cpu>, 1, 1, 1m, 1m)), zone="UTC")',
            "from 22:00 to 06:00 it passes 00:00, where one day ends and the next begins; "
            "write anchor=14:00",
        ),
        ('every(1d, void(<1 cpu>, 1), until=06:00, zone="UTC")', "until is a date"),
        (
            'every(1d, atom(<1 cpu>, 1, 1, 1m, 1m), holidays=d, times=1, zone="UTC")',
            "the cluster has no calendar 'd'; did you mean 'de'?",
        ),
        ("every(1d, void(<1 cpu>, 1), days=[monday])", "'monday' is no day of the week"),
        ("every(1d, void(<1 cpu>, 1), except=[2026-02-30])", "'2026-02-30' is no date"),
        ("deadline(void(<1 cpu>, 1), 25:00)", "no clock shows '25:00'"),
    ],
)
def test_what_cannot_be_says_what_would_be_right(text: str, message: str) -> None:
    """Each has one clear sentence."""
    calendars = (("de", (date(2026, 12, 25),)),)
    context = CompileContext(TimeGrid(60_000, 30 * 1440, JUNE), calendars=calendars)
    with pytest.raises(RdlError) as caught:
        compile_source(text, context)

    assert message in str(caught.value)


def test_a_calendar_of_a_cluster_without_any_says_where_it_belongs() -> None:
    """There is no near name to offer."""
    context = CompileContext(TimeGrid(60_000, 30 * 1440, JUNE))
    with pytest.raises(RdlError, match=r"'de'; name it under \[calendars\] of the cluster file"):
        compile_source(
            'every(1d, atom(<1 cpu>, 1, 1, 1m, 1m), holidays=de, times=1, zone="UTC")', context
        )


def test_a_calendar_becomes_dates_in_the_request() -> None:
    """What is compiled names no calendar, and leaves dates out that were long over."""
    calendars = (("de", (date(2025, 12, 25), date(2026, 6, 3))),)
    context = CompileContext(TimeGrid(60_000, 30 * 1440, JUNE), calendars=calendars)
    text = 'every(1d, atom(<1 cpu>, 1, 1, 1m, 1m), times=3, zone="UTC", holidays=de)'

    graph = compile_source(text, context)

    assert isinstance(graph.expression, Every)
    assert (graph.expression.holidays, graph.expression.without) == (None, (date(2026, 6, 3),))
    assert graph.shifts.tolist() == [0, 0, 1440, 3 * 1440]


@pytest.mark.parametrize(
    ("window", "anchor", "message"),
    [
        ("0, 2020-01-01T00:00:00Z", "00:00", "no whole step"),
        ("0, +0", "00:00", "no whole step"),
        ("22:00, 23:00", "0001-01-03T00:00:00Z", "its first period is over before"),
    ],
)
def test_days_that_never_count_are_not_counted_to_the_end_of_the_calendar(
    window: str, anchor: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window that is over in every period, or periods from long ago, are refused early."""
    text = f"every(1d, window(atom(<1 cpu>, 1, 1, 1m, 1m), {window}), times=2, days=[mon..fri],"
    limits = SourceLimits(max_occurrences=100)
    context = CompileContext(TimeGrid(60_000, 4 * 1440, ORIGINS[0]), 0, limits=limits)
    asked: list[Period] = []
    monkeypatch.setattr(recurrences, "periods", lambda *said: _kept(periods(*said), asked))

    with pytest.raises(RdlError, match=message):
        compile_source(f'{text} anchor={anchor}, zone="Europe/Berlin")', context)

    assert len(asked) <= 102


def _kept(found: Iterator[Period], asked: list[Period]) -> Iterator[Period]:
    """Yield what is found, and keep what was requested."""
    for one in found:
        asked.append(one)
        yield one
