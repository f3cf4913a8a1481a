"""Estimates as requests: RDL reads them back, and they say the days and times that runs had."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from planner.history.effects import level_break
from planner.history.estimate import JobEstimate, estimate, runs_needed
from planner.history.request import DAY_S, RequestForm
from planner.history.run import JobRun, Stretch
from rdl import (
    Absolute,
    AllOf,
    Atom,
    CompileContext,
    Every,
    Offset,
    Order,
    TimeGrid,
    Window,
    compile_expression,
    format_expression,
    format_pretty,
    read_source,
)
from rdl.expressions import Gap
from tests.planner.history.histories import MONDAY_S, daily_runs, rectangles, spread_values

PARIS = ZoneInfo("Europe/Paris")
FORM = RequestForm(60)


def _checked(found: JobEstimate) -> JobEstimate:
    """Return an estimate whose request reads back as it is, and compiles on weeks of minutes."""
    for text in (format_expression(found.expression), format_pretty(found.expression)):
        assert read_source(text) == found.expression
    origin = datetime.fromtimestamp(MONDAY_S, UTC)
    compile_expression(found.expression, CompileContext(TimeGrid(60_000, 100 * 1440, origin)))
    return found


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95])
def test_this_many_runs_give_the_confidence_and_one_less_does_not(confidence: float) -> None:
    """What `runs_needed` says is the least, above the three that any estimate needs."""
    count = runs_needed(confidence)
    for runs, enough in ((max(3, count), True), (count - 1, False)):
        if runs >= 3:
            found = estimate(rectangles([600.0] * runs, [4] * runs), confidence, FORM)
            assert (found.confidence >= confidence - 1e-9) == enough


def test_a_nightly_job_is_requested_every_night_by_the_clock() -> None:
    """Runs at 02:00 UTC are runs at 03:00 in Paris: the request is of civil days there."""
    found = _checked(
        estimate(list(daily_runs(20, lambda _: 600.0)), 0.9, RequestForm(60, zone=PARIS))
    )
    every = found.expression
    assert isinstance(every, Every)
    assert (every.period_ms, every.zone) == (1000 * DAY_S, "Europe/Paris")
    assert every.anchor == Absolute(datetime(2026, 1, 25, tzinfo=PARIS))
    window = every.of
    assert isinstance(window, Window)
    assert (window.start, window.end) == (Offset(3 * 3_600_000), Offset(3 * 3_600_000 + 900_000))
    assert isinstance(window.of, Atom)
    assert (window.of.minimum, window.of.maximum, window.of.work_ms) == (1, 8, 8 * 600_000)


def test_the_first_day_can_be_said() -> None:
    """`on` is the day of the anchor."""
    runs = list(daily_runs(10, lambda _: 600.0))
    every = _checked(estimate(runs, 0.9, FORM, date(2026, 2, 1))).expression
    assert isinstance(every, Every)
    assert every.anchor == Absolute(datetime(2026, 2, 1, tzinfo=UTC))


def test_days_that_differ_have_windows_of_their_own() -> None:
    """Shorter weekends: a week of seven windows from a Monday on, the last two for less work."""
    around = spread_values(56, 0.95, 1.05)
    runs = list(daily_runs(56, lambda day: (1800 if day % 7 >= 5 else 3600) * around[day]))
    found = _checked(estimate(runs, 0.8, FORM))
    assert [part.days for part in found.parts] == [(0, 1, 2, 3, 4), (5, 6)]
    every = found.expression
    assert isinstance(every, Every)
    assert (every.period_ms, every.anchor) == (
        7000 * DAY_S,
        Absolute(datetime(2026, 3, 2, tzinfo=UTC)),
    )
    assert isinstance(every.of, AllOf)
    works = [window.of.work_ms for window in every.of.children]  # type: ignore[union-attr]
    assert len(works) == 7
    assert max(works[5:]) < 0.6 * min(works[:5])


def test_days_without_runs_are_not_asked_for() -> None:
    """Mondays to Fridays, and once by pass on a Sunday."""
    runs = [
        run for day, run in enumerate(daily_runs(42, lambda _: 600.0)) if day % 7 < 5 or day == 6
    ]
    found = _checked(estimate(runs, 0.9, FORM))
    assert [part.days for part in found.parts] == [(0, 1, 2, 3, 4)]


def test_a_weekly_job_is_requested_on_its_day() -> None:
    """Sundays at 02:00: one window on the seventh day of a week."""
    runs = [run for day, run in enumerate(daily_runs(70, lambda _: 600.0)) if day % 7 == 6]
    found = _checked(estimate(runs, 0.9, FORM))
    assert isinstance(found.expression, Every)
    window = found.expression.of
    assert isinstance(window, Window)
    assert window.start == Offset(1000 * (6 * DAY_S + 7200))


def test_a_window_ends_with_its_week() -> None:
    """Twenty hours every Sunday, and half as much again: the week ends at the start of the next."""
    runs = [run for day, run in enumerate(daily_runs(70, lambda _: 72_000.0)) if day % 7 == 6]
    every = _checked(estimate(runs, 0.8, FORM)).expression
    assert isinstance(every, Every)
    assert isinstance(every.of, Window)
    assert (every.of.start, every.of.end) == (Offset(6000 * DAY_S), Offset(7000 * DAY_S))


def test_a_window_over_midnight_counts_periods_from_the_start() -> None:
    """A job of 23:00 that may end at 00:30: no zone, the anchor is its begin."""
    runs = [
        JobRun("late", MONDAY_S + day * DAY_S + 82_800, (Stretch(3600, 4),)) for day in range(12)
    ]
    every = _checked(estimate(runs, 0.9, FORM)).expression
    assert isinstance(every, Every)
    assert (every.zone, every.anchor) == (
        None,
        Absolute(datetime(2026, 1, 17, 23, tzinfo=UTC)),
    )


@pytest.mark.parametrize("slack", [0.0, 0.5])
def test_a_window_at_the_hour_that_clocks_skip_is_long_enough_that_night(slack: float) -> None:
    """Runs of 45 minutes from 02:10: on 29 March the window has an hour less on the clock."""
    runs = [
        JobRun(
            "night",
            datetime(2026, 3, day, 2, 10, tzinfo=PARIS).timestamp(),
            (Stretch(2700, 8),),
        )
        for day in range(1, 25)
    ]
    _checked(estimate(runs, 0.9, RequestForm(60, slack, zone=PARIS)))


def test_a_window_wholly_within_the_hour_that_clocks_skip_ends_after_it() -> None:
    """Runs of five minutes from 00:10 in Cairo, where clocks go from 00:00 to 01:00 in April."""
    zone = ZoneInfo("Africa/Cairo")
    runs = [
        JobRun("night", datetime(2026, 3, day, 0, 10, tzinfo=zone).timestamp(), (Stretch(300, 8),))
        for day in range(1, 31)
    ]
    found = _checked(estimate(runs, 0.9, RequestForm(60, 0.0, zone=zone)))
    request = CompileContext(TimeGrid(60_000, 60 * 1440, datetime(2026, 3, 30, tzinfo=UTC)))
    assert len(compile_expression(found.expression, request).atoms) > 0


def test_clocks_that_change_for_a_month_alone_leave_each_run_free() -> None:
    """In Morocco they go back for Ramadan: one offset for all runs would be refused."""
    form = RequestForm(60, zone=ZoneInfo("Africa/Casablanca"))
    every = _checked(estimate(list(daily_runs(20, lambda _: 600.0)), 0.9, form)).expression
    assert isinstance(every, Every)
    assert (every.zone, every.same_offset) == ("Africa/Casablanca", False)


def test_a_job_of_every_two_hours_begins_where_its_runs_do() -> None:
    """Five minutes past even hours."""
    runs = [JobRun("poll", MONDAY_S + k * 7200 + 300, (Stretch(240, 2),)) for k in range(30)]
    every = _checked(estimate(runs, 0.9, FORM)).expression
    assert isinstance(every, Every)
    assert (every.period_ms, every.zone) == (7_200_000, None)
    assert every.anchor == Absolute(datetime(2026, 1, 8, 0, 5, tzinfo=UTC))


def test_without_a_period_one_run_is_requested() -> None:
    """And a note says so; a history without a calendar says that too."""
    begins = [0.0, 9e4, 1e5, 4e5, 9e5, 1e6, 2e6]
    runs = [JobRun("some", at, (Stretch(600, 4),)) for at in begins]
    found = estimate(runs, 0.8, FORM, calendar=False)
    assert isinstance(found.expression, Window)
    assert [note.partition(":")[0] for note in found.notes] == [
        "no period was found",
        "the history has no calendar",
    ]


def test_a_gang_holds_all_without_a_break() -> None:
    """Each atom of the profile has as many at least as at most, for the whole step, gaps are 0."""
    stretches = (Stretch(600, 40), Stretch(3000, 5))
    runs = [JobRun("train", MONDAY_S + DAY_S * k, stretches) for k in range(12)]
    found = _checked(estimate(runs, 0.9, RequestForm(60, gang=True)))
    assert isinstance(found.expression, Every)
    assert isinstance(found.expression.of, Window)
    order = found.expression.of.of
    assert isinstance(order, Order)
    assert order.gap == Gap(0, 0)
    atoms = [atom for atom in order.children if isinstance(atom, Atom)]
    assert [(a.minimum, a.maximum, a.lease_ms, a.work_ms) for a in atoms] == [
        (40, 40, 600_000, 24_000_000),
        (5, 5, 3_000_000, 15_000_000),
    ]


def test_a_container_holds_what_every_run_s_did() -> None:
    """The most of each resource among the runs."""
    bundles = ({"cpu": 1000, "memory": 512}, {"cpu": 2000}, {"cpu": 1000, "gpu": 1})
    runs = [
        JobRun("mixed", MONDAY_S + k * 9e5 * (k + 1), (Stretch(600, 2),), bundle)
        for k, bundle in enumerate(bundles)
    ]
    window = _checked(estimate(runs, 0.5, FORM)).expression
    assert isinstance(window, Window)
    assert isinstance(window.of, Atom)
    assert dict(window.of.bundle) == {"cpu": 2000, "gpu": 1, "memory": 512}


_NOISE = spread_values(24, 500.0, 700.0)


@pytest.mark.parametrize(
    ("works", "found"),
    [
        # Doubled, or halved, four and seven runs ago; the noise is a third of the work.
        ([w * (2 if at >= 20 else 1) for at, w in enumerate(_NOISE)], (4, 20, 2.0)),
        ([w * (2 if at >= 17 else 1) for at, w in enumerate(_NOISE)], (7, 17, 2.0)),
        ([w / (2 if at >= 20 else 1) for at, w in enumerate(_NOISE)], (4, 20, 0.5)),
        # Noise, a drift, three large ones, weekends, and a tenth more: none of them is a break.
        (_NOISE, None),
        (spread_values(24, 100.0, 2000.0), None),
        ([600.0 * 1.05**at for at in range(24)], None),
        ([w * (2 if at >= 21 else 1) for at, w in enumerate(_NOISE)], None),
        ([w * (2 if at % 7 >= 3 else 1) for at, w in enumerate(_NOISE)], None),
        ([600.0] * 20 + [660.0] * 4, None),
        # Too few before, and a run that did nothing.
        ([600.0] * 7 + [1200.0] * 4, None),
        ([0.0] * 20 + [600.0] * 4, None),
    ],
)
def test_a_break_is_found_and_noise_is_none(
    works: list[float], found: tuple[int, int, float] | None
) -> None:
    """The last runs lie apart from all before, by more than runs differ."""
    told = level_break(works)
    if found is None:
        assert told is None
    else:
        assert told is not None
        assert (told.last, told.before) == found[:2]
        assert told.factor == pytest.approx(found[2], rel=0.1)


@pytest.mark.parametrize("calendar", [True, False])
def test_a_break_is_noted(calendar: bool) -> None:
    """Of a job by the day, and of a trace without a calendar, alongside its other notes."""
    lengths = [600.0] * 20 + [1200.0] * 4
    runs = list(daily_runs(24, lambda day: lengths[day]))
    notes = estimate(runs, 0.9, FORM, calendar=calendar).notes
    assert [("2026-01-25" in one) for one in notes if one.startswith("a break")] == [calendar]
    assert not any(
        one.startswith("a break") for one in estimate(runs[:20], 0.9, FORM, calendar=calendar).notes
    )
