"""The solves of `milp` in order: for value, then falls, then cost."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import Solution, SolveStatus
from lp.solver import backend_named, export_model, solve
from planner.agent import Limits, SolveProgress, SolverOutcome, is_proven
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode, encode
from planner.agents.milp.columns import lay_out
from planner.agents.milp.incumbent import MilpIncumbent, ending_of, score_plan
from planner.agents.milp.objectives import Kept, min_model_falls
from planner.agents.polish import polish
from planner.request import Request
from planner.view import PlanView

_LOG = logging.getLogger(__name__)

#: Gap at which a solve counts as proven unless a wider one is requested.
_PROVEN: Final = 1e-6

#: Fraction of the remaining time for flat placement before a solve for falls or cost.
_POLISH_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class SolveStage:
    """One solve: what it keeps of the incumbent, and its share of the remaining time."""

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
PRICED_STAGES: Final = (
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
        lp.errors.ModelError
            If there is no such solver, or the model's path is invalid.
        OSError
            If the model cannot be written.
        """
        backend_named(self.setup.solver)
        if self.setup.write_to is not None:
            self._written = self._model(VALUE)
            export_model(self._written.model, self.setup.write_to)
        for stage in STAGES if self.view.prices is None else PRICED_STAGES:
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
        best.outcome, best.detail = ending_of(answer)
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
        self.best.offer(flat, score_plan(self.requests, flat, self.view), self.best.source)

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
        self.best.offer(found, score_plan(self.requests, found, self.view), self.setup.solver)
