"""SharedCounts: counts by name of each process of a server, visible to all of them."""

from __future__ import annotations

import fcntl
import mmap
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

#: Cells in the row of one process, and how many of them may hold a given name. If all of these are
#: taken, the other processes do not see that count.
_CELLS: Final = 4096
_NEAR: Final = 8


class SharedCounts:
    """Counts of processes forked from its creator, in shared memory.

    Each process writes its own row, which it locks until it ends. So the counts of a killed process
    are recognised as stale. Not thread-safe within a process.

    Parameters
    ----------
    processes
        Most concurrent processes; counts of further ones are not shared.
    """

    def __init__(self, processes: int, cells: int = _CELLS) -> None:
        self._rows, self._cells = processes, cells
        size = 8 * cells * processes
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (as long as the object)
        self._file.truncate(2 * size)
        held = memoryview(mmap.mmap(self._file.fileno(), 2 * size))
        self._keys, self._counts = held[:size].cast("Q"), held[size:].cast("q")
        self._own: int | None = None

    def put(self, name: str, count: int) -> None:
        """Set this process's count of a name."""
        if self._own is None and (own := self._free_row()) is not None:
            self._own = own
        if self._own is None:
            return
        first = self._own * self._cells
        key, steps = _near(name, self._cells)
        free = None
        for step in steps:
            place = first + step
            if self._keys[place] == key:
                free = place
                break
            if free is None and not self._counts[place]:
                free = place
        if free is not None:
            self._keys[free], self._counts[free] = key, count

    def of_others(self, name: str) -> int:
        """Return the sum of a name's counts over the other live processes."""
        rows = [row for row in range(self._rows) if row != self._own]
        if not self._sum(rows, name):
            return 0
        self._clear_dead(rows)
        return self._sum(rows, name)

    def _sum(self, rows: Iterable[int], name: str) -> int:
        key, steps = _near(name, self._cells)
        keys, counts, total = self._keys, self._counts, 0
        for row in rows:
            first = row * self._cells
            for step in steps:
                if keys[first + step] == key:
                    total += counts[first + step]
        return total

    def _free_row(self) -> int | None:
        """Lock a free row, and clear it."""
        for row in range(self._rows):
            if self._lock(row):
                self._clear(row)
                return row
        return None

    def _clear_dead(self, rows: Iterable[int]) -> None:
        """Clear the rows of dead processes."""
        for row in rows:
            if self._lock(row):
                self._clear(row)
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, row)

    def _lock(self, row: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, row)
        except OSError:
            return False
        return True

    def _clear(self, row: int) -> None:
        for place in range(row * self._cells, (row + 1) * self._cells):
            self._counts[place] = 0


@lru_cache(maxsize=1024)
def _near(name: str, cells: int) -> tuple[int, tuple[int, ...]]:
    """Return the key of a name, and the cells of a row that may hold it."""
    key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") or 1
    return key, tuple((key + step) % cells for step in range(min(_NEAR, cells)))
