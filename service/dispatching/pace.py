"""Pace: tick interval and timeouts of the dispatch, and the backend that runs its work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pace:
    """Tick interval of a process, and how long others wait for it.

    Attributes
    ----------
    tick_s
        Pause between two ticks; 0 for no automatic ticks.
    takeover_s
        Time that a silent process prevents others from dispatching.
    lease_s
        Time after which a silent executor is lost; None without executors.
    slurm
        Settings of the Slurm that runs components as jobs; None without one.
    logs_s
        Retention of its jobs' output after the last write.
    """

    tick_s: float
    takeover_s: float
    lease_s: float | None = None
    slurm: Path | None = None
    logs_s: float = 0.0

    @property
    def longest_pause_s(self) -> float:
        """Return the longest pause between two ticks, in which leadership does not end."""
        return max(self.tick_s, self.takeover_s / 2)

    @property
    def leadership_ms(self) -> int:
        """Return how long a process leads after it renewed its leadership."""
        return round(1000 * self.takeover_s)
