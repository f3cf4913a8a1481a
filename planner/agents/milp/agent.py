"""`milp`: Rayon's model (paper 4.1) solved by a MILP solver, never below the greedy plan.

Three solves: for accepted value; then at that value for the fewest falls; and if the
cluster has prices, at both for the least cost. Each starts from the best plan so far; the best plan
when the time ends is the result. Large models are solved in a separate process, so that a solver
that overruns its limit or crashes does not affect the caller.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import Solution, SolveStatus, StopReason
from lp.solver import backend_named, export_model, solve
from planner.agent import (
    Limits,
    MustKeep,
    SolveProgress,
    SolverAgent,
    SolverOutcome,
    SolverReport,
    is_proven,
    no_plan_report,
    total_requested_value,
)
from planner.agents import agent_named
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode, encode
from planner.agents.milp.columns import lay_out
from planner.agents.milp.objectives import Kept, min_model_falls
from planner.agents.milp.size import ModelSize, predicted_size
from planner.agents.polish import polish
from planner.agents.warm_start import fill, warm_start
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

_LOG = logging.getLogger(__name__)

#: Gap at which a solve counts as proven unless a wider one is requested.
_PROVEN: Final = 1e-6

#: Fraction of the remaining time for flat placement before a solve for falls or cost.
_POLISH_SHARE: Final = 0.1

#: (value, minus falls, minus cost): greater is better.
Score: TypeAlias = tuple[float, int, float]


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
            MilpIncumbent(plan, _score_plan(requests, plan, view), name, bound, kept)
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


@dataclass(frozen=True, slots=True)
class SolveStage:
    """One solve: the fixed part of the incumbent, and its share of the remaining time."""

    keeps_value: bool
    share: float
    keeps_falls: bool = False

    @property
    def lowers(self) -> str:
        """The criterion that it minimises at equal value."""
        return "cost" if self.keeps_falls else "falls"

    def incumbent_floor(self, best: MilpIncumbent) -> Kept | None:
        """Return the properties of the incumbent that must be kept."""
        falls = -best.score[1] if self.keeps_falls else None
        return Kept(best.score[0], falls) if self.keeps_value else None


VALUE: Final = SolveStage(keeps_value=False, share=0.7)
STAGES: Final = (VALUE, SolveStage(keeps_value=True, share=1.0))
_PRICED_STAGES: Final = (
    VALUE,
    SolveStage(keeps_value=True, share=0.6),
    SolveStage(keeps_value=True, share=1.0, keeps_falls=True),
)


@dataclass(frozen=True, slots=True)
class SolverSetup:
    """Settings for solving the models; see `MilpAgent`."""

    solver: str
    watched: bool
    write_to: Path | None
    clock: Callable[[], float]


@dataclass(slots=True)
class StagedSolve:
    """All solves of one set of requests, and the best plan among them.

    Attributes
    ----------
    positions
        Indexes of the requests that are not void.
    until
        Deadline; None if work is the limit.
    """

    requests: Sequence[Request]
    view: PlanView
    limits: Limits
    setup: SolverSetup
    positions: list[int]
    until: float | None
    best: MilpIncumbent
    _written: rayon.RayonModel | None = field(default=None, init=False)

    def run(self) -> None:
        """Solve for value, then falls and cost; an error does not lose the incumbent.

        Raises
        ------
        lp.limits.ModelError
            If there is no such solver, or the model's path is invalid.
        OSError
            If the model cannot be written.
        """
        backend_named(self.setup.solver)
        if self.setup.write_to is not None:
            self._written = self._model(VALUE)
            export_model(self._written.model, self.setup.write_to)
        for stage in STAGES if self.view.prices is None else _PRICED_STAGES:
            try:
                self._run_stage(stage)
            except Exception as error:  # noqa: BLE001 - the best plan must outlive any fault
                _LOG.error("a solve of milp broke", exc_info=True)
                self._note_fault(stage, f"{type(error).__name__}: {error}")

    def _run_stage(self, stage: SolveStage) -> None:
        if not stage.keeps_value:
            self._maximise_value(stage)
            return
        if not self.best.whole:
            return
        if not self._over() and self.positions:
            self._polish()
        if not self.positions or (not stage.keeps_falls and self._falls_are_least()):
            return
        if self._over():
            self.best.unproven.append(stage.lowers)
            return
        answer, built = self._solve(stage, self._model(stage))
        if answer.status is not SolveStatus.OPTIMAL:
            self.best.unproven.append(stage.lowers)
        self._offer(answer, built)

    def _maximise_value(self, stage: SolveStage) -> None:
        best = self.best
        if best.whole and is_proven(best.score[0], best.bound, 0.0):
            return  # nothing to prove
        if self._over():
            stopped = self._left_s() != 0.0
            best.outcome = SolverOutcome.STOPPED if stopped else SolverOutcome.NO_ANSWER
            best.detail = "this came" if stopped else "the limit came"
            best.detail += " before the solver began: the greedy plan stands"
            return
        answer, built = self._solve(stage, self._written or self._model(stage))
        if answer.status is SolveStatus.INFEASIBLE and best.must_keep:
            best.bound = -math.inf
            return
        best.bound = min(best.bound, answer.bound / built.scale)
        best.outcome, best.detail = _ending_of(answer)
        if self.limits.gap and best.outcome is SolverOutcome.OPTIMAL:
            # Value and bound decide whether more than the requested gap is proven.
            best.outcome, best.detail = SolverOutcome.FEASIBLE, "the gap asked for is proven"
        self._offer(answer, built)

    def _note_fault(self, stage: SolveStage, why: str) -> None:
        if stage.keeps_value:
            self.best.unproven.append(stage.lowers)
            return
        self.best.outcome = SolverOutcome.FAILED
        self.best.detail = f"the solve broke ({why}): the best so far stands"

    def _left_s(self) -> float:
        """Return the remaining seconds; infinite if work is the limit."""
        return math.inf if self.until is None else max(0.0, self.until - self.setup.clock())

    def _over(self) -> bool:
        return self._left_s() == 0.0 or (self.limits.stop is not None and self.limits.stop())

    def _polish(self) -> None:
        """Reduce falls, then cost, request by request; the solve starts from the result."""
        until = self.setup.clock() + _POLISH_SHARE * self._left_s()
        stop = self.limits.stop

        def is_late() -> bool:
            return (stop is not None and stop()) or self.setup.clock() >= until

        flat = polish(self.requests, self.best.results, self.view, is_late)
        self.best.offer(flat, _score_plan(self.requests, flat, self.view), self.best.source)

    def _falls_are_least(self) -> bool:
        """Return whether the falls already equal their lower bound, so that no solve is needed."""
        if any(request.graph.options for request in self.requests):
            return False
        all_placed = all(result.placed for result in self.best.results)
        least = min_model_falls(lay_out(list(self.requests), self.view))
        return all_placed and -self.best.score[1] <= least

    def _model(self, stage: SolveStage) -> rayon.RayonModel:
        requests = [self.requests[index] for index in self.positions]
        must_keep = [i for i, index in enumerate(self.positions) if index in self.best.must_keep]
        return rayon.build(
            requests, self.view, kept=stage.incumbent_floor(self.best), must_keep=must_keep
        )

    def _solve(
        self, stage: SolveStage, built: rayon.RayonModel
    ) -> tuple[Solution, rayon.RayonModel]:
        """Solve a model from the best plan; return the solution and the model."""
        start = WarmStart(values=encode([self.best.results[i] for i in self.positions], built))
        monitor = Monitor(should_stop=self.limits.stop)
        if not stage.keeps_value and self.limits.news is not None:
            monitor = replace(
                monitor, on_progress=self._progress_reporter(self.limits.news, built.scale)
            )
        limits = self._solve_limits(stage)
        answer = solve(built.model, limits, solver=self.setup.solver, start=start, monitor=monitor)
        if not stage.keeps_value and self._contradicts(answer, built):
            # HiGHS 1.14's presolve loses the best plan of some models; without presolve none was
            # lost.
            limits = replace(self._solve_limits(stage), options={"presolve": "off"})
            solver = self.setup.solver
            answer = solve(built.model, limits, solver=solver, start=start, monitor=monitor)
        return answer, built

    def _contradicts(self, answer: Solution, built: rayon.RayonModel) -> bool:
        """Return whether a solution's bound is below the value of the incumbent."""
        if answer.status is not SolveStatus.OPTIMAL or self.setup.solver != "highs":
            return False
        value, bound = self.best.score[0], answer.bound / built.scale
        return self.best.whole and value > bound and not is_proven(bound, value, 0.0)

    def _solve_limits(self, stage: SolveStage) -> SolveLimits:
        """Return the limits of one solve; the requested gap applies only to value."""
        limits = self.limits
        return SolveLimits(
            time_s=self._left_s() * stage.share,
            gap_rel=_PROVEN if stage.keeps_value else limits.gap or _PROVEN,
            nodes=limits.work,
            seed=limits.seed,
            deterministic=limits.work is not None,
            watchdog=self.until is not None and self.setup.watched,
        )

    def _progress_reporter(
        self, news: Callable[[SolveProgress], None], scale: float
    ) -> Callable[[Progress], None]:
        began, solver = self.setup.clock(), self.setup.solver

        def tell(progress: Progress) -> None:
            value, bound = progress.objective / scale, progress.bound / scale
            if not math.isfinite(value):  # the bound precedes the solver's first plan
                value = self.best.score[0]
            elapsed = self.setup.clock() - began
            news(SolveProgress(elapsed, value, min(bound, self.best.bound), solver, solver))

        return tell

    def _offer(self, answer: Solution, built: rayon.RayonModel) -> None:
        if not answer.status.has_values:
            return
        found = list(self.best.results)
        for index, result in zip(self.positions, decode(answer.values, built), strict=True):
            found[index] = result
        self.best.offer(found, _score_plan(self.requests, found, self.view), self.setup.solver)


