"""The part of an optimisation that still fits a Plan which has moved on.

Changes were found together: one reservation moves away so that another can come. Where its new
place is taken by now, a change is left out, and then the changes that needed the room it would have
made. What is kept is jointly feasible, and every reservation holds as much as before. A move that
makes room for nothing any more, and is no better by itself, is left out too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.adaptation.draft_slots import without_slots
from planner.capacity import shortage
from planner.capacity.profile import FreeProfile
from planner.capacity.shortage import RowChange, Taking
from planner.optimization.change_value import (
    SAME,
    is_short,
    is_useless,
    priority_of_change,
    value_of_change,
)
from planner.placement import Code
from planner.plan.batch.admission import limit_refusal
from planner.plan.batch.joint_commit import conflict_for, takings_of_change
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Degrade, Relocate

#: A row of the profile ("free") or of the window averages ("slack"), by its number.
_Row: TypeAlias = tuple[str, int]

_USELESS: Final = "it would have made room for a request that does not fit any more"
_KEEPS_MACHINES: Final = "it keeps its machines: not all that was to have them fits any more"
_UNNEEDED: Final = "there are machines for it again: it keeps all that it holds"


@dataclass(frozen=True, slots=True)
class FeasiblePart:
    """What can be made of changes on a Plan.

    Attributes
    ----------
    kept
        Jointly feasible, in the order they were given.
    left_out
        One entry a change that is not kept, numbered as the changes were.
    """

    kept: tuple[Change, ...] = ()
    left_out: tuple[Conflict, ...] = ()


def feasible_part(plan: Plan, changes: Sequence[Change]) -> FeasiblePart:
    """Return the part of `changes` that a Plan takes; all of them where all still fit.

    Two rules say which change is left out where too much is taken: the least important; or an
    admission before any move, the least important first. The part of more value is returned. A
    reservation is not degraded where the present machines, with the changes that are made, leave it
    all that it holds. Machines that were found with a change are looked at first, others where they
    are taken by now; all that finds none is left out at once, for none of it makes room for
    another.
    """
    without: dict[int, Conflict] = {}
    if changes and _is_taken(plan, changes):
        return FeasiblePart(tuple(changes))
    changes = without_slots(changes)
    for index, change in enumerate(changes):
        if isinstance(change, Relocate):
            without[index] = Conflict(index, change.id, Code.CONFLICT, _KEEPS_MACHINES)
    while True:
        rest = [index for index in range(len(changes)) if index not in without]
        part = _pooled_part(plan, [changes[index] for index in rest])
        lacking = _machine_conflicts(plan, part.kept)
        if not lacking:
            left = [replace(one, index=rest[one.index]) for one in part.left_out]
            return FeasiblePart(part.kept, tuple(sorted([*left, *without.values()], key=_index_of)))
        places = {id(changes[index]): index for index in rest}
        for one in lacking:
            index = places[id(part.kept[one.index])]
            without[index] = replace(one, index=index)


def _is_taken(plan: Plan, changes: Sequence[Change]) -> bool:
    """Return whether a Plan takes all changes as they are, none of which is a loss."""
    if any(isinstance(one, Degrade) for one in changes):
        return False
    return plan.prepare(changes, plan.version, joint=True).record is not None


def _index_of(conflict: Conflict) -> int:
    return conflict.index


def _machine_conflicts(plan: Plan, changes: Sequence[Change]) -> list[Conflict]:
    """Return the conflicts of changes that machines do not hold together, though the pool does."""
    if not changes:
        return []
    prepared = plan.prepare(changes, plan.version, joint=True)
    return [one for one in prepared.conflicts if one.lacks_machines]


def _pooled_part(plan: Plan, changes: Sequence[Change]) -> FeasiblePart:
    """Return the part of changes that the pool takes."""
    if not changes:
        return FeasiblePart()
    losing = any(isinstance(one, Degrade) for one in changes)
    if not losing and plan.prepare(changes, plan.version, joint=True).record is not None:
        return FeasiblePart(tuple(changes))
    pool = _Pool.of(plan, changes)
    best = _best_of(_Selection(pool, admissions_first) for admissions_first in (False, True))
    left_over = plan.ledger.copy()
    for index in best.chosen:
        left_over.take((one.demand, one.rows, one.sign) for one in pool.takings[index])
    left = [
        pool.invalid.get(index)
        or (best.limit_conflict(index) if index in pool.limited else None)
        or _conflict(left_over, index, change, pool.takings[index])
        for index, change in enumerate(changes)
        if index not in best.chosen
    ]
    return FeasiblePart(tuple(changes[index] for index in sorted(best.chosen)), tuple(left))


def limited_admissions(
    plan: Plan, changes: Sequence[Change], invalid: Mapping[int, Conflict]
) -> frozenset[int]:
    """Return which invalid admissions could be made if fewer were made before them.

    Policies on counts are held against the admissions that are made, not all that are given.

    Parameters
    ----------
    invalid
        Why changes mean nothing, by their index, where all before them are made.
    """
    return frozenset(
        index
        for index, one in invalid.items()
        if one.code is Code.COUNT_LIMIT and not conflicts_but_for_room(plan, [changes[index]])
    )


def limit_conflict(
    plan: Plan, index: int, change: Change, made: Iterable[Change]
) -> Conflict | None:
    """Return which `limits` policy an admission breaks beside the admissions of `made`, or None."""
    if not isinstance(change, Admit):
        return None
    others = (one.request for one in made if isinstance(one, Admit))
    added = Counter((one.tenant, one.queue) for one in others)
    refused = limit_refusal(plan, change.request, added)
    if refused is None or refused.code is None:
        return None
    return Conflict(index, change.request.id, refused.code, refused.detail, refused.binding)


def id_of_change(change: Change) -> str | None:
    """Return the id of the request or reservation that a change is about, or None."""
    return change.request.id if isinstance(change, Admit) else getattr(change, "id", None)


def _conflict(
    left_over: FreeProfile, index: int, change: Change, takings: Sequence[Taking]
) -> Conflict:
    """Return why a change is not made beside those that are."""
    short = shortage.find_shortage(left_over, takings)
    if short is None:
        detail = _UNNEEDED if isinstance(change, Degrade) else _USELESS
        return Conflict(index, id_of_change(change), Code.CONFLICT, detail)
    return conflict_for(index, id_of_change(change), short, getattr(change, "request", None))


@dataclass(frozen=True, slots=True)
class _Pool:
    """The changes to choose from, each held against the Plan by itself.

    Attributes
    ----------
    values
        Value that each change brings.
    invalid
        Why a change means nothing on the Plan, however much room there is, by index.
    limited
        Indexes of admissions that policies on counts take only where fewer others are made.
    takings
        What each valid change gives back and takes, by index.
    added
        What each change that can be made by itself adds to each row, by index.
    useless
        Whether the change of an index is of no use by itself.
    """

    plan: Plan
    changes: Sequence[Change]
    values: Sequence[float]
    invalid: Mapping[int, Conflict]
    limited: frozenset[int]
    takings: Mapping[int, Sequence[Taking]]
    added: Mapping[int, Mapping[_Row, RowChange]]
    useless: Callable[[int], bool]

    @classmethod
    def of(cls, plan: Plan, changes: Sequence[Change]) -> _Pool:
        """Hold changes against a Plan."""
        invalid = {one.index: one for one in conflicts_but_for_room(plan, changes)}
        limited = limited_admissions(plan, changes, invalid)
        invalid = {index: one for index, one in invalid.items() if index not in limited}
        takings = {
            index: takings_of_change(plan, change)
            for index, change in enumerate(changes)
            if index not in invalid
        }
        losses = any(isinstance(one, Degrade) for one in changes)
        no_loss_needed = losses and not is_short(plan, changes)
        added = {
            index: _additions(plan.ledger, one)
            for index, one in takings.items()
            if not (no_loss_needed and isinstance(changes[index], Degrade))
            and not shortage.fit_shortage(plan.ledger, one)
        }
        values = [value_of_change(plan, change) for change in changes]
        useless = cache(lambda index: is_useless(plan, changes[index]))
        return cls(plan, changes, values, invalid, limited, takings, added, useless)

    def importance(self, index: int) -> tuple[int, int, float, int]:
        """Return how much it matters that a change is made: a loss least, then a move.

        Of several that bring a reservation in, priority counts, then value; of several losses the
        same the other way round.
        """
        change, value = self.changes[index], self.values[index]
        if not value:
            return 0, 0, 0.0, -index
        priority = priority_of_change(self.plan, change)
        return (1, priority, value, -index) if value > 0 else (-1, -priority, value, -index)


def _additions(ledger: FreeProfile, takings: Sequence[Taking]) -> dict[_Row, RowChange]:
    """Return what takings add to each row of the profile and of the window averages."""
    rows, averages = shortage.additions(ledger, takings)
    found = {("free", number): one for number, one in rows.items()}
    return found | {("slack", number): one for number, one in averages.items()}


def _best_of(selections: Iterable[_Selection]) -> _Selection:
    """Solve one after the other; return that of most value, the first that chooses all."""
    best: _Selection | None = None
    for selection in selections:
        selection.solve()
        if best is None or selection.value > best.value + SAME:
            best = selection
        if len(selection.chosen) == len(selection.pool.added):
            break
    assert best is not None
    return best


@dataclass(slots=True)
class _Selection:
    """Changes chosen to be made together.

    Attributes
    ----------
    pool
        What is chosen from.
    admissions_first
        Whether an admission is left out before any move, whatever it is worth.
    chosen
        Indexes of the changes chosen.
    """

    pool: _Pool
    admissions_first: bool
    chosen: set[int] = field(default_factory=set)
    _sums: dict[_Row, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose all that can be made by itself."""
        for index in self.pool.added.keys() - self.pool.limited:
            self._choose(index)

    @property
    def value(self) -> float:
        """Value that the chosen changes bring."""
        return sum(self.pool.values[index] for index in self.chosen)

    def solve(self) -> None:
        """Leave changes out until the rest fits, choose again what then fits, drop useless moves.

        A useless move takes nothing from any reservation, so it stays where every change is made
        and none is a loss.
        """
        self._resolve_shortages()
        if len(self.chosen) < len(self.pool.changes) or self._has_losses():
            self._drop_useless()
            while self._choose_again():
                self._drop_useless()

    def limit_conflict(self, index: int) -> Conflict | None:
        """Return which `limits` policy a change breaks beside those that are chosen, or None."""
        pool = self.pool
        made = [pool.changes[one] for one in self.chosen]
        return limit_conflict(pool.plan, index, pool.changes[index], made)

    def _has_losses(self) -> bool:
        return any(isinstance(self.pool.changes[index], Degrade) for index in self.chosen)

    def _resolve_shortages(self) -> None:
        """Leave changes out until no row is short any more."""
        rows = list(self._sums)
        while rows:
            row = rows[-1]
            short = self._short(row)
            if not short.any():
                rows.pop()
                continue
            index = self._first_to_leave_out(row, int(np.argmax(short)))
            self._leave_out(index)
            rows += self.pool.added[index]

    def _short(self, row: _Row) -> NDArray[np.bool_]:
        """Return bool[columns]: where more is added, in sum, than is free."""
        ledger, (kind, number) = self.pool.plan.ledger, row
        free = ledger.free[number] if kind == "free" else ledger.averages.slack[number]
        added = self._sums[row]
        return np.asarray((added > free) & (added > 0))

    def _first_to_leave_out(self, row: _Row, column: int) -> int:
        """Return which of the changes that add something to a cell is left out first."""

        def rank(index: int) -> tuple[bool, tuple[int, int, float, int]]:
            moves = not isinstance(self.pool.changes[index], Admit)
            return (moves and self.admissions_first, self.pool.importance(index))

        return min((one for one in self.chosen if self._adds(one, row, column)), key=rank)

    def _adds(self, index: int, row: _Row, column: int) -> bool:
        """Return whether a change takes more of a cell than it gives back."""
        one = self.pool.added[index].get(row)
        if one is None or not one.low <= column < one.high:
            return False
        return bool(one.values[column - one.low] > 0)

    def _choose_again(self) -> bool:
        """Choose what fits beside all that is chosen, the most important first."""
        pool = self.pool
        out = sorted(pool.added.keys() - self.chosen, key=pool.importance, reverse=True)
        return sum(self._choose_if_it_fits(one) for one in out if not pool.useless(one)) > 0

    def _choose_if_it_fits(self, index: int) -> bool:
        if self.pool.limited and self.limit_conflict(index) is not None:
            return False
        self._choose(index)
        if self._fits(index):
            return True
        self._leave_out(index)
        return False

    def _drop_useless(self) -> None:
        """Leave out what is no better by itself and makes room for no other change.

        Losses come first, that of the most important reservation first. What is dropped gives room,
        in which another may stay where it is: until nothing more is dropped.
        """
        while sum(self._drop_if_useless(one) for one in sorted(self.chosen, key=self._rank)):
            pass

    def _rank(self, index: int) -> tuple[int, int, float, int]:
        return *self.pool.importance(index)[:3], index

    def _drop_if_useless(self, index: int) -> bool:
        if not self.pool.useless(index):
            return False
        self._leave_out(index)
        if self._fits(index) and not self._relieves(index):
            return True
        self._choose(index)
        return False

    def _relieves(self, index: int) -> bool:
        """Return whether machines are short, without a change, where it would give some back."""
        ledger = self.pool.plan.ledger
        for (kind, number), one in self.pool.added[index].items():
            if kind == "free" and ledger.book.rows[number].policy is None:
                cells = slice(one.low, one.high)
                over = self._sums[kind, number][cells] > ledger.free[number, cells]
                if (over & (one.values < 0)).any():
                    return True
        return False

    def _fits(self, index: int) -> bool:
        """Return whether no row that a change is about is short."""
        return not any(self._short(row).any() for row in self.pool.added[index])

    def _choose(self, index: int) -> None:
        self.chosen.add(index)
        self._add(index, 1)

    def _leave_out(self, index: int) -> None:
        self.chosen.remove(index)
        self._add(index, -1)

    def _add(self, index: int, sign: int) -> None:
        """Add what a change takes to the sums of its rows, or take it off."""
        ledger = self.pool.plan.ledger
        for row, one in self.pool.added[index].items():
            if row not in self._sums:
                cells = ledger.free if row[0] == "free" else ledger.averages.slack
                self._sums[row] = np.zeros(cells.shape[1], dtype=np.int64)
            self._sums[row][one.low : one.high] += sign * one.values
