"""Whole columns of the table: read many reservations, such as for pictures, and remove some."""
# ruff: noqa: SLF001 - alongside checkpoints the one other place that knows the table's columns

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.plan.table import ReservationTable
from planner.plan.table_columns import Column, DetailStore, IdIndex, plain, ranges
from planner.reservations.reservation import HistoryEntry
from planner.reservations.state import NUMBERED_STATES, State
from rdl.resources import Resources


class RowColumns(NamedTuple):
    """Rows of reservations, one entry per row, for all occurrences.

    Attributes
    ----------
    number
        int64[k]: number of the reservation.
    kind
        int64[k]: index in `bundles`.
    rows
        int64[k, 3]: start step, end step, bundles.
    bundles
        Resources of one bundle, by kind.
    """

    number: NDArray[np.int64]
    kind: NDArray[np.int64]
    rows: NDArray[np.int64]
    bundles: Sequence[Resources]


def row_columns(table: ReservationTable, numbers: NDArray[np.int64]) -> RowColumns:
    """Return all rows of some reservations, by reservation, then by time."""
    meta = table.meta
    counts = meta["atoms"][numbers].astype(np.int64)
    index = ranges(meta["atom"][numbers].astype(np.int64), counts)
    atoms = table._atoms.data[index]
    many = atoms["rows"].astype(np.int64)
    rows = plain(table._rows.data[ranges(atoms["row"].astype(np.int64), many)])
    number = np.repeat(np.repeat(numbers, counts), many)
    kind = np.repeat(atoms["kind"].astype(np.int64), many)
    shifts = np.repeat(atoms["shifts"].astype(np.int64), many)
    parts = [
        _occurrences_of(table, value, shifts, (number, kind, rows)) for value in np.unique(shifts)
    ]
    bundles = tuple(bundle for bundle, _, _ in table._kinds.values)
    if not parts:
        return RowColumns(number, kind, rows, bundles)
    number, kind, rows = (np.concatenate([part[place] for part in parts]) for place in range(3))
    if not _are_in_order(number, rows):
        order = np.lexsort((rows[:, 0], number))
        number, kind, rows = number[order], kind[order], rows[order]
    return RowColumns(number, kind, rows, bundles)


def _are_in_order(number: NDArray[np.int64], rows: NDArray[np.int64]) -> bool:
    """Return whether rows are sorted by reservation, then by time, as with one atom each."""
    later, start = np.diff(number), np.diff(rows[:, 0])
    return bool(np.all((later > 0) | ((later == 0) & (start >= 0))))


