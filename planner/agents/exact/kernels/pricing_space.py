"""Scratch of the Lagrangian bound: one thread's costs, weights and lines."""

from __future__ import annotations

from typing import Final, NamedTuple

from planner.agents.exact.kernels.arrays import F64, I64

#: Parts of a window in which the flow of a malleable atom may begin and end.
CELLS: Final = 6

# Rows of `Space.line`.
IN: Final = 0  # what has been spent before, by start
Q: Final = 1  # prefix sums of the atom's price
HP: Final = 2  # heap of the dearest steps taken: price, amount, column
HA: Final = 3
HC: Final = 4
LINES: Final = 5


class Space(NamedTuple):
    """Scratch of one thread.

    Attributes
    ----------
    cell
        int64[vertex]: first cell of the vertex in the arrays below; requests share them.
    cost
        float64[cell]: G.
    lease
        float64[cell]: what G of a malleable atom would be by leases alone.
    asked
        float64[cell]: weight with which G of a column is part of the optimum.
    line
        float64[LINES, columns + 1].
    prefix
        float64[demand, columns + 1]: prefix sums of a bundle's price.
    use
        float64[row, columns + 1]: changes of use, as shares of a row.
    gains
        float64[request]: what each request adds to the bound; below 0 only where it must be kept.
    """

    cell: I64
    cost: F64
    lease: F64
    asked: F64
    line: F64
    prefix: F64
    use: F64
    gains: F64
