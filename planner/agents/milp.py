"""`milp`: Rayon's model (paper 4.1) solved by a MILP solver, never below the greedy plan.

Three solves: for accepted value; with that value kept, for the least preemption; and where the
cluster gives prices, with both kept, for the least cost. All
start from the best plan in hand; what the solver has when its time ends is the answer. Large
models are solved in a process of their own, so that a solver that overruns its limit or crashes
takes nothing along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import Solution, SolveStatus, StopReason
from lp.solver import export_model, solve
from planner.agent import Limits, News
from planner.agents import agent_named
from planner.agents.filling import filled
from planner.formulations import rayon
from planner.formulations.columns import lay_out
from planner.formulations.rayon_codec import decode, encode
from planner.formulations.rayon_stages import Kept, least_falls
from planner.formulations.size import ModelSize, predicted_size
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.solver_report import SolverOutcome, SolverReport, all_asked, is_proven
from planner.value import score_of
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class _Stage:
    """One solve: what of the plan in hand it keeps, and its share of the time that is left."""

    keeps_value: bool
    share: float
    keeps_falls: bool = False

    @property
    def lowers_falls(self) -> bool:
        """Whether preemption is what it is for."""
        return self.keeps_value and not self.keeps_falls

    @property
    def lowers(self) -> str:
        """What it is for, once value is found."""
        return "cost" if self.keeps_falls else "preemption"

    def kept(self, best: _Best) -> Kept | None:
        """Return what may not be lost of the plan in hand."""
        falls = -best.score[1] if self.keeps_falls else None
        return Kept(best.score[0], falls) if self.keeps_value else None


_VALUE = _Stage(keeps_value=False, share=0.7)
_STAGES = (_VALUE, _Stage(keeps_value=True, share=1.0))
_PRICED_STAGES = (
    _VALUE,
    _Stage(keeps_value=True, share=0.6),
    _Stage(keeps_value=True, share=1.0, keeps_falls=True),
)

#: Part of the time that each greedy start may take; the first run of each always ends.
_STARTING = 0.1

#: (value, minus preemption, minus cost): the greater is the better plan.
_Score: TypeAlias = tuple[float, int, float]

#: Bytes that a model may take; above it memory, not time, is what ends a run.
MOST_MEMORY = 4 << 30

#: Coefficients from which a model is solved in a process of its own: smaller ones are done before
#: a process has started.
WATCHED_FROM = 10_000


@dataclass(slots=True)
class _Best:
    """The best plan so far, its score, where it came from, and what is proven."""

    results: list[PlacementResult]
    score: _Score
    source: str
    bound: float
    outcome: SolverOutcome = SolverOutcome.NO_ANSWER
    detail: str = ""
    unproven: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MilpAgent:
    """Rayon's MILP behind the agents' contract.

    Attributes
    ----------
    solver
        Name for `lp.solver.solve`.
    start
        Greedy agents whose better plan the solver starts from; without any it starts from nothing.
    fills
        Place greedily what the solver leaves out; without it the answer is the solver's own.
    default_time_s
        Limit where a caller gives neither time nor work: a proof can take for ever.
    most_memory
        Bytes; a model that is predicted to take more is not built.
    watched_from
        Coefficients from which a model is solved in a process of its own.
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

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> list[PlacementResult]:
        """Return the best plan found within the limits, at least the greedy one."""
        return self.solve(requests, view, limits)[0]

    def solve(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report; every ending leaves the best plan so far."""
        until = self._until(limits)
        best = self._greedy(requests, view, limits, until)
        asked = [index for index, request in enumerate(requests) if not request.graph.void]
        size = predicted_size(lay_out([requests[index] for index in asked], view), view)
        if size.memory > self.most_memory:
            best.outcome, best.detail = SolverOutcome.TOO_LARGE, self._too_large(size)
        else:
            stages = _STAGES if view.prices is None else _PRICED_STAGES
            for stage in stages if asked else ():
                if stage.lowers_falls and _falls_least(requests, best, view):
                    continue
                self._stage(stage, requests, view, limits, _Run(asked, size, until, best))
        results = filled(requests, best.results, view) if self.fills else best.results
        value = score_of(requests, results, view.nominal)[0]
        _judge(best, value, all_asked(requests, view.nominal))
        # A bound of -0.0 is told as the value's 0.0: max keeps the first of equals.
        return results, SolverReport(
            best.outcome.value, value, max(value, best.bound), best.source, best.detail
        )

    def _until(self, limits: Limits) -> float | None:
        if limits.work is not None:
            return None
        return self.clock() + (self.default_time_s if limits.time_s is None else limits.time_s)

    def _greedy(
        self, requests: Sequence[Request], view: PlanView, limits: Limits, until: float | None
    ) -> _Best:
        bound = all_asked(requests, view.nominal)
        if not self.start:
            return _Best([_left_out() for _ in requests], (0.0, 0, 0.0), "nothing", bound)
        agents = [agent_named(name) for name in self.start]
        start_s = None if until is None else _STARTING * max(0.0, until - self.clock())
        starter = Limits(start_s, seed=limits.seed, stop=limits.stop)
        plans = [agent.plan(requests, view, starter) for agent in agents]
        scores = [_score(requests, plan, view) for plan in plans]
        best = scores.index(max(scores))
        return _Best(list(plans[best]), scores[best], self.start[best], bound)

    def _stage(
        self,
        stage: _Stage,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        run: _Run,
    ) -> None:
        """Solve once and keep what is better."""
        best = run.best
        everything = is_proven(best.score[0], best.bound, 0.0)
        if not stage.keeps_value and everything and self.write_to is None:
            return  # nothing to prove
        left_s = None if run.until is None else max(0.0, run.until - self.clock())
        if (limits.stop is not None and limits.stop()) or left_s == 0.0:
            if stage.keeps_value:
                best.unproven.append(stage.lowers)
            else:
                stopped = left_s != 0.0
                best.outcome = SolverOutcome.STOPPED if stopped else SolverOutcome.NO_ANSWER
                best.detail = "this came" if stopped else "the limit came"
                best.detail += " before the solver began: the greedy plan stands"
            return
        asked = [requests[index] for index in run.asked]
        built = rayon.build(asked, view, kept=stage.kept(best))
        if self.write_to is not None and not stage.keeps_value:
            export_model(built.model, self.write_to)
        start = WarmStart(values=encode([best.results[index] for index in run.asked], built))
        bounded = self._limits(run.size, left_s, stage.share, limits)
        monitor = Monitor(should_stop=limits.stop)
        if not stage.keeps_value and limits.news is not None:
            monitor = replace(monitor, on_progress=self._telling(limits.news, best, built.scale))
        answer = solve(built.model, bounded, solver=self.solver, start=start, monitor=monitor)
        if not stage.keeps_value:
            best.bound = min(best.bound, answer.bound / built.scale)
            best.outcome, best.detail = _outcome(answer)
            if limits.gap and best.outcome is SolverOutcome.OPTIMAL:
                # Whether it is more than the gap asked for, value and bound decide.
                best.outcome = SolverOutcome.FEASIBLE
                best.detail = "the gap asked for is proven"
        elif answer.status is not SolveStatus.OPTIMAL:
            best.unproven.append(stage.lowers)
        self._keep(answer, built, requests, view, run)

    def _telling(
        self, news: Callable[[News], None], best: _Best, scale: float
    ) -> Callable[[Progress], None]:
        began = self.clock()

        def tell(progress: Progress) -> None:
            value, bound = progress.objective / scale, progress.bound / scale
            told = News(
                self.clock() - began, value, min(bound, best.bound), self.solver, self.solver
            )
            news(told)

        return tell

    def _keep(
        self,
        answer: Solution,
        built: rayon.RayonModel,
        requests: Sequence[Request],
        view: PlanView,
        run: _Run,
    ) -> None:
        if not answer.status.has_values:
            return
        found = list(run.best.results)
        for index, result in zip(run.asked, decode(answer.values, built), strict=True):
            found[index] = result
        score = _score(requests, found, view)
        if score > run.best.score:
            run.best.results, run.best.score, run.best.source = found, score, self.solver

    def _limits(
        self, size: ModelSize, left_s: float | None, share: float, limits: Limits
    ) -> SolveLimits:
        return SolveLimits(
            time_s=float("inf") if left_s is None else left_s * share,
            gap_rel=limits.gap or 1e-6,
            nodes=limits.work,
            seed=limits.seed,
            deterministic=limits.work is not None,
            watchdog=left_s is not None and size.entries >= self.watched_from,
        )

    def _too_large(self, size: ModelSize) -> str:
        gib = 2.0**30
        return (
            f"the model would take about {size.memory / gib:.1f} GiB ({size.columns:,} variables, "
            f"{size.rows:,} rows, {size.entries:,} coefficients), more than the "
            f"{self.most_memory / gib:.1f} GiB it may: the greedy plan stands; plan fewer "
            "requests, shorter windows or longer steps"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """What the stages share: requests that ask for something, size, deadline, best plan."""

    asked: list[int]
    size: ModelSize
    until: float | None
    best: _Best


def _judge(best: _Best, value: float, asked: float) -> None:
    """Set the outcome by value and bound; a bound below a plan in hand proves nothing."""
    if is_proven(value, best.bound, asked):
        best.outcome, best.detail = SolverOutcome.OPTIMAL, ""
        if best.unproven:
            best.detail = f"the most value; {' and '.join(best.unproven)} not proven least"
    if value > best.bound and not is_proven(best.bound, value, asked):
        best.outcome, best.bound = SolverOutcome.FAILED, asked
        best.detail = "the solver's bound lies below the value of a plan in hand: it proves nothing"


def _falls_least(requests: Sequence[Request], best: _Best, view: PlanView) -> bool:
    """Return whether no plan that holds everybody falls less: then there is nothing to solve."""
    if any(request.graph.options for request in requests):
        return False
    everybody = all(result.placed for result in best.results)
    return everybody and -best.score[1] <= least_falls(lay_out(list(requests), view))


def _score(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> _Score:
    prices, cost = view.prices, 0.0
    if prices is not None:
        pairs = zip(requests, results, strict=True)
        cost = sum(prices.cost_of(*pair, view.nominal) for pair in pairs)
    value, falls = score_of(requests, results, view.nominal)
    # Rounded, so that the order of a sum makes no plan better; values to digits, not places: one
    # that rounds up by more than tolerances is more than the later stages could keep.
    return float(f"{value:.12g}"), falls, -round(cost, 9)


def _left_out() -> PlacementResult:
    return PlacementResult(Code.CAPACITY, "nothing was tried")


def _outcome(answer: Solution) -> tuple[SolverOutcome, str]:
    """Return how a solve ended, and a sentence on it where it proved nothing."""
    if answer.status is SolveStatus.OPTIMAL:
        return SolverOutcome.OPTIMAL, ""
    if answer.stop is StopReason.CRASHED:
        return SolverOutcome.FAILED, f"the solver broke ({answer.message}): the best so far stands"
    if answer.stop is StopReason.STOPPED:
        return SolverOutcome.STOPPED, "the best so far stands"
    if answer.status.has_values:
        return SolverOutcome.FEASIBLE, "the limit came before the proof"
    return SolverOutcome.NO_ANSWER, "the limit came before the solver's first plan"


#: The agent that users name.
MILP = MilpAgent()
