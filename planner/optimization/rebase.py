"""What of an optimisation still fits a Plan that has moved on, with other places where one is gone.

Whoever was to move into a place that somebody else has taken goes elsewhere, or stays where it is;
then whoever was to come there has to go elsewhere too, and so on. Nobody who holds something is in
danger: to stay where all stand is always possible. Whoever was to come in and was driven out looks
for another place last, the most valuable first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Final

import numpy as np

from planner.optimization.candidates import refused_promise
from planner.optimization.change_value import is_idle
from planner.optimization.feasible_part import Rebased, still_fitting
from planner.optimization.neighbourhood import Candidate, NeighbourhoodSearch
from planner.optimization.objective import CostModel, CostScale, Objective, PlanCost
from planner.optimization.plan_copy import advance_to
from planner.optimization.request_limits import count_conflict, counted_out
from planner.placement import Code, PlacementResult
from planner.plan.changes import Admit, Change, Conflict, Degrade, Update
from planner.plan.plan import Plan
from planner.plan.prepare import conflicts_but_for_room
from planner.replanning.commitment import Commitment, promise_of
from planner.replanning.draft_plan import DraftPlan, shortage_of
from planner.replanning.moves import CommitmentMoves
from planner.reservation_state import State
from planner.value import PriceList

#: Seconds after which nobody is looked another place for any more.
_LONGEST_S: Final = 3.0

#: Trials in a row that find nothing better, after which the search ends.
_PATIENCE: Final = 400


def rebase(twin: Plan, changes: Sequence[Change], frozen_until: int) -> Rebased:
    """Return the part of `changes` that a Plan takes, some of it elsewhere than it was found.

    Parameters
    ----------
    twin
        A copy of the Plan that is to take them; it is changed.
    frozen_until
        Step before which no row moves.
    """
    found = still_fitting(twin, changes)
    # Where machines are short, the repair has shared out what is left of them: no other places.
    if not found.left_out or any(isinstance(one, Degrade) for one in found.kept):
        return found
    if all(isinstance(changes[one.index], Degrade) for one in found.left_out):
        return found
    spared = {one.index: one for one in found.left_out if isinstance(changes[one.index], Degrade)}
    advance_to(twin, frozen_until)
    fits = frozenset(range(len(changes))) - {one.index for one in found.left_out}
    return _Refit(twin, changes, fits, spared).fitting() or found


@dataclass(slots=True)
class _Asked:
    """One change and whom it is for."""

    index: int
    promise: Commitment
    change: Admit | Update

    @property
    def result(self) -> PlacementResult:
        return self.change.result


@dataclass(slots=True)
class _Refit:
    """Changes that are given places on a copy of a Plan.

    Attributes
    ----------
    fits
        Indexes of those that can be made together as they were found.
    spared
        Losses that are not made, and why, by their index.
    unfit
        Those that mean nothing there any more, losses that are not made among them.
    late
        Who comes in only where the policies on counts have room for it beside those that are made.
    """

    twin: Plan
    changes: Sequence[Change]
    fits: frozenset[int]
    spared: InitVar[Mapping[int, Conflict]]
    unfit: dict[int, Conflict] = field(init=False)
    late: frozenset[int] = field(init=False)
    _layout: DraftPlan = field(init=False)
    _search: NeighbourhoodSearch = field(init=False)
    _until: float = field(init=False)

    def __post_init__(self, spared: Mapping[int, Conflict]) -> None:
        """Begin with all where they stand."""
        twin = self.twin
        unfit = {one.index: one for one in conflicts_but_for_room(twin, self.changes)}
        self.late = counted_out(twin, self.changes, unfit)
        self.unfit = {i: one for i, one in unfit.items() if i not in self.late} | dict(spared)
        self._layout = DraftPlan.of(twin)
        prices = PriceList(twin.cluster.price_factors(twin.grid))
        account = CostModel(twin.cluster.nominal, prices, twin.now)
        units, moves = (
            CostScale(1.0, 1.0, 1.0, 1.0),
            CommitmentMoves(twin, shortage_of(twin.ledger)),
        )
        draw = np.random.default_rng(0)
        self._search = NeighbourhoodSearch((), Objective(), account, units, moves, PlanCost(), draw)
        self._until = time.monotonic() + _LONGEST_S

    def fitting(self) -> Rebased | None:
        """Return what can be made, wherever that is; None where somebody could not even stay.

        Two beginnings: all move as they were to, and who finds his place taken goes elsewhere or
        stays; or the part moves that fits as it is, and others stay. The search goes on from the
        one that holds more value.
        """
        asked = [one for one in map(self._asked, range(len(self.changes))) if one is not None]
        promises = [one.promise for one in asked if one.index not in self.late]
        search = replace(self._search, promises=promises, goal=Objective(lexicographic=True))
        begun = []
        for first in (frozenset(range(len(self.changes))), self.fits):
            self._layout = DraftPlan.of(self.twin)
            if self._begun(asked, first):
                begun.append(search.judged(self._layout, "plan"))
        if not begun:
            return None
        self._layout = self._searched(search, min(begun, key=lambda one: one.score)).layout
        for one in asked:
            if isinstance(one.change, Update):
                self._send_home(one)
        return self._told({one.index: one for one in asked})

    def _sent(self, one: _Asked, moves: bool) -> bool:
        """Give a mover the place that was found for it, or its own; return whether it has one."""
        if moves:
            return self._layout.take(one.promise, one.result)
        return one.promise.state is not State.DEGRADED and self._layout.put_back(one.promise)

    def _searched(self, search: NeighbourhoodSearch, best: Candidate) -> Candidate:
        """Lift a few and place them again while somebody waits, until that leads nowhere."""
        waiting, since = best, 0

        def tell(better: Candidate) -> None:
            nonlocal waiting, since
            waiting, since = better, 0

        def over() -> bool:
            nonlocal since
            since += 1
            some = any(one.number in waiting.layout.lifted for one in search.promises)
            return not some or since > _PATIENCE or time.monotonic() > self._until

        return search.improve(best, over, tell)[0]

    def _begun(self, asked: Sequence[_Asked], first: frozenset[int]) -> bool:
        """Give `first` (indexes) the places that were found for them, then others what is left.

        Returns False where somebody who holds something does not fit even where he stands.
        """
        layout = self._layout
        for one in asked:
            layout.lift(one.promise)
        movers = [one for one in asked if isinstance(one.change, Update)]
        homeless = [one for one in movers if not self._sent(one, one.index in first)]
        comers = [one for one in asked if isinstance(one.change, Admit)]
        comers.sort(key=lambda one: (-one.promise.value, one.index))
        for one in comers:
            if one.index in first and one.index not in self.late:
                layout.take(one.promise, one.result)
        if not self._settle(homeless, movers):
            return False
        for one in comers:
            if one.promise.number not in layout.lifted or self._one_too_many(one, comers):
                continue
            if not layout.take(one.promise, one.result):
                self._elsewhere(one)
        return True

    def _asked(self, index: int) -> _Asked | None:
        """Return a change with whom it is for; None where it can no longer be planned."""
        change, twin = self.changes[index], self.twin
        promise: Commitment | None = None
        if index in self.unfit or not isinstance(change, Admit | Update):
            return None
        if isinstance(change, Admit):
            refusal = twin.refusal(change.request.id)
            promise = None if refusal is None else refused_promise(twin, -1 - index, refusal)
        else:
            number = twin.table.number_of(change.id)
            promise = None if number is None else promise_of(twin, number)
        known = promise is not None and promise.request is not None
        return _Asked(index, promise, change) if known and promise is not None else None

    def _one_too_many(self, one: _Asked, comers: Iterable[_Asked]) -> Conflict | None:
        """Return which policy on counts somebody breaks beside those that have a place, or None."""
        if not self.late:
            return None
        made = (other.change for other in comers if other.promise.number in self._layout.moved)
        return count_conflict(self.twin, one.index, one.change, made)

    def _settle(self, pending: Sequence[_Asked], movers: Sequence[_Asked]) -> bool:
        """Give movers without a place another, or their old one, whoever is there by now.

        Returns False where one does not fit even there: policies were lowered under it, say.
        """
        by_number = {one.promise.number: one for one in movers}
        queue = deque(pending)
        while queue:
            one = queue.popleft()
            if self._elsewhere(one) or one.promise.state is State.DEGRADED:
                continue
            driven = self._home(one.promise)
            if driven is None:
                return False
            # Those of them that were to come in wait until all movers have a place.
            queue += [by_number[number] for number in driven if number in by_number]
        return True

    def _elsewhere(self, one: _Asked) -> bool:
        if time.monotonic() > self._until:
            return False
        search = self._search
        return search.place(self._layout, one.promise, search.placers[1])

    def _home(self, promise: Commitment) -> list[int] | None:
        """Put a promise back where it stands; return the numbers of those it drove out, or None."""
        layout = self._layout
        out: list[tuple[Commitment, PlacementResult]] = []
        before = promise.before
        # Refused requests, the least valuable first, give way before anybody has to move on.
        moved = sorted(layout.moved.values(), key=lambda one: (one[0].number >= 0, one[0].value))
        for other, result, held in moved:
            if layout.put_back(promise):
                break
            if held.begin < before.finish and held.finish > before.begin:
                layout.lift(other)
                out.append((other, result))
        if promise.number in layout.lifted and not layout.put_back(promise):
            return None
        return [other.number for other, result in reversed(out) if not layout.take(other, result)]

    def _send_home(self, one: _Asked) -> None:
        """Undo a move that is no better by itself and makes room for nobody."""
        moved = self._layout.moved.get(one.promise.number)
        if moved is None or not is_idle(self.twin, replace(one.change, result=moved[1])):
            return
        self._layout.lift(one.promise)
        if not self._layout.put_back(one.promise):
            self._layout.take(one.promise, moved[1])

    def _told(self, asked: dict[int, _Asked]) -> Rebased:
        kept: list[Change] = []
        left: list[Conflict] = []
        for index, change in enumerate(self.changes):
            one = asked.get(index)
            moved = None if one is None else self._layout.moved.get(one.promise.number)
            if one is not None and moved is not None:
                assert one.promise.request is not None
                kept.append(replace(one.change, request=one.promise.request, result=moved[1]))
                continue
            id_ = change.request.id if isinstance(change, Admit) else getattr(change, "id", None)
            detail = _OUT if isinstance(change, Admit) else _STAYS
            why = self.unfit.get(index)
            if why is None and one is not None and index in self.late:
                why = self._one_too_many(one, asked.values())
            left.append(why or Conflict(index, id_, Code.CAPACITY, detail))
        return Rebased(tuple(kept), tuple(left))


_OUT: Final = "its place is taken by now, and there is no other"
_STAYS: Final = "it stays where it is: its new place is taken, or makes room for nobody any more"
