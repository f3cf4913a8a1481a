"""The columns of the machine room, a ring of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

#: A ring is longer than its span by 1 / `_SPARE`, so that it can grow in place.
_SPARE = 32


@dataclass(frozen=True, slots=True)
class TimeRing:
    """Columns [first, end), one per step, stored at their number modulo `size`."""

    size: int
    first: int
    end: int

    @classmethod
    def of(cls, first: int, horizon: int) -> TimeRing:
        """Return the ring of the steps [first, horizon)."""
        return cls(1, first, max(first, horizon)).grow()

    def roll(self, first: int, horizon: int) -> TimeRing:
        """Return the ring of [first, horizon)."""
        end = max(self.end, horizon)
        ring = replace(self, first=min(max(self.first, first), end), end=end)
        return ring if ring.end - ring.first <= ring.size else ring.grow()

    def grow(self) -> TimeRing:
        """Return the same columns on a ring with spare length."""
        columns = max(1, self.end - self.first)
        return replace(self, size=columns + max(2, columns // _SPARE))

    def numbers(self) -> NDArray[np.int64]:
        """Return int64[3]: size, first and end, for compiled code."""
        return np.array([self.size, self.first, self.end], dtype=np.int64)
