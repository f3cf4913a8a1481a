"""Lower preemption of a plan whose value stays: what falls most is placed flat once more.

Value comes first; among plans of equal value the one that takes fewest machines from others is the
better (planning.md). Requests move one by one, beside all the others as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.agent import Limits
from planner.agents.atom_placer import GreedyAgent
from planner.exact.check import satisfied
from planner.kernels import GAPS, LOWEST
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import falls_of, worth_of
from planner.view import PlanView

#: Requests tried; each costs a copy or two of the profile.
MOST = 2000

_FLAT = GreedyAgent("flat", (LOWEST, GAPS))


def flattened(
    requests: Sequence[Request],
    results: Sequence[PlacementResult],
    view: PlanView,
    stop: Callable[[], bool],
) -> list[PlacementResult]:
    """Return results of the same value with at most the same preemption.

    Parameters
    ----------
    stop
        Asked before each request; True leaves the rest as it is.
    """
    kept = list(results)
    if stop():
        return kept
    falls = [falls_of(request.graph, one) for request, one in zip(requests, kept, strict=True)]
    placed = [pair for pair in zip(requests, kept, strict=True) if pair[1].placed]
    held = view.after(placed, view.version)
    for index in sorted(range(len(kept)), key=lambda i: (-falls[i], i))[:MOST]:
        if not falls[index] or stop():
            break
        request = requests[index]
        beside = held.without([(request, kept[index])], view.version)
        [again] = _FLAT.plan([request], beside, Limits())
        if not again.placed or falls_of(request.graph, again) >= falls[index]:
            continue
        same = worth_of(request.graph, again.choices) >= worth_of(
            request.graph, kept[index].choices
        )
        if same and satisfied(request, again):
            kept[index] = again
            held = beside.after([(request, again)], view.version)
    return kept
