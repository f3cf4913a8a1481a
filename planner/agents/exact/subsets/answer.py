"""What is known of a subset once somebody was asked whether it can be placed."""

from __future__ import annotations

import enum
from typing import NamedTuple

from planner.placement import PlacementResult


class SubsetVerdict(enum.Enum):
    """What is known of a subset."""

    PLACED = "placed"
    IMPOSSIBLE = "impossible"
    OPEN = "open"


class SubsetAnswer(NamedTuple):
    """What the question has come to.

    Attributes
    ----------
    spent_s
        Seconds of the processor that it took.
    results
        One a request of the set, None where it holds nothing; only where the subset is placed.
    """

    verdict: SubsetVerdict
    spent_s: float
    results: list[PlacementResult | None] | None = None
