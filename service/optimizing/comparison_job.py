"""What a comparison is asked to do, as it is kept and handed to the process that does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ComparisonJob:
    """Agents to set side by side on the requests of the Plan, or on a workload that was sent.

    Attributes
    ----------
    agents
        Names.
    time_s
        How long each may take.
    seed
        Of the agents' random choices.
    since_ms
        Only requests submitted from then on, ms from the origin.
    workload
        Lines of a workload file; None for the requests of the Plan.
    """

    agents: tuple[str, ...]
    time_s: float
    seed: int = 0
    since_ms: int = 0
    workload: Sequence[Mapping[str, Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "agents": list(self.agents),
            "time_s": self.time_s,
            "seed": self.seed,
            "since_ms": self.since_ms,
            "workload": self.workload,
        }

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> ComparisonJob:
        """Read what :meth:`to_json` wrote."""
        return cls(
            tuple(entry["agents"]),
            entry["time_s"],
            entry["seed"],
            entry["since_ms"],
            entry["workload"],
        )
