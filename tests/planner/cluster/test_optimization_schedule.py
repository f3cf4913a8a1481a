"""When a scheduled optimisation is due."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from planner.cluster.optimization_schedule import OptimizationSchedule


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _last(schedule: OptimizationSchedule, now: str) -> str:
    last = datetime.fromtimestamp(schedule.last_ms(_ms(now)) / 1000, UTC)
    return last.isoformat()


@pytest.mark.parametrize(
    ("now", "last"),
    [
        ("2026-01-05T01:59:59+00:00", "2026-01-04T02:00:00+00:00"),
        ("2026-01-05T02:00:00+00:00", "2026-01-05T02:00:00+00:00"),
        ("2026-01-05T23:00:00+00:00", "2026-01-05T02:00:00+00:00"),
    ],
)
def test_it_was_last_due_at_the_last_such_time_of_day(now: str, last: str) -> None:
    """The instant itself counts."""
    assert _last(OptimizationSchedule("nightly", time(2)), now) == last


def test_days_are_those_of_the_zone() -> None:
    """Monday 00:30 in Paris is still Sunday in UTC."""
    weekly = OptimizationSchedule("weekly", time(0, 30), frozenset({0}), "Europe/Paris")
    assert _last(weekly, "2026-01-05T12:00:00+00:00") == "2026-01-04T23:30:00+00:00"
    assert _last(weekly, "2026-01-11T12:00:00+00:00") == "2026-01-04T23:30:00+00:00"


@pytest.mark.parametrize(
    ("now", "last"),
    [
        # 02:30 does not exist on 29 March 2026 in Paris: the clock goes from 02:00 to 03:00.
        ("2026-03-29T12:00:00+00:00", "2026-03-29T01:00:00+00:00"),
        # 02:30 comes twice on 25 October 2026: the first counts.
        ("2026-10-25T12:00:00+00:00", "2026-10-25T00:30:00+00:00"),
    ],
)
def test_a_change_of_the_clock_begins_it_once(now: str, last: str) -> None:
    """At the end of the hour that is left out, and in the first of two."""
    nightly = OptimizationSchedule("nightly", time(2, 30), zone="Europe/Paris")
    assert _last(nightly, now) == last
