"""Columns and details of the reservation table: growing, interned, for a million rows."""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.promise import PromiseLevel
from planner.reservations.reservation import RequestDetails
from planner.reservations.slots import NOWHERE, Slots
from rdl.expressions import Expression

#: Columns grow by an eighth, so that at most this share of them is unused.
_GROWTH: Final = 8

#: Columns of this many bytes get memory pages of their own.
_PAGED: Final = 1 << 18

#: Private to this process: shared pages could not grow.
_PRIVATE: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS

#: Dicts of an index; with a million ids each has about 4,000 and grows in 0.1 ms.
_PARTS: Final = 256

Word = TypeVar("Word")

#: A reservation's stored details: text, an object, or only the expression tree.
Kept: TypeAlias = "bytes | RequestDetails | Expression"

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
_SLOT = np.dtype(
    [("start", np.int32), ("end", np.int32), ("bundles", np.int32), ("machine", np.int32)]
)

#: The first slot of an atom that is promised totals only. (Older checkpoints have 0.)
NO_SLOTS: Final = 0

#: Promise levels by their number in columns; the first is that of older checkpoints.
LEVELS: Final = (PromiseLevel.POOLED, PromiseLevel.PLACED)
LEVEL_NUMBERS: Final = {level: number for number, level in enumerate(LEVELS)}


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


class DetailStore:
    """Details by reservation number: compact text, or the tree of a recent commit."""

    def __init__(self) -> None:
        # Most requests have neither choices nor notes: storing only the tree saves 64 bytes each.
        self._kept: list[Kept] = []

    def put(self, number: int, details: RequestDetails) -> None:
        """Store or replace details; numbers come in order."""
        entry: Kept = details
        if details.expression is None or details.is_written:
            entry = pack(details)  # text takes a fraction of the memory of its tree
        elif _is_plain(details):
            entry = details.expression
        if number == len(self._kept):
            self._kept.append(entry)
        else:
            self._kept[number] = entry

    def get(self, number: int) -> RequestDetails:
        """Return the stored details."""
        entry = self._kept[number]
        return unpack(entry) if isinstance(entry, bytes) else _object(entry)

    def copy(self) -> DetailStore:
        """Return an equal store."""
        twin = DetailStore()
        twin._kept = list(self._kept)
        return twin

    def nbytes(self) -> int:
        """Return the memory of the texts; trees belong to their requests."""
        texts = sum(sys.getsizeof(one) for one in self._kept if isinstance(one, bytes))
        return texts + sys.getsizeof(self._kept)


def _object(entry: RequestDetails | Expression) -> RequestDetails:
    return entry if isinstance(entry, RequestDetails) else RequestDetails(entry)


def _is_plain(details: RequestDetails) -> bool:
    """Return whether there is only an expression."""
    return not (details.choices or details.notes or details.written)


def pack(entry: Kept) -> bytes:
    """Return details as compact text."""
    if isinstance(entry, bytes):
        return entry
    details = _object(entry)
    if _is_plain(details):
        return details.text.encode()
    kept: list[object] = [dict(details.choices), list(details.notes)]
    if details.written:
        kept.append(details.written)
    rest = json.dumps(kept, separators=(",", ":"))
    return f"{details.text}\0{rest}".encode()


def unpack(entry: bytes) -> RequestDetails:
    """Return the details that `pack` encoded."""
    text, _, rest = entry.decode().partition("\0")
    if not rest:
        return RequestDetails(text)
    choices, notes, *more = json.loads(rest)
    written = more[0] if more else ""
    return RequestDetails(text, tuple(choices.items()), tuple(notes), written=written)


def to_entries(rows: NDArray[np.int64]) -> NDArray[Any]:
    """Convert rows to entries of their column."""
    out = np.empty(len(rows), dtype=ROW)
    out["start"], out["end"], out["bundles"] = rows[:, 0], rows[:, 1], rows[:, 2]
    return out


def slot_column() -> Column:
    """Return a new column of slots; its first entry means no slot."""
    column = Column(_SLOT)
    column.append([(0, 0, 0, NOWHERE)])
    return column


def structured_slots(slots: Slots) -> NDArray[Any]:
    """Convert slots to entries of their column."""
    out = np.empty(len(slots), dtype=_SLOT)
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
