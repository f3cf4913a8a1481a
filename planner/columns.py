"""Columns that grow and words kept once: what tables of a million rows are made of."""

from __future__ import annotations

import sys
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

#: Columns grow by an eighth, so that at most so much of them lies idle.
_GROWTH: Final = 8

Word = TypeVar("Word")


class Words(Generic[Word]):
    """Interned values: each kept once, known by number."""

    def __init__(self) -> None:
        self.values: list[Word] = []
        self._numbers: dict[Word, int] = {}

    def number(self, value: Word) -> int:
        """Return the number of a value, a new one if it was not met before."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def nbytes(self) -> int:
        """Return the memory it takes, roughly for values of many parts."""
        return sys.getsizeof(self._numbers) + sum(sys.getsizeof(one) + 40 for one in self.values)


class Column:
    """A structured array that grows."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._data = np.empty(64, dtype=dtype)
        self.count = 0

    @property
    def data(self) -> NDArray[Any]:
        """The entries appended so far."""
        return self._data[: self.count]

    def append(self, entries: Any, count: int = 1) -> int:
        """Append entries; return the index of the first."""
        first = self.count
        if first + count > len(self._data):
            size = max(first + count, len(self._data) + len(self._data) // _GROWTH)
            grown = np.empty(size, dtype=self._data.dtype)
            grown[:first] = self._data[:first]
            self._data = grown
        if count == 1:
            self._data[first] = entries[0]  # several times faster than a slice of one
        else:
            self._data[first : first + count] = entries
        self.count = first + count
        return first

    def nbytes(self) -> int:
        """Return the memory it takes, room to grow included."""
        return self._data.nbytes
