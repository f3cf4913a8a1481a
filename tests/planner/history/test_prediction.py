"""Allocations hold later runs as often as they say, and effects are found where they are."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.history.effects import drift_of, weekday_effect
from planner.history.prediction import (
    MAXIMUM,
    PREDICTION,
    TooFewRunsError,
    _allocation,
    back_test,
    maximum,
    mean,
    peak,
    predict,
)
from planner.history.request import DAY_S, period_of
from planner.history.run import (
    ONE_CORE,
    JobRun,
    Stretch,
    WidthProfile,
    run_of_tasks,
    table_of,
    widths_of,
)
from tests.planner.history.histories import MONDAY_S, daily_runs, rectangles, spread_values

tables = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=6), min_size=3, max_size=12).map(
    lambda rows: table_of([np.array([1.0 + row[0], *map(float, row[1:])]) for row in rows])
)


@given(tables, st.floats(0.05, 0.99), st.floats(0.05, 0.99))
def test_more_confidence_never_allocates_less(table: np.ndarray, one: float, other: float) -> None:
    """In no bucket is the allocation for the higher confidence lower."""
    low, high = sorted((one, other))
    little, at_low = _allocation(table, low)
    much, at_high = _allocation(table, high)
    assert at_low <= at_high
    assert (little <= much[: little.size] + 1e-9).all()


def _least_cover(widths: list[int], steps: int) -> int:
    """Return the least area of covers with this many steps, by trying all of them."""
    size = len(widths)
    least = size * max(widths)
    for cuts in combinations(range(1, size), steps - 1):
        edges = (0, *cuts, size)
        area = sum((end - begin) * max(widths[begin:end]) for begin, end in pairwise(edges))
        least = min(least, area)
    return least


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_steps_are_the_least_cover_of_this_many(widths: list[int]) -> None:
    """They cover each bucket, are at most 5, and no cover with as many steps is smaller."""
    steps = WidthProfile(60, np.array(widths, dtype=float)).steps()
    covered = [width for buckets, width in steps for _ in range(buckets)]
    assert len(covered) == len(widths)
    assert all(cover >= width for cover, width in zip(covered, widths, strict=True))
    assert len(steps) <= 5
    assert sum(covered) == _least_cover(widths, len(steps))
    best = _least_cover(widths, min(5, len(widths)))
    assert sum(covered) <= max(best, 1.05 * sum(widths))


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9])
def test_later_runs_fit_as_often_as_the_confidence_says(confidence: float) -> None:
    """Of runs in no order, each wide or long as it happens, at least the share asked for fits."""
    lengths = [2 ** (value / 1000) for value in spread_values(100, 10_000, 13_000)]
    widths = [int(value) for value in spread_values(100, 4, 20, turn=2**0.5)]
    runs = rectangles(lengths, widths, gap_s=100_000)
    fits = 0
    for place in range(40, 100):
        found = predict(runs[place - 40 : place], confidence, 60)
        fits += found.profile.holds(widths_of(runs[place], found.profile.bucket_s))
    assert fits / 60 >= confidence - 0.05


def test_few_runs_say_less_than_is_asked() -> None:
    """Of n runs comes n / (n + 1) at most, and of two none."""
    runs = rectangles([600.0] * 4, [4] * 4)
    assert predict(runs, 0.99, 60).confidence == pytest.approx(0.8)
    with pytest.raises(TooFewRunsError, match="2 runs; at least 3 are needed"):
        predict(runs[:2], 0.9, 60)


def test_equal_runs_are_predicted_as_they_were() -> None:
    """Ten minutes of four containers ten times over: ten minutes of four."""
    found = predict(rectangles([600.0] * 10, [4] * 10), 0.9, 60)
    assert (found.profile.steps(), found.drifts, found.weekdays) == ([(10, 4)], (), None)


def test_the_shape_over_time_is_kept() -> None:
    """Wide, then narrow: not the widest for the whole length."""
    stretches = (Stretch(600, 40), Stretch(3000, 5))
    runs = [JobRun("job", 1e6 + 90_000 * k, stretches) for k in range(12)]
    assert predict(runs, 0.9, 60).profile.steps() == [(10, 40), (50, 5)]


@pytest.mark.parametrize(("growth", "found"), [(1.02, True), (1.0, False)])
def test_a_drift_is_found_if_there_is_one(growth: float, found: bool) -> None:
    """Two per cent a run show, and are carried on; runs that scatter evenly have none."""
    around = spread_values(40, 0.97, 1.03)
    values = np.array([1000 * growth**place * around[place] for place in range(40)])
    drift = drift_of("length", values)
    assert (drift is not None) == found
    if drift is not None:
        assert drift.change == pytest.approx(1.02**39 - 1, rel=0.1)
        last = values[-1] * drift.factors()[-1]
        assert last == pytest.approx(values[-1] * 1.02, rel=0.02)


def test_weekends_are_reported_from_working_days() -> None:
    """Half the work on Saturdays and Sundays, over eight weeks."""
    around = spread_values(56, 0.95, 1.05)
    runs = list(daily_runs(56, lambda day: (1800 if day % 7 >= 5 else 3600) * around[day]))
    effect = weekday_effect(runs, np.array([run.work_s for run in runs]))
    assert effect is not None
    assert [days for days, _ in effect.groups] == [(0, 1, 2, 3, 4), (5, 6)]
    weekday = predict(runs, 0.8, 60, MONDAY_S + 56 * DAY_S + 7200).profile
    weekend = predict(runs, 0.8, 60, MONDAY_S + 61 * DAY_S + 7200).profile
    assert weekend.length_s == pytest.approx(weekday.length_s / 2, rel=0.1)


@pytest.mark.parametrize("scatter", [0.0, 0.05])
def test_similar_days_have_no_effect(scatter: float) -> None:
    """Neither equal values nor values that scatter the same on all days, and no warning."""
    around = spread_values(56, 1 - scatter, 1 + scatter)
    runs = list(daily_runs(56, lambda day: 3600 * around[day]))
    assert weekday_effect(runs, np.array([run.work_s for run in runs])) is None


def test_missed_runs_do_not_hide_a_period() -> None:
    """Nightly with one of six nights missing is nightly still, and begins at 02:00."""
    runs = [run for day, run in enumerate(daily_runs(40, lambda day: 600.0)) if day % 6 != 3]
    period = period_of(runs)
    assert period is not None
    assert (period.seconds, period.begin_s) == (DAY_S, 7200)


def test_runs_at_any_time_have_no_period() -> None:
    """Gaps between two hours and nine days are no recurrence."""
    begins = np.cumsum(spread_values(30, 7_200, 800_000))
    assert period_of([JobRun("job", float(at), (Stretch(60, 1),)) for at in begins]) is None


def test_tasks_become_a_width_over_time() -> None:
    """Three tasks that overlap: 1, 2, 1 containers, then none, then 1."""
    run = run_of_tasks("job", [(0, 20), (10, 15), (30, 40), (50, 50)], ONE_CORE)
    assert [(one.seconds, one.width) for one in run.stretches] == [
        (10, 1), (5, 2), (5, 1), (10, 0), (10, 1),
    ]  # fmt: skip
    assert (run.work_s, run.peak, run.ended_s) == (35, 2, 40)


def test_rules_alongside_the_prediction() -> None:
    """The most, the mean rounded up, and the widest for as long as the longest."""
    runs = rectangles([120.0, 60.0, 60.0], [2, 5, 3])
    assert maximum(runs, 60).widths.tolist() == [5, 2]
    assert mean(runs, 60).widths.tolist() == [4, 1]
    assert peak(runs, 60).widths.tolist() == [5, 5]


def test_the_back_test_predicts_only_from_what_had_ended() -> None:
    """The last 30 % of 20 days by the runs before each; a maximum never seen does not fit."""
    runs = rectangles([600.0] * 19 + [6000.0], [4] * 20)
    scores = back_test({"job": runs}, 0.9, 60)
    assert {score.runs for score in scores.values()} == {6}
    assert scores[MAXIMUM].fits == scores[PREDICTION].fits == 5
    assert scores[MAXIMUM].share == pytest.approx(5 / 6)
    assert scores[MAXIMUM].over == pytest.approx(6 * 600 / (5 * 600 + 6000) - 1)


def test_the_back_test_stops_when_told() -> None:
    """Jobs after the one that was told to be the last are not tested."""
    runs = rectangles([600.0] * 20, [4] * 20)
    told: list[tuple[int, int]] = []

    def go_on(done: int, count: int) -> bool:
        told.append((done, count))
        return False

    scores = back_test({"one": runs, "two": runs}, 0.9, 60, go_on=go_on)
    assert (told, scores[PREDICTION].runs) == ([(1, 2)], 6)
