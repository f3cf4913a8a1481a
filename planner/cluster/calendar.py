"""Machines over time: how many of each group are up, and how many were lost, as steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, Outage, Pool, bundles_per_machine, groups_with
from rdl.resources import Resources

#: How long a lost machine counts as down, unless it is reported back.
LOST_MS: Final = 365 * 24 * 3_600_000

#: Earlier losses do not count.
WINDOW_MS: Final = 30 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Calendar:
    """How many machines of each group are up over [first, end).

    Attributes
    ----------
    cluster
        The cluster of the machines.
    breaks
        int64[s + 1]: steps at which the number of machines changes, from first to end.
    up
        int64[groups, s]: machines up in each segment.
    units
        By pool, int64[s]: units in each segment.
    reduced
        Of each machine of which some is taken: its group, what is left of it, and bool[s]: whether
        it is up in each segment.
    """

    cluster: Cluster
    breaks: NDArray[np.int64]
    up: NDArray[np.int64]
    units: Mapping[str, NDArray[np.int64]]
    reduced: tuple[tuple[int, Resources, NDArray[np.bool_]], ...] = ()

    def capacity(self, resource: str, label: str | None = None) -> NDArray[np.int64]:
        """Return int64[s]: capacity of the machines with `label` (None: all) in each segment.

        For a pool, its units, whatever the label.
        """
        if resource in self.units:
            return self.units[resource].copy()
        return self._sum(label, lambda machine: machine.get(resource, 0))

    def fit(self, bundle: Resources, label: str | None = None) -> NDArray[np.int64]:
        """Return int64[s]: most concurrent bundles, fitted machine by machine (the fit cap)."""
        return self._sum(label, lambda machine: bundles_per_machine(machine, bundle))

    def _sum(self, label: str | None, of_one: Callable[[Resources], int]) -> NDArray[np.int64]:
        total = np.zeros(self.up.shape[1], dtype=np.int64)
        groups = groups_with(self.cluster, label)
        whole = {index: of_one(self.cluster.machines[index].resources) for index in groups}
        for index, count in whole.items():
            total += self.up[index] * count
        for index, left, is_up in self.reduced:
            if index in whole:
                total += is_up * (of_one(left) - whole[index])
        return total

    def dense(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[end - first]: the value of each segment, repeated for its steps."""
        return np.repeat(values, np.diff(self.breaks))


def calendar_of(cluster: Cluster, first: int, end: int) -> Calendar:
    """Return the calendar of `cluster` over the steps [first, end).

    An outage takes a machine from the step it starts in to the end of the step it ends in:
    capacity is rounded down. Overlapping outages of one machine count once.
    """
    step = cluster.step_ms
    span_ms = first * step, end * step
    outages = (*cluster.outages_between(*span_ms), *cluster.pool_outages_between(*span_ms))
    spans = [(o, o.start_ms // step, -(-o.end_ms // step)) for o in outages]
    seen = [(o, max(s, first), min(e, end)) for o, s, e in spans if s < end and e > first and s < e]
    marks = {first, end}.union(*({start, stop} for _, start, stop in seen))
    offered = {pool.name: _steps_of(pool, step, first, end) for pool in cluster.pools}
    marks = marks.union(*offered.values())
    breaks = np.array(sorted(marks), dtype=np.int64)
    up = np.zeros((len(cluster.machines), len(breaks) - 1), dtype=np.int64)
    for row, group in enumerate(cluster.machines):
        mine = [entry for entry in seen if entry[0].machines == group.name]
        up[row] = group.count - _away(mine, breaks, group.count)
    units: dict[str, NDArray[np.int64]] = {}
    for pool in cluster.pools:
        start, stop = offered[pool.name]
        mine = [entry for entry in seen if entry[0].machines == pool.name]
        there = (breaks[:-1] >= start) & (breaks[:-1] < stop)
        units[pool.name] = np.where(there, pool.count - _away(mine, breaks, pool.count), 0)
    return Calendar(cluster, breaks, up, units, tuple(_reduced(cluster, seen, breaks)))


def _reduced(
    cluster: Cluster, outages: list[tuple[Outage, int, int]], breaks: NDArray[np.int64]
) -> Iterator[tuple[int, Resources, NDArray[np.bool_]]]:
    """Yield the machines of which some is taken, as `Calendar.reduced` has them."""
    if not cluster.reduced:
        return
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name, _ in cluster.taken}
    for outage, start, end in outages:
        for index in outage.indices:
            spans.get(f"{outage.machines}-{index}", []).append((start, end))
    for (name, _), (group, _, left) in zip(cluster.taken, cluster.reduced, strict=True):
        is_up = np.ones(len(breaks) - 1, dtype=bool)
        for start, end in spans[name]:
            is_up &= (breaks[:-1] < start) | (breaks[:-1] >= end)
        yield group, left, is_up


def _steps_of(pool: Pool, step_ms: int, first: int, end: int) -> tuple[int, int]:
    """Return the range of steps in [first, end) that the time of a pool covers completely."""
    start = first if pool.start_ms is None else -(-pool.start_ms // step_ms)
    stop = end if pool.end_ms is None else pool.end_ms // step_ms
    return min(max(start, first), end), min(max(stop, first), end)


def _away(
    outages: list[tuple[Outage, int, int]], breaks: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return int64[s]: distinct machines of a group, or units of a pool, down in each segment."""
    away = np.zeros(len(breaks) - 1, dtype=np.int64)
    if not outages:
        return away
    starts: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for outage, start, end in outages:
        starts.setdefault(start, []).append((1, outage.indices))
        starts.setdefault(end, []).append((-1, outage.indices))
    times_down = np.zeros(count, dtype=np.int64)
    for segment, at in enumerate(breaks[:-1].tolist()):
        for sign, indices in starts.get(at, ()):
            times_down[list(indices)] += sign
        away[segment] = np.count_nonzero(times_down)
    return away


# Tomorrow's losses break promises of a Plan that uses all machines that are up today. The losses of
# the last weeks show how many machines to keep free of promises.


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
