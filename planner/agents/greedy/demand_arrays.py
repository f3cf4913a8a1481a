"""Demands as arrays of the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.view import Demand

I64 = NDArray[np.int64]
Lists = tuple[I64, I64, I64]


@dataclass(frozen=True, slots=True)
class DemandArrays:
    """Several demands as arrays of the kernels.

    Attributes
    ----------
    rows, averages
        Rows of the view's `free` and `averages` that any demand uses, ascending.
    row_lists, average_lists
        (first, rows, amounts) of all demands; rows are positions in `rows` and `averages`, as in a
        copy of only those rows.
    fit
        int64[demand, segment].
    """

    rows: tuple[int, ...]
    averages: tuple[int, ...]
    row_lists: Lists
    average_lists: Lists
    fit: I64


@lru_cache(maxsize=4096)
def demand_arrays_of(demands: tuple[Demand, ...]) -> DemandArrays:
    """Join demands; cached, because online requests repeat the same few."""
    rows = tuple(sorted({row for demand in demands for row in demand.rows}))
    averages = tuple(sorted({row for demand in demands for row in demand.averages}))
    row_lists = _lists([(demand.rows, demand.amounts) for demand in demands], rows)
    average_lists = _lists(
        [(demand.averages, demand.average_amounts) for demand in demands], averages
    )
    return DemandArrays(
        rows,
        averages,
        row_lists,
        average_lists,
        np.array([demand.fit for demand in demands] or np.empty((0, 0)), dtype=np.int64),
    )


def _lists(
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], known: tuple[int, ...]
) -> tuple[I64, I64, I64]:
    """Return (first, rows as positions in `known`, amounts) of lists of unequal length."""
    first = [0]
    rows: list[int] = []
    amounts: list[int] = []
    position = {row: index for index, row in enumerate(known)}
    for some, their_amounts in pairs:
        rows += [position[row] for row in some]
        amounts += their_amounts
        first.append(len(rows))
    return (
        np.array(first, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.array(amounts, dtype=np.int64),
    )
