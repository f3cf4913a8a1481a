"""The arrays of a ledger, their index, and how they grow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.block_index import block_count, block_minima


@dataclass(slots=True)
class Cells:
    """The arrays of a ledger; rows past the counts are room to grow.

    Attributes
    ----------
    free, rows
        int64[room, steps], and how many of its rows are filled.
    slack, averages
        int64[room, longest window + steps], and how many of its rows are filled.
    low, slack_low
        Least of each block of `free` and `slack`; no blocks on coarse grids.
    """

    free: NDArray[np.int64]
    slack: NDArray[np.int64]
    low: NDArray[np.int64]
    slack_low: NDArray[np.int64]
    rows: int = 0
    averages: int = 0

    @classmethod
    def empty(cls, rows: int, steps: int, longest: int) -> Cells:
        """Return room for so many rows of `steps` columns, nothing filled."""
        free = np.empty((rows, steps), dtype=np.int64)
        slack = np.empty((0, longest + steps), dtype=np.int64)
        low = np.zeros((rows, block_count(steps)), dtype=np.int64)
        return cls(free, slack, low, np.zeros((0, block_count(longest + steps)), dtype=np.int64))

    def copy(self) -> Cells:
        """Return equal cells that share nothing."""
        return Cells(
            self.free.copy(),
            self.slack.copy(),
            self.low.copy(),
            self.slack_low.copy(),
            self.rows,
            self.averages,
        )

    def index_again(self) -> None:
        """Find the least of every block anew."""
        if self.low.shape[1]:
            self.low[: self.rows] = block_minima(self.free[: self.rows])
        if self.slack_low.shape[1]:
            self.slack_low[: self.averages] = block_minima(self.slack[: self.averages])


def grown(array: NDArray[np.int64], filled: int, wanted: int) -> NDArray[np.int64]:
    """Return a copy with room for half as many rows again."""
    grown = np.empty((wanted + wanted // 2, array.shape[1]), dtype=np.int64)
    grown[:filled] = array[:filled]
    return grown
