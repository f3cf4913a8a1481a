"""Recurrences by the oracle: periods, offsets, anchors, civil days and the end of time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from rdl.expressions import (
    AnyOf,
    Atom,
    Every,
    Offset,
    Void,
    Window,
)
from rdl.oracle.periods import first_instant
from rdl.oracle.satisfaction import Violation, check
from rdl.time_grid import TimeGrid
from tests.rdl.oracle.asks import (
    CORE,
    GRID,
    ONE,
    SECOND,
    Rows,
    occurrences,
    rule,
    window,
)


def test_every_with_one_offset() -> None:
    """Period 10 from the submission at 3: occurrence k is occurrence 0 moved by 10 k."""
    three = Every(10 * SECOND, ONE, times=3)
    assert rule(three, occurrences(5, 15, 25), submitted=3) is None
    assert rule(three, occurrences(5, 15, 26), submitted=3) == "offset"
    assert rule(three, occurrences(5, 15), submitted=3) == "work"
    assert rule(three, occurrences(5, 15, 25, 35), submitted=3) == "path"
    assert rule(three, occurrences(13, 23, 33), submitted=3) == "window"


def test_every_free_in_its_period() -> None:
    """Without one offset each occurrence stands anywhere in its own period."""
    free = Every(10 * SECOND, ONE, times=2, same_offset=False)
    assert rule(free, occurrences(0, 19)) is None
    assert rule(free, occurrences(9, 9)) == "window"


def test_every_anchors_at_the_window_then_the_anchor() -> None:
    """Periods count from the start of the enclosing window, or from `anchor`."""
    plain = window(Every(10 * SECOND, ONE, times=2), 4, 100)
    assert rule(plain, occurrences(13, 23, path="0.0")) is None
    assert rule(plain, occurrences(14, 24, path="0.0")) == "window"
    anchored = window(Every(10 * SECOND, ONE, times=2, anchor=Offset(20 * SECOND)), 4, 100)
    assert rule(anchored, occurrences(20, 30, path="0.0")) is None
    assert rule(anchored, occurrences(13, 23, path="0.0")) == "window"


def test_times_inside_every_count_from_the_period() -> None:
    """window(atom, 2, 4) inside a period of 10 anchored at 5 is [7, 9), [17, 19), ..."""
    inner = Every(10 * SECOND, window(ONE, 2, 4), times=2, anchor=Offset(5 * SECOND))
    rows = {f"0@{k}.0": [(8 + 10 * k, 9 + 10 * k, 1)] for k in range(2)}
    assert rule(inner, rows) is None
    early = {path: [(6 + 10 * k, 7 + 10 * k, 1)] for k, path in enumerate(rows)}
    assert rule(inner, early) == "window"


def test_endless_fills_the_whole_periods_before_the_horizon() -> None:
    """In 1,000 steps, an endless period of 300 that is admitted holds 3 occurrences."""
    endless = Every(300 * SECOND, ONE)
    assert rule(endless, occurrences(1, 301, 601)) is None
    assert rule(endless, occurrences(1, 301)) == "work"
    assert rule(endless, occurrences(1, 301, 601, 901)) == "path"
    odd = Every(7 * SECOND, ONE)  # 7 s divides no day
    assert rule(odd, occurrences(*range(0, 994, 7))) == "period"


def test_until_holds_whole_periods() -> None:
    """Until 25 with a period of 10: two whole periods."""
    until = Every(10 * SECOND, ONE, until=Offset(25 * SECOND))
    assert rule(until, occurrences(0, 10)) is None
    assert rule(until, occurrences(0, 10, 20)) == "path"


def test_finite_occurrences_stay_before_the_horizon() -> None:
    """A billion repetitions are answered at once: the first past the horizon is named."""
    many = Every(100 * SECOND, Void(CORE, 1), times=10**9)
    found = check(many, GRID, 0, {}, {})
    assert found == Violation("", "period", "occurrence 10 lies past the horizon")


def test_period_is_a_whole_number_of_steps() -> None:
    """1.5 s is no period on a grid of seconds."""
    assert rule(Every(1500, ONE, times=2), occurrences(0, 1)) == "period"


def test_choices_inside_every() -> None:
    """With one offset the choice is that of occurrence 0; free occurrences choose themselves."""
    either = AnyOf((ONE, ONE))
    fixed = Every(10 * SECOND, either, times=2)
    rows: dict[str, Rows] = {"0@0.1": [(2, 3, 1)], "0@1.1": [(12, 13, 1)]}
    assert rule(fixed, rows, {"0@0": 1}) is None
    assert rule(fixed, rows, {"0@0": 1, "0@1": 1}) is None
    mixed: dict[str, Rows] = {"0@0.1": [(2, 3, 1)], "0@1.0": [(12, 13, 1)]}
    assert rule(fixed, mixed, {"0@0": 1, "0@1": 0}) == "choice"
    free = Every(10 * SECOND, either, times=2, same_offset=False)
    assert rule(free, mixed, {"0@0": 1, "0@1": 0}) is None
    assert rule(free, rows, {"0@0": 1}) == "choice"


HOUR = 3600 * SECOND
PARIS = "Europe/Paris"


def test_civil_days() -> None:
    """In Paris the night of 29 March 2026 has 23 hours: 9 o'clock moves by 23 hours, once."""
    grid = TimeGrid(HOUR, 24 * 7, datetime(2026, 3, 26, 23, tzinfo=UTC))  # midnight, 27 March
    hour = Atom(CORE, 1, 1, HOUR, HOUR)
    nine = Window(Offset(9 * HOUR), Offset(10 * HOUR), hour)
    daily = Every(24 * HOUR, nine, times=4, zone=PARIS, same_offset=False)

    def allocation(*hours: int) -> dict[str, Rows]:
        return {f"0@{k}.0": [(hour, hour + 1, 1)] for k, hour in enumerate(hours)}

    assert rule(daily, allocation(9, 33, 56, 80), grid=grid) is None
    assert rule(daily, allocation(9, 33, 57, 81), grid=grid) == "window"
    # One offset counts from midnight, so 9 o'clock for one hour is out of reach that day.
    fixed = Every(24 * HOUR, nine, times=4, zone=PARIS)
    assert rule(fixed, allocation(9, 33, 57, 80), grid=grid) == "window"
    assert rule(fixed, allocation(9, 33, 56, 80), grid=grid) == "offset"
    wide = Every(24 * HOUR, replace(nine, end=Offset(11 * HOUR)), times=4, zone=PARIS)
    assert rule(wide, allocation(9, 33, 57, 80), grid=grid) is None
    assert rule(daily, allocation(9, 33, 57, 81)) == "period"  # no origin, no civil day


