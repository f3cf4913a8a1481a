"""How fast an application works with the components it has: the two models of Zoe's papers."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

#: Seconds, or component-seconds of work: floats in simulations, fractions where figures are exact.
Quantity = float | Fraction


class WorkModel(Enum):
    """What works: every component (D5.2), or all but two that only coordinate (journal, 2.2)."""

    EVERY = "C + x"
    ALL_BUT_TWO = "C - 2 + x"

    def rate(self, core: int, elastic: int) -> int:
        """Components that work; one always does, or a small application would never end."""
        idle = 2 if self is WorkModel.ALL_BUT_TWO else 0
        return max(core - idle + elastic, 1)
