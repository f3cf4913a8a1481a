"""Ruin and recreate over the commitments of a Plan: lift a few, place them again, keep the better.

Commitments that hold something keep it: a trial in which one of them finds no place is thrown away.
So a refused request comes in only where all the others still fit.
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
from planner.reservations.state import State
from planner.value import value_of

#: Agents that place what was lifted; each finds other places.
_PLACERS = ("portfolio", "gree-l", "gree", "earliest", "aligned")

#: Part of a value that rounding may lose.
_SAME = 1e-9

#: Most commitments lifted in one trial.
_MOST_LIFTED = 5

#: Most that make way for one that waits.
_MOST_IN_THE_WAY = 8

#: Part of the trials that look for room for one that waits, while any does.
_FOR_ONE_THAT_WAITS = 0.85


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

    draft: DraftPlan
    cost: PlanCost
    score: tuple[float, ...]
    source: str = "plan"


@dataclass(slots=True)
class NeighbourhoodSearch:
    """One search over one Plan.

    Attributes
    ----------
    commitments
        All that may move: reservations, and what waits (refused or degraded).
    fixed
        Cost of all that may not.
    """

    commitments: Sequence[Commitment]
    objective: Objective
    cost_model: CostModel
    scale: CostScale
    moves: CommitmentMoves
    fixed: PlanCost
    draw: np.random.Generator
    placers: tuple[Agent, ...] = field(
        default_factory=lambda: tuple(agent_named(name) for name in _PLACERS)
    )

    def evaluate(self, draft: DraftPlan, source: str) -> Candidate:
        """Return a draft with its score."""
        cost = self.fixed
        for commitment in self.commitments:
            cost += self._cost(draft, commitment)
        return Candidate(draft, cost, self.objective.score(cost, self.scale), source)

    def _cost(self, draft: DraftPlan, commitment: Commitment) -> PlanCost:
        waits = commitment.number in draft.lifted
        held = None if waits else draft.held_by(commitment.number)
        return self.cost_model.cost_of(commitment, held, self.value(draft, commitment))

    def value(self, draft: DraftPlan, commitment: Commitment) -> float:
        """Return what a commitment is worth where it stands, by its options; 0 if it waits."""
        if commitment.number in draft.lifted:
            return 0.0
        moved = draft.moved.get(commitment.number)
        request = commitment.request
        if moved is None or request is None or not request.graph.options:
            return commitment.value
        return value_of(request, moved[1].choices, self.cost_model.reference)

    def take(self, draft: DraftPlan, commitment: Commitment, whole: PlacementResult) -> bool:
        """Give a lifted commitment another place, if it fits and is worth no less than its own."""
        if not whole.placed or not draft.take(commitment, whole):
            return False
        return self._keeps_value(draft, commitment)

    def take_together(
        self, draft: DraftPlan, wanted: Sequence[tuple[Commitment, PlacementResult]]
    ) -> None:
        """Give lifted commitments other places where they fit together and lose no value."""
        for one in draft.take_together(pair for pair in wanted if pair[1].placed):
            self._keeps_value(draft, one)

    def place(self, draft: DraftPlan, commitment: Commitment, agent: Agent) -> bool:
        """Find a lifted commitment a place that is worth no less than its own."""
        moves = self.moves.plain(draft, commitment)
        return any(
            draft.place(move, agent) and self._keeps_value(draft, commitment) for move in moves
        )

    def make_way(self, draft: DraftPlan, commitment: Commitment) -> bool:
        """Put a lifted reservation back; newcomers in its way are lifted, the least first."""
        before = commitment.before
        newcomers = [one for one, _, _ in draft.moved.values() if one.number < 0]
        for other in sorted(newcomers, key=lambda one: one.importance):
            held = draft.held_by(other.number)
            if held.begin < before.finish and held.finish > before.begin:
                draft.lift(other)
                if draft.put_back(commitment):
                    return True
        return False

    def undo_needless_moves(self, draft: DraftPlan) -> DraftPlan:
        """Return a draft in which what moved without need has its rows back.

        A solver places everything anew; most of it has room where it was. First all go back at
        once, for some have only swapped their places; then one after the other.
        """
        together = draft.copy()
        movers = [(one, result) for one, result, _ in draft.moved.values() if self.has_place(one)]
        for one, _ in movers:
            together.lift(one)
        away = [pair for pair in movers if not together.put_back(pair[0])]
        agent = self.placers[0]
        if all(together.take(*pair) or self.place(together, pair[0], agent) for pair in away):
            draft = together
        restless = True
        while restless:
            restless = False
            for commitment, _, _ in list(draft.moved.values()):
                if (
                    not self.has_place(commitment)
                    or self.value(draft, commitment) > commitment.value
                ):
                    continue
                trial = draft.copy()
                trial.lift(commitment)
                if trial.put_back(commitment):
                    draft, restless = trial, True
        return draft

    @staticmethod
    def has_place(commitment: Commitment) -> bool:
        """Return whether a commitment has rows of its own to go back to."""
        return commitment.state not in (State.REFUSED, State.DEGRADED)

    def _keeps_value(self, draft: DraftPlan, commitment: Commitment) -> bool:
        """Return whether a commitment is worth no less than before; if not, lift it again."""
        least = commitment.value * (1 - _SAME)
        if not self.has_place(commitment) or self.value(draft, commitment) >= least:
            return True
        draft.lift(commitment)
        return False

    def improve(
        self, best: Candidate, over: Callable[[], bool], tell: Callable[[Candidate], None]
    ) -> tuple[Candidate, int]:
        """Return the best found until `over`, and how many trials that took.

        The search goes on from what is no worse in what counts first, so that it drifts where
        nothing better is near.
        """
        trials, current = 0, best
        while self.commitments and not over():
            trials += 1
            found = self._trial(current)
            if found is None:
                continue
            if found.score[0] <= current.score[0]:
                current = found
            if found.score < best.score:
                best = current = found
                tell(best)
        return self._calmer(best), trials

    def _calmer(self, best: Candidate) -> Candidate:
        """Return what was found without moves that nothing needs, where that is better."""
        if best.source != "search":
            return best
        found = self.evaluate(self.undo_needless_moves(best.draft.copy()), "search")
        return min(best, found, key=lambda one: one.score)

    def _trial(self, current: Candidate) -> Candidate | None:
        """Lift a few commitments, place them again; None where one that was kept has no place."""
        draft, draw = current.draft.copy(), self.draw
        waiting = [one for one in self.commitments if one.number in draft.lifted]
        agent = self.placers[int(draw.integers(len(self.placers)))]
        placed: list[Commitment] = []
        if waiting and draw.random() < _FOR_ONE_THAT_WAITS:
            placed = [waiting[int(draw.integers(len(waiting)))]]
            lifted = self._lift_until_it_fits(draft, placed[0], agent)
            if lifted is None:
                return None
        else:
            lifted = self._choose(draft)
        owed = {one.number for one in lifted if one.number not in current.draft.lifted}
        chosen = [*placed, *lifted]
        touched = sum((self._cost(current.draft, one) for one in chosen), PlanCost())
        for one in lifted:
            if one.number not in draft.lifted:
                draft.lift(one)
        for one in self._order(lifted):
            if not self._place(draft, one, agent) and one.number in owed:
                return None
        later = sum((self._cost(draft, one) for one in chosen), PlanCost())
        cost = current.cost - touched + later
        return Candidate(draft, cost, self.objective.score(cost, self.scale), "search")

    def _lift_until_it_fits(
        self, draft: DraftPlan, wanted: Commitment, agent: Agent
    ) -> list[Commitment] | None:
        """Lift what stands in its window, until a commitment that waits has a place; or None."""
        near = [one for one in self._near(draft, wanted) if not one.started]
        order = self.draw.permutation(len(near))[:_MOST_IN_THE_WAY].tolist()
        at_once = int(self.draw.integers(1, 4))
        lifted: list[Commitment] = []
        while not self.place(draft, wanted, agent):
            more = order[len(lifted) : len(lifted) + at_once]
            if not more:
                return None
            for index in more:
                draft.lift(near[index])
                lifted.append(near[index])
        return lifted

    def _near(self, draft: DraftPlan, seed: Commitment) -> list[Commitment]:
        """Return all others that stand in a commitment's window."""
        low, high = window_of(seed, draft.plan)
        return [
            one
            for one in self.commitments
            if one.number != seed.number
            and one.number not in draft.lifted
            and draft.held_by(one.number).finish > low
            and draft.held_by(one.number).begin < high
        ]

    def _choose(self, draft: DraftPlan) -> list[Commitment]:
        """Return a waiting commitment and some around it, or some that stand near each other."""
        waiting = [one for one in self.commitments if one.number in draft.lifted]
        moved = [one for one in self.commitments if one.number in draft.moved]
        draw = self.draw
        pools = [pool for pool in (waiting, waiting, moved, self.commitments) if pool]
        pool = pools[int(draw.integers(len(pools)))]
        seed = pool[int(draw.integers(len(pool)))]
        near = self._near(draft, seed)
        count = min(len(near), int(draw.integers(0, _MOST_LIFTED)))
        picked = draw.choice(len(near), size=count, replace=False).tolist() if count else []
        return [seed, *(near[index] for index in picked)]

    def _order(self, chosen: Sequence[Commitment]) -> list[Commitment]:
        """Return an order to place them in: as chosen, the most important first, or any."""
        kind = int(self.draw.integers(3))
        if kind == 0:
            return list(chosen)
        if kind == 1:
            return sorted(
                chosen, key=lambda one: one.importance[:2], reverse=True
            )  # ties as chosen
        return [chosen[index] for index in self.draw.permutation(len(chosen)).tolist()]

    def _place(self, draft: DraftPlan, commitment: Commitment, agent: Agent) -> bool:
        """Place a commitment where it was or elsewhere."""
        known = commitment.state not in (State.REFUSED, State.DEGRADED)
        if known and self.draw.random() < 0.5 and draft.put_back(commitment):
            return True
        if self.place(draft, commitment, agent):
            return True
        return known and draft.put_back(commitment)
