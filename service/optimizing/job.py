"""What an optimisation is asked to do, as it is kept and handed to the process that does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from planner.agent import Limits
from planner.optimization.objective import Objective, Weights
from planner.optimization.result import OptimizeOptions, OptimizeProgress, OptimizeScope


@dataclass(frozen=True, slots=True)
class OptimizationJob:
    """One request for a better Plan.

    Attributes
    ----------
    frozen_step
        Step before which no row moves.
    pins, admit_refused
        As of `planner.optimization.result.OptimizeScope`.
    weights, lexicographic
        As of `planner.optimization.objective.Objective`; weights that are not given are the
        defaults.
    time_s, work, seed
        When to end: after so many seconds, or so many trials.
    solver
        Name of the agent that solves; None lets the optimiser choose, ``""`` is none.
    """

    frozen_step: int
    pins: tuple[str, ...] = ()
    admit_refused: bool = False
    weights: dict[str, float] = field(default_factory=dict)
    lexicographic: bool = False
    time_s: float | None = 60.0
    work: int | None = None
    seed: int = 0
    solver: str | None = None

    @property
    def goal(self) -> Objective:
        """What is minimised.

        Raises
        ------
        ValueError
            For a weight below 0.
        """
        return Objective(Weights(**self.weights), self.lexicographic)

    @property
    def scope(self) -> OptimizeScope:
        """What may move."""
        return OptimizeScope(self.frozen_step, self.pins, self.admit_refused)

    def effort(
        self, stop: Callable[[], bool], tell: Callable[[OptimizeProgress], None]
    ) -> OptimizeOptions:
        """Return how it is sought; `stop` ends it with the best so far."""
        limits = Limits(time_s=self.time_s, work=self.work, seed=self.seed, stop=stop)
        return OptimizeOptions(limits, self.solver, tell)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {**asdict(self), "pins": list(self.pins)}

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> OptimizationJob:
        """Read what :meth:`to_json` wrote."""
        return cls(**{**entry, "pins": tuple(entry["pins"])})
