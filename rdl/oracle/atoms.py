"""Atoms in the oracle: their rounded lease and work, and the leases of an allocation.

Part of the oracle (`rdl.oracle.satisfaction`); it shares no code with `rdl.compile.shapes`, so that
comparing the two reveals a fault in one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from rdl.expressions import Atom

#: (first step, first step past the last, bundles)
Row: TypeAlias = Sequence[int]


def shortest_lease(rows: Sequence[Row]) -> int:
    """Return the shortest lease of a bundle if bundles are released first in, first out.

    No other matching of starts and releases has a longer shortest lease, so an allocation keeps
    leases of l steps iff this is at least l. Starts and releases are (instant, count) pairs: the
    cost does not grow with heights.

    Parameters
    ----------
    rows
        Sorted, disjoint, not empty; at least one.
    """
    taken: deque[list[int]] = deque()
    height, at = 0, rows[0][0]
    shortest = rows[-1][1] - rows[0][0]
    for start, end, bundles in (*rows, (rows[-1][1], rows[-1][1], 0)):
        changes = [(at, -height), (start, bundles)] if start > at else [(start, bundles - height)]
        for instant, change in changes:
            if change > 0:
                taken.append([instant, change])
            while change < 0:
                oldest = taken[0]
                released = min(oldest[1], -change)
                shortest = min(shortest, instant - oldest[0])
                change += released
                oldest[1] -= released
                if not oldest[1]:
                    taken.popleft()
        height, at = bundles, end
    return shortest


def lease_and_work(atom: Atom, step_ms: int) -> tuple[int, int | None]:
    """Return the lease in steps and the exact work in bundle-steps; None if none is reachable.

    Lease and work are rounded together: a work of n whole leases stays n whole leases. Then the
    work is rounded up to the next reachable one.
    """
    numbers = (atom.minimum, atom.maximum, atom.multiple, atom.lease_ms, atom.work_ms)
    return _round_to_steps(numbers, step_ms)


@lru_cache(maxsize=65_536)
def _round_to_steps(
    numbers: tuple[int, int, int, int, int], step_ms: int
) -> tuple[int, int | None]:
    minimum, maximum, multiple, lease_ms, work_ms = numbers
    lease = max(1, -(-lease_ms // step_ms))
    if lease_ms >= step_ms and work_ms % lease_ms == 0:
        work = work_ms // lease_ms * lease
    else:
        work = -(-work_ms // step_ms)
    least, most = -(-minimum // multiple), maximum // multiple
    if not 1 <= least <= most:
        return lease, None
    return lease, multiple * least_work(least, most, lease, -(-work // multiple))


def least_work(minimum: int, maximum: int, lease: int, work: int) -> int:
    """Return the smallest reachable work at or above `work` (g, h in bundles, lease in steps).

    One contiguous block of d >= l steps always suffices. For d >= 2l it can have every work in [g
    d, h d]. For d < 2l every bundle is held through the middle 2l - d steps, since none starts
    later than d - l or ends before l; so with m bundles the middle has height m, the rest at least
    g, and each bundle has at least l steps: every work in [max(m l, g d + (m - g)(2l - d)), m d].
    """
    if minimum == maximum:
        return minimum * max(lease, -(-work // minimum))
    length = max(2 * lease, -(-work // maximum))
    best = max(work, minimum * length)
    for most in range(minimum, min(maximum, 2 * minimum) + 1):
        if best == work or most * lease >= best:
            break
        # Up to m = 2g the smallest work of a block grows with its length: the shortest suffices.
        length = max(lease, -(-work // most))
        if length < 2 * lease:
            floor = minimum * length + (most - minimum) * (2 * lease - length)
            best = min(best, max(work, most * lease, floor))
    return best
