"""Block minima of profile rows, so that a week of seconds reads as fast as a week of minutes.

A request may use thousands of columns of a profile, and mostly needs to know one thing: is there
enough in all of them? Each row therefore has the minimum of every block of columns, so that a whole
block is one read (greedy.md 3.1). Short profiles, mostly copies for a batch, are faster without an
index.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Columns of a block.
BLOCK: Final = 64

#: Rows with fewer columns have no index.
INDEXED_FROM: Final = 1 << 12

I64 = NDArray[np.int64]


def wants_index(columns: int) -> bool:
    """Return whether rows of this many columns have an index."""
    return columns >= INDEXED_FROM


def block_count(columns: int) -> int:
    """Return how many blocks a row has, 0 if there is no index."""
    return -(-columns // BLOCK) if wants_index(columns) else 0


def block_minima(values: I64) -> I64:
    """Return int64[row, block]: the minimum of each block; short rows have no blocks."""
    rows, columns = values.shape
    blocks = block_count(columns)
    if not blocks or not rows:
        return np.zeros((rows, blocks), dtype=np.int64)
    return np.minimum.reduceat(values, np.arange(0, columns, BLOCK), axis=1)
