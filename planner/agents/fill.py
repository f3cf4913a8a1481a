"""Greedy filling: what a better planner leaves out and still fits is placed after all.

An agent that maximises value may leave out what is worth nothing, and one that stopped early may
leave out what fits. Filling only adds, so value never falls; and what is refused now says what
stood in its way alongside the plan that will really be there.
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

#: GREE-L, and GREE's compact shape for what it refuses.
_FILLER = GreedyAgent("filling", (LOWEST, GAPS, COMPACT))


def fill(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> list[PlacementResult]:
    """Return the results with every refused request tried again alongside the placed ones.

    Parameters
    ----------
    results
        One a request, in order; together within the limits of `view`.
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
    """Return a refusal that names the plan of most value that was found."""
    return replace(answer, detail=f"{answer.detail}, alongside the best plan found")
