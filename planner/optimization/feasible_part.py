"""What of an optimisation still fits a Plan that has moved on: the rest of it is left out.

Changes were found together: one moves away so that another can come. Where somebody else has taken
a place meanwhile, a change that needs it drops out, and then those that needed *its* place. What is
left is jointly feasible, so whoever holds something still does; moves that no longer make room for
anybody, and are no better by themselves, are not made at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.capacity.overlay import Overlay, RowChange, Taking
from planner.optimization.change_value import SAME, is_idle, is_short, worth_of
from planner.optimization.request_limits import count_conflict, counted_out
from planner.placement import Code
from planner.plan.changes import Admit, Change, Conflict, Degrade
from planner.plan.joint_commit import pieces_of_change
from planner.plan.plan import Plan
from planner.plan.prepare import conflicts_but_for_room

#: A row of the profile ("free") or a window average ("slack"), by its number.
_Place: TypeAlias = tuple[str, int]

_IDLE: Final = "it would have made room for somebody who does not fit any more"
_SPARED: Final = "there are machines for it again: it keeps all that it holds"


@dataclass(frozen=True, slots=True)
class Rebased:
    """What can be made of changes on a Plan.

    Attributes
    ----------
    kept
        Jointly feasible, in the order they were given.
    left_out
        One entry a change that is not among them, numbered as the changes were.
    """

    kept: tuple[Change, ...] = ()
    left_out: tuple[Conflict, ...] = ()


def still_fitting(plan: Plan, changes: Sequence[Change]) -> Rebased:
    """Return the part of `changes` that a Plan takes; all of them where all still fit.

    Two rules say who gives way where too much is asked: whoever brings least value, and whoever
    comes in before whoever moves. The outcome that holds more value is taken. Nobody is degraded
    whom the machines there are now, and the changes that are made, leave all that it holds.
    """
    losing = any(isinstance(one, Degrade) for one in changes)
    if not changes:
        return Rebased()
    if not losing and plan.prepare(changes, plan.version, joint=True).record is not None:
        return Rebased(tuple(changes))
    unfit = {one.index: one for one in conflicts_but_for_room(plan, changes)}
    late = counted_out(plan, changes, unfit)
    unfit = {index: one for index, one in unfit.items() if index not in late}
    parts = {
        index: pieces_of_change(plan, change)
        for index, change in enumerate(changes)
        if index not in unfit
    }
    overlay = Overlay(plan.ledger)
    spared = losing and not is_short(plan, changes)
    adds = {
        index: _adds(overlay, one)
        for index, one in parts.items()
        if not (spared and isinstance(changes[index], Degrade)) and not overlay.fit_shortage(one)
    }
    worths = [worth_of(plan, change) for change in changes]
    idle = cache(lambda index: is_idle(plan, changes[index]))
    rules = (_Choice(plan, changes, worths, adds, idle, late, first) for first in (False, True))
    best = _best_of(rules)
    for index in best.made:
        overlay.add(parts[index])
    left = [
        unfit.get(index)
        or (best.one_too_many(index) if index in late else None)
        or _conflict(overlay, index, change, parts[index])
        for index, change in enumerate(changes)
        if index not in best.made
    ]
    return Rebased(tuple(changes[index] for index in sorted(best.made)), tuple(left))


def _best_of(choices: Iterable[_Choice]) -> _Choice:
    """Settle one after the other; return what holds most value, the first that makes all."""
    best: _Choice | None = None
    for choice in choices:
        choice.settle()
        if best is None or choice.worth > best.worth + SAME:
            best = choice
        if len(choice.made) == len(choice.adds):
            break
    assert best is not None
    return best


def _adds(overlay: Overlay, pieces: Sequence[Taking]) -> dict[_Place, RowChange]:
    rows, averages = overlay.added(pieces)
    found = {("free", number): one for number, one in rows.items()}
    return found | {("slack", number): one for number, one in averages.items()}


def _conflict(overlay: Overlay, index: int, change: Change, pieces: Sequence[Taking]) -> Conflict:
    """Return why a change is not made beside those that are."""
    id_ = change.request.id if isinstance(change, Admit) else getattr(change, "id", None)
    short = overlay.shortage(pieces)
    if short is None:
        detail = _SPARED if isinstance(change, Degrade) else _IDLE
        return Conflict(index, id_, Code.CONFLICT, detail)
    return Conflict(index, id_, short.code, short.detail, short.binding)


@dataclass(slots=True)
class _Choice:
    """Changes that are to be made together, one less at a time.

    Attributes
    ----------
    adds
        What each change that can be made at all adds to each place.
    idle
        Whether a change is of no use by itself.
    late
        Who comes in only where the policies on counts have room for it beside those that are made.
    comers_first
        Whether who comes in gives way before who moves, whatever it is worth.
    made
        Indexes of those that are made.
    """

    plan: Plan
    changes: Sequence[Change]
    worths: Sequence[float]
    adds: Mapping[int, Mapping[_Place, RowChange]]
    idle: Callable[[int], bool]
    late: frozenset[int]
    comers_first: bool
    made: set[int] = field(default_factory=set)
    _sums: dict[_Place, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Sum up all that can be made at all."""
        for index in self.adds.keys() - self.late:
            self._make(index)

    @property
    def worth(self) -> float:
        """Value that the changes bring which are made."""
        return sum(self.worths[index] for index in self.made)

    def settle(self) -> None:
        """Leave out until the rest fits, take back in what then fits after all, drop idle moves.

        A move that is of no use takes nothing from anybody: while a loss is made, or a change is
        left out, idle moves are dropped too.
        """
        self._leave_out()
        if len(self.made) < len(self.changes) or self._loses():
            self._drop_idle()
            while self._take_in():
                self._drop_idle()

    def _loses(self) -> bool:
        """Return whether a loss is made."""
        return any(isinstance(self.changes[index], Degrade) for index in self.made)

    def _leave_out(self) -> None:
        """Leave changes out until no place is short any more."""
        open_ = list(self._sums)
        while open_:
            place = open_[-1]
            over = self._over(place)
            if not over.any():
                open_.pop()
                continue
            index = self._gives_way(place, int(np.argmax(over)))
            self._unmake(index)
            open_ += self.adds[index]

    def _over(self, place: _Place) -> NDArray[np.bool_]:
        """Return where more is added than is free: what was short before is made no worse."""
        ledger, (kind, number) = self.plan.ledger, place
        free = ledger.free[number] if kind == "free" else ledger.averages.slack[number]
        added = self._sums[place]
        return np.asarray((added > free) & (added > 0))

    def _gives_way(self, place: _Place, column: int) -> int:
        """Return who of those that add something there is left out."""

        def key(index: int) -> tuple[bool, float, int]:
            moves = not isinstance(self.changes[index], Admit)
            return (moves and self.comers_first, self.worths[index], -index)

        return min((one for one in self.made if self._at(one, place, column) > 0), key=key)

    def _at(self, index: int, place: _Place, column: int) -> int:
        one = self.adds[index].get(place)
        inside = one is not None and one.low <= column < one.high
        return int(one.values[column - one.low]) if one is not None and inside else 0

    def _take_in(self) -> bool:
        """Take back in who fits beside all that is made, most valuable first."""
        out = sorted(self.adds.keys() - self.made, key=lambda one: (-self.worths[one], one))
        return sum(self._fits_in(one) for one in out if not self.idle(one)) > 0

    def one_too_many(self, index: int) -> Conflict | None:
        """Return which policy on counts a change breaks beside all that is made, or None."""
        made = [self.changes[one] for one in self.made]
        return count_conflict(self.plan, index, self.changes[index], made)

    def _fits_in(self, index: int) -> bool:
        if self.late and self.one_too_many(index) is not None:
            return False
        self._make(index)
        if self._fit(index):
            return True
        self._unmake(index)
        return False

    def _drop_idle(self) -> None:
        """Leave out what is no better by itself and makes room for nobody.

        Losses come first, of the most valuable promise first. What is dropped gives room, in which
        another may stay where it is: until nothing more is dropped.
        """
        while sum(self._drops(one) for one in sorted(self.made, key=self._value_then_index)):
            pass

    def _value_then_index(self, index: int) -> tuple[float, int]:
        return self.worths[index], index

    def _drops(self, index: int) -> bool:
        """Leave a change out where it is idle and all that is made fits without it."""
        if not self.idle(index):
            return False
        self._unmake(index)
        if self._fit(index) and not self._relieves(index):
            return True
        self._make(index)
        return False

    def _relieves(self, index: int) -> bool:
        """Return whether machines are short without a change where it would give some back."""
        ledger = self.plan.ledger
        for (kind, number), one in self.adds[index].items():
            if kind == "free" and ledger.book.rows[number].policy is None:
                cells = slice(one.low, one.high)
                over = self._sums[kind, number][cells] > ledger.free[number, cells]
                if (over & (one.values < 0)).any():
                    return True
        return False

    def _fit(self, index: int) -> bool:
        return not any(self._over(place).any() for place in self.adds[index])

    def _make(self, index: int) -> None:
        self.made.add(index)
        self._count(index, 1)

    def _unmake(self, index: int) -> None:
        self.made.remove(index)
        self._count(index, -1)

    def _count(self, index: int, sign: int) -> None:
        ledger = self.plan.ledger
        for place, one in self.adds[index].items():
            if place not in self._sums:
                cells = ledger.free if place[0] == "free" else ledger.averages.slack
                self._sums[place] = np.zeros(cells.shape[1], dtype=np.int64)
            self._sums[place][one.low : one.high] += sign * one.values
