"""How a dispatcher ticks, and how it gives back what is not needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planner.commit import Release


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a process ticks, and how long others wait for it.

    Attributes
    ----------
    tick_s
        Pause between two ticks; 0 never ticks by itself.
    takeover_s
        How long a process that has gone silent keeps others from dispatching.
    """

    tick_s: float
    takeover_s: float

    @property
    def lease_ms(self) -> int:
        """Return how long a process may dispatch after it said so."""
        return round(1000 * self.takeover_s)


@dataclass(frozen=True, slots=True)
class GivesBack:
    """How the dispatcher gives back what is not needed.

    Attributes
    ----------
    close
        Closes a reservation: all that it still holds.
    release
        Some rows of one, whose work was run above the entitlement.
    """

    close: Callable[[str], None]
    release: Callable[[Release], None]
