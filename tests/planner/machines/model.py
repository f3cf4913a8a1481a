"""What a machine room should know: every machine, step and resource as one dense array."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.machines.room import MachineRoom
from planner.reservations.slots import MachineRule
from rdl.resources import Resources

I64 = NDArray[np.int64]

CPU = Resources.of({"cpu": 1})
STEP_MS = 1000


class DenseRoom:
    """int64[machine, step, resource] of what is left over [first, horizon)."""

    def __init__(self, cluster: Cluster, first: int, horizon: int) -> None:
        self.cluster = cluster
        self.names = cluster.resources
        self.first = first
        self.left = self._capacity(first, horizon)

    @property
    def horizon(self) -> int:
        """The first step past the last."""
        return self.first + self.left.shape[1]

    def _capacity(self, first: int, horizon: int) -> I64:
        rows = [
            [group.resources.get(name, 0) for name in self.names]
            for group in self.cluster.machines
            for _ in range(group.count)
        ]
        amounts = np.array(rows, dtype=np.int64).reshape(-1, 1, len(self.names))
        left = np.repeat(amounts, horizon - first, axis=1)
        for outage in self.cluster.outages:
            at = 0
            for group in self.cluster.machines:
                if group.name == outage.machines:
                    for index in outage.indices:
                        for step in range(first, horizon):
                            away = outage.end_ms > step * STEP_MS
                            if away and outage.start_ms < (step + 1) * STEP_MS:
                                left[at + index, step - first] = 0
                at += group.count
        return left

    def amounts(self, bundle: Resources) -> I64:
        """Return int64[resource] of a bundle."""
        return np.array([bundle.get(name, 0) for name in self.names], dtype=np.int64)

    def take(self, slots: I64, bundle: Resources, sign: int) -> None:
        """Take slots or release them."""
        for start, end, bundles, machine in slots.tolist():
            low, high = max(start, self.first), min(end, self.horizon)
            if machine >= 0 and low < high:
                part = self.left[machine, low - self.first : high - self.first]
                part -= sign * bundles * self.amounts(bundle)

    def advance(self, first: int, horizon: int) -> None:
        """Move on; new steps are empty."""
        first, horizon = max(first, self.first), max(horizon, self.horizon)
        new = self._capacity(self.horizon, horizon)
        self.left = np.concatenate([self.left, new], axis=1)[:, first - self.first :]
        self.first = first

    def holds(self, machine: int, start: int, end: int, bundle: Resources) -> int:
        """Return how many bundles one machine holds over [start, end), cut to what is known."""
        part = self.left[machine, max(start - self.first, 0) : end - self.first]
        if not part.size or any(name not in self.names for name in bundle):
            return 0
        least = part.min(axis=0).tolist()
        return max(
            0,
            min(least[self.names.index(name)] // amount for name, amount in bundle.items()),
        )

    def count(
        self, start: int, end: int, bundle: Resources, label: str | None, rule: MachineRule
    ) -> int:
        """Return how many bundles find a machine over [start, end)."""
        keys, values = keys_of(self.cluster, rule), values_of(self.cluster, rule.within)
        limit, most = rule.spread or 2**60, [0]
        named = sorted({value for value in values if value is not None})
        sets: list[tuple[str | None, ...]] = [(None,)]
        if rule.within is not None:
            sets = list(combinations(named, min(rule.values, len(named))))
        for some in sets:
            found: Counter[tuple[str, object]] = Counter()
            for machine in machines_with(self.cluster, label):
                if values[machine] in some and not _is_closed(rule, keys[machine]):
                    found[keys[machine]] += self.holds(machine, start, end, bundle)
            most.append(sum(min(limit, count) for count in found.values()))
        return max(most)


def machines_with(cluster: Cluster, label: str | None) -> list[int]:
    """Return the numbers of the machines with a label, all for None."""
    groups = [group for group in cluster.machines for _ in range(group.count)]
    return [number for number, group in enumerate(groups) if label is None or label in group.labels]


def keys_of(cluster: Cluster, rule: MachineRule) -> list[tuple[str, object]]:
    """Return, for every machine, what a spread counts together."""
    keys: list[tuple[str, object]] = []
    for group in cluster.machines:
        value = dict(group.domains).get(rule.domain) if rule.domain is not None else None
        for _ in range(group.count):
            keys.append(("machine", len(keys)) if value is None else ("domain", value))
    return keys


def values_of(cluster: Cluster, domain: str | None) -> list[str | None]:
    """Return each machine's value of a domain."""
    groups = [group for group in cluster.machines for _ in range(group.count)]
    return [dict(group.domains).get(domain or "") for group in groups]


def keeps(slots: I64, cluster: Cluster, rule: MachineRule) -> bool:
    """Return whether slots of one occurrence keep a rule."""
    values = values_of(cluster, rule.within)
    used = {values[machine] for machine in slots[:, 3].tolist()}
    is_within = rule.within is None or (len(used) <= rule.values and None not in used)
    return is_within and (not rule.spread or most_at_once(slots, cluster, rule) <= rule.spread)


def _is_closed(rule: MachineRule, key: tuple[str, object]) -> bool:
    """Return whether a machine has no value of the domain that bundles are spread over."""
    return bool(rule.spread) and rule.domain is not None and key[0] == "machine"


