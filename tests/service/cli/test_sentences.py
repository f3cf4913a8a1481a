"""How much better a plan could be is one sentence, in every command alike."""

from __future__ import annotations

from typing import Any

import pytest

from service.cli.kit.sentences import better_text, plan_bound_text


@pytest.mark.parametrize(
    ("value", "bound", "said"),
    [
        (68_984.3, 114_572.4, "value 68,984.3; at most 66.1 % better exists"),
        (1000.0, 1000.1, "value 1,000; at most 0.1 % better exists"),
        (1000.0, 1000.0, "value 1,000; nothing better exists"),
        (1000.0, 1000.0000002, "value 1,000; nothing better exists"),  # rounding of a solver
        (0.0, 50.0, "value 0; at most 50 could be held"),
        (0.0, 0.0, "value 0; nothing better exists"),
    ],
)
def test_it_names_the_value_and_what_is_above_it(value: float, bound: float, said: str) -> None:
    """A little more than nothing is not told as nothing."""
    assert better_text(value, bound) == said


@pytest.mark.parametrize("told", [None, {"value": None, "bound": None}])
def test_what_a_server_does_not_know_is_told_so(told: dict[str, Any] | None) -> None:
    """Too many requests, or a server that could find none."""
    assert plan_bound_text(told) == "the Plan: no bound is known"
