"""Remove reservations from a table: returns a new table in which the others are renumbered."""
# ruff: noqa: SLF001 - written with the table, in a file of its own for its length

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.plan.table.column_reading import tenants_of
from planner.plan.table.columns import ranges
from planner.plan.table.details import DetailStore
from planner.plan.table.growing_columns import Column, IdIndex
from planner.plan.table.table import ReservationTable


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
