"""The columns of the reservation table: their fields, and conversion of rows and slots."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.plan.table.growing_columns import Column
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE, Slots

META = np.dtype(
    [
        ("submitted", np.int64),
        ("at", np.int64),
        ("weight", np.float64),
        ("version", np.int32),
        ("tenant", np.int32),
        ("priority", np.int32),
        ("revision", np.int32),
        ("begin", np.int32),
        ("finish", np.int32),
        ("endless", np.int32),
        ("atom", np.int32),
        ("atoms", np.int32),
        ("queue", np.int32),
        ("agent", np.int32),
        ("ordinal", np.int32),
        ("state", np.int8),
        ("promise", np.int8),
    ]
)
META_NAMES = META.names or ()
ATOM = np.dtype(
    [
        ("row", np.int32),
        ("rows", np.int32),
        ("path", np.int32),
        ("kind", np.int32),
        ("shifts", np.int32),
        ("slot", np.int32),
        ("slots", np.int32),
    ]
)
ROW = np.dtype([("start", np.int32), ("end", np.int32), ("bundles", np.int64)])
SLOT = np.dtype(
    [("start", np.int32), ("end", np.int32), ("bundles", np.int32), ("machine", np.int32)]
)

#: The first slot of an atom that is promised totals only. (Older checkpoints have 0.)
NO_SLOTS: Final = 0

#: Promise levels by their number in columns; the first is that of older checkpoints.
LEVELS: Final = (PromiseLevel.POOLED, PromiseLevel.PLACED)
LEVEL_NUMBERS: Final = {level: number for number, level in enumerate(LEVELS)}


def to_entries(rows: NDArray[np.int64]) -> NDArray[Any]:
    """Convert rows to entries of their column."""
    out = np.empty(len(rows), dtype=ROW)
    out["start"], out["end"], out["bundles"] = rows[:, 0], rows[:, 1], rows[:, 2]
    return out


def slot_column() -> Column:
    """Return a new column of slots; its first entry means no slot."""
    column = Column(SLOT)
    column.append([(0, 0, 0, NOWHERE)])
    return column


def structured_slots(slots: Slots) -> NDArray[Any]:
    """Convert slots to entries of their column."""
    out = np.empty(len(slots), dtype=SLOT)
    out["start"], out["end"], out["bundles"], out["machine"] = slots.T
    return out


def plain_slots(slots: NDArray[Any]) -> Slots:
    """Convert entries of the column of slots to slots."""
    out = np.empty((len(slots), 4), dtype=np.int64)
    out[:, 0], out[:, 1] = slots["start"], slots["end"]
    out[:, 2], out[:, 3] = slots["bundles"], slots["machine"]
    return out


def plain(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Convert entries of the column of rows to rows."""
    out = np.empty((len(rows), 3), dtype=np.int64)
    out[:, 0], out[:, 1], out[:, 2] = rows["start"], rows["end"], rows["bundles"]
    return out


def ranges(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ranges first[i], first[i] + 1, ... of length count[i], concatenated."""
    total = int(count.sum())
    starts = np.cumsum(count) - count
    return np.arange(total, dtype=np.int64) - np.repeat(starts - first, count)
