"""The columns of the machine room: machine steps on a ring."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: Bytes of trees that a room takes at most before its machine steps become longer than a step.
ROOM_BYTES = 128 * 2**20

#: A ring is longer than what it spans by one part in so many, so that it can grow in place.
_SPARE = 32


@dataclass(frozen=True, slots=True)
class TimeRing:
    """Columns [first, end) of `width` steps each, kept at their number modulo `size`."""

    width: int
    size: int
    first: int
    end: int

    @classmethod
    def of(cls, first: int, horizon: int, column_bytes: int) -> TimeRing:
        """Return the ring of the steps [first, horizon); `column_bytes` is what a column takes."""
        steps = max(1, horizon - first)
        most = ROOM_BYTES * _SPARE // (_SPARE + 1)
        width = max(1, -(-steps * column_bytes // max(1, most)))
        ring = cls(width, 1, first // width, _columns(max(first, horizon), width))
        return ring.grow()

    def roll(self, first: int, horizon: int) -> TimeRing:
        """Return the ring of [first, horizon) in columns of the same width."""
        end = max(self.end, _columns(horizon, self.width))
        ring = replace(self, first=min(max(self.first, first // self.width), end), end=end)
        return ring if ring.end - ring.first <= ring.size else ring.grow()

    def grow(self) -> TimeRing:
        """Return the same columns on a ring with room to grow."""
        columns = max(1, self.end - self.first)
        return replace(self, size=columns + max(2, columns // _SPARE))

    def numbers(self) -> NDArray[np.int64]:
        """Return int64[4]: width, size, first and end, as compiled code reads them."""
        return np.array([self.width, self.size, self.first, self.end], dtype=np.int64)


def _columns(horizon: int, width: int) -> int:
    return -(-horizon // width)
