"""The machines of a cluster by name and number, and when each is down."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, MachineGroup
from planner.validation.capacity import merged_spans
from planner.validation.document import HeldAtom
from planner.validation.outages import away_steps
from rdl.time_grid import TimeGrid

#: Number for no machine: of a slot without a machine, or of an unknown name.
NOWHERE = -1


class NamedMachines:
    """Machines numbered consecutively over all groups, with the steps at which each is down.

    Attributes
    ----------
    now
        The current step: machines of slots that ended by then may have left the cluster.
    """

    def __init__(self, cluster: Cluster, grid: TimeGrid, now: int = 0) -> None:
        self.now = now
        self.groups = cluster.machines
        self.horizon = grid.horizon
        counts = [group.count for group in self.groups]
        self._first = [0, *accumulate(counts)]
        self._by_name = {group.name: i for i, group in enumerate(self.groups)}
        lost: dict[int, list[tuple[int, int]]] = {}
        for outage, start, end in away_steps(cluster, grid):
            if outage.machines not in self._by_name:
                continue  # units of a pool
            first = self._first[self._by_name[outage.machines]]
            for index in outage.indices:
                lost.setdefault(first + index, []).append((max(0, start), end))
        self.away = {number: merged_spans(spans) for number, spans in lost.items()}

    @property
    def count(self) -> int:
        """Number of machines."""
        return self._first[-1]

    def number_of(self, name: str | None) -> int:
        """Return the number of a machine such as ``wide-3``; `NOWHERE` if there is none."""
        group, _, index = (name or "").rpartition("-")
        at = self._by_name.get(group)
        if at is None or not index.isascii() or not index.isdecimal() or len(index) > 9:
            return NOWHERE
        known = str(int(index)) == index and int(index) < self.groups[at].count
        return self._first[at] + int(index) if known else NOWHERE

    def numbers_of(self, atom: HeldAtom) -> NDArray[np.int64]:
        """Return int64[k]: the machine of each slot of an atom."""
        names = () if atom.slots is None else atom.slots.machines
        return np.array([self.number_of(name) for name in names], dtype=np.int64)

    def name_of(self, number: int) -> str:
        """Return the name of a machine."""
        at = self.group_number(number)
        return f"{self.groups[at].name}-{number - self._first[at]}"

    def group_number(self, number: int) -> int:
        """Return the number of a machine's group."""
        return bisect_right(self._first, number) - 1

    def group_of(self, number: int) -> MachineGroup:
        """Return the group of a machine."""
        return self.groups[self.group_number(number)]

    def is_away(self, number: int, step: int) -> bool:
        """Return whether a machine is down in a step."""
        return any(start <= step < end for start, end in self.away.get(number, ()))