@dataclass(slots=True)
class MilpIncumbent:
    """The best plan so far, its source, and its proof.

    Attributes
    ----------
    must_keep
        Indexes of requests that every plan must place: plans without one of them are rejected, and
        an incomplete starting plan is replaced by any plan that places all of them (`whole`).
    unproven
        The criteria besides value (falls, cost) that are not proven minimal.
    """

    results: list[PlacementResult]
    score: Score
    source: str
    bound: float
    must_keep: frozenset[int] = frozenset()
    outcome: SolverOutcome = SolverOutcome.NO_ANSWER
    detail: str = ""
    unproven: list[str] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether the plan places all requests in `must_keep`."""
        return self._holds_all(self.results)

    def _holds_all(self, results: Sequence[PlacementResult]) -> bool:
        return all(results[index].placed for index in self.must_keep)

    def offer(self, results: list[PlacementResult], score: Score, source: str) -> None:
        """Replace the plan if another one is better."""
        if self._holds_all(results) and (score > self.score or not self.whole):
            self.results, self.score, self.source = results, score, source

    def report(self, value: float, requested: float) -> SolverReport:
        """Return the report of the final plan.

        Parameters
        ----------
        value
            Accepted value of the plan after greedy filling.
        requested
            Value of all requests.
        """
        if not self.whole:
            return no_plan_report(self.bound, self.source)
        self._judge(value, requested)
        # A bound of -0.0 is reported as the value's 0.0: max keeps the first of equals.
        bound = max(value, self.bound)
        return SolverReport(self.outcome.value, value, bound, self.source, self.detail)

    def _judge(self, value: float, requested: float) -> None:
        """Set the outcome from value and bound; a bound below the value proves nothing."""
        if is_proven(value, self.bound, requested):
            self.outcome, self.detail = SolverOutcome.OPTIMAL, ""
            if self.unproven:
                self.detail = f"the most value; {' and '.join(self.unproven)} not proven least"
        if value > self.bound and not is_proven(self.bound, value, requested):
            self.outcome, self.bound = SolverOutcome.FAILED, requested
            self.detail = "the solver's bound is below the value of a known plan: it proves nothing"


def _score_plan(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> Score:
    """Return the score of a plan, rounded so that the order of summation has no effect."""
    prices, cost = view.prices, 0.0
    if prices is not None:
        pairs = zip(requests, results, strict=True)
        cost = sum(prices.cost_of(*pair, view.nominal) for pair in pairs)
    value, falls = score_of(requests, results, view.reference)
    # Round values to significant digits, not decimal places: a value rounded up by more than the
    # tolerances could not be kept by the later solves.
    return float(f"{value:.12g}"), falls, -round(cost, 9)


def _ending_of(answer: Solution) -> tuple[SolverOutcome, str]:
    """Return the outcome of a solve for value, with a sentence unless it was proven optimal."""
    if answer.status is SolveStatus.OPTIMAL:
        return SolverOutcome.OPTIMAL, ""
    if answer.stop is StopReason.CRASHED:
        return SolverOutcome.FAILED, f"the solver broke ({answer.message}): the best so far stands"
    if answer.stop is StopReason.STOPPED:
        return SolverOutcome.STOPPED, "the best so far stands"
    if answer.status.has_values:
        return SolverOutcome.FEASIBLE, "the limit came before the proof"
    if answer.stop is StopReason.FINISHED:  # the empty plan is always feasible
        said = answer.status.value.replace("_", " ")
        return SolverOutcome.FAILED, f"the solver called the model {said}: the best so far stands"
    return SolverOutcome.NO_ANSWER, "the limit came before the solver's first plan"
