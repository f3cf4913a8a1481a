"""Growing columns and interned values, for tables of a million rows."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

#: Columns grow by an eighth, so that at most this share of them is unused.
_GROWTH: Final = 8

#: Columns of this many bytes get memory pages of their own.
_PAGED: Final = 1 << 18

#: Private to this process: shared pages could not grow.
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

#: Dicts of an index; with a million ids each has about 4,000 and grows in 0.1 ms.
_PARTS: Final = 256

Word = TypeVar("Word")


class Words(Generic[Word]):
    """Interned values: each stored once, with a number."""

    def __init__(self) -> None:
        self.values: list[Word] = []
        self._numbers: dict[Word, int] = {}

    def number(self, value: Word) -> int:
        """Return the number of a value, a new number for a new value."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def copy(self) -> Words[Word]:
        """Return equal words under the same numbers."""
        twin: Words[Word] = Words()
        twin.values = list(self.values)
        twin._numbers = dict(self._numbers)
        return twin

    def find(self, value: Word) -> int | None:
        """Return the number of a value, or None."""
        return self._numbers.get(value)

    def nbytes(self) -> int:
        """Return the memory it takes; approximate for composite values."""
        return sys.getsizeof(self._numbers) + sum(sys.getsizeof(one) + 40 for one in self.values)


class Column:
    """A structured array that grows without a pause.

    Large columns have memory pages of their own, which the system remaps instead of copying: a
    million reservations grow in microseconds. If it cannot, or if there is a view of the array,
    they are copied.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._data = np.empty(64, dtype=dtype)
        self._pages: mmap.mmap | None = None
        self.count = 0

    @property
    def data(self) -> NDArray[Any]:
        """The entries appended so far."""
        return self._data[: self.count]

    def append(self, entries: Any, count: int = 1) -> int:
        """Append entries; return the index of the first."""
        first = self.count
        self.reserve(first + count)
        if count == 1:
            self._data[first] = entries[0]  # several times faster than a slice of one entry
        else:
            self._data[first : first + count] = entries
        self.count = first + count
        return first

    def copy(self) -> Column:
        """Return an equal column with its own memory."""
        twin = Column(self._data.dtype)
        twin.reserve(self.count)
        # As bytes: NumPy would copy structured entries field by field.
        twin._data[: self.count].view(np.uint8)[:] = self.data.view(np.uint8)
        twin.count = self.count
        return twin

    def reserve(self, count: int) -> None:
        """Ensure space for `count` entries in all; when growing, allocate some more."""
        if count > len(self._data):
            self._grow(max(count, len(self._data) + len(self._data) // _GROWTH))

    def nbytes(self) -> int:
        """Return the memory it takes, spare space included."""
        return self._data.nbytes

    def _grow(self, size: int) -> None:
        """Allocate space for `size` entries."""
        dtype = self._data.dtype
        wanted = size * dtype.itemsize
        if wanted < _PAGED:
            grown = np.empty(size, dtype=dtype)
            grown[: self.count] = self.data
            self._data = grown
            return
        wanted += -wanted % mmap.PAGESIZE
        if not self._stretch(wanted):
            before, pages = self.data, mmap.mmap(-1, wanted, flags=_PRIVATE)
            self._data, self._pages = np.frombuffer(pages, dtype, wanted // dtype.itemsize), pages
            self._data[: self.count] = before

    def _stretch(self, wanted: int) -> bool:
        """Resize or remap the pages; False if they have to be copied."""
        pages, held = self._pages, self._data
        if pages is None:
            return False
        dtype = held.dtype
        self._data = np.empty(0, dtype=dtype)
        del held  # pages cannot move while an array uses them
        try:
            pages.resize(wanted)
            moved = True
        except (BufferError, SystemError, OSError):  # there are views, or the system cannot do it
            moved = False
        self._data = np.frombuffer(pages, dtype, len(pages) // dtype.itemsize)
        return moved


class IdIndex:
    """Numbers by id, in many small dicts, so that growth causes no noticeable pause."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._parts: list[dict[str, int]] = [{} for _ in range(_PARTS)]
        for number, id_ in enumerate(ids):
            self.put(id_, number)

    def put(self, id_: str, number: int) -> None:
        """Store the number of an id."""
        self._parts[hash(id_) % _PARTS][id_] = number

    def copy(self) -> IdIndex:
        """Return an equal index."""
        twin = IdIndex()
        twin._parts = [dict(part) for part in self._parts]
        return twin

    def get(self, id_: str) -> int | None:
        """Return the number of an id, or None."""
        return self._parts[hash(id_) % _PARTS].get(id_)

    def nbytes(self) -> int:
        """Return the memory it takes, ids and numbers included."""
        parts = sum(sys.getsizeof(part) for part in self._parts)
        pairs = (pair for part in self._parts for pair in part.items())
        return parts + sum(sys.getsizeof(id_) + sys.getsizeof(number) for id_, number in pairs)
