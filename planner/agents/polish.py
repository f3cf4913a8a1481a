"""Reduce the falls of a plan at the same value: place requests with many falls again, flatter.

Value comes first; among plans of equal value the one with fewest falls is better, then the cheaper
one (planning.md). Requests move one by one while all others stay, each with every choice of options
that has at least the same value. Flat placement ignores prices: if steps differ in price, all
requests are tried again with the expensive steps closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np

import rdl.work_graph as wg
from planner.agent import Limits
from planner.agents.check import satisfies
from planner.agents.greedy.agent import GreedyAgent
from planner.agents.greedy.kernels.codes import GAPS, LOWEST
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import falls_of, options_of, satisfiable_options, worth_of
from planner.view import PlanView
from rdl.resources import Resources
from rdl.work_graph import ATOM, END, KIND, START, WorkGraph

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

#: Up to this many combinations all are tried; beyond, only those that differ in one choice.
MOST_WAYS = 64

#: The option taken at each `any` that is reached.
_Choices = dict[int, int]


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


def min_falls(graph: WorkGraph) -> int:
    """Return the minimum falls of a request over its options: heights that it must reach.

    An atom falls from its greatest height, which is at least g and at least work / window.
    """
    return _min_vertex_falls(graph, len(graph.vertices) - 1)


def _min_vertex_falls(graph: WorkGraph, vertex: int) -> int:
    row = graph.vertices[vertex]
    if row[wg.KIND] == wg.ATOM:
        mean = -(-int(row[wg.WORK]) // max(1, int(row[wg.END] - row[wg.START])))
        return max(int(row[wg.MIN_HEIGHT]), mean) * int(row[wg.SHIFT_COUNT])
    if row[wg.KIND] == wg.ANY:
        return min(_min_vertex_falls(graph, v) for v in satisfiable_options(graph, vertex))
    return sum(_min_vertex_falls(graph, v) for v in options_of(graph, vertex))


def option_variants(
    request: Request, result: PlacementResult, reference: Resources
) -> Iterator[Request]:
    """Yield the request once for each choice of its options that has at least the same value.

    Parameters
    ----------
    result
        Its placement.

    Yields
    ------
    Request
        The request with a graph in which only the chosen options can be satisfied. Vertices keep
        their numbers, so a placement of it is a placement of `request`.
    """
    graph = request.graph
    if not (graph.vertices[:, wg.KIND] == wg.ANY).any():
        yield request
        return
    root = len(graph.vertices) - 1
    taken = dict(result.choices)
    few = _count(graph, root) <= MOST_WAYS
    least = worth_of(graph, result.choices, reference)
    for choices in _all_ways(graph, root) if few else _single_changes(graph, taken):
        if worth_of(graph, choices.items(), reference) >= least:
            yield replace(request, graph=_with_others_closed(graph, choices))


def _count(graph: WorkGraph, vertex: int) -> int:
    row = graph.vertices[vertex]
    if row[wg.KIND] == wg.ATOM:
        return 1
    if row[wg.KIND] == wg.ANY:
        return sum(_count(graph, v) for v in satisfiable_options(graph, vertex))
    return prod(_count(graph, v) for v in options_of(graph, vertex))


def _all_ways(graph: WorkGraph, vertex: int) -> Iterator[_Choices]:
    """Yield every choice of options at and below a vertex, in the order of the source."""
    row = graph.vertices[vertex]
    if row[wg.KIND] == wg.ATOM:
        yield {}
    elif row[wg.KIND] == wg.ANY:
        written = options_of(graph, vertex)
        for option in satisfiable_options(graph, vertex):
            for below in _all_ways(graph, option):
                yield {vertex: written.index(option), **below}
    else:
        parts = [list(_all_ways(graph, v)) for v in options_of(graph, vertex)]
        for together in product(*parts):
            yield {v: option for part in together for v, option in part.items()}


def _single_changes(graph: WorkGraph, taken: _Choices) -> Iterator[_Choices]:
    """Yield the choices, then each variant with another option of one `any`.

    Choices inside the other option stay open: nothing there was reached.
    """
    yield taken
    for vertex, now in taken.items():
        for other, option in enumerate(options_of(graph, vertex)):
            if other != now and graph.vertices[option, wg.SATISFIABLE]:
                yield {**taken, vertex: other}


def _with_others_closed(graph: WorkGraph, choices: _Choices) -> WorkGraph:
    """Return the graph in which other options of the chosen `any` cannot be satisfied."""
    vertices = graph.vertices.copy()
    for vertex, taken in choices.items():
        for index, option in enumerate(options_of(graph, vertex)):
            if index != taken:
                vertices[option, wg.SATISFIABLE] = 0
    return replace(graph, vertices=vertices)