def _occurrences_of(
    table: ReservationTable,
    value: np.int64,
    shifts: NDArray[np.int64],
    columns: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose offsets have the number `value`, once per offset."""
    chosen = shifts == value
    number, kind, rows = (column[chosen] for column in columns)
    offsets = np.array(table._shifts.values[int(value)], dtype=np.int64)
    moved = np.repeat(rows[None], len(offsets), axis=0)
    moved[:, :, :2] += offsets[:, None, None]
    return np.tile(number, len(offsets)), np.tile(kind, len(offsets)), moved.reshape(-1, 3)


class ScopeColumn(NamedTuple):
    """The tenant or queue of each of some reservations.

    Attributes
    ----------
    place
        int64[n]: index in `words`.
    words
        In order of first appearance among all reservations of the table.
    """

    place: NDArray[np.int64]
    words: Sequence[str]


def scope_column(table: ReservationTable, numbers: NDArray[np.int64], name: str) -> ScopeColumn:
    """Return the column `name` (``tenant`` or ``queue``) of some reservations.

    Words are in order of first appearance. A tenant's index never changes, even after all its
    reservations have left the table.
    """
    column = table.meta[name].astype(np.int64)
    first = np.full(len(table._names.values) + 1, len(column), dtype=np.int64)
    first[column[::-1]] = np.arange(len(column))[::-1]  # the last write wins
    known = np.flatnonzero(first < len(column))
    order = known[np.argsort(first[known])]
    if name == "tenant" and table.earlier_tenants:
        earlier = np.array(table.earlier_tenants, dtype=np.int64)
        order = np.concatenate([earlier, order[~np.isin(order, earlier)]])
    place = np.full(len(first), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    return ScopeColumn(place[column[numbers]], [table._names.values[one] for one in order.tolist()])


def tenants_of(table: ReservationTable) -> Sequence[str]:
    """Return the tenants that ever had a reservation, in order of first appearance."""
    return scope_column(table, np.zeros(0, dtype=np.int64), "tenant").words


def ids_of(table: ReservationTable, numbers: NDArray[np.int64]) -> list[str]:
    """Return the ids of some reservations."""
    ids = table._ids
    return [ids[number] for number in numbers.tolist()]


def changed_between(table: ReservationTable, start_ms: int, end_ms: int) -> NDArray[np.int64]:
    """Return the reservations that changed after admission, in a period."""
    return np.array(
        [
            number
            for number, told in table._history.items()
            if any(start_ms <= entry.at_ms < end_ms for entry in told)
        ],
        dtype=np.int64,
    )


def lost_between(
    table: ReservationTable, start_ms: int, end_ms: int, states: Collection[State]
) -> NDArray[np.int64]:
    """Return the reservations in some states that lost part of their allocation in a period."""
    wanted = {NUMBERED_STATES.index(state) for state in states}
    state = table.meta["state"]
    return np.array(
        [
            number
            for number, entries in table._history.items()
            if int(state[number]) in wanted
            and any(e.lost and e.lost[0] < end_ms and e.lost[1] > start_ms for e in entries)
        ],
        dtype=np.int64,
    )


def histories_of(
    table: ReservationTable, numbers: NDArray[np.int64]
) -> dict[int, Sequence[HistoryEntry]]:
    """Return the history after admission of each of some reservations that changed."""
    chosen = set(numbers.tolist())
    return {number: tuple(told) for number, told in table._history.items() if number in chosen}


def without(table: ReservationTable, numbers: Sequence[int]) -> ReservationTable:
    """Return a new table without some reservations.

    Interned words are copied, idle rows are dropped. The order stays that of admission.
    """
    stays = np.ones(len(table), dtype=np.bool_)
    stays[list(numbers)] = False
    kept = np.flatnonzero(stays)
    twin = ReservationTable()
    twin.machines, twin.admitted = table.machines, table.admitted
    twin._names, twin._paths = table._names.copy(), table._paths.copy()
    twin._kinds, twin._shifts = table._kinds.copy(), table._shifts.copy()
    known = [table._names.find(tenant) for tenant in tenants_of(table)]
    twin.earlier_tenants = tuple(one for one in known if one is not None)
    _keep_columns(table, twin, kept)
    twin._ids = [table._ids[number] for number in kept.tolist()]
    twin._numbers = IdIndex(twin._ids)
    twin.details = DetailStore()
    twin.details._kept = [table.details._kept[number] for number in kept.tolist()]
    moved = dict(zip(kept.tolist(), range(len(kept)), strict=True))
    twin._history = {
        moved[number]: list(entries) for number, entries in table._history.items() if stays[number]
    }
    twin.degradations = {
        moved[number]: one for number, one in table.degradations.items() if stays[number]
    }
    twin.holds = {moved[number]: one for number, one in table.holds.items() if stays[number]}
    return twin


def _keep_columns(table: ReservationTable, twin: ReservationTable, kept: NDArray[np.int64]) -> None:
    """Copy the columns of the kept reservations, without gaps."""
    meta = table._meta.data[kept]
    counts = meta["atoms"].astype(np.int64)
    index = ranges(meta["atom"].astype(np.int64), counts)
    meta["atom"] = np.cumsum(counts) - counts
    atoms = table._atoms.data[index]
    row_counts = atoms["rows"].astype(np.int64)
    rows = table._rows.data[ranges(atoms["row"].astype(np.int64), row_counts)]
    atoms["row"] = np.cumsum(row_counts) - row_counts
    placed = np.flatnonzero(atoms["slot"])
    slot_counts = atoms["slots"][placed].astype(np.int64)
    slots = table._slots.data[ranges(atoms["slot"][placed].astype(np.int64), slot_counts)]
    atoms["slot"][placed] = twin._slots.count + np.cumsum(slot_counts) - slot_counts
    for column, entries in ((twin._meta, meta), (twin._atoms, atoms), (twin._rows, rows),
                            (twin._slots, slots)):  # fmt: skip
        _fill(column, entries)
    if table._released:
        places = dict(zip(index.tolist(), range(len(index)), strict=True))
        twin._released = {
            places[atom]: released for atom, released in table._released.items() if atom in places
        }


def _fill(column: Column, entries: NDArray[Any]) -> None:
    if len(entries):
        column.append(entries, len(entries))
