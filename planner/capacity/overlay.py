"""Does a change still fit? The re-check that every commit passes (Omega 3.4, fine-grained).

A change is judged by what it adds: a cell that was over-committed before (a machine was lost, a
policy was lowered) refuses only what would make it worse, so that a shortage at one instant is no
shortage elsewhere, and a reservation can always be renegotiated to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.capacity.profile import FreeProfile
from planner.explain import least_sentence, more_average_sentence, more_sentence
from planner.placement import Binding, Code
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import dense
from planner.view import Demand
from rdl.expressions import Expression
from rdl.local_time import zone_named
from rdl.names import part_name
from rdl.time_grid import TimeGrid

#: Most atoms for which the fast path is tried: rows of more hardly ever follow one another.
_MOST_PLAIN: Final = 32


@dataclass(frozen=True, slots=True)
class Shortage:
    """The first thing that does not fit.

    Attributes
    ----------
    window_ms
        Length of the window over which an average is short; 0 for all else.
    """

    code: Code
    binding: Binding
    grid: TimeGrid
    window_ms: int = 0
    zone: str | None = None

    @property
    def detail(self) -> str:
        """One sentence for a person."""
        if self.window_ms:
            return more_average_sentence(self.grid, self.binding, self.window_ms, self.zone)
        if self.binding.resource is None:
            return least_sentence(self.grid, self.binding, self.zone)
        return more_sentence(self.grid, self.binding, self.zone)

    def told(self, expression: Expression) -> Shortage:
        """Return it in the words of the request: its names of parts, its zone."""
        name = part_name(expression, self.binding.path)
        zone = zone_named(expression)
        return replace(self, binding=replace(self.binding, name=name), zone=zone)


class Taking(NamedTuple):
    """All rows of one atom, with what its bundle takes; `sign` -1 gives back."""

    path: str
    demand: Demand
    rows: Rows
    sign: int


def takings_of(
    holding: Holding, ledger: FreeProfile, tenant: str, queue: str, sign: int = 1
) -> list[Taking]:
    """Return the takings of a holding on a ledger."""
    return [
        Taking(atom.path, ledger.demand(atom.bundle, atom.label, tenant, queue), _flat(atom), sign)
        for atom in holding.atoms
        if len(atom.rows)
    ]


def _flat(atom: AtomAllocation) -> Rows:
    return atom.rows if len(atom.shifts) == 1 and not atom.shifts[0] else atom.all_rows()


class Overlay:
    """What a batch would add to a ledger, change by change; the ledger itself is not touched."""

    def __init__(self, ledger: FreeProfile) -> None:
        self.ledger = ledger
        self._waiting: list[Taking] = []
        self._use: dict[int, NDArray[np.int64]] = {}
        self._slack: dict[int, NDArray[np.int64]] = {}

    def shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        """Return what does not fit, or None."""
        if self._plainly_fits(takings):
            return None
        self._count_waiting()
        groups = merge_takings(takings)
        return (
            self._fit_shortage(takings, groups)
            or self._row_shortage(takings, groups)
            or self._average_shortage(takings)
        )

    def joint_shortage(self, changes: Sequence[Sequence[Taking]]) -> Shortage | None:
        """Return what does not fit once all changes are made, whatever their order, or None."""
        for takings in changes:
            found = self._fit_shortage(takings, merge_takings(takings))
            if found is not None:
                return found
        everything = [taking for takings in changes for taking in takings]
        return self._row_shortage(everything, merge_takings(everything)) or self._average_shortage(
            everything
        )

    def fit_shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        """Return which atom the machines cannot hold, whatever else is held, or None."""
        return self._fit_shortage(takings, merge_takings(takings))

    def room_for(self, demand: Demand, low: int, high: int) -> NDArray[np.int64]:
        """Return int64[high - low]: bundles that totals, policies and machines leave room for.

        Averages over windows are not looked at.
        """
        self._count_waiting()
        ledger = self.ledger
        room = ledger.room_over(demand, low, high)
        columns = slice(low - ledger.first, high - ledger.first)
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            taken = self._use.get(row)
            if taken is not None:
                left = ledger.free[row, columns] - taken[columns]
                room = np.minimum(room, np.maximum(left, 0) // amount)
        return room

    def additions(
        self, takings: Sequence[Taking]
    ) -> tuple[dict[int, RowChange], dict[int, RowChange]]:
        """Return what takings add to each row of the profile, and to each window average."""
        return self._changes(merge_takings(takings)), self._average_changes(takings)

    def add(self, takings: Sequence[Taking]) -> None:
        """Count the takings of a change that fits as taken."""
        # Only if another change comes to be judged is the sum needed.
        self._waiting.extend(takings)

    def _plainly_fits(self, takings: Sequence[Taking]) -> bool:
        """Return whether the usual case holds: rows one after the other, all of them free."""
        if self._waiting or self._use or self._slack or len(takings) > _MOST_PLAIN:
            return False
        if any(taking.sign < 0 for taking in takings):
            return False
        return self.ledger.plainly_free([(taking.demand, taking.rows) for taking in takings])

    def _count_waiting(self) -> None:
        if not self._waiting:
            return
        takings, self._waiting = self._waiting, []
        for row, change in self._changes(merge_takings(takings)).items():
            taken = self._use.get(row)
            if taken is None:
                self._use[row] = change.dense(self.ledger)
            else:
                taken[change.low : change.high] += change.values
        for number, change in self._average_changes(takings).items():
            columns = self.ledger.averages.slack.shape[1]
            taken = self._slack.setdefault(number, np.zeros(columns, dtype=np.int64))
            taken[change.low : change.high] += change.values

    def _fit_shortage(
        self, takings: Sequence[Taking], groups: Sequence[MergedTaking]
    ) -> Shortage | None:
        if all(g.sign < 0 or int(g.rows[:, 2].max()) <= min(g.demand.fit) for g in groups):
            return None
        held = {taking.path: taking for taking in takings if taking.sign < 0}
        for taking in takings:
            if taking.sign < 0 or not len(taking.rows):
                continue
            fit = taking.demand.fit
            if fit and int(taking.rows[:, 2].max()) <= min(fit):
                continue
            found = self._fit_in(taking, held.get(taking.path))
            if found is not None:
                return found
        return None

    def _fit_in(self, taking: Taking, before: Taking | None) -> Shortage | None:
        ledger = self.ledger
        held = ledger.use_of(taking.rows)
        caps = np.repeat(
            np.array(taking.demand.fit, dtype=np.int64), np.diff(ledger.calendar.breaks)
        )
        if before is not None and before.demand is taking.demand:
            caps = np.maximum(caps, ledger.use_of(before.rows))
        # Occurrences of one atom never overlap beyond the rules of the expression, so that the
        # sum over them at a step is what one atom holds there.
        over = np.flatnonzero(held > caps)
        if not len(over):
            return None
        at = int(over[0])
        needed, free = int(held[at]), int(caps[at])
        binding = Binding(taking.path, "fit", at + ledger.first, None, needed, free)
        return Shortage(Code.CAPACITY, binding, ledger.grid)

    def _row_shortage(
        self, takings: Sequence[Taking], groups: Sequence[MergedTaking]
    ) -> Shortage | None:
        free = self.ledger.free
        for row, change in self._changes(groups).items():
            left = free[row, change.low : change.high]
            taken = self._use.get(row)
            if taken is not None:
                left = left - taken[change.low : change.high]
            short = (change.values > left) & (change.values > 0)
            if short.any():
                at = int(np.argmax(short))
                return self._short_row(takings, row, change.low + at, change.values[at], left[at])
        return None

    def _short_row(
        self, takings: Sequence[Taking], row: int, column: int, needed: int, left: int
    ) -> Shortage:
        named = self.ledger.book.rows[row]
        step = column + self.ledger.first
        path = next(
            (
                taking.path
                for taking in takings
                if taking.sign > 0 and row in taking.demand.rows and _holds_at(taking.rows, step)
            ),
            "",
        )
        kind, _, name = named.what.partition(":")
        policy = name if named.policy is not None else None
        code = Code(kind) if policy else Code.CAPACITY
        binding = Binding(
            path,
            "policy" if policy else "capacity",
            step,
            named.resource,
            int(needed),
            int(left),
            policy,
        )
        return Shortage(code, binding, self.ledger.grid)

    def _average_shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        for number, change in self._average_changes(takings).items():
            left = self.ledger.averages.slack[number, change.low : change.high]
            taken = self._slack.get(number)
            if taken is not None:
                left = left - taken[change.low : change.high]
            short = (change.values > left) & (change.values > 0)
            if short.any():
                at = int(np.argmax(short))
                row = self.ledger.book.averages[number]
                step = change.low + at + self.ledger.first - self.ledger.book.longest_window
                needed, free = int(change.values[at]), int(left[at])
                grid = self.ledger.grid
                path = next((p.path for p in takings if number in p.demand.averages), "")
                binding = Binding(path, "policy", step, row.resource, needed, free, row.policy)
                return Shortage(Code.CAPACITY_OVER_TIME, binding, grid, grid.ms(row.window))
        return None

    def _changes(self, groups: Sequence[MergedTaking]) -> dict[int, RowChange]:
        """Return what the groups add to each row, over the steps they touch."""
        ledger = self.ledger
        span = _span(groups, ledger.first, ledger.grid.horizon)
        if span is None:
            return {}
        low, high = span
        found: dict[int, RowChange] = {}
        for group in groups:
            demand = group.demand
            if not demand.rows:
                continue
            use = dense(group.rows, low + ledger.first, high - low) * group.sign
            for row, amount in zip(demand.rows, demand.amounts, strict=True):
                known = found.get(row)
                if known is None:
                    found[row] = RowChange(low, high, use * amount)
                else:
                    known.values[:] += use * amount
        return found

    def _average_changes(self, takings: Sequence[Taking]) -> dict[int, RowChange]:
        """Return what the takings add to each window, over the windows they touch."""
        found: dict[int, RowChange] = {}
        numbers = {number for taking in takings for number in taking.demand.averages}
        for number in sorted(numbers):
            found[number] = self._average_change(number, takings)
        return found

    def _average_change(self, number: int, takings: Sequence[Taking]) -> RowChange:
        ledger = self.ledger
        window = ledger.book.averages[number].window
        before = ledger.first - ledger.book.longest_window
        rows = _rows_in_amounts(takings, number)
        columns = ledger.averages.slack.shape[1]
        low = max(int(rows[:, 0].min(initial=0x7FFFFFFF)) - window + 1 - before, 0)
        high = min(int(rows[:, 1].max(initial=0)) - before, columns)
        if low >= high:
            return RowChange(0, 0, np.zeros(0, dtype=np.int64))
        use = dense(rows, low + before, high - low + window - 1)
        area = np.concatenate([[0], np.cumsum(use)])
        return RowChange(low, high, area[window:] - area[: high - low])


def _rows_in_amounts(takings: Sequence[Taking], number: int) -> Rows:
    """Return the rows that count against an average, in amounts instead of bundles."""
    found = [np.empty((0, 3), dtype=np.int64)]
    for taking in takings:
        if number in taking.demand.averages and len(taking.rows):
            amount = taking.demand.average_amounts[taking.demand.averages.index(number)]
            found.append(taking.rows * np.array([1, 1, amount * taking.sign]))
    return np.concatenate(found)


class MergedTaking(NamedTuple):
    """Rows of all takings with one demand and sign."""

    demand: Demand
    rows: Rows
    sign: int


def merge_takings(takings: Sequence[Taking]) -> list[MergedTaking]:
    """Return takings joined by what they take, so that many cost little more than one."""
    if len(takings) == 1 and len(takings[0].rows):
        return [MergedTaking(takings[0].demand, takings[0].rows, takings[0].sign)]
    found: dict[tuple[int, int], list[Taking]] = {}
    for taking in takings:
        if len(taking.rows):
            found.setdefault((id(taking.demand), taking.sign), []).append(taking)
    return [
        MergedTaking(
            alike[0].demand,
            alike[0].rows if len(alike) == 1 else np.concatenate([one.rows for one in alike]),
            alike[0].sign,
        )
        for alike in found.values()
    ]


@dataclass(frozen=True, slots=True)
class RowChange:
    """Amounts over the columns [low, high)."""

    low: int
    high: int
    values: NDArray[np.int64]

    def dense(self, ledger: FreeProfile) -> NDArray[np.int64]:
        out = np.zeros(ledger.free.shape[1], dtype=np.int64)
        out[self.low : self.high] = self.values
        return out


def _span(groups: Sequence[MergedTaking], first: int, horizon: int) -> tuple[int, int] | None:
    """Return the columns that any group touches, clipped to the profile."""
    held = [group.rows for group in groups]
    low = max(min((int(rows[:, 0].min()) for rows in held), default=first), first)
    high = min(max((int(rows[:, 1].max()) for rows in held), default=first), horizon)
    return (low - first, high - first) if low < high else None


def _holds_at(rows: Rows, step: int) -> bool:
    return bool(((rows[:, 0] <= step) & (step < rows[:, 1])).any())
