"""Requests that a plan may not lose, and a greedy plan that holds as many of them as it can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.agent import Agent, Limits
from planner.agents.check import check_plan
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class MustKeep:
    """Requests that may not be lost, whatever they are worth.

    Attributes
    ----------
    requests
        Their indexes.
    standing
        What stands now, one result a request (refused where nothing does), together within the
        view; empty where nothing is known. It is what the plan starts from.
    """

    requests: frozenset[int]
    standing: Sequence[PlacementResult] = ()

    def checked(self, requests: Sequence[Request], view: PlanView) -> Sequence[PlacementResult]:
        """Return what stands, a refusal where nothing does.

        Raises
        ------
        ValueError
            Where an index is wrong, or what stands is of another number or breaks a rule.
        """
        wrong = [index for index in self.requests if not 0 <= index < len(requests)]
        if wrong:
            raise ValueError(
                f"to be kept: no request {wrong[0]}; there are {len(requests)}, from 0"
            )
        if not self.standing:
            return [PlacementResult(Code.CAPACITY)] * len(requests)
        if len(self.standing) != len(requests):
            raise ValueError(
                f"what stands: {len(self.standing)} results for {len(requests)} requests; give "
                "one a request, refused where nothing stands"
            )
        kept = check_plan(requests, self.standing, view)
        for request, before, after in zip(requests, self.standing, kept, strict=True):
            if before.placed and not after.placed:
                raise ValueError(f"what stands: request {request.id} breaks a limit of the view")
        return kept


def warm_start(
    agent: Agent, requests: Sequence[Request], view: PlanView, limits: Limits, keep: MustKeep | None
) -> list[PlacementResult]:
    """Return a greedy plan: what stands first, then what must be kept, then the others.

    Parameters
    ----------
    agent
        Places all but what stands.
    limits
        Of each of its two runs.
    """
    if keep is None:
        return list(agent.plan(requests, view, limits))
    results = list(keep.checked(requests, view))
    ways: tuple[Callable[[int], bool], ...] = (keep.requests.__contains__, lambda index: True)
    for wanted in ways:
        missing = [i for i, one in enumerate(results) if not one.placed and wanted(i)]
        if not missing:
            continue
        placed = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
        beside = view.after(placed, view.version)
        for index, answer in zip(
            missing, agent.plan([requests[i] for i in missing], beside, limits), strict=True
        ):
            results[index] = answer
    return results
