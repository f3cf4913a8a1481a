"""What is released to the Plan when the planner has no time for it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from service.dispatching.releaser import Releaser
from service.problems import problem


@pytest.mark.parametrize(
    ("answers", "times"), [(["unavailable", "too_many", ""], 3), (["not_found"], 1), ([""], 1)]
)
def test_a_reservation_that_a_busy_planner_did_not_close_is_closed_later(
    answers: list[str], times: int
) -> None:
    """What it refuses for another reason is not asked for again."""
    asked: list[str] = []

    class Planner:
        def change(self, command: Any) -> None:
            asked.append(command.id)
            if code := answers[len(asked) - 1]:
                raise problem(code, "why")

    releaser = Releaser(cast("Any", Planner()))
    releaser.close("r", 1)
    for _ in range(5):
        releaser.close_left(1)
    assert asked == ["r"] * times
