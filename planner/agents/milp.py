"""`milp`: Rayon's model (paper 4.1) solved by a MILP solver, never below the greedy plan.

Two solves: first for accepted value, then, with that value kept, for the least preemption. Both
start from the best plan in hand; what the solver has when its time ends is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lp.limits import Monitor, SolveLimits, WarmStart
from lp.result import FloatArray, Solution
from lp.solver import solve
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.formulations import rayon
from planner.formulations.rayon_codec import decode, encode
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from rdl.work_graph import END, START


@dataclass(frozen=True, slots=True)
class _Stage:
    """One solve: whether value is kept (and preemption lowered), and its share of the time."""

    keeps_value: bool
    share: float


_STAGES = (_Stage(keeps_value=False, share=0.7), _Stage(keeps_value=True, share=1.0))

#: Largest number of variables that is built; above it memory, not time, is what ends a run.
MAX_VARIABLES = 5_000_000


@dataclass(frozen=True, slots=True)
class SolverReport:
    """What a solver agent knows besides its plan.

    Attributes
    ----------
    status
        ``optimal``, ``feasible`` or ``no_answer`` (the greedy plan stands).
    value, bound
        Accepted value, and the most that any plan can accept.
    source
        Where the plan came from: the solver or the greedy agent it started from.
    """

    status: str
    value: float
    bound: float
    source: str

    @property
    def gap(self) -> float:
        """(bound - value) / bound; 0 when nothing more can be accepted."""
        return (self.bound - self.value) / self.bound if self.bound > self.value else 0.0


@dataclass(frozen=True, slots=True)
class MilpAgent:
    """Rayon's MILP behind the agents' contract.

    Attributes
    ----------
    solver
        Name for `lp.solver.solve`.
    start
        Greedy agents whose better plan the solver starts from.
    default_time_s
        Limit where a caller gives neither time nor work: a proof can take for ever.
    clock
        Monotonic seconds.
    """

    name: str = "milp"
    solver: str = "highs"
    start: tuple[str, ...] = ("gree", "gree-l")
    default_time_s: float = 60.0
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> list[PlacementResult]:
        """Return the best plan found within the limits, at least the greedy one."""
        return self.solve(requests, view, limits)[0]

    def solve(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report.

        Raises
        ------
        ValueError
            If the model would have more than `MAX_VARIABLES` variables.
        """
        until = self._until(limits)
        best, source = self._greedy(requests, view, limits)
        score = score_of(requests, best, view.nominal)
        asked = [index for index, request in enumerate(requests) if not request.graph.void]
        _check_size([requests[index] for index in asked])
        first: Solution | None = None
        for stage in _STAGES:
            kept = score[0] if stage.keeps_value else None
            built = rayon.build([requests[index] for index in asked], view, value_kept=kept)
            start = encode([best[index] for index in asked], built)
            answer = self._solve(built, start, self._share(until, stage.share), limits)
            first = first or answer
            if answer.status.has_values:
                found = list(best)
                for index, result in zip(asked, decode(answer.values, built), strict=True):
                    found[index] = result
                found_score = score_of(requests, found, view.nominal)
                if found_score > score:
                    best, score, source = found, found_score, self.solver
        assert first is not None
        return best, SolverReport(first.status.value, score[0], first.bound, source)

    def _until(self, limits: Limits) -> float | None:
        if limits.work is not None:
            return None
        return self.clock() + (self.default_time_s if limits.time_s is None else limits.time_s)

    def _share(self, until: float | None, share: float) -> float | None:
        return None if until is None else max(0.0, until - self.clock()) * share

    def _greedy(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> tuple[list[PlacementResult], str]:
        agents: list[Agent] = [agent_named(name) for name in self.start]
        plans = [agent.plan(requests, view, Limits(seed=limits.seed)) for agent in agents]
        scores = [score_of(requests, plan, view.nominal) for plan in plans]
        best = scores.index(max(scores))
        return plans[best], self.start[best]

    def _solve(
        self,
        built: rayon.RayonModel,
        start: FloatArray,
        time_s: float | None,
        limits: Limits,
    ) -> Solution:
        bounded = SolveLimits(
            time_s=float("inf") if time_s is None or limits.work is not None else time_s,
            nodes=limits.work,
            seed=limits.seed,
            deterministic=limits.work is not None,
        )
        monitor = Monitor(should_stop=limits.stop)
        return solve(
            built.model, bounded, solver=self.solver, start=WarmStart(values=start), monitor=monitor
        )


def _check_size(requests: Sequence[Request]) -> None:
    count = sum(
        int(graph.vertices[atom, END] - graph.vertices[atom, START]) + 1
        for graph in (request.graph for request in requests)
        for atom in graph.atoms
    )
    if count > MAX_VARIABLES:
        raise ValueError(
            f"the model would have {count} variables x_jt, more than {MAX_VARIABLES}: "
            "plan fewer requests, shorter windows or longer steps, or use a greedy agent"
        )


#: The agent that users name.
MILP = MilpAgent()
