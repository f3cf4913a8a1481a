"""Variants of a request: each fixes one choice of options and closes all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

import rdl.work_graph as wg
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import options_of, satisfiable_options, worth_of
from rdl.resources import Resources
from rdl.work_graph import WorkGraph

#: Up to this many combinations all are tried; beyond, only those that differ in one choice.
MOST_WAYS = 64

#: The option taken at each `any` that is reached.
Choices = dict[int, int]


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


def _all_ways(graph: WorkGraph, vertex: int) -> Iterator[Choices]:
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


def _single_changes(graph: WorkGraph, taken: Choices) -> Iterator[Choices]:
    """Yield the choices, then each variant with another option of one `any`.

    Choices inside the other option stay open: nothing there was reached.
    """
    yield taken
    for vertex, now in taken.items():
        for other, option in enumerate(options_of(graph, vertex)):
            if other != now and graph.vertices[option, wg.SATISFIABLE]:
                yield {**taken, vertex: other}


def _with_others_closed(graph: WorkGraph, choices: Choices) -> WorkGraph:
    """Return the graph in which other options of the chosen `any` cannot be satisfied."""
    vertices = graph.vertices.copy()
    for vertex, taken in choices.items():
        for index, option in enumerate(options_of(graph, vertex)):
            if index != taken:
                vertices[option, wg.SATISFIABLE] = 0
    return replace(graph, vertices=vertices)
