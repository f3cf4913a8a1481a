"""`milp`: Rayon's model (paper 4.1) solved by a MILP solver, never below the greedy plan.

Two solves: first for accepted value, then, with that value kept, for the least preemption. Both
start from the best plan in hand; what the solver has when its time ends is the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lp.limits import Monitor, SolveLimits, WarmStart
from lp.model import Entries
from lp.result import Solution, SolveStatus
from lp.solver import solve
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.formulations import rayon
from planner.formulations.rayon_codec import decode, encode
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView

#: Share of the time spent on value; the rest smooths what was accepted.
_VALUE_SHARE = 0.7

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
    clock
        Monotonic seconds.
    """

    name: str = "milp"
    solver: str = "highs"
    start: tuple[str, ...] = ("gree", "gree-l")
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
        began = self.clock()
        best, source = self._greedy(requests, view, limits)
        shown = [r for r in requests if not r.graph.void]
        _check_size(shown)
        score = score_of(requests, best, view.nominal)
        bound = float("inf")
        status = SolveStatus.NO_ANSWER
        for preemption in (False, True):
            built = rayon.build(shown, view, preemption=preemption)
            if preemption:
                _price_preemption(built, score[0])
            start = encode([b for b, r in zip(best, requests, strict=True) if r in shown], built)
            left = None if limits.time_s is None else limits.time_s - (self.clock() - began)
            share = left if preemption or left is None else left * _VALUE_SHARE
            if share is not None and share <= 0:
                break
            answer = self._solve(built, start, share, limits)
            if not preemption:
                status, bound = answer.status, answer.bound
            if answer.status.has_values:
                found = _merged(requests, decode(answer.values, built))
                if score_of(requests, found, view.nominal) > score:
                    best, source = found, self.solver
                    score = score_of(requests, best, view.nominal)
        return best, SolverReport(status.value, score[0], bound, source)

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
        start: np.ndarray[tuple[int], np.dtype[np.float64]],
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
