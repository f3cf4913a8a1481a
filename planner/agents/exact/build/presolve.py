"""Rows of the profile that can never bind are left out before anything is laid out.

A cluster limits cores, memory, labels and quotas, and most often one of them limits all others:
then every loop over rows does its work twice or thrice for nothing. A row is implied by another
where whatever fits the other fits it too, at every step and whatever is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from planner.agents.exact.problem import F64, I64
from planner.view import Demand

#: How much closer than this two ratios must be for whole numbers to be asked which is larger.
_CLOSE = 1e-9


def binding_rows(demands: Sequence[Demand], rows: Sequence[int], free: I64) -> list[int]:
    """Return the rows that no other row implies, in order; of equal rows the first.

    Row r is implied by q where a_r(d) / a_q(d) <= free_r(t) / free_q(t) for every demand d that
    takes from r and every step t: sum a_q(d) x_d <= free_q(t) then gives the same of r.

    Parameters
    ----------
    demands
        All that may be placed.
    rows
        Every row that one of them takes from, ascending.
    free
        int64[row, step]: what is free of each of `rows`, at least 0.
    """
    takes: dict[int, dict[int, int]] = {row: {} for row in rows}
    for number, demand in enumerate(demands):
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            takes[row][number] = amount
    line = {row: free[place] for place, row in enumerate(rows)}
    kept = set(rows)
    for row in reversed(rows):
        # Only rows that all of its demands take from: quotas of others are not looked at.
        others = demands[next(iter(takes[row]))].rows
        if any(
            other != row
            and other in kept
            and _implies(takes[row], takes[other], line[row], line[other])
            for other in others
        ):
            kept.remove(row)
    return sorted(kept)


def _implies(takes: dict[int, int], by: dict[int, int], free: I64, of: I64) -> bool:
    """Return whether what fits `of`, taking `by`, always fits `free`, taking `takes`."""
    if any(number not in by for number in takes):
        return False
    some = of > 0  # where nothing fits the other nothing is placed
    mine, others = free[some], of[some]
    if not len(mine):
        return True
    ratios: F64 = mine / others
    least = float(ratios.min())
    most = max(amount / by[number] for number, amount in takes.items())
    if abs(most - least) > _CLOSE * max(most, least):
        return most < least
    near = ratios <= least * (1 + _CLOSE)
    pairs = np.unique(np.stack([mine[near], others[near]], axis=1), axis=0).tolist()
    return max(Fraction(a, by[number]) for number, a in takes.items()) <= min(
        Fraction(a, b) for a, b in pairs
    )


def distinct_demands(
    demands: Sequence[Demand], kept: Sequence[int]
) -> tuple[list[Demand], list[int]]:
    """Return the different demands on the rows that were kept, and which of them each one is."""
    numbers: dict[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], int] = {}
    found: list[Demand] = []
    place: list[int] = []
    wanted = frozenset(kept)
    for demand in demands:
        pairs = [
            (row, amount)
            for row, amount in zip(demand.rows, demand.amounts, strict=True)
            if row in wanted
        ]
        rows, amounts = tuple(row for row, _ in pairs), tuple(amount for _, amount in pairs)
        key = (rows, amounts, demand.fit)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(Demand(rows, amounts, demand.fit))
        place.append(numbers[key])
    return found, place
