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
        held = None if waits else draft.holding_of(commitment)
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

    def place(self, draft: DraftPlan, commitment: Commitment, agent: Agent) -> bool:
        """Find a lifted commitment a place that is worth no less than its own."""
        moves = self.moves.plain(draft, commitment)
        return any(
            draft.place(move, agent) and self._keeps_value(draft, commitment) for move in moves
        )

    def undo_needless_moves(self, draft: DraftPlan) -> DraftPlan:
        """Return a draft in which what moved without need has its rows back.

        A solver places everything anew; most of it has room where it was. First all go back at
        once, for some have only swapped their places; then one after the other.
        """
        together = draft.copy()
        movers = [(one, result) for one, result, _ in draft.moved.values() if self._has_place(one)]
        for one, _ in movers:
            together.lift(one)
        away = [pair for pair in movers if not together.put_back(pair[0])]
        agent = self.placers[0]
        if all(together.take(*pair) or self.place(together, pair[0], agent) for pair in away):
            draft = together
        restless = True
        while restless:
            restless = False
            for commitment, result, _ in list(draft.moved.values()):
                if (
                    not self._has_place(commitment)
                    or self.value(draft, commitment) > commitment.value
                ):
                    continue
                trial = draft if draft.machines is None else draft.copy()
                trial.lift(commitment)
                if trial.put_back(commitment):
                    draft, restless = trial, True
                elif trial is draft and not draft.take(commitment, result):
                    raise RuntimeError(f"{commitment.id} lost its place though nothing took it")
        return draft

    @staticmethod
    def _has_place(commitment: Commitment) -> bool:
        """Return whether a commitment has rows of its own to go back to."""
        return commitment.state not in (State.REFUSED, State.DEGRADED)

    def _keeps_value(self, draft: DraftPlan, commitment: Commitment) -> bool:
        """Return whether a commitment is worth no less than before; if not, lift it again."""
        least = commitment.value * (1 - _SAME)
        if not self._has_place(commitment) or self.value(draft, commitment) >= least:
            return True
        draft.lift(commitment)
        return False

    def improve(
        self, best: Candidate, over: Callable[[], bool], tell: Callable[[Candidate], None]
    ) -> tuple[Candidate, int]:
        """Return the best found until `over`, and how many trials that took."""
        trials = 0
        while self.commitments and not over():
            trials += 1
            found = self._trial(best)
            if found is not None and found.score < best.score:
                best = found
                tell(best)
        return best, trials

    def _trial(self, best: Candidate) -> Candidate | None:
        """Lift a few commitments, place them again; None where one that was kept has no place."""
        draft = best.draft.copy()
        chosen = self._choose(draft)
        owed = [one for one in chosen if one.number not in draft.lifted]
        touched = sum((self._cost(draft, one) for one in chosen), PlanCost())
        for one in owed:
            draft.lift(one)
        agent = self.placers[int(self.draw.integers(len(self.placers)))]
        for one in self._order(chosen):
            placed = self._place(draft, one, agent)
            if not placed and one in owed:
                return None
        later = sum((self._cost(draft, one) for one in chosen), PlanCost())
        cost = best.cost - touched + later
        return Candidate(draft, cost, self.objective.score(cost, self.scale), "search")

    def _choose(self, draft: DraftPlan) -> list[Commitment]:
        """Return a waiting commitment and some around it, or some that stand near each other."""
        waiting = [one for one in self.commitments if one.number in draft.lifted]
        moved = [one for one in self.commitments if one.number in draft.moved]
        draw = self.draw
        pools = [pool for pool in (waiting, waiting, moved, self.commitments) if pool]
        pool = pools[int(draw.integers(len(pools)))]
        seed = pool[int(draw.integers(len(pool)))]
        low, high = window_of(seed, draft.plan)
        near = [
            one
            for one in self.commitments
            if one.number != seed.number
            and one.number not in draft.lifted
            and draft.holding_of(one).finish > low
            and draft.holding_of(one).begin < high
        ]
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
