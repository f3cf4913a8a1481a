"""The incumbent of `milp`: the best plan so far, its score, and its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from lp.result import Solution, SolveStatus, StopReason
from planner.agent import SolverOutcome, SolverReport, is_proven, no_plan_report
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView

#: (value, minus falls, minus cost): greater is better.
Score: TypeAlias = tuple[float, int, float]


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


def score_plan(
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


def ending_of(answer: Solution) -> tuple[SolverOutcome, str]:
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
