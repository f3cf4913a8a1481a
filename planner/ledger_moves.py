"""A ledger's rows in compiled code: taken, given back, and asked whether they are free."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner import kernels
from planner.takes import Takes, takes_of
from planner.view import Demand, Lent
from planner.work_table import NO_SCRATCH

I64 = NDArray[np.int64]

_ALL_FIRST = np.zeros(1024, dtype=np.int64)


def move(
    lent: Lent, windows: I64, first: int, offset: int, demand: Demand, rows: I64, sign: int
) -> None:
    """Take the rows of one demand from a ledger (sign 1), or give them back (sign -1).

    Parameters
    ----------
    windows, offset
        Lengths of the averages in steps, and the place of step `first` among window starts.
    rows
        int64[m, 3]; what is before `first` or past the last column is cut off.
    """
    profile, averages = _arrays(lent, windows, offset, takes_of((demand,)))
    demand_of = _ALL_FIRST if len(rows) <= len(_ALL_FIRST) else np.zeros(len(rows), dtype=np.int64)
    kernels.move_rows(profile, averages, rows.copy(), demand_of, first, sign)


def plainly_free(
    lent: Lent, windows: I64, first: int, offset: int, pieces: Sequence[tuple[Demand, I64]]
) -> bool:
    """Return whether rows one after the other are all free; False also where it is not plain."""
    if len(pieces) == 1:
        demand, rows = pieces[0]
        profile, averages = _arrays(lent, windows, offset, takes_of((demand,)))
        demand_of = np.zeros(len(rows), dtype=np.int64)
        return bool(kernels.plainly_free(profile, averages, rows.copy(), demand_of, first))
    numbers: dict[Demand, int] = {}
    owners = [numbers.setdefault(demand, len(numbers)) for demand, _ in pieces]
    joined = np.concatenate([rows for _, rows in pieces])
    demand_of = np.repeat(np.array(owners, dtype=np.int64), [len(rows) for _, rows in pieces])
    profile, averages = _arrays(lent, windows, offset, takes_of(tuple(numbers)))
    return bool(kernels.plainly_free(profile, averages, joined, demand_of, first))


def _arrays(
    lent: Lent, windows: I64, offset: int, takes: Takes
) -> tuple[kernels.Profile, kernels.Averages]:
    """Return a whole ledger as the kernels' tuples; segments are not asked for."""
    columns = lent.free.shape[1]
    span, place = _pair(0, columns), _pair(offset, columns)
    profile = kernels.Profile(lent.free, span, span, *takes.all_row_lists, takes.fit, lent.low)
    averages = kernels.Averages(
        windows, lent.slack, *takes.all_average_lists, place, NO_SCRATCH, lent.slack_low
    )
    return profile, averages


@lru_cache(maxsize=64)
def _pair(first: int, second: int) -> I64:
    """Return two numbers as an array; remembered, and never written."""
    return np.array([first, second], dtype=np.int64)
