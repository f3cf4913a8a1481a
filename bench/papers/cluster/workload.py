"""What is submitted to a simulated cluster, and how fast it works (two models of Zoe's papers)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from dispatch.pool.claims import Claim

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


@dataclass(frozen=True, slots=True)
class Submission:
    """One execution: what it asks for, when it comes, and how long it takes alone.

    Attributes
    ----------
    claim
        Its components; `claim.run_s` is what the ordering believes.
    at
        Time of submission, s.
    run
        Time with everything granted, s; what is true.
    label
        Group it is counted in: ``B-E``, ``B-R``, ``Int``.
    profile
        Name of its kind in the records.
    """

    claim: Claim
    at: Quantity
    run: Quantity
    label: str = ""
    profile: str = "application"
