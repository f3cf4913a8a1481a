"""Check whether a change still fits: the check of every commit (Omega 3.4, fine-grained).

Only additions of a change are checked: a cell that is already over-committed (a machine was lost, a
policy was lowered) refuses only what would make it worse. So a shortage at one instant does not
affect others, and a reservation can always be renegotiated to itself. The ledger is only read.
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

#: Most atoms for which the fast path is tried: rows of more atoms are rarely consecutive.
_MOST_PLAIN: Final = 32


@dataclass(frozen=True, slots=True)
class Shortage:
    """The first thing that does not fit.

    Attributes
    ----------
    window_ms
        Length of the window over which an average is short; else 0.
    """

    code: Code
    binding: Binding
    grid: TimeGrid
    window_ms: int = 0
    zone: str | None = None

    @property
    def detail(self) -> str:
        """The sentence that reports it."""
        if self.window_ms:
            return more_average_sentence(self.grid, self.binding, self.window_ms, self.zone)
        if self.binding.resource is None:
            return least_sentence(self.grid, self.binding, self.zone)
        return more_sentence(self.grid, self.binding, self.zone)

    def told(self, expression: Expression) -> Shortage:
        """Return it with the request's name of the part and time zone."""
        name = part_name(expression, self.binding.path)
        zone = zone_named(expression)
        return replace(self, binding=replace(self.binding, name=name), zone=zone)


class Taking(NamedTuple):
    """All rows of one atom, with its bundle's use; `sign` -1 releases."""

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


def find_shortage(ledger: FreeProfile, takings: Sequence[Taking]) -> Shortage | None:
    """Return the shortage of a ledger for one change, or None."""
    if _is_plainly_free(ledger, takings):
        return None
    groups = merge_takings(takings)
    return (
        _fit_shortage(ledger, takings, groups)
        or _row_shortage(ledger, takings, groups)
        or _average_shortage(ledger, takings)
    )


def joint_shortage(ledger: FreeProfile, changes: Sequence[Sequence[Taking]]) -> Shortage | None:
    """Return the shortage of a ledger once all changes are made, in any order, or None."""
    for takings in changes:
        found = fit_shortage(ledger, takings)
        if found is not None:
            return found
    everything = [taking for takings in changes for taking in takings]
    groups = merge_takings(everything)
    return _row_shortage(ledger, everything, groups) or _average_shortage(ledger, everything)


def fit_shortage(ledger: FreeProfile, takings: Sequence[Taking]) -> Shortage | None:
    """Return the shortage of an atom that does not fit even on empty machines, or None."""
    return _fit_shortage(ledger, takings, merge_takings(takings))


def _is_plainly_free(ledger: FreeProfile, takings: Sequence[Taking]) -> bool:
    """Return whether this is the common case: consecutive rows that are all free."""
    if len(takings) > _MOST_PLAIN or any(taking.sign < 0 for taking in takings):
        return False
    return ledger.plainly_free([(taking.demand, taking.rows) for taking in takings])


def _fit_shortage(
    ledger: FreeProfile, takings: Sequence[Taking], groups: Sequence[MergedTaking]
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
        found = _fit_in(ledger, taking, held.get(taking.path))
        if found is not None:
            return found
    return None


def _fit_in(ledger: FreeProfile, taking: Taking, before: Taking | None) -> Shortage | None:
    held = ledger.use_of(taking.rows)
    caps = np.repeat(np.array(taking.demand.fit, dtype=np.int64), np.diff(ledger.calendar.breaks))
    if before is not None and before.demand is taking.demand:
        caps = np.maximum(caps, ledger.use_of(before.rows))
    # Occurrences of one atom overlap only as the expression allows, so the sum over them at a step
    # is what the atom holds then.
    over = np.flatnonzero(held > caps)
    if not len(over):
        return None
    at = int(over[0])
    needed, free = int(held[at]), int(caps[at])
    binding = Binding(taking.path, "fit", at + ledger.first, None, needed, free)
    return Shortage(Code.CAPACITY, binding, ledger.grid)


def _row_shortage(
    ledger: FreeProfile, takings: Sequence[Taking], groups: Sequence[MergedTaking]
) -> Shortage | None:
    free = ledger.free
    for row, change in _changes(ledger, groups).items():
        left = free[row, change.low : change.high]
        short = (change.values > left) & (change.values > 0)
        if short.any():
            at = int(np.argmax(short))
            return _short_row(ledger, takings, row, change.low + at, change.values[at], left[at])
    return None


def _short_row(
    ledger: FreeProfile, takings: Sequence[Taking], row: int, column: int, needed: int, left: int
) -> Shortage:
    named = ledger.book.rows[row]
    step = column + ledger.first
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
    return Shortage(code, binding, ledger.grid)


def _average_shortage(ledger: FreeProfile, takings: Sequence[Taking]) -> Shortage | None:
    for number, change in _average_changes(ledger, takings).items():
        left = ledger.averages.slack[number, change.low : change.high]
        short = (change.values > left) & (change.values > 0)
        if short.any():
            at = int(np.argmax(short))
            row = ledger.book.averages[number]
            step = change.low + at + ledger.first - ledger.book.longest_window
            needed, free = int(change.values[at]), int(left[at])
            grid = ledger.grid
            path = next((p.path for p in takings if number in p.demand.averages), "")
            binding = Binding(path, "policy", step, row.resource, needed, free, row.policy)
            return Shortage(Code.CAPACITY_OVER_TIME, binding, grid, grid.ms(row.window))
    return None


def _changes(ledger: FreeProfile, groups: Sequence[MergedTaking]) -> dict[int, RowChange]:
    """Return the change of each row by the groups, over the steps they cover."""
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


def _average_changes(ledger: FreeProfile, takings: Sequence[Taking]) -> dict[int, RowChange]:
    """Return the change of each average by the takings, over the windows they overlap."""
    found: dict[int, RowChange] = {}
    numbers = {number for taking in takings for number in taking.demand.averages}
    for number in sorted(numbers):
        found[number] = _average_change(ledger, number, takings)
    return found


def _average_change(ledger: FreeProfile, number: int, takings: Sequence[Taking]) -> RowChange:
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
    """Return takings merged by demand and sign, so that many cost little more than one."""
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


def _span(groups: Sequence[MergedTaking], first: int, horizon: int) -> tuple[int, int] | None:
    """Return the columns that any group covers, clipped to the profile."""
    held = [group.rows for group in groups]
    low = max(min((int(rows[:, 0].min()) for rows in held), default=first), first)
    high = min(max((int(rows[:, 1].max()) for rows in held), default=first), horizon)
    return (low - first, high - first) if low < high else None


def _holds_at(rows: Rows, step: int) -> bool:
    return bool(((rows[:, 0] <= step) & (step < rows[:, 1])).any())