def test_the_end_of_the_calendar_is_a_violation() -> None:
    """Times past the year 9999 are said to be wrong, they do not crash the judge."""
    grid = TimeGrid(HOUR, 24, datetime(2026, 3, 26, tzinfo=UTC))
    far = Every(24 * HOUR, window(ONE, 10**13, 10**14), times=1, zone=PARIS)
    assert rule(far, {}, grid=grid) == "window"
    late = Every(24 * HOUR, ONE, times=1, zone=PARIS, anchor=Offset(10**18))
    assert rule(late, {}, grid=grid) == "period"


@pytest.mark.parametrize(
    ("wall", "zone", "utc"),
    [
        ("2026-03-29T02:30", PARIS, "2026-03-29T01:00"),  # skipped: 2:00 becomes 3:00
        ("2026-03-29T02:00", PARIS, "2026-03-29T01:00"),
        ("2026-03-29T03:00", PARIS, "2026-03-29T01:00"),
        ("2026-03-29T01:59", PARIS, "2026-03-29T00:59"),
        ("2026-10-25T02:30", PARIS, "2026-10-25T00:30"),  # twice: the first, still +2
        ("2026-07-01T12:00", PARIS, "2026-07-01T10:00"),
        ("2026-04-05T01:45", "Australia/Lord_Howe", "2026-04-04T14:45"),  # half an hour, twice
        ("2026-10-04T02:10", "Australia/Lord_Howe", "2026-10-03T15:30"),  # half an hour, skipped
        ("2011-12-30T12:00", "Pacific/Apia", "2011-12-30T10:00"),  # a day that never was
    ],
)
def test_first_instant(wall: str, zone: str, utc: str) -> None:
    """Wall times that exist, that are skipped, and that come twice."""
    found = first_instant(datetime.fromisoformat(wall), ZoneInfo(zone))
    assert found == datetime.fromisoformat(utc).replace(tzinfo=UTC)


def test_a_closed_recurrence_ends_with_its_last_occurrence() -> None:
    """What was held or released when it was closed is all that is asked of it."""
    endless = Every(300 * SECOND, ONE)
    held = occurrences(1, 301)
    assert check(endless, GRID, 0, held, {}, closed=True) is None
    assert check(endless, GRID, 0, held, {}) is not None
    assert check(endless, GRID, 0, {"0@1": held["0@1"]}, {}, closed=True) is not None
    assert check(Every(300 * SECOND, ONE, times=3), GRID, 0, held, {}, closed=True) is not None
