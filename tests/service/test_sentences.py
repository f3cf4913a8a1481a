"""How much better a plan could be is one sentence: in commands, answers of the API and pages."""

from __future__ import annotations

import pytest

from planner.agents import AGENT_NAMES
from service.sentences import AGENTS, better_text, bound_sentence


@pytest.mark.parametrize(
    ("value", "bound", "said"),
    [
        (68_984.3, 114_572.4, "value 68,984.3; up to 66.1 % more value is possible"),
        (1000.0, 1000.1, "value 1,000; up to 0.1 % more value is possible"),
        (1000.0, 1000.0, "value 1,000; no plan has more value"),
        (1000.0, 1000.0000002, "value 1,000; no plan has more value"),  # rounding of a solver
        (0.0, 50.0, "value 0; up to 50 is possible"),
        (0.0, 0.0, "value 0; no plan has more value"),
    ],
)
def test_it_names_the_value_and_what_is_above_it(value: float, bound: float, said: str) -> None:
    """A little more than nothing is not told as nothing."""
    assert better_text(value, bound) == said
    assert bound_sentence(value, bound, 4) == said


@pytest.mark.parametrize(("value", "bound"), [(None, None), (1.0, None)])
def test_a_bound_that_is_not_known_is_notified(value: float | None, bound: float | None) -> None:
    """Of too many requests: how many they are."""
    assert bound_sentence(value, bound, 3020) == "no bound is known for 3,020 requests"


def test_every_agent_of_the_planner_has_a_line() -> None:
    """Help, completion and the page of comparisons offer those that there are."""
    assert {one.name for one in AGENTS} == set(AGENT_NAMES)
