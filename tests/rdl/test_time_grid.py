"""TimeGrid: the one place where time is rounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.time_grid import RoundedWork, TimeGrid, TimeGridError, duration_text

MINUTE = TimeGrid(step_ms=60_000, horizon=1440)
times = st.integers(-(10**12), 10**12)
steps = st.integers(1, 10**6)


@given(steps, times, times)
def test_windows_round_inward(step_ms: int, start: int, end: int) -> None:
    """A window on the grid lies inside the client's window, and no wider one does."""
    grid = TimeGrid(step_ms, 10)

    first, last = grid.window(start, end)

    assert first * step_ms >= start > (first - 1) * step_ms
    assert last * step_ms <= end < (last + 1) * step_ms


@given(steps, st.integers(0, 10**9), st.integers(0, 10**9))
def test_gaps_round_inward_or_say_so(step_ms: int, low: int, extra: int) -> None:
    """Minimum up, maximum down; a range without a whole step is an error, never a wider gap."""
    grid = TimeGrid(step_ms, 10)
    if (low + extra) // step_ms < -(-low // step_ms):
        with pytest.raises(TimeGridError, match="no whole number of steps"):
            grid.gap(low, low + extra)
        return

    least, most = grid.gap(low, low + extra)

    assert most is not None
    assert low <= least * step_ms <= most * step_ms <= low + extra


def test_lease_and_work_round_together() -> None:
    """Three leases of 90 s at 60 s steps are 3 x 2 bundle-steps, not ceil(4.5) = 5."""
    assert MINUTE.lease_and_work(90_000, 270_000) == RoundedWork(lease=2, work=6)


def test_work_that_is_no_whole_number_of_leases_rounds_up_alone() -> None:
    """Work of 280 s with leases of 90 s needs 5 bundle-steps of 60 s."""
    assert MINUTE.lease_and_work(90_000, 280_000) == RoundedWork(lease=2, work=5)


def test_a_lease_below_the_step_leaves_the_work_alone() -> None:
    """Ten leases of 12.8 s are 128 s of work: 3 steps of 60 s, not 10."""
    assert MINUTE.lease_and_work(12_800, 128_000) == RoundedWork(lease=1, work=3)


@given(st.integers(1, 10**5), st.integers(1, 10**7), st.integers(1, 10**9))
def test_rounded_work_is_never_less_than_asked(step_ms: int, lease: int, work: int) -> None:
    """Neither the lease nor the work a client gets on the grid is less than asked."""
    rounded = TimeGrid(step_ms, 10).lease_and_work(lease, work)

    assert rounded.lease * step_ms >= lease
    assert rounded.work * step_ms >= work


def test_periods_are_multiples_of_the_step() -> None:
    """A period of 90 s has no place on a grid of minutes."""
    assert MINUTE.period(3_600_000) == 60
    with pytest.raises(TimeGridError, match="the period 1m30s is not a multiple of the step 1m"):
        MINUTE.period(90_000)


def test_instants_need_an_origin_and_a_zone() -> None:
    """RFC 3339 instants are placed from the origin; without one they are refused."""
    origin = datetime(2026, 1, 5, tzinfo=UTC)
    grid = TimeGrid(60_000, 1440, origin)

    assert grid.instant_ms(origin + timedelta(hours=2)) == 7_200_000
    assert grid.instant_at(7_200_000) == origin + timedelta(hours=2)
    with pytest.raises(TimeGridError, match="no origin"):
        MINUTE.instant_ms(origin)
    with pytest.raises(TimeGridError, match="needs a zone"):
        grid.instant_ms(datetime(2026, 1, 5))  # noqa: DTZ001 - the missing zone is the case


@pytest.mark.parametrize(
    ("step_ms", "horizon", "message"),
    [(0, 10, "a step must be at least 1 ms"), (1000, 0, "the horizon must be at least one step")],
)
def test_a_grid_needs_steps(step_ms: int, horizon: int, message: str) -> None:
    """Zero-length steps and empty horizons are refused."""
    with pytest.raises(TimeGridError, match=message):
        TimeGrid(step_ms, horizon)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0s"),
        (90_000, "1m30s"),
        (500, "0.5s"),
        (93_784_005, "1d2h3m4.005s"),
        (604_800_000, "1w"),
    ],
)
def test_durations_read_as_people_write_them(ms: int, text: str) -> None:
    """Largest units first, fractions of a second last."""
    assert duration_text(ms) == text
