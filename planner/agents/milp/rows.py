"""Rows of one constraint family, collected as arrays and added to a model in one call."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lp.model import Entries, LinearModel

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


class ConstraintRows:
    """Rows of one family, collected as arrays and added to the model in one call."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._shifts: list[tuple[Ints, Floats, bool]] = []
        self.count = 0

    def open(self, count: int, *, lower: float = -np.inf, upper: float = np.inf) -> Ints:
        """Add `count` rows with the same bounds; return their numbers in the family."""
        self._lower.append(np.full(count, lower))
        self._upper.append(np.full(count, upper))
        self.count += count
        return np.arange(self.count - count, self.count)

    def put(self, rows: Ints | int, columns: Ints | int, values: float) -> None:
        """Add one coefficient to each of some rows (broadcast)."""
        row_array, column_array = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(columns))
        self._rows.append(row_array.astype(np.int64))
        self._columns.append(column_array.astype(np.int64))
        self._values.append(np.full(row_array.shape, float(values)))

    def put_each(self, rows: Ints, columns: Ints, values: Floats) -> None:
        """Add individual coefficients to one row or to as many rows."""
        row_array, column_array = np.broadcast_arrays(rows, columns)
        self._rows.append(row_array.astype(np.int64))
        self._columns.append(column_array.astype(np.int64))
        self._values.append(values.astype(np.float64))

    def shift(
        self, rows: Ints, *, lower: Floats | None = None, upper: Floats | None = None
    ) -> None:
        """Shift the bounds of some rows by constants from the left-hand side."""
        if lower is not None:
            self._shifts.append((rows, lower, True))
        if upper is not None:
            self._shifts.append((rows, upper, False))

    def add_to(self, model: LinearModel, name: str) -> None:
        """Add the family to the model under the name of its equation."""
        if not self.count:
            return
        entries = Entries(
            np.concatenate(self._rows), np.concatenate(self._columns), np.concatenate(self._values)
        )
        lower, upper = np.concatenate(self._lower), np.concatenate(self._upper)
        for rows, by, is_lower in self._shifts:
            (lower if is_lower else upper)[rows] += by
        model.add_rows(name, self.count, entries, lower=lower, upper=upper)
