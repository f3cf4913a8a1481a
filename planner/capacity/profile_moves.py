"""Calls of the kernels of a ledger: take rows, release them, check whether they are free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.capacity import profile_kernels as ledger_kernels
from planner.view import ProfileArrays

I64 = NDArray[np.int64]

_ALL_FIRST = np.zeros(1024, dtype=np.int64)


def move(arrays: ProfileArrays, begin: I64, terms: I64, rows: I64, sign: int) -> None:
    """Take the rows of one demand from a ledger (sign 1), or release them (sign -1).

    Parameters
    ----------
    begin
        int64[2]: step of column 0, and the index of that step among window starts.
    terms
        What a bundle takes, in the layout of `planner.capacity.profile_kernels`.
    rows
        int64[m, 3]; the parts outside the columns are cut off.
    """
    # A copy, since numba would compile a second version for read-only arrays.
    ledger_kernels.move(*arrays, terms, _places(len(rows)), rows.copy(), begin, sign)


def plainly_free(arrays: ProfileArrays, begin: I64, pieces: Sequence[tuple[I64, I64]]) -> bool:
    """Return whether consecutive rows are all free; False also if the fast check cannot tell.

    `pieces` are (terms, rows) of each atom.
    """
    if len(pieces) == 1:
        terms, rows = pieces[0]
        places, joined = _places(len(rows)), rows.copy()
    else:
        terms = np.concatenate([one for one, _ in pieces])
        joined = np.concatenate([rows for _, rows in pieces])
        ends = np.cumsum([len(one) for one, _ in pieces])
        starts = np.array([0, *ends[:-1]], dtype=np.int64)
        places = np.repeat(starts, [len(rows) for _, rows in pieces])
    return bool(ledger_kernels.all_free(*arrays, terms, places, joined, begin))


def room_over(
    arrays: ProfileArrays, terms: I64, breaks: I64, first: int, span: tuple[int, int]
) -> I64:
    """Return int64[steps]: free bundles in rows and on machines at each step of a span."""
    found: I64 = ledger_kernels.room_over(arrays.free, terms, breaks.copy(), first, *span)
    return found


def _places(count: int) -> I64:
    """Return the index of each row's terms when all rows share them."""
    if count > len(_ALL_FIRST):
        return np.zeros(count, dtype=np.int64)
    return _ALL_FIRST
