"""Fit an optimisation to a Plan that has moved on, with other places where one is taken.

A reservation whose new place is taken goes elsewhere, or stays where it stands; an admission that
it drives out looks for another place last, the most valuable first. No reservation is in danger: to
stay where all stand is always possible.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Final

import numpy as np

from planner.adaptation.draft_slots import show_machines
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.optimization.candidates import refused_commitment
from planner.optimization.change_value import is_useless
from planner.optimization.feasible_part import (
    FeasiblePart,
    feasible_part,
    id_of_change,
    limit_conflict,
    limited_admissions,
)
from planner.optimization.neighbourhood import Candidate, NeighbourhoodSearch
from planner.optimization.objective import CostModel, CostScale, Objective, PlanCost
from planner.placement import Code, PlacementResult
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Degrade, Update
from planner.replanning.commitment import Commitment, commitment_of
from planner.replanning.draft_plan import DraftPlan, shortage_of
from planner.replanning.moves import CommitmentMoves
from planner.reservations.state import State
from planner.value import PriceList

#: Seconds after which no other place is looked for any more.
_LONGEST_S: Final = 3.0

#: Trials in a row that find nothing better, after which the search ends.
_PATIENCE: Final = 400

_NOT_ADMITTED: Final = "its place is taken by now, and there is no other"
_NOT_MOVED: Final = (
    "it stays where it is: its new place is taken, or makes room for nothing any more"
)


def rebase(twin: Plan, changes: Sequence[Change], frozen_until: int) -> FeasiblePart:
    """Return the part of `changes` that a Plan takes, some of it elsewhere than it was found.

    Parameters
    ----------
    twin
        A copy of the Plan that is to take them; it is changed.
    frozen_until
        Step before which no row moves.
    """
    found = feasible_part(twin, changes)
    # Where machines are short, the repair has shared out what is left of them: no other places.
    if not found.left_out or any(isinstance(one, Degrade) for one in found.kept):
        return found
    if all(isinstance(changes[one.index], Degrade) for one in found.left_out):
        return found
    losses = {one.index: one for one in found.left_out if isinstance(changes[one.index], Degrade)}
    twin.advance_to(frozen_until)
    fits = frozenset(range(len(changes))) - {one.index for one in found.left_out}
    return _PlaceSearch(twin, changes, fits, losses).run() or found


@dataclass(slots=True)
class _Mover:
    """A move or an admission, with the commitment it gives a place."""

    index: int
    commitment: Commitment
    change: Admit | Update

    @property
    def result(self) -> PlacementResult:
        """The place that the optimisation found."""
        return self.change.result


@dataclass(slots=True)
class _PlaceSearch:
    """Looks for places for changes on a copy of a Plan.

    Attributes
    ----------
    fits
        Indexes of the changes that can be made together as they were found.
    losses
        Losses that are not made, and why, by their index.
    invalid
        Why a change has no meaning on the Plan, or is a loss that is not made, by its index.
    limited
        Indexes of admissions that policies on counts take only where fewer others are made.
    """

    twin: Plan
    changes: Sequence[Change]
    fits: frozenset[int]
    losses: InitVar[Mapping[int, Conflict]]
    invalid: dict[int, Conflict] = field(init=False)
    limited: frozenset[int] = field(init=False)
    _draft: DraftPlan = field(init=False)
    _search: NeighbourhoodSearch = field(init=False)
    _until: float = field(init=False)

    def __post_init__(self, losses: Mapping[int, Conflict]) -> None:
        """Begin with every reservation where it stands."""
        twin = self.twin
        invalid = {one.index: one for one in conflicts_but_for_room(twin, self.changes)}
        self.limited = limited_admissions(twin, self.changes, invalid)
        self.invalid = {i: one for i, one in invalid.items() if i not in self.limited}
        self.invalid |= losses
        self._draft = DraftPlan.of(twin)
        prices = PriceList(twin.cluster.price_factors(twin.grid))
        self._search = NeighbourhoodSearch(
            commitments=(),
            objective=Objective(lexicographic=True),
            cost_model=CostModel(twin.cluster, prices, twin.now),
            scale=CostScale(),
            moves=CommitmentMoves(twin, shortage_of(twin.ledger)),
            fixed=PlanCost(),
            draw=np.random.default_rng(0),
        )
        self._until = time.monotonic() + _LONGEST_S

    def run(self) -> FeasiblePart | None:
        """Return what can be made; None where a reservation does not fit even where it stands.

        There are two starts: all changes are made, and where a place is taken the mover goes
        elsewhere or stays; or only those that fit together are made. The search goes on from the
        start of more value.
        """
        movers = [one for one in map(self._mover, range(len(self.changes))) if one is not None]
        commitments = [one.commitment for one in movers if one.index not in self.limited]
        search = replace(self._search, commitments=commitments)
        starts = []
        for first in (frozenset(range(len(self.changes))), self.fits):
            self._draft = DraftPlan.of(self.twin)
            show_machines(self._draft, (one.commitment for one in movers))
            if self._start(movers, first):
                starts.append(search.evaluate(self._draft, "plan"))
        if not starts:
            return None
        self._draft = self._improve(search, min(starts, key=lambda one: one.score)).draft
        for one in movers:
            if isinstance(one.change, Update):
                self._undo_if_useless(one)
        return self._answer({one.index: one for one in movers})

    def _mover(self, index: int) -> _Mover | None:
        """Return a change with its commitment; None where it can no longer be planned."""
        change, twin = self.changes[index], self.twin
        commitment: Commitment | None = None
        if index in self.invalid or not isinstance(change, Admit | Update):
            return None
        if isinstance(change, Admit):
            refusal = twin.refusal(change.request.id)
            commitment = None if refusal is None else refused_commitment(twin, -1 - index, refusal)
        else:
            number = twin.table.number_of(change.id)
            commitment = None if number is None else commitment_of(twin, number)
        if commitment is None or commitment.request is None:
            return None
        return _Mover(index, commitment, change)

    def _start(self, movers: Sequence[_Mover], first: frozenset[int]) -> bool:
        """Give the changes of `first` (indexes) their places, then others what is left.

        Returns False where a reservation does not fit even where it stands.
        """
        draft = self._draft
        for one in movers:
            draft.lift(one.commitment)
        moves = [one for one in movers if isinstance(one.change, Update)]
        without_place = [one for one in moves if not self._place_move(one, one.index in first)]
        admissions = [one for one in movers if isinstance(one.change, Admit)]
        admissions.sort(key=lambda one: one.commitment.importance, reverse=True)
        for one in admissions:
            if one.index in first and one.index not in self.limited:
                draft.take(one.commitment, one.result)
        if not self._place_others(without_place, moves):
            return False
        for one in admissions:
            if one.commitment.number not in draft.lifted or self._limit_conflict(one, admissions):
                continue
            if not draft.take(one.commitment, one.result):
                self._place_elsewhere(one)
        return True

    def _place_move(self, one: _Mover, moves: bool) -> bool:
        """Give a reservation its new place, or else its old one; return whether it has one."""
        if moves:
            return self._draft.take(one.commitment, one.result)
        return one.commitment.state is not State.DEGRADED and self._draft.put_back(one.commitment)

    def _place_others(self, pending: Sequence[_Mover], moves: Sequence[_Mover]) -> bool:
        """Give reservations without a place another, or their old one, whatever is there by now.

        Returns False where one does not fit even there: policies were lowered under it, say.
        """
        by_number = {one.commitment.number: one for one in moves}
        queue = deque(pending)
        while queue:
            one = queue.popleft()
            if self._place_elsewhere(one) or one.commitment.state is State.DEGRADED:
                continue
            driven_out = self._return(one.commitment)
            if driven_out is None:
                return False
            # Admissions that were driven out wait until all reservations have a place.
            queue += [by_number[number] for number in driven_out if number in by_number]
        return True

    def _place_elsewhere(self, one: _Mover) -> bool:
        if time.monotonic() > self._until:
            return False
        return self._search.place(self._draft, one.commitment, agent_named(QUICK_SUBSTITUTE))

    def _return(self, commitment: Commitment) -> list[int] | None:
        """Put a reservation back where it stands; return the numbers it drives out, or None."""
        draft = self._draft
        out: list[tuple[Commitment, PlacementResult]] = []
        before = commitment.before
        # Admissions give way before any reservation has to move on, the least important first.
        moved = sorted(
            draft.moved.values(), key=lambda one: (one[0].number >= 0, one[0].importance[:2])
        )
        for other, result, held in moved:
            if draft.put_back(commitment):
                break
            if held.begin < before.finish and held.finish > before.begin:
                draft.lift(other)
                out.append((other, result))
        if commitment.number in draft.lifted and not draft.put_back(commitment):
            return None
        return [other.number for other, result in reversed(out) if not draft.take(other, result)]

    def _improve(self, search: NeighbourhoodSearch, best: Candidate) -> Candidate:
        """Lift a few and place them again while some wait, until that leads nowhere."""
        latest, trials = best, 0

        def note(better: Candidate) -> None:
            nonlocal latest, trials
            latest, trials = better, 0

        def is_over() -> bool:
            nonlocal trials
            trials += 1
            some_wait = any(one.number in latest.draft.lifted for one in search.commitments)
            return not some_wait or trials > _PATIENCE or time.monotonic() > self._until

        return search.improve(best, is_over, note)[0]

    def _undo_if_useless(self, one: _Mover) -> None:
        """Undo a move that is no better by itself and makes room for nothing."""
        moved = self._draft.moved.get(one.commitment.number)
        if moved is None or not is_useless(self.twin, replace(one.change, result=moved[1])):
            return
        trial = self._draft.copy()
        trial.lift(one.commitment)
        if trial.put_back(one.commitment):
            self._draft = trial

    def _limit_conflict(self, one: _Mover, others: Iterable[_Mover]) -> Conflict | None:
        """Return which `limits` policy a change breaks beside those that have a place, or None."""
        if not self.limited:
            return None
        made = (other.change for other in others if other.commitment.number in self._draft.moved)
        return limit_conflict(self.twin, one.index, one.change, made)

    def _answer(self, movers: Mapping[int, _Mover]) -> FeasiblePart:
        """Return the changes with the places they have now, and why others have none."""
        kept: list[Change] = []
        left: list[Conflict] = []
        for index, change in enumerate(self.changes):
            one = movers.get(index)
            moved = None if one is None else self._draft.moved.get(one.commitment.number)
            if one is not None and moved is not None:
                assert one.commitment.request is not None
                request, slots = (
                    one.commitment.request,
                    self._draft.slots(one.commitment.number),
                )
                kept.append(replace(one.change, request=request, result=moved[1], slots=slots))
                continue
            why = self.invalid.get(index)
            if why is None and one is not None and index in self.limited:
                why = self._limit_conflict(one, movers.values())
            detail = _NOT_ADMITTED if isinstance(change, Admit) else _NOT_MOVED
            left.append(why or Conflict(index, id_of_change(change), Code.CAPACITY, detail))
        return FeasiblePart(tuple(kept), tuple(left))
