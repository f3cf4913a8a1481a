"""Greedy filling: place the requests that a better planner refused although they still fit.

An agent that maximises value may leave out requests without value, and an agent that stopped early
may leave out requests that fit. Filling only adds placements, so value never falls; and each
remaining refusal states the reason with respect to the final plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.agent import Limits
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import COMPACT, GAPS, LOWEST
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView

#: GREE-L, then GREE's compact shape for requests that it refuses.
_FILLER = GreedyAgent("filling", (LOWEST, GAPS, COMPACT))


def fill(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> list[PlacementResult]:
    """Try every refused request again alongside the placed ones; return all results.

    Parameters
    ----------
    results
        One per request, in order; together within the limits of `view`.
    """
    answers = list(results)
    left = [index for index, result in enumerate(answers) if not result.placed]
    if not left:
        return answers
    placed = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
    beside = view.after(placed, view.version)
    tried = _FILLER.plan([requests[index] for index in left], beside, Limits())
    for index, answer in zip(left, tried, strict=True):
        answers[index] = answer if answer.placed else _beside_better(answer)
    return answers


def _beside_better(answer: PlacementResult) -> PlacementResult:
    """Return a refusal whose detail refers to the best plan found."""
    return replace(answer, detail=f"{answer.detail}, alongside the best plan found")
