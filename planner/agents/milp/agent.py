"""`milp`: Rayon's model (paper 4.1) solved by a MILP solver, never below the greedy plan.

Three solves (`stages.py`): for accepted value; then at that value for the fewest falls; and if the
cluster has prices, at both for the least cost. Each starts from the best plan so far; the best plan
when the time ends is the result. Large models are solved in a separate process, so that a solver
that overruns its limit or crashes does not affect the caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner.agent import (
    Limits,
    MustKeep,
    SolverAgent,
    SolverOutcome,
    SolverReport,
    total_requested_value,
)
from planner.agents import agent_named
from planner.agents.fill import fill
from planner.agents.milp.columns import lay_out
from planner.agents.milp.incumbent import MilpIncumbent, score_plan
from planner.agents.milp.size import ModelSize, predicted_size
from planner.agents.milp.stages import SolverSetup, StagedSolve
from planner.agents.warm_start import warm_start
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView

#: Fraction of the time for each greedy start; the first run of each always completes.
_START_SHARE = 0.1

#: Maximum bytes of a model; a larger one would run out of memory before time.
MOST_MEMORY = 4 << 30

#: Number of coefficients from which a model is solved in a separate process; smaller ones are
#: solved before a process would have started.
WATCHED_FROM = 10_000


@dataclass(frozen=True, slots=True)
class MilpAgent(SolverAgent):
    """Rayon's MILP as an agent.

    Attributes
    ----------
    solver
        Name for `lp.solver.solve`.
    start
        Greedy agents; the solver starts from the best of their plans, or from scratch if empty.
    fills
        Place greedily the requests that the solver leaves out; False returns the solver's plan.
    default_time_s
        Limit if the caller gives neither time nor work: a proof can take forever.
    most_memory
        Bytes; a model that is predicted to need more is not built.
    watched_from
        Number of coefficients from which a model is solved in a separate process.
    write_to
        Write the model that maximises value here, ``.lp`` or ``.mps``, before it is solved.
    clock
        Monotonic seconds.
    """

    name: str = "milp"
    solver: str = "highs"
    start: tuple[str, ...] = ("gree", "gree-l", "portfolio-free")
    fills: bool = True
    default_time_s: float = 60.0
    most_memory: int = MOST_MEMORY
    watched_from: int = WATCHED_FROM
    write_to: Path | None = None
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def solve(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        must_keep: MustKeep | None = None,
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report; see `planner.agent.SolverAgent`."""
        until = self._until(limits)
        best = self._incumbent(requests, view, limits, until, must_keep)
        positions = [index for index, request in enumerate(requests) if not request.graph.void]
        size = predicted_size(lay_out([requests[index] for index in positions], view), view)
        if size.memory > self.most_memory:
            best.outcome, best.detail = SolverOutcome.TOO_LARGE, self._memory_refusal(size)
        else:
            watched = size.entries >= self.watched_from
            setup = SolverSetup(self.solver, watched, self.write_to, self.clock)
            StagedSolve(requests, view, limits, setup, positions, until, best).run()
        results = fill(requests, best.results, view) if self.fills else best.results
        value = score_of(requests, results, view.reference)[0]
        return results, best.report(value, total_requested_value(requests, view.reference))

    def _until(self, limits: Limits) -> float | None:
        if limits.work is not None:
            return None
        return self.clock() + (self.default_time_s if limits.time_s is None else limits.time_s)

    def _incumbent(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        until: float | None,
        must_keep: MustKeep | None,
    ) -> MilpIncumbent:
        """Return the best greedy plan, or an empty plan if `start` is empty."""
        bound = total_requested_value(requests, view.reference)
        kept = frozenset() if must_keep is None else must_keep.requests
        if not self.start:
            nothing = [PlacementResult(Code.CAPACITY, "nothing was tried") for _ in requests]
            return MilpIncumbent(nothing, (0.0, 0, 0.0), "nothing", bound, kept)
        agents = [agent_named(name) for name in self.start]
        start_s = None if until is None else _START_SHARE * max(0.0, until - self.clock())
        starter = Limits(start_s, seed=limits.seed, stop=limits.stop)
        plans = [warm_start(agent, requests, view, starter, must_keep) for agent in agents]
        incumbents = [
            MilpIncumbent(plan, score_plan(requests, plan, view), name, bound, kept)
            for plan, name in zip(plans, self.start, strict=True)
        ]
        return max(incumbents, key=lambda one: (one.whole, one.score))

    def _memory_refusal(self, size: ModelSize) -> str:
        gib = 2.0**30
        return (
            f"the model would take about {size.memory / gib:.1f} GiB ({size.columns:,} variables, "
            f"{size.rows:,} rows, {size.entries:,} coefficients), more than the "
            f"{self.most_memory / gib:.1f} GiB it may: the greedy plan stands; plan fewer "
            "requests, shorter windows or longer steps"
        )


#: The agent of this name.
MILP = MilpAgent()
