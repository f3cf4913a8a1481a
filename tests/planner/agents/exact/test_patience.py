"""A search ends some time after its last better plan."""

from __future__ import annotations

import pytest

from planner.agents.exact.patience import Patience


@pytest.mark.parametrize(
    ("found_at", "end"),
    [
        ((), 5),  # nothing: the least time
        ((1,), 5),  # patience is over before the least time
        ((4,), 7),
        ((2, 4, 6, 9), 12),
        ((4, 8), 7),  # too late
    ],
)
def test_it_ends_after_the_least_time_and_a_while_without_a_better_plan(
    found_at: tuple[int, ...], end: int
) -> None:
    """Five seconds at least, three after each better plan."""
    now = 0

    def value() -> float:
        return float(sum(at <= now for at in found_at))

    patience = Patience(value, lambda: float(now), 5.0, 3.0)
    while not patience.is_over:
        now += 1
    assert now == end


def test_a_plan_that_is_as_good_gives_no_time() -> None:
    """Only a better one does."""
    now = 0.0
    patience = Patience(lambda: 7.0, lambda: now, 0.0, 3.0)
    now = 2.0
    assert not patience.is_over
    now = 3.0
    assert patience.is_over
