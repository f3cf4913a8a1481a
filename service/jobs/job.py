"""Parameters of an optimisation or a comparison, as stored and passed to its process."""

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
        As in `planner.optimization.result.OptimizeScope`.
    weights, lexicographic
        As in `planner.optimization.objective.Objective`; weights that are not given are the
        defaults.
    time_s, work, seed
        Limits: seconds, trials, and the random seed.
    solver
        Name of the solver agent; None lets the optimiser choose, ``""`` for none.
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
        """The objective.

        Raises
        ------
        ValueError
            For a weight below 0.
        """
        return Objective(Weights(**self.weights), self.lexicographic)

    @property
    def scope(self) -> OptimizeScope:
        """The scope of changes."""
        return OptimizeScope(self.frozen_step, self.pins, self.admit_refused)

    def effort(
        self, stop: Callable[[], bool], tell: Callable[[OptimizeProgress], None]
    ) -> OptimizeOptions:
        """Return the options of the search; `stop` ends it with the best result so far."""
        limits = Limits(time_s=self.time_s, work=self.work, seed=self.seed, stop=stop)
        return OptimizeOptions(limits, self.solver, tell)


@dataclass(frozen=True, slots=True)
class ComparisonJob:
    """Agents to compare on the requests of the Plan, or on a given workload.

    Attributes
    ----------
    agents
        Names of the agents.
    time_s
        Time limit of each agent.
    seed
        Random seed of the agents.
    since_ms
        Submission time of the first request to include, ms from the origin.
    workload
        Lines of a workload file; None for the requests of the Plan.
    """

    agents: tuple[str, ...]
    time_s: float
    seed: int = 0
    since_ms: int = 0
    workload: Sequence[Mapping[str, Any]] | None = None


def whole_cluster(plan: Plan) -> Cluster:
    """Return a Plan's cluster with a horizon from the origin to the end of the Plan."""
    return replace(plan.cluster, horizon_ms=plan.grid.horizon_ms)


def lines_of_plan(plan: Plan, since_ms: int = 0) -> Iterator[WorkloadLine]:
    """Yield the requests of a Plan as lines of a workload, including refused ones."""
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
