"""How many machines of a group were lost at the same time, from its outages (Rayon 5.2).

Tomorrow's losses break promises of a Plan that uses all machines that are up today. The losses of
the last weeks show how many machines to keep free of promises.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from planner.cluster.cluster import Cluster

#: How long a lost machine counts as down, unless it is reported back.
LOST_MS: Final = 365 * 24 * 3_600_000

#: Earlier losses do not count.
WINDOW_MS: Final = 30 * 24 * 3_600_000


def lost_now(cluster: Cluster, group: str, now_ms: int) -> frozenset[int]:
    """Return the machines of a group that are lost at an instant."""
    return frozenset(
        index
        for one in cluster.outages
        if one.kind == "loss" and one.machines == group and one.start_ms <= now_ms < one.end_ms
        for index in one.indices
    )


def lost_at_once(cluster: Cluster, group: str, now_ms: int, share: float) -> int:
    """Return the most machines of a group lost at the same time, for a share of the time.

    Parameters
    ----------
    share
        In this share of the time since the origin, at most of the last 30 days, no more were lost.
    """
    begin_ms = max(0, now_ms - WINDOW_MS)
    events: list[tuple[int, int, int]] = []
    for one in cluster.outages:
        start_ms, end_ms = max(one.start_ms, begin_ms), min(one.end_ms, now_ms)
        if one.kind == "loss" and one.machines == group and start_ms < end_ms:
            for index in one.indices:
                events += [(start_ms, 1, index), (end_ms, -1, index)]
    lasted_ms = _lasted_ms(sorted(events))
    over_ms = round((1 - share) * (now_ms - begin_ms))
    longer_ms, most = 0, max(lasted_ms, default=0)
    while most:
        longer_ms += lasted_ms.get(most, 0)
        if longer_ms > over_ms:
            break
        most -= 1
    return most


def _lasted_ms(events: list[tuple[int, int, int]]) -> dict[int, int]:
    """Return the total time by number of machines lost at the same time, without 0."""
    lasted: Counter[int] = Counter()
    away: Counter[int] = Counter()
    count, since_ms = 0, 0
    for at_ms, change, index in events:
        if count:
            lasted[count] += at_ms - since_ms
        since_ms = at_ms
        before = away[index]
        away[index] += change
        count += (away[index] > 0) - (before > 0)
    return dict(lasted)
