"""A solver alongside the search: finds a bound and a plan without losing any reservation.

The solver places all movable and waiting commitments on a Plan with the rest. Reservations that
have an allocation must be placed: the solver has this as a constraint and starts from their current
places. So the bound applies to plans that keep all of these reservations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.agent import Limits, MustKeep, SolveProgress, SolverAgent
from planner.agents import agent_named
from planner.agents.check import check_plan
from planner.capacity.snapshot import PlanSnapshot
from planner.optimization.movable_plan import Costed, MovablePlan
from planner.placement import Code, PlacementResult
from planner.renegotiation import result_of_rows
from planner.replanning.commitment import Move, move_of
from planner.replanning.draft_plan import DraftPlan
from planner.request import Request
from planner.reservations.reservation import Rows
from planner.reservations.rows import subtract
from planner.value import preference_losses, size_of
from rdl.compound import vertices_by_path
from rdl.resources import Resources

#: Fraction of the time for the solver.
_SHARE: Final = 0.6

_REFUSED: Final = PlacementResult(Code.CAPACITY)


@dataclass(slots=True)
class _Question:
    """The input of a solver.

    Attributes
    ----------
    draft
        Contains everything that the solver does not place.
    moves, rests, standing
        One per commitment: its move, the part to place, and that part's current placement.
    kept
        Indexes of commitments that must be placed.
    aside
        Maximum value of commitments that are left out.
    """

    draft: DraftPlan
    moves: list[Move] = field(default_factory=list)
    rests: list[Request] = field(default_factory=list)
    standing: list[PlacementResult] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    aside: float = 0.0


class SolverStep:
    """One run of a solver over all movable commitments.

    Parameters
    ----------
    name
        Name of the agent.
    tell
        Called with each new bound on the value of the search's commitments, from any thread.
    offer
        Called when the solver has a better plan, from any thread, with a function that completes it
        as `run` would.

    Attributes
    ----------
    bound
        Bound on the value of the search's commitments in any plan that keeps all reservations.
    pooled
        Value of the solver's plan, which considers only totals.
    """

    def __init__(
        self,
        search: MovablePlan,
        name: str,
        limits: Limits,
        tell: Callable[[float], None],
        offer: Callable[[Callable[[], Costed | None]], None],
    ) -> None:
        self._search, self._name, self._limits = search, name, limits
        self._tell, self._offer = tell, offer
        self.pooled = 0.0
        self.bound = sum(search.cost_model.requested_value(one) for one in search.commitments)

    def run(self, start: DraftPlan) -> Costed | None:
        """Return the solver's plan, or None if a reservation has no place in it."""
        question = self._question(start)
        if not question.moves:
            self.bound = min(self.bound, question.aside)
            return None
        results = self._solve(start, question)
        return self._complete(start, question, results)

    def _solve(self, start: DraftPlan, question: _Question) -> Sequence[PlacementResult]:
        """Return the solver's placements, and lower the bound."""
        agent = agent_named(self._name)
        if not isinstance(agent, SolverAgent):
            raise ValueError(f"{self._name} is not a solver: it proves no bound")
        must_keep = MustKeep(frozenset(question.kept), question.standing)
        limits = self._share(self._news_of(start, question))
        # A copy, because better plans are completed on the shared draft while the solver reads this
        # view.
        view = PlanSnapshot(question.draft.ledger.copy(), start.plan.version)
        results, report = agent.solve(question.rests, view, limits, must_keep)
        self._lower(question.aside + report.bound)
        if all(results[index].placed for index in question.kept):
            self.pooled = min(self.bound, question.aside + report.value)
        return results

    def _lower(self, bound: float) -> None:
        if bound < self.bound:
            self.bound = bound
            self._tell(bound)

    def _news_of(self, start: DraftPlan, question: _Question) -> Callable[[SolveProgress], None]:
        """Return a callback for the solver that lowers the bound and offers better plans."""
        best = 0.0

        def news(one: SolveProgress) -> None:
            nonlocal best
            self._lower(question.aside + one.bound)
            if one.results is None or one.value <= best:
                return
            best, results = one.value, one.results

            def complete() -> Costed | None:
                own = replace(question, draft=question.draft.copy())
                return self._complete(start, own, results)

            self._offer(complete)

        return news

    def _share(self, news: Callable[[SolveProgress], None]) -> Limits:
        limits = replace(self._limits, news=news)
        return limits if limits.time_s is None else replace(limits, time_s=limits.time_s * _SHARE)

    def _question(self, start: DraftPlan) -> _Question:
        """Return the solver's input: waiting commitments, and reservations that can move.

        A reservation that cannot move keeps its place. A reservation whose current placement the
        solver could not produce (rows were released, for example) is removed and left out: its full
        value counts, so that the bound stays valid.
        """
        draft, cost_model = start.copy(), self._search.cost_model
        found = _Question(draft)
        for one in self._search.commitments:
            move = move_of(start.plan, one)
            kept = one.number not in start.lifted
            if not isinstance(move, Move) or move.remainder.request is None:
                if any(self._search.moves.plain(start, one)):  # other rows than the whole
                    draft.lift(one)
                    found.aside += cost_model.requested_value(one)
                elif kept:
                    found.aside += self._search.value(start, one)
                continue
            standing = _rest_placement(start, move) if kept else _REFUSED
            if kept:
                draft.lift(one)
            if standing is None:
                found.aside += cost_model.requested_value(one)
                continue
            if kept:
                found.kept.append(len(found.moves))
            found.moves.append(move)
            found.rests.append(self._weigh(move))
            found.standing.append(standing)
        return self._without_unsound(found)

    def _without_unsound(self, found: _Question) -> _Question:
        """Leave out commitments whose current placement violates the current limits."""
        checked = check_plan(found.rests, found.standing, found.draft.view())
        kept = set(found.kept)
        bad = {index for index in kept if not checked[index].placed}
        if not bad:
            return found
        left = _Question(found.draft, aside=found.aside)
        for index, move in enumerate(found.moves):
            if index in bad:
                left.aside += self._search.cost_model.requested_value(move.commitment)
                continue
            if index in kept:
                left.kept.append(len(left.moves))
            left.moves.append(move)
            left.rests.append(found.rests[index])
            left.standing.append(checked[index])
        return left

    def _weigh(self, move: Move) -> Request:
        """Return the rest of a commitment, with the value of the whole.

        Final choices of options are not in the rest, so their preference is included here.
        """
        rest, cost_model = move.remainder.request, self._search.cost_model
        assert rest is not None
        size = size_of(rest.graph, cost_model.reference)
        value = cost_model.requested_value(move.commitment) * _worth_taken(
            move, cost_model.reference
        )
        return replace(rest, weight=value / size if size else 0.0)

    def _complete(
        self, start: DraftPlan, question: _Question, results: Iterable[PlacementResult]
    ) -> Costed | None:
        """Complete a solver's plan with left-out commitments; None if a reservation fails."""
        draft, search = question.draft, self._search
        kept, answers = set(question.kept), list(results)
        # If machines fit less than totals, started commitments come first, then all reservations,
        # then the most valuable; unstarted ones are assigned to machines jointly before any is
        # dropped.
        order = sorted(range(len(answers)), key=lambda i: (i not in kept, self._rank(question, i)))
        moves = [(question.moves[i].commitment, question.moves[i], answers[i]) for i in order]
        places = [(one, move.whole(answer)) for one, move, answer in moves]
        if not search.complete(draft, start, places):
            return None
        calmer = search.undo_needless_moves(draft.copy())
        found = [search.evaluate(one, self._name) for one in (draft, calmer)]
        return min(found, key=lambda one: one.score)

    def _rank(self, question: _Question, index: int) -> float:
        """Return a sort key: most valuable first."""
        return -self._search.cost_model.requested_value(question.moves[index].commitment)


