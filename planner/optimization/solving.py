"""A solver beside the search: a bound on the value, and a plan that keeps who was kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from planner.adaptation.layout import Layout
from planner.adaptation.move import Move
from planner.adaptation.promise import Promise
from planner.agent import Limits
from planner.agents import agent_named
from planner.optimization.search import Best, Search
from planner.placement import PlacementResult
from planner.request import Request
from planner.states import State
from planner.value import size_of

#: Parts of the time that a solver gets for the bound, and for a plan.
_BOUND_SHARE, _PLAN_SHARE = 0.2, 0.4

#: How much more it counts for a solver to keep a promise than to make one.
_KEEPING: Final = 20.0


class Solving:
    """One solver asked about all that may move.

    Attributes
    ----------
    bound
        Most value that what was asked can have in any plan.
    asked
        Numbers of the promises that it was asked about.
    """

    def __init__(
        self, search: Search, movable: Sequence[Promise], name: str, limits: Limits
    ) -> None:
        self._search, self._movable = search, movable
        self._name, self._limits = name, limits
        self.bound = 0.0
        self.asked: frozenset[int] = frozenset()

    def run(self, start: Layout) -> Best | None:
        """Return the solver's plan, or None where somebody who was kept has no place in it."""
        layout = start.copy()
        for one in self._movable:
            layout.lift(one)
        plain = self._search.moves.plain
        moves = [move for one in self._search.promises for move in plain(layout, one)[-1:]]
        moves = [move for move in moves if move.remainder.request is not None]
        self.asked = frozenset(move.promise.number for move in moves)
        agent: Any = agent_named(self._name)
        view = layout.view()
        rests = [self._weighted(layout, move, 1.0) for move in moves]
        results, report = agent.solve(rests, view, self._share(_BOUND_SHARE))
        self.bound = float(report.bound)
        kept = {one.number for one in self._movable}
        if kept & self.asked:
            rests = [self._weighted(layout, move, _eagerness(move.promise)) for move in moves]
            results, _ = agent.solve(rests, view, self._share(_PLAN_SHARE))
        return self._completed(layout, zip(moves, results, strict=True))

    def _share(self, share: float) -> Limits:
        limits = self._limits
        return limits if limits.time_s is None else replace(limits, time_s=limits.time_s * share)

    @staticmethod
    def _weighted(layout: Layout, move: Move, factor: float) -> Request:
        """Return what is left of a promise, worth `factor` times what the whole of it is."""
        rest = move.remainder.request
        assert rest is not None
        size = size_of(rest.graph, layout.plan.cluster.nominal)
        return replace(rest, weight=factor * move.promise.value / size if size else 0.0)

    def _completed(
        self, layout: Layout, answers: Iterable[tuple[Move, PlacementResult]]
    ) -> Best | None:
        """Return what a solver placed, with whom it left out placed beside; None if one is not."""
        for move, result in answers:
            whole = move.whole(result)
            if whole.placed:
                layout.take(move.promise, whole)
        for one in self._movable:
            if one.number in layout.lifted and not layout.put_back(one):
                moves = self._search.moves.plain(layout, one)
                if not any(layout.place(move, self._search.placers[0]) for move in moves):
                    return None
        return self._search.judged(layout, self._name)


def _eagerness(promise: Promise) -> float:
    """Return how much more than its value a promise counts for the solver."""
    waits = promise.state in (State.REFUSED, State.DEGRADED)
    return 1.0 if waits else _KEEPING
