"""Ruin and recreate over the promises of a Plan: lift a few, place them again, keep what is better.

Promises that hold something keep it: a trial in which one of them finds no place is thrown away. So
a refused request comes in only where all the others still fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.adaptation.repair import window_of
from planner.agent import Agent
from planner.agents import agent_named
from planner.optimization.objective import CostModel, CostScale, Objective, PlanCost
from planner.placement import PlacementResult
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan
from planner.replanning.moves import CommitmentMoves
from planner.reservation_state import State
from planner.value import value_of

#: Agents that place what was lifted; each finds other places.
_PLACERS = ("portfolio", "gree-l", "gree", "earliest", "aligned")

#: Part of a value that rounding may lose.
_SAME = 1e-9

#: Most promises lifted in one trial.
_MOST_LIFTED = 5


@dataclass(slots=True)
class Candidate:
    """A draft of the Plan with its score.

    Attributes
    ----------
    score
        Less is better.
    source
        What found it.
    """

    layout: DraftPlan
    cost: PlanCost
    score: tuple[float, ...]
    source: str = "plan"


@dataclass(slots=True)
class NeighbourhoodSearch:
    """One search over one Plan.

    Attributes
    ----------
    promises
        All that may move: reservations, and what waits (refused or degraded).
    fixed
        Cost of all that may not.
    """

    promises: Sequence[Commitment]
    objective: Objective
    cost_model: CostModel
    scale: CostScale
    moves: CommitmentMoves
    fixed: PlanCost
    draw: np.random.Generator
    placers: tuple[Agent, ...] = field(
        default_factory=lambda: tuple(agent_named(name) for name in _PLACERS)
    )

    def evaluate(self, layout: DraftPlan, source: str) -> Candidate:
        """Return a layout with its score."""
        cost = self.fixed
        for promise in self.promises:
            cost += self._cost(layout, promise)
        return Candidate(layout, cost, self.objective.score(cost, self.scale), source)

    def _cost(self, layout: DraftPlan, promise: Commitment) -> PlanCost:
        waits = promise.number in layout.lifted
        held = None if waits else layout.held(promise)
        return self.cost_model.cost_of(promise, held, self.value(layout, promise))

    def value(self, layout: DraftPlan, promise: Commitment) -> float:
        """Return what a promise is worth where it stands, by the options taken; 0 if it waits."""
        if promise.number in layout.lifted:
            return 0.0
        moved = layout.moved.get(promise.number)
        request = promise.request
        if moved is None or request is None or not request.graph.options:
            return promise.value
        return value_of(request, moved[1].choices, self.cost_model.nominal)

    def take(self, layout: DraftPlan, promise: Commitment, whole: PlacementResult) -> bool:
        """Give a lifted promise another place, if it fits and is worth no less than its own."""
        if not whole.placed or not layout.take(promise, whole):
            return False
        return self._keeps_value(layout, promise)

    def place(self, layout: DraftPlan, promise: Commitment, agent: Agent) -> bool:
        """Find a lifted promise a place that is worth no less than its own."""
        moves = self.moves.plain(layout, promise)
        return any(
            layout.place(move, agent) and self._keeps_value(layout, promise) for move in moves
        )

    def undo_needless_moves(self, layout: DraftPlan) -> DraftPlan:
        """Return a layout in which what moved without need has its rows back.

        A solver places everything anew; most of it has room where it was. First all go back at
        once, for some have only swapped their places; then one after the other.
        """
        together = layout.copy()
        movers = [(one, result) for one, result, _ in layout.moved.values() if self._has_place(one)]
        for one, _ in movers:
            together.lift(one)
        away = [pair for pair in movers if not together.put_back(pair[0])]
        agent = self.placers[0]
        if all(together.take(*pair) or self.place(together, pair[0], agent) for pair in away):
            layout = together
        restless = True
        while restless:
            restless = False
            for promise, result, _ in list(layout.moved.values()):
                if not self._has_place(promise) or self.value(layout, promise) > promise.value:
                    continue
                layout.lift(promise)
                if layout.put_back(promise):
                    restless = True
                elif not layout.take(promise, result):
                    raise RuntimeError(f"{promise.id} lost its place though nothing took it")
        return layout

    @staticmethod
    def _has_place(promise: Commitment) -> bool:
        """Return whether a promise has rows of its own to go back to."""
        return promise.state not in (State.REFUSED, State.DEGRADED)

    def _keeps_value(self, layout: DraftPlan, promise: Commitment) -> bool:
        """Return whether a promise is worth no less than before; one worth less is lifted again."""
        least = promise.value * (1 - _SAME)
        if not self._has_place(promise) or self.value(layout, promise) >= least:
            return True
        layout.lift(promise)
        return False

    def improve(
        self, best: Candidate, over: Callable[[], bool], tell: Callable[[Candidate], None]
    ) -> tuple[Candidate, int]:
        """Return the best found until `over`, and how many trials that took."""
        trials = 0
        while self.promises and not over():
            trials += 1
            found = self._trial(best)
            if found is not None and found.score < best.score:
                best = found
                tell(best)
        return best, trials

    def _trial(self, best: Candidate) -> Candidate | None:
        """Lift a few promises and place them again; None where one that was kept finds no place."""
        layout = best.layout.copy()
        chosen = self._chosen(layout)
        owed = [one for one in chosen if one.number not in layout.lifted]
        touched = sum((self._cost(layout, one) for one in chosen), PlanCost())
        for one in owed:
            layout.lift(one)
        agent = self.placers[int(self.draw.integers(len(self.placers)))]
        for one in self._ordered(chosen):
            placed = self._place(layout, one, agent)
            if not placed and one in owed:
                return None
        later = sum((self._cost(layout, one) for one in chosen), PlanCost())
        cost = best.cost - touched + later
        return Candidate(layout, cost, self.objective.score(cost, self.scale), "search")

    def _chosen(self, layout: DraftPlan) -> list[Commitment]:
        """Return a waiting promise and some around it, or some that stand near each other."""
        waiting = [one for one in self.promises if one.number in layout.lifted]
        moved = [one for one in self.promises if one.number in layout.moved]
        draw = self.draw
        pools = [pool for pool in (waiting, waiting, moved, self.promises) if pool]
        pool = pools[int(draw.integers(len(pools)))]
        seed = pool[int(draw.integers(len(pool)))]
        low, high = window_of(seed, layout.plan)
        near = [
            one
            for one in self.promises
            if one.number != seed.number
            and one.number not in layout.lifted
            and layout.held(one).finish > low
            and layout.held(one).begin < high
        ]
        count = min(len(near), int(draw.integers(0, _MOST_LIFTED)))
        picked = draw.choice(len(near), size=count, replace=False).tolist() if count else []
        return [seed, *(near[index] for index in picked)]

    def _ordered(self, chosen: Sequence[Commitment]) -> list[Commitment]:
        """Return an order to place them in: as chosen, the most valuable first, or any."""
        kind = int(self.draw.integers(3))
        if kind == 0:
            return list(chosen)
        if kind == 1:
            return sorted(chosen, key=lambda one: -one.value)
        return [chosen[index] for index in self.draw.permutation(len(chosen)).tolist()]

    def _place(self, layout: DraftPlan, promise: Commitment, agent: Agent) -> bool:
        """Place a promise where it was or elsewhere."""
        known = promise.state not in (State.REFUSED, State.DEGRADED)
        if known and self.draw.random() < 0.5 and layout.put_back(promise):
            return True
        if self.place(layout, promise, agent):
            return True
        return known and layout.put_back(promise)
