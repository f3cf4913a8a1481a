"""The movable part of a Plan in an optimisation: costs of drafts, and new placements.

Commitments with an allocation keep their value: none takes an option of less value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from planner.agent import Agent
from planner.agents import agent_named
from planner.optimization.objective import CostModel, CostScale, Objective, PlanCost
from planner.placement import PlacementResult
from planner.replanning.commitment import Commitment, by_importance
from planner.replanning.draft_plan import DraftPlan
from planner.replanning.local_search import (
    SAME,
    Candidate,
    LocalSearch,
    Spans,
    accept_as_good_first,
    remove_a_few,
    remove_until_one_fits,
    unless_begun,
)
from planner.replanning.moves import CommitmentMoves
from planner.reservations.state import State
from planner.value import value_of

#: Agents that place removed commitments; each finds different places.
_PLACERS: Final = ("portfolio", "gree-l", "gree", "earliest", "aligned")

#: Share of trials that free capacity for a waiting commitment, while there is one.
_MAKE_ROOM: Final = 0.85

#: Probability that a removed commitment tries its previous place first.
_BACK: Final = 0.5

#: A draft with its cost.
Costed: TypeAlias = Candidate[PlanCost]


@dataclass(slots=True)
class MovablePlan:
    """The movable commitments of one Plan.

    Attributes
    ----------
    commitments
        All movable commitments: reservations, and waiting ones (refused or degraded).
    fixed
        Cost of all immovable commitments.
    """

    commitments: Sequence[Commitment]
    objective: Objective
    cost_model: CostModel
    scale: CostScale
    moves: CommitmentMoves
    fixed: PlanCost
    placers: tuple[Agent, ...] = field(
        default_factory=lambda: tuple(agent_named(name) for name in _PLACERS)
    )

    def evaluate(self, draft: DraftPlan, source: str) -> Costed:
        """Return a draft with its score."""
        cost = sum((self._cost(draft, one) for one in self.commitments), self.fixed)
        return Candidate(draft, cost, self.objective.score(cost, self.scale), source)

    def update(self, current: Costed, draft: DraftPlan, changed: Sequence[Commitment]) -> Costed:
        """Return a draft with its score, computed from a candidate and the changed commitments."""
        cost = current.cost
        for one in changed:
            cost += self._cost(draft, one) - self._cost(current.draft, one)
        return Candidate(draft, cost, self.objective.score(cost, self.scale), "search")

    def _cost(self, draft: DraftPlan, commitment: Commitment) -> PlanCost:
        waits = commitment.number in draft.lifted
        held = None if waits else draft.held_by(commitment.number)
        return self.cost_model.cost_of(commitment, held, self.value(draft, commitment))

    def value(self, draft: DraftPlan, commitment: Commitment) -> float:
        """Return a commitment's value at its current options; 0 if it waits."""
        if commitment.number in draft.lifted:
            return 0.0
        moved = draft.moved.get(commitment.number)
        request = commitment.request
        if moved is None or request is None or not request.graph.options:
            return commitment.value
        return value_of(request, moved[1].choices, self.cost_model.reference)

    def take(self, draft: DraftPlan, commitment: Commitment, whole: PlacementResult) -> bool:
        """Place a removed commitment as given if that fits and its value does not fall."""
        if not whole.placed or not draft.take(commitment, whole):
            return False
        return self._keeps_value(draft, commitment)

    def complete(
        self,
        draft: DraftPlan,
        start: DraftPlan,
        places: Sequence[tuple[Commitment, PlacementResult]],
    ) -> bool:
        """Place removed commitments at their given places or elsewhere.

        Started commitments come first; the rest is assigned to machines jointly, then in order. A
        commitment that was placed at the start and still has no place returns to its old place,
        goes elsewhere, or displaces a newcomer; waiting ones are placed last.

        Returns
        -------
        bool
            Whether all commitments placed at the start have a place.
        """
        for one, result in places:
            if one.started:
                self.take(draft, one, result)
        together = [pair for pair in places if pair[1].placed and not pair[0].started]
        for one in draft.take_together(together):
            self._keeps_value(draft, one)
        for one, result in places:
            if one.number in draft.lifted:
                self.take(draft, one, result)
        agent = self.placers[0]
        for one in self.commitments:
            if one.number in draft.lifted and one.number not in start.lifted:
                placed = draft.put_back(one) or self.place(draft, one, agent)
                if not (placed or self.make_way(draft, one)):
                    return False
        wanted = {one.number for one, result in places if result.placed}
        for one in by_importance(self.commitments):
            if one.number in draft.lifted and (draft.has_machines or one.number in wanted):
                self.place(draft, one, agent)
        return True

    def place(self, draft: DraftPlan, commitment: Commitment, agent: Agent) -> bool:
        """Find a place for a removed commitment at which its value does not fall."""
        if commitment.number < 0 and draft.places(commitment.number):
            return draft.admit(commitment, agent)
        moves = self.moves.plain(draft, commitment)
        return any(
            draft.place(move, agent) and self._keeps_value(draft, commitment) for move in moves
        )

    def make_way(self, draft: DraftPlan, commitment: Commitment) -> bool:
        """Restore a removed reservation, displacing newcomers, the least important first."""
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
        """Return a draft in which needlessly moved commitments have their old rows.

        A solver places everything again, although most of it fits where it was. First all are moved
        back together, because some have only swapped places; then one by one.
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
        """Return whether a commitment has old rows to return to."""
        return commitment.state not in (State.REFUSED, State.DEGRADED)

    def _keeps_value(self, draft: DraftPlan, commitment: Commitment) -> bool:
        """Return whether a commitment's value did not fall; if it did, remove it again."""
        least = commitment.value * (1 - SAME)
        if not self.has_place(commitment) or self.value(draft, commitment) >= least:
            return True
        draft.lift(commitment)
        return False

    def search(
        self,
        best: Costed,
        is_over: Callable[[], bool],
        report: Callable[[Costed], None],
        seed: int,
    ) -> tuple[Costed, int]:
        """Return the best draft found until `is_over`, and the number of trials."""
        if not self.commitments:
            return best, 0
        search = LocalSearch(
            self,
            self.waiting,
            Spans.of(self.commitments),
            self.place,
            self.placers,
            ((_MAKE_ROOM, remove_until_one_fits), (1 - _MAKE_ROOM, remove_a_few)),
            np.random.default_rng(seed),
            accept_as_good_first,
            back=(_BACK,),
            may_remove=unless_begun,
        )
        best = search.run(best, is_over, report)
        if best.source == "search":
            calmer = self.evaluate(self.undo_needless_moves(best.draft.copy()), "search")
            best = min(best, calmer, key=lambda one: one.score)
        return best, search.trials

    def waiting(self, draft: DraftPlan) -> list[Commitment]:
        """Return the waiting commitments of a draft."""
        return [one for one in self.commitments if one.number in draft.lifted]
