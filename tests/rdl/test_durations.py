"""Durations and instants: exact milliseconds, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdl.durations import (
    MAX_TIME_MS,
    TimeTextError,
    epoch_ms,
    instant_of_epoch_ms,
    instant_text,
    parse_duration,
    parse_instant,
    parse_rfc3339,
    read_duration,
    read_instant,
    rfc3339_text,
    seconds_text,
)
from rdl.expressions import Absolute, AfterSubmission, Instant, Offset
from rdl.time_grid import duration_text
from tests.strategies import instants


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("90", 90_000),
        ("0.5", 500),
        ("0.500", 500),
        ("1.5s", 1500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("4h", 14_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1w2d3h4m5.006s", 788_645_006),
        ("1.5h", 5_400_000),
        ("0.0125m", 750),
    ],
)
def test_durations_are_whole_milliseconds(text: str, ms: int) -> None:
    """Bare numbers are seconds; units go from weeks to seconds; decimals are exact."""
    assert parse_duration(text) == ms
    assert read_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            "'' is not a duration; "
            "write seconds (90, 1.5) or a duration such as 90s, 15m, 1h30m, 2d",
        ),
        (
            "1h 30m",
            "'1h 30m' is not a duration; "
            "write seconds (90, 1.5) or a duration such as 90s, 15m, 1h30m, 2d",
        ),
        ("5min", "unknown unit 'min' in '5min'; write s, m, h, d or w"),
        ("1H", "unknown unit 'H' in '1H'; write s, m, h, d or w"),
        ("1h30", "the last number of '1h30' has no unit; write s, m, h, d or w"),
        (
            "30m1h",
            "the units of '30m1h' are out of order; "
            "write larger units first, each once, such as 1h30m",
        ),
        (
            "0.0001",
            "'0.0001' is not a whole number of milliseconds; "
            "write at most three decimals of a second",
        ),
        ("99999999999999", "'99999999999999' is too long; write at most 100000000000 seconds"),
    ],
)
def test_other_durations_are_refused(text: str, message: str) -> None:
    """Each message says what would be right."""
    with pytest.raises(TimeTextError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@given(st.integers(0, MAX_TIME_MS))
def test_both_texts_of_a_duration_read_back(ms: int) -> None:
    """Seconds and the text with units are the same duration."""
    assert parse_duration(seconds_text(ms)) == ms
    assert parse_duration(duration_text(ms)) == ms


@given(st.integers(0, 2**40))
def test_seconds_as_floats_mean_their_decimals(ms: int) -> None:
    """A JSON 0.3 is 300 ms, although no float is exactly 0.3."""
    assert read_duration(ms / 1000) == ms


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "true is not a duration"),
        (None, "null is not a duration"),
        ([1], "a list is not a duration"),
        (-1, "-1 is negative"),
        (-0.5, "-0.5 is negative"),
        (float("nan"), "nan is not a duration"),
        (float("inf"), "inf is not a duration"),
        (1e300, r"'1e\+300' is too long"),
        pytest.param(10**5000, "'a number of 16610 bits' is too long", id="long"),
        (0.1 + 0.2, "'0.30000000000000004' is not a whole number of milliseconds"),
    ],
)
def test_other_values_are_refused(value: object, message: str) -> None:
    """Numbers that are no time, and values that are no number."""
    with pytest.raises(TimeTextError, match=message):
        read_duration(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (90, Offset(90_000)),
        ("2h", Offset(7_200_000)),
        ("+2h", AfterSubmission(7_200_000)),
        ("+ 90", AfterSubmission(90_000)),
        ("2026-01-05T09:00:00Z", Absolute(datetime(2026, 1, 5, 9, tzinfo=UTC))),
        ("2026-01-05t10:30:00.25+01:30", Absolute(datetime(2026, 1, 5, 9, 0, 0, 250_000, UTC))),
    ],
)
def test_instants_come_in_three_kinds(value: object, expected: Instant) -> None:
    """From the origin, from the submission, and by the calendar."""
    assert read_instant(value) == expected


@given(instants())
def test_instants_read_back(instant: Instant) -> None:
    """parse(text(i)) == i for all three kinds."""
    assert parse_instant(instant_text(instant)) == instant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-01-05T09:00:00", "is not an instant with a zone"),
        ("2026-01-05", "is not an instant with a zone"),
        ("2026-02-29T09:00:00Z", "does not exist in the calendar"),
        ("2026-01-05T09:00:60Z", "does not exist in the calendar"),
        ("0001-01-01T00:00:00+01:00", "does not exist in the calendar"),
        ("2026-01-05T09:00:00.0001Z", "is finer than a millisecond"),
    ],
)
def test_other_dates_are_refused(text: str, message: str) -> None:
    """No zone, no such day, and less than a millisecond."""
    with pytest.raises(TimeTextError, match=message):
        parse_rfc3339(text)


def test_the_epoch_of_yarn_is_1970() -> None:
    """Milliseconds from the Unix epoch and back, and the end of the calendar."""
    at = datetime(2030, 1, 1, tzinfo=UTC)

    assert instant_of_epoch_ms(1_893_456_000_000) == at
    assert epoch_ms(at) == 1_893_456_000_000
    assert rfc3339_text(at) == "2030-01-01T00:00:00Z"
    with pytest.raises(TimeTextError, match="outside the calendar"):
        instant_of_epoch_ms(10**15)