def most_at_once(slots: I64, cluster: Cluster, rule: MachineRule) -> int:
    """Return the most bundles that slots hold at once on what a spread counts together.

    A machine that has no value of the domain holds none: one there is more than any spread.
    """
    keys = keys_of(cluster, rule)
    found: Counter[tuple[object, int]] = Counter()
    for start, end, bundles, machine in slots.tolist():
        for step in range(start, end):
            found[keys[machine], step] += 2**30 if _is_closed(rule, keys[machine]) else bundles
    return max(found.values(), default=0)


def rows_of(slots: I64, steps: int) -> list[int]:
    """Return how many bundles slots hold at each of the steps from 0 on."""
    held = np.zeros(steps, dtype=np.int64)
    for start, end, bundles, _ in slots.tolist():
        held[start:end] += bundles
    return [int(value) for value in held]


def leaves(room: MachineRoom) -> I64:
    """Return int64[machine, column, resource] of what a room knows, its trees or lists checked."""
    if len(room._count):
        return _left_from_breaks(room)
    size, tree = room._ring.size, room._tree
    inner = tree[:, 1:size]
    assert (inner == np.minimum(tree[:, 2 : 2 * size : 2], tree[:, 3 : 2 * size : 2])).all()
    columns = size + np.arange(room._ring.first, room._ring.end) % size
    lanes = room._stripes.lane_of
    found = tree[lanes[:, None] // 64, columns[None, :], :, lanes[:, None] % 64]
    return found.astype(np.int64)


def _left_from_breaks(room: MachineRoom) -> I64:
    found = []
    for place in room._stripes.lane_of.tolist():
        count = int(room._count[place])
        steps = room._breaks[place, :count]
        assert steps[0] <= room._ring.first
        assert (np.diff(steps) > 0).all()
        at = np.searchsorted(steps, np.arange(room._ring.first, room._ring.end), side="right") - 1
        found.append(room._left[place, at])
    return np.array(found, dtype=np.int64)


@cache
def bundles() -> st.SearchStrategy[Resources]:
    """Bundles of cpu, memory or both; a few of what no machine has."""
    amounts = st.fixed_dictionaries(
        {}, optional={"cpu": st.integers(1, 4), "memory": st.integers(1, 4)}
    ).filter(bool)
    odd = st.sampled_from([{"gpu": 1}, {"cpu": 1, "gpu": 2}])
    return st.one_of(amounts, amounts, amounts, odd).map(Resources.of)


@cache
def rules() -> st.SearchStrategy[MachineRule]:
    """Rules with and without a spread, over machines or racks, some of them within some racks."""
    domain = st.sampled_from([None, "rack"])
    places = st.sampled_from([(None, 1), (None, 1), ("rack", 1), ("rack", 2)])
    plain = st.builds(MachineRule, st.integers(0, 3), domain, st.booleans())
    return st.builds(lambda r, p: r._replace(within=p[0], values=p[1]), plain, places)


@cache
def labels() -> st.SearchStrategy[str | None]:
    """No label, one that some machines may carry, and one that none does."""
    return st.sampled_from([None, None, None, "x", "y", "none"])


@cache
def clusters(steps: int, most: int = 6) -> st.SearchStrategy[Cluster]:
    """Small clusters of one to three groups, now and then with more machines than a stripe."""
    return _clusters(steps, most)


@st.composite
def _clusters(draw: st.DrawFn, steps: int, most: int) -> Cluster:
    groups = []
    for number in range(draw(st.integers(1, 3))):
        amounts = {"cpu": draw(st.integers(0, 8)), "memory": draw(st.integers(0, 8))}
        if number == 0:
            amounts["cpu"] += 1
        rack = draw(st.sampled_from([(), (("rack", "r1"),), (("rack", "r2"), ("zone", "a"))]))
        groups.append(
            MachineGroup(
                f"g{number}",
                draw(st.integers(1, most)),
                Resources.of(amounts),
                draw(st.frozensets(st.sampled_from(["x", "y"]))),
                rack,
            )
        )
    outages = []
    for _ in range(draw(st.integers(0, 2))):
        group = draw(st.sampled_from(groups))
        start = draw(st.integers(0, steps * STEP_MS))
        outages.append(
            Outage(
                group.name,
                tuple(draw(st.sets(st.integers(0, group.count - 1), max_size=3))),
                start,
                start + draw(st.integers(1, 5 * STEP_MS)),
            )
        )
    return Cluster(STEP_MS, steps * STEP_MS, tuple(groups), outages=tuple(outages))


@st.composite
def intervals(draw: st.DrawFn, low: int, high: int) -> tuple[int, int]:
    """Intervals of at least a step inside [low, high)."""
    start = draw(st.integers(low, high - 1))
    return start, draw(st.integers(start + 1, high))


@st.composite
def slots_on(draw: st.DrawFn, machines: int, steps: int, most: int = 4) -> I64:
    """Slots anywhere, also past the ends, also without a machine."""
    rows = []
    for _ in range(draw(st.integers(0, most))):
        start, end = draw(intervals(-2, steps + 3))
        rows.append((start, end, draw(st.integers(1, 2)), draw(st.integers(-1, machines - 1))))
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def rooms_of(
    cluster: Cluster, data: st.DataObject, steps: int, most: int = 4
) -> tuple[MachineRoom, DenseRoom]:
    """Return a room and the dense array with the same slots of a core taken."""
    room, dense = MachineRoom(cluster, cluster.grid(), 0), DenseRoom(cluster, 0, steps)
    slots = data.draw(slots_on(room.machines, steps, most))
    room.take(slots, CPU, 1)
    dense.take(slots, CPU, 1)
    return room, dense
