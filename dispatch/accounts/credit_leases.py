"""Find rows that are not needed because their work was already done beyond the entitlement.

A bundle is kept at least for its lease; bundles are released first in, first out. A bundle kept for
n leases or more counts as n consecutive leases, the first of which includes the remainder. The
latest leases that have not begun are credited, up to the work done beyond the entitlement, while
every step of the atom stays at 0 or at least g.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.reservations.reservation import Rows
from planner.reservations.rows import add_up


@dataclass(frozen=True, slots=True)
class AtomRule:
    """Constraints on every step of an atom.

    Attributes
    ----------
    minimum, multiple
        The bundles at a step are 0, or at least `minimum` and divisible by `multiple`.
    lease
        Least number of steps that a bundle is kept.
    """

    minimum: int
    multiple: int
    lease: int


def leases_of(rows: Rows, lease: int) -> list[tuple[int, int, int]]:
    """Return the whole leases of an atom as (start, end, count), latest start first.

    Parameters
    ----------
    rows
        int64[m, 3], sorted, disjoint and merged.
    lease
        Steps that a bundle is kept at least, 1 or more.
    """
    found: dict[tuple[int, int], int] = {}
    for start, end, count in _stretches(rows):
        last = end
        while last - start >= 2 * lease:
            found[last - lease, last] = found.get((last - lease, last), 0) + count
            last -= lease
        found[start, last] = found.get((start, last), 0) + count
    return [(*span, found[span]) for span in sorted(found, reverse=True)]


def _stretches(rows: Rows) -> list[tuple[int, int, int]]:
    """Return (taken, released, bundles) by FIFO matching."""
    found: list[tuple[int, int, int]] = []
    taken: deque[list[int]] = deque()
    height, at = 0, 0
    for start, end, bundles in (*rows.tolist(), (-1, -1, 0)):
        if start != at:  # no allocation in between
            _release(taken, height, at, found)
            height, at = 0, start
        if bundles > height:
            taken.append([at, bundles - height])
        else:
            _release(taken, height - bundles, at, found)
        height, at = bundles, end
    return found


def _release(
    taken: deque[list[int]], count: int, at: int, found: list[tuple[int, int, int]]
) -> None:
    while count > 0:
        oldest = taken[0]
        part = min(count, oldest[1])
        found.append((oldest[0], at, part))
        oldest[1] -= part
        count -= part
        if not oldest[1]:
            taken.popleft()


def spare_rows(rows: Rows, rule: AtomRule, credit: int, from_step: int) -> Rows:
    """Return the rows of the latest whole leases that finished work makes unnecessary.

    Parameters
    ----------
    rows
        Allocation of the atom, int64[m, 3], sorted, disjoint and merged.
    credit
        Work done beyond the entitlement, in bundle-steps.
    from_step
        Leases that begin earlier stay.

    Returns
    -------
    int64[k, 3]
        The largest number of leases, latest first, that `credit` pays for and whose removal keeps
        every step valid; empty if there is none.
    """
    if not len(rows) or credit <= 0:
        return rows[:0]
    first = int(rows[0, 0])
    heights = _heights(rows, first)
    bad = ~_valid(heights, rule)
    taken: list[tuple[int, int, int]] = []
    best: list[tuple[int, int, int]] = []
    for start, end, count in leases_of(rows, rule.lease):
        affordable = min(count, credit // (end - start))
        if start < from_step or not affordable:
            break
        span = slice(start - first, end - first)
        if not (bad[: span.start].any() or bad[span.stop :].any()):
            most = _largest_take(heights[span], rule, affordable)
            if most:
                best = [*taken, (start, end, most)]
        if affordable < count:
            break
        heights[span] -= count
        bad[span] = ~_valid(heights[span], rule)
        taken.append((start, end, count))
        credit -= count * (end - start)
    return add_up(np.array(best, dtype=np.int64).reshape(-1, 3)) if best else rows[:0]


def _largest_take(heights: NDArray[np.int64], rule: AtomRule, limit: int) -> int:
    """Return the largest number of bundles, at most `limit`, that can be taken from each height."""
    distinct = np.unique(heights)
    for count in range(limit, 0, -1):
        if _valid(distinct - count, rule).all():
            return count
    return 0


def _valid(heights: NDArray[np.int64], rule: AtomRule) -> NDArray[np.bool_]:
    held = (heights >= rule.minimum) & (heights % rule.multiple == 0)
    return np.asarray(held | (heights == 0), dtype=np.bool_)


def _heights(rows: Rows, first: int) -> NDArray[np.int64]:
    change = np.zeros(int(rows[-1, 1]) - first + 1, dtype=np.int64)
    np.add.at(change, rows[:, 0] - first, rows[:, 2])
    np.subtract.at(change, rows[:, 1] - first, rows[:, 2])
    return np.cumsum(change[:-1])
