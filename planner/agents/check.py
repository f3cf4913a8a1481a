"""Check a computed plan against the oracle, capacity, fit caps and window averages.

Works on plain arrays, independently of the search that it checks: a bug there must neither yield an
invalid plan nor lower a bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.placement import Code, PlacementResult, shifts_of
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.value import value_of
from planner.view import Demand, PlanView
from rdl.oracle.satisfaction import check
from rdl.work_graph import BUNDLE, LABEL, choices_of


def check_plan(
    requests: Sequence[Request], results: Sequence[PlacementResult], view: PlanView
) -> list[PlacementResult]:
    """Refuse the results that break a rule; the most valuable are checked first.

    Parameters
    ----------
    results
        One per request, placed together.

    Returns
    -------
    list
        The results, refused where the oracle, capacity, a fit cap or a window average is violated.
    """
    book = _Book(view, requests, results)
    worth = [
        value_of(request, result.choices, view.reference) if result.placed else 0.0
        for request, result in zip(requests, results, strict=True)
    ]
    kept = list(results)
    for index in sorted(range(len(kept)), key=lambda i: (-worth[i], i)):
        if kept[index].placed and not (
            satisfies(requests[index], kept[index]) and book.take(requests[index], kept[index])
        ):
            kept[index] = PlacementResult(Code.CAPACITY, "the placement breaks a limit")
    return kept


def satisfies(request: Request, result: PlacementResult) -> bool:
    """Return whether the oracle accepts a placement."""
    graph = request.graph
    holding = holding_of(request, result)
    rows = {path: held.tolist() for atom in holding.atoms for path, held in atom.occurrences()}
    choices = choices_of(graph, result.vertices.tolist())
    period_ms = graph.endless * graph.grid.step_ms or 86_400_000
    broken = check(
        graph.expression, graph.grid, request.submitted_ms, rows, choices, max_period_ms=period_ms
    )
    return broken is None


class _Book:
    """The free capacity of a view while results are subtracted one by one."""

    def __init__(
        self, view: PlanView, requests: Sequence[Request], results: Sequence[PlacementResult]
    ) -> None:
        self._view = view
        for request, result in zip(requests, results, strict=True):
            for vertex, _ in result.atoms():
                self._demand(request, vertex)  # may add rows to the view, so do it before the copy
        self._free = view.free.copy()
        self._slack = view.averages.slack.copy()

    def _demand(self, request: Request, vertex: int) -> Demand:
        graph = request.graph
        label = int(graph.vertices[vertex, LABEL])
        name = graph.labels[label] if label >= 0 else None
        bundle = graph.bundles[int(graph.vertices[vertex, BUNDLE])]
        return self._view.demand(bundle, name, request.tenant, request.queue)

    def take(self, request: Request, result: PlacementResult) -> bool:
        """Subtract a request's allocation; if it does not fit, change nothing and return False."""
        taken: list[tuple[int, int, int, int]] = []
        counted: dict[int, np.ndarray] = {}
        fits = True
        for vertex, rows in result.atoms():
            demand = self._demand(request, vertex)
            for shift in shifts_of(request.graph, vertex).tolist():
                for start, end, bundles in rows.tolist():
                    a, b = start + shift, end + shift
                    begin, stop = a - self._view.first, b - self._view.first
                    fits = fits and self._machines_hold(demand, a, b, bundles)
                    for row, amount in zip(demand.rows, demand.amounts, strict=True):
                        taken.append((row, begin, stop, bundles * amount))
                    self._count(demand, a, b, bundles, counted)
        for row, a, b, amount in taken:
            self._free[row, a:b] -= amount
        fits = fits and all((self._free[row, a:b] >= 0).all() for row, a, b, _ in taken)
        fits = fits and all((self._slack[row] >= use).all() for row, use in counted.items())
        if not fits:
            for row, a, b, amount in taken:
                self._free[row, a:b] += amount
            return False
        for row, use in counted.items():
            self._slack[row] -= use
        return True

    def _machines_hold(self, demand: Demand, a: int, b: int, bundles: int) -> bool:
        segments = self._view.segments
        if a < segments[0] or b > segments[-1]:
            return False
        first = int(np.searchsorted(segments, a, side="right")) - 1
        last = int(np.searchsorted(segments, b, side="left"))
        return min(demand.fit[first:last]) >= bundles

    def _count(
        self, demand: Demand, a: int, b: int, bundles: int, counted: dict[int, np.ndarray]
    ) -> None:
        """Add to the request's usage in every window of every average that applies to it."""
        limits = self._view.averages
        for row, amount in zip(demand.averages, demand.average_amounts, strict=True):
            begins = np.arange(self._slack.shape[1]) - limits.offset + self._view.first
            ends = begins + int(limits.windows[row])
            inside = np.minimum(ends, b) - np.maximum(begins, a)
            use = counted.setdefault(row, np.zeros(self._slack.shape[1], dtype=np.int64))
            use += np.maximum(inside, 0) * (bundles * amount)
