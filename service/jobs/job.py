"""What an optimisation or a comparison is asked to do, as it is kept and handed to its process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from planner.agent import Limits
from planner.cluster.cluster import Cluster
from planner.files.workload_file import WorkloadLine
from planner.optimization.objective import Objective, Weights
from planner.optimization.result import OptimizeOptions, OptimizeProgress, OptimizeScope
from planner.plan.plan import Plan
from planner.reservations.reservation import Refusal, Reservation


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
        When to end: after this many seconds, or this many trials.
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


def whole_cluster(plan: Plan) -> Cluster:
    """Return a Plan's cluster with a horizon from the origin to the end of what is planned."""
    return replace(plan.cluster, horizon_ms=plan.grid.horizon_ms)


def lines_of_plan(plan: Plan, since_ms: int = 0) -> Iterator[WorkloadLine]:
    """Yield the requests that a Plan remembers as lines of a workload, refused ones too."""
    known: list[Reservation | Refusal] = [*plan.reservations(), *plan.refusals]
    for one in known:
        if one.submitted_ms >= since_ms:
            yield WorkloadLine(
                one.id,
                one.expression,
                one.tenant,
                one.queue,
                one.submitted_ms,
                one.weight,
                one.priority,
                promise=one.promise,
            )
