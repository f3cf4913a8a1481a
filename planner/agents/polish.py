"""Reduce the falls of a plan at the same value: place requests with many falls again, flatter.

Value comes first; among plans of equal value the one with fewest falls is better, then the cheaper
one (planning.md). Requests move one by one while all others stay, each with every choice of options
that has at least the same value. Flat placement ignores prices: if steps differ in price, all
requests are tried again with the expensive steps closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.agent import Limits
from planner.agents.check import satisfies
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import GAPS, LOWEST
from planner.agents.option_variants import min_falls, option_variants
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import falls_of, worth_of
from planner.view import PlanView
from rdl.work_graph import ATOM, END, KIND, START

#: Requests tried per round; each costs a copy or two of the profile.
MOST = 2000

#: Rounds over all requests: a move may free the capacity that makes another request flatter.
_ROUNDS = 3

#: Price limits tried per request; each costs a copy of the profile and two placements.
_LEVELS = 3

_FLAT = GreedyAgent("flat", (LOWEST, GAPS))
_EARLY = GreedyAgent("flat early", (LOWEST, GAPS), early=True)

#: The views in which a request is tried: capacity left by the others, some with steps closed.
_Views = Callable[[Request, PlanView], list[PlanView]]

#: (falls, cost) of one request; less is better.
Rank = tuple[int, float]


def polish(
    requests: Sequence[Request],
    results: Sequence[PlacementResult],
    view: PlanView,
    stop: Callable[[], bool],
) -> list[PlacementResult]:
    """Return results of the same value and no more falls, at equal falls of no greater cost.

    Parameters
    ----------
    stop
        Called before each request and each choice of its options; True leaves the rest unchanged.
    """
    kept = list(results)
    if not stop():
        _rounds(requests, kept, view, (_open_views, stop))
        if view.prices is not None:
            _rounds(requests, kept, view, (_cheap_views, stop))
    return kept


def _rounds(
    requests: Sequence[Request],
    kept: list[PlacementResult],
    view: PlanView,
    how: tuple[_Views, Callable[[], bool]],
) -> None:
    """Place requests one by one again where that is better, until none moves."""
    stop = how[1]
    placed = [pair for pair in zip(requests, kept, strict=True) if pair[1].placed]
    held = view.after(placed, view.version)
    for _ in range(_ROUNDS):
        moved = False
        for index in _candidates(requests, kept, view):
            if stop():
                return
            request = requests[index]
            beside = held.without([(request, kept[index])], view.version)
            flatter = _best_placement(request, kept[index], beside, how)
            if flatter is not kept[index]:
                kept[index], moved = flatter, True
                held = beside.after([(request, flatter)], view.version)
        if not moved:
            return


def _candidates(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> list[int]:
    """Return the requests that may improve, in descending order of falls above their minimum."""
    above = {
        index: falls_of(request.graph, result) - min_falls(request.graph)
        for index, (request, result) in enumerate(zip(requests, results, strict=True))
        if result.placed and len(result.vertices)
    }
    dear = view.prices is not None
    may = [index for index, falls in above.items() if dear or falls > 0]
    return sorted(may, key=lambda index: (-above[index], index))[:MOST]


def _best_placement(
    request: Request,
    result: PlacementResult,
    beside: PlanView,
    how: tuple[_Views, Callable[[], bool]],
) -> PlacementResult:
    """Return the best of a placement and the alternatives found, of at least the same value."""
    graph, best, rank = request.graph, result, _rank(request, result, beside)
    worth = worth_of(graph, result.choices, beside.reference)
    views_of, stop = how
    agents = (_FLAT,) if beside.prices is None else (_FLAT, _EARLY)
    tries = [(view, agent) for view in views_of(request, beside) for agent in agents]
    for way in option_variants(request, result, beside.reference):
        if stop():
            break
        for view, agent in tries:
            [again] = agent.plan([way], view, Limits())
            if not again.placed or worth_of(graph, again.choices, beside.reference) < worth:
                continue
            found = _rank(request, again, beside)
            if found < rank and satisfies(request, again):
                best, rank = again, found
    return best


def _open_views(_request: Request, beside: PlanView) -> list[PlanView]:
    return [beside]


def _cheap_views(request: Request, beside: PlanView) -> list[PlanView]:
    """Return copies of the view without the steps that cost more than a limit, for a few limits.

    Empty if every step that the request may use costs the same.
    """
    assert beside.prices is not None
    factors = beside.prices.factors[beside.first :]
    atoms = request.graph.vertices[request.graph.vertices[:, KIND] == ATOM]
    first, last = int(atoms[:, START].min()), int(atoms[:, END].max() + request.graph.shifts.max())
    levels = np.unique(factors[max(0, first - beside.first) : last - beside.first])[:-1]
    if len(levels) > _LEVELS:
        levels = levels[np.linspace(0, len(levels) - 1, _LEVELS).astype(np.int64)]
    return [beside.without_steps(factors > level) for level in levels]


def _rank(request: Request, result: PlacementResult, view: PlanView) -> Rank:
    """Return falls and cost, rounded so that the order of summation has no effect."""
    prices = view.prices
    cost = 0.0 if prices is None else prices.cost_of(request, result, view.nominal)
    return falls_of(request.graph, result), round(cost, 9)
