"""needed_last: machines that are lent are those that slots need last."""

from __future__ import annotations

import numpy as np
import pytest

from dispatch.cycle.placer import needed_last
from dispatch.entitlements.slots import NEVER


@pytest.mark.parametrize(
    ("until", "fits", "chosen"),
    [
        ([3, 200, NEVER], [True, True, True], {2}),
        ([3, 200, NEVER], [True, True, False], {1}),
        ([0, 1, 0], [True, True, True], {1}),
        ([130, 250, 3], [True, True, True], {0, 1}),  # of one power of two
        ([NEVER, NEVER, 3], [True, True, True], {0, 1}),
    ],
)
def test_the_furthest_of_those_that_fit_are_chosen(
    until: list[int], fits: list[bool], chosen: set[int]
) -> None:
    """Times of one power of two are equal, so that the strategy has a choice."""
    found = needed_last(np.array(fits), np.array(until, dtype=np.int64))
    assert {n for n in range(len(fits)) if fits[n] and found[n]} == chosen
