"""Which requests are hard to place, and which lie near each other in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.placement import PlacementResult
from planner.request import Request
from planner.value import value_asked
from rdl.resources import Resources
from rdl.work_graph import (
    ATOM,
    BUNDLE,
    END,
    KIND,
    MAX_HEIGHT,
    MIN_HEIGHT,
    SHORTEST,
    START,
    WorkGraph,
)

#: Neighbours that are refused too, of all that are taken out.
_REFUSED_SHARE = 0.4


def hardest(requests: Sequence[Request], nominal: Resources, count: int) -> list[int]:
    """Return the positions of the `count` requests that greedy placement endangers most, in order.

    What a wrong decision costs is the request's value; how likely it is grows with what it needs at
    once and with how little of its window it can do without.
    """
    risk = [
        value_asked(request, nominal)
        * (lumpiness(request.graph, nominal) + tightness(request.graph))
        for request in requests
    ]
    order = np.argsort(-np.array(risk), kind="stable")[:count]
    return sorted(int(index) for index in order)


def lumpiness(graph: WorkGraph, nominal: Resources) -> float:
    """Return the most that an atom of a request needs at once, as a share of the cluster.

    A gang needs its whole height; an atom that may run narrow needs its least height.
    """
    most = 0.0
    for row in graph.vertices[graph.vertices[:, KIND] == ATOM] if len(graph.vertices) else ():
        bundle = graph.bundles[int(row[BUNDLE])]
        if not all(name in nominal for name in bundle):
            continue
        gang = row[MIN_HEIGHT] == row[MAX_HEIGHT]
        height = int(row[MAX_HEIGHT] if gang else row[MIN_HEIGHT])
        most = max(most, height * bundle.dominant_share(nominal))
    return min(1.0, most)


def tightness(graph: WorkGraph) -> float:
    """Return the part of its window that a request needs even alone: 1 leaves it no choice."""
    if not len(graph.vertices):
        return 0.0
    root = graph.vertices[-1]
    return float(min(1.0, root[SHORTEST] / max(1, int(root[END] - root[START]))))


class Neighbourhoods:
    """Draws a refused request and those around it in time.

    Parameters
    ----------
    requests
        All that were asked for.
    count
        How many are drawn at most.
    generator
        Source of what is random.
    """

    def __init__(
        self, requests: Sequence[Request], count: int, generator: np.random.Generator
    ) -> None:
        self._count = count
        self._generator = generator
        self._spans = np.zeros((len(requests), 2), dtype=np.int64)
        for index, request in enumerate(requests):
            if len(request.graph.vertices):
                self._spans[index] = request.graph.vertices[-1][[START, END]]
        nothing = [not len(request.graph.vertices) or request.weight <= 0 for request in requests]
        self._worthless = np.array(nothing, dtype=bool)
        self._tried = np.zeros(len(requests))

    def draw(self, results: Sequence[PlacementResult]) -> list[int]:
        """Return positions, ascending: none where nothing that counts is refused.

        The seed is a refused request, those tried least first; then other refused ones whose
        windows meet its window most, then placed ones that hold most of their time there.
        """
        placed = np.array([result.placed for result in results])
        refused = np.flatnonzero(~placed & ~self._worthless)
        if not len(refused):
            return []
        least = refused[self._tried[refused] == self._tried[refused].min()]
        seed = int(self._generator.choice(least))
        spans = self._spans.copy()
        for index in np.flatnonzero(placed).tolist():
            rows = results[index].rows
            if len(rows):
                spans[index] = rows[:, 0].min(), rows[:, 1].max()
        near = self._near(spans, seed)
        others = [i for i in _best_first(near, refused, self._generator) if i != seed]
        others = others[: int(_REFUSED_SHARE * self._count)]
        there = _best_first(near, np.flatnonzero(placed & (near > 0)), self._generator)
        few = [seed, *others]
        few += there[: self._count - len(few)]
        self._tried[few[: 1 + len(others)]] += 1.0
        return sorted(few)

    def _near(self, spans: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        """Return the part of each span that lies inside the seed's window."""
        start, end = self._spans[seed]
        inside = np.minimum(spans[:, 1], end) - np.maximum(spans[:, 0], start)
        return np.asarray(np.maximum(inside, 0) / np.maximum(1, spans[:, 1] - spans[:, 0]))


def _best_first(
    near: NDArray[np.float64], among: NDArray[np.int64], generator: np.random.Generator
) -> list[int]:
    """Return positions, the nearest first, with some chance for the rest."""
    kept = among[near[among] > 0]
    luck = near[kept] * generator.random(len(kept))
    return [int(index) for index in kept[np.argsort(-luck, kind="stable")]]
