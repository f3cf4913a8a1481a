"""Greedy planning around a solver: the plan that it starts from, and what it left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.agent import Agent, Limits, MustKeep
from planner.agents.check import check_plan
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import COMPACT, GAPS, LOWEST
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.view import PlanView

_FILLER = GreedyAgent("filling", (LOWEST, GAPS, COMPACT))


def warm_start(
    agent: Agent,
    requests: Sequence[Request],
    view: PlanView,
    limits: Limits,
    must_keep: MustKeep | None,
) -> list[PlacementResult]:
    """Return a greedy plan: the current allocations, then the requests to keep, then the others.

    Parameters
    ----------
    agent
        Places all requests without a current allocation.
    limits
        Limits of each of its two runs.

    Raises
    ------
    ValueError
        If `must_keep` names no request, or the current allocation breaks a limit of the view.
    """
    if must_keep is None:
        return list(agent.plan(requests, view, limits))
    results = list(_kept_results(must_keep, requests, view))
    turns: tuple[Callable[[int], bool], ...] = (
        must_keep.requests.__contains__,
        lambda index: True,
    )
    for has_turn in turns:
        missing = [i for i, one in enumerate(results) if not one.placed and has_turn(i)]
        if not missing:
            continue
        placed = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
        beside = view.after(placed, view.version)
        answers = agent.plan([requests[i] for i in missing], beside, limits)
        for index, answer in zip(missing, answers, strict=True):
            results[index] = answer
    return results


def _kept_results(
    must_keep: MustKeep, requests: Sequence[Request], view: PlanView
) -> Sequence[PlacementResult]:
    """Return the current allocations, and a refusal for requests without one.

    Raises
    ------
    ValueError
        If an index is wrong, or the current allocations differ in number or break a rule.
    """
    wrong = [index for index in must_keep.requests if not 0 <= index < len(requests)]
    if wrong:
        raise ValueError(f"to be kept: no request {wrong[0]}; there are {len(requests)}, from 0")
    standing = must_keep.standing
    if not standing:
        return [PlacementResult(Code.CAPACITY)] * len(requests)
    if len(standing) != len(requests):
        raise ValueError(
            f"current allocations: {len(standing)} results for {len(requests)} requests; give "
            "one per request, a refusal if there is none"
        )
    checked = check_plan(requests, standing, view)
    for request, before, after in zip(requests, standing, checked, strict=True):
        if before.placed and not after.placed:
            raise ValueError(
                f"current allocations: request {request.id} breaks a limit of the view"
            )
    return checked


#: GREE-L, then GREE's compact shape for requests that it refuses.
# An agent that maximises value may leave out requests without value, and an agent that stopped
# early may leave out requests that fit. Filling only adds placements, so value never falls; and
# each remaining refusal states the reason with respect to the final plan.


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