def _rest_placement(start: DraftPlan, move: Move) -> PlacementResult | None:
    """Return the current placement of a commitment's rest; None if it is not a valid one."""
    rest = move.remainder.request
    assert rest is not None
    held: dict[str, Rows] = {}
    for atom in start.held_by(move.commitment.number).atoms:
        held.update(atom.occurrences())
    rows: dict[str, Rows] = {}
    for own in vertices_by_path(rest.graph):
        path = move.remainder.old_path(own)
        begun = move.fixed.get(path)
        there = held.get(path)
        if there is not None and begun is not None:
            there = subtract(there, begun.rows)
        if there is not None and len(there):
            rows[own] = there
    placed = result_of_rows(rest.graph, rows)
    return placed if move.whole(placed).placed else None


def _worth_taken(move: Move, reference: Resources) -> float:
    """Return the worth factor of the chosen options that the rest no longer contains."""
    rest, graph, choices = move.remainder.request, move.request.graph, move.commitment.choices
    assert rest is not None
    open_ = {move.remainder.old_path(path) for _, path, _ in rest.graph.options}
    taken = [
        vertex
        for vertex, path, option in graph.options
        if path not in open_ and choices.get(path) == option
    ]
    return 1.0 - math.fsum(preference_losses(graph, reference)[taken].tolist())
