"""MachinePool: the machines, which of them are up, and the work that each can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dispatch.applications.application import Application, Component
from dispatch.machines.placement.state import Machines
from planner.cluster.cluster import Cluster

Vector = tuple[int, ...]


class MachinePool:
    """Machines by number: groups in the order of the cluster, within a group by index.

    Parameters
    ----------
    cluster
        Describes the machines.

    Attributes
    ----------
    cluster
        As given.
    resources
        Names of the resources, sorted; vectors of amounts use this order.
    names
        ``<group>-<index>`` by number.
    capacity
        Canonical amounts of each machine, int64[machines, resources], read-only.
    label_counts
        Number of labels of each machine, int64[machines].
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.resources = cluster.resources
        groups = cluster.machines
        self.names = tuple(name for group in groups for name in group.machine_names())
        self._numbers = {name: number for number, name in enumerate(self.names)}
        each = np.array(
            [[group.resources.get(kind, 0) for kind in self.resources] for group in groups],
            dtype=np.int64,
        ).reshape(len(groups), len(self.resources))
        counts = np.array([group.count for group in groups], dtype=np.int64)
        self.configurations = Machines(counts, each.astype(np.float64))
        self.capacity = np.repeat(each, counts, axis=0)
        self.capacity.flags.writeable = False
        self._labels = [group.labels for group in groups]
        self._group_of = np.repeat(np.arange(len(groups)), counts)
        label_counts = np.array([len(labels) for labels in self._labels], dtype=np.int64)
        self.label_counts = label_counts[self._group_of]
        self._away: frozenset[str] = frozenset()
        self._lost: set[str] = set()
        self._allowed: dict[frozenset[str], NDArray[np.bool_] | None] = {}

    @cached_property
    def intact(self) -> MachinePool:
        """A pool of the same machines, all of them up."""
        return MachinePool(self.cluster)

    def number_of(self, name: str) -> int | None:
        """Return the number of a machine, or None."""
        return self._numbers.get(name)

    def is_up(self, name: str) -> bool:
        """Return whether a machine exists, is not lost and not in an outage."""
        return name in self._numbers and name not in self._lost and name not in self._away

    def set_away(self, away: Iterable[str]) -> None:
        """Set the machines in outages; all others are up again unless a backend has lost them."""
        self._away = frozenset(away)

    def lose(self, name: str) -> None:
        """Mark a machine as lost by the backend; unknown names are ignored."""
        if name in self._numbers:
            self._lost.add(name)

    def bring_back(self, name: str) -> None:
        """Mark a machine that a backend had lost as available again."""
        self._lost.discard(name)

    @property
    def down(self) -> frozenset[str]:
        """Machines that are lost or in an outage."""
        return self._away.union(self._lost) & self._numbers.keys()

    def total(self, without: frozenset[str] = frozenset()) -> Vector:
        """Return the total capacity of the machines that are up, except those in `without`."""
        gone = [self._numbers[name] for name in (self.down | without) if name in self._numbers]
        whole = self.capacity.sum(axis=0) - self.capacity[gone].sum(axis=0)
        return tuple(whole.tolist())

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return amounts in the order of `resources`, without those that no machine has."""
        return tuple(amounts.get(kind, 0) for kind in self.resources)

    def label_mask(self, labels: frozenset[str]) -> NDArray[np.bool_] | None:
        """Return which machines carry all of `labels`, bool[machines]; None when all do."""
        if labels not in self._allowed:
            fitting = np.array([labels <= have for have in self._labels], dtype=np.bool_)
            mask = fitting[self._group_of]
            self._allowed[labels] = None if mask.all() else mask
        return self._allowed[labels]

    def why_never(self, component: Component) -> str | None:
        """Return why a single such component can never run here, or None; outages are ignored."""
        asked = component.resources
        missing = [kind for kind in asked if kind not in self.resources]
        if missing:
            return f"{component.name!r} asks for {missing[0]}, which no machine offers"
        groups = [g for g in self.cluster.machines if component.labels <= g.labels and g.count]
        if not groups:
            words = ", ".join(sorted(component.labels))
            return f"{component.name!r} is for machines labelled {words}, and there are none"
        if not any(all(g.resources.get(k, 0) >= n for k, n in asked.items()) for g in groups):
            where = f" labelled {', '.join(sorted(component.labels))}" if component.labels else ""
            return f"{component.name!r} asks for {asked}: no machine{where} is that large"
        return None

    def count_room(self, component: Component) -> int:
        """Return how many such components fit on all machines if nothing else runs."""
        asked = component.resources.items()
        return sum(
            group.count * min((group.resources.get(k, 0) // n for k, n in asked), default=0)
            for group in self.cluster.machines
            if component.labels <= group.labels
        )

    def why_not_more(self, component: Component) -> str | None:
        """Return why not all `count` components can ever run here concurrently, or None."""
        why, most = self.why_never(component), self.count_room(component)
        if why is None and most < component.count:
            return f"all machines together hold {most:,} of {component.count:,} {component.name!r}"
        return why

    def why_never_all(self, application: Application) -> str | None:
        """Return why the core components of an application can never run here together, or None."""
        asked: dict[str, int] = {}
        for component in application.core:
            why = self.why_not_more(component)
            if why is not None:
                return why
            for kind, amount in component.resources.items():
                asked[kind] = asked.get(kind, 0) + amount * component.count
        there = self.cluster.nominal
        short = [kind for kind, amount in asked.items() if amount > there.get(kind, 0)]
        return f"its cores ask for more {short[0]} than all machines have" if short else None
