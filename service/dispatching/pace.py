"""Pace: how often a process dispatches, how long others wait for it, and what runs its work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a process ticks, and how long others wait for it.

    Attributes
    ----------
    tick_s
        Pause between two ticks; 0 never ticks by itself.
    takeover_s
        How long a process that has gone silent keeps others from dispatching.
    lease_s
        After how long an executor that is silent is lost; None without executors.
    slurm
        Settings of the Slurm whose jobs components are; None without one.
    """

    tick_s: float
    takeover_s: float
    lease_s: float | None = None
    slurm: Path | None = None

    @property
    def longest_pause_s(self) -> float:
        """Return the longest pause between two ticks, in which leadership does not end."""
        return max(self.tick_s, self.takeover_s / 2)

    @property
    def leadership_ms(self) -> int:
        """Return how long a process leads after it said so."""
        return round(1000 * self.takeover_s)
