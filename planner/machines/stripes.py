"""Machines in stripes of 64, no stripe over two groups: their capacity, labels and domains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, groups_with
from planner.reservations.slots import MachineRule
from rdl.resources import Resources

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

#: Machines of a stripe.
STRIPE = 64

#: Most sets of two or more values of a domain that are all tried.
_MOST_SETS = 128

#: Most of a resource that a machine is counted to have; more is counted in larger units. What is
#: taken beyond what is there goes below zero by eight times as much before it overflows.
_MOST = 2**28


@dataclass(frozen=True)
class Stripes:
    """The machines of a cluster as rows of 64.

    Machine numbers go over all groups in order; a group's last stripe may be partly empty.
    """

    cluster: Cluster

    @cached_property
    def machines(self) -> int:
        """How many machines there are."""
        return sum(group.count for group in self.cluster.machines)

    @cached_property
    def group_of(self) -> I64:
        """int64[stripes]: the group of each."""
        sizes = [-(-group.count // STRIPE) for group in self.cluster.machines]
        return np.repeat(np.arange(len(sizes)), sizes).astype(np.int64)

    @cached_property
    def first_machine(self) -> I64:
        """int64[stripes]: number of the machine in the first lane of each."""
        found: list[int] = []
        number = 0
        for group in self.cluster.machines:
            found += range(number, number + group.count, STRIPE)
            number += group.count
        return np.array(found, dtype=np.int64)

    @cached_property
    def lane_of(self) -> I64:
        """int64[machines]: 64 times the stripe of each machine, plus its lane."""
        ends = np.append(self.first_machine, self.machines)[1:]
        lanes = [
            np.arange(STRIPE * stripe, STRIPE * stripe + end - start)
            for stripe, (start, end) in enumerate(zip(self.first_machine, ends, strict=True))
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *lanes]).astype(np.int64)

    @cached_property
    def shifts(self) -> dict[str, int]:
        """By resource, how many bits of its amounts are not counted."""
        names = self.cluster.resources
        most = {n: max(g.resources.get(n, 0) for g in self.cluster.machines) for n in names}
        return {name: max(0, (amount // _MOST).bit_length()) for name, amount in most.items()}

    @cached_property
    def capacity(self) -> I32:
        """int32[stripes, resources, 64]: the capacity of each machine, 0 in empty lanes."""
        full = np.zeros((len(self.group_of), len(self.shifts), STRIPE), dtype=np.int32)
        lanes = len(self.group_of) * STRIPE
        flat = full.transpose(0, 2, 1).reshape(lanes, len(self.shifts)).copy()
        number = 0
        for group in self.cluster.machines:
            amounts = [group.resources.get(n, 0) >> shift for n, shift in self.shifts.items()]
            flat[self.lane_of[number : number + group.count]] = amounts
            number += group.count
        for _, reduced, left in self.cluster.reduced:
            flat[self.lane_of[reduced]] = [left.get(n, 0) >> s for n, s in self.shifts.items()]
        return np.ascontiguousarray(
            flat.reshape(len(self.group_of), STRIPE, len(self.shifts)).transpose(0, 2, 1)
        )

    def outages(self, first: int, end: int) -> I64:
        """Return int64[k, 3]: (machine, first step, end step) of every machine of every outage.

        A recurring outage counts for each occurrence in the steps [first, end).
        """
        step, starts, number = self.cluster.step_ms, {}, 0
        for group in self.cluster.machines:
            starts[group.name] = number
            number += group.count
        rows = [
            (starts[outage.machines] + index, outage.start_ms // step, -(-outage.end_ms // step))
            for outage in self.cluster.outages_between(first * step, end * step)
            for index in outage.indices
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def amounts(self, bundle: Resources) -> I64:
        """Return int64[k, 2]: (resource number, amount), rounded up; unknown resources left out."""
        rows = [
            (number, min(-(-bundle[name] >> shift), 2 * _MOST))
            for number, (name, shift) in enumerate(self.shifts.items())
            if name in bundle
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    def order(self, bundle: Resources, label: str | None, domain: str | None = None) -> I64:
        """Return int64[k]: the stripes that a bundle may use, best matches first.

        If bundles are spread over the values of a domain, none is placed on a machine without a
        value. Without a label, machines with few labels come first; then those of which the bundle
        takes the least dominant share.
        """
        groups = self.cluster.machines
        keys = []
        for index in groups_with(self.cluster, label):
            share = bundle.dominant_share(groups[index].resources)
            labels = 0 if label is not None else len(groups[index].labels)
            named = domain is None or domain in dict(groups[index].domains)
            if bundle and share <= 1 and named:
                keys.append((labels, share, index))
        found = [np.flatnonzero(self.group_of == index) for _, _, index in sorted(keys)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found]).astype(np.int64)

    def domains(self, rule: MachineRule) -> I64:
        """Return int64[stripes]: the number of each one's value of the rule's domain, or -1."""
        return self.values(rule.domain)[1]

    def values(self, domain: str | None) -> tuple[tuple[str, ...], I64]:
        """Return the values of a domain, and int64[stripes]: the number of each one's, or -1."""
        values = [dict(group.domains).get(domain or "") for group in self.cluster.machines]
        known = {v: i for i, v in enumerate(sorted({v for v in values if v is not None}))}
        numbers = [-1 if value is None else known[value] for value in values]
        return tuple(known), np.array(numbers, dtype=np.int64)[self.group_of]

    def value_sets(
        self, rule: MachineRule, beside: I64 | None, held: Callable[[int], I64 | F64]
    ) -> list[tuple[int, ...]]:
        """Return the sets of values of `within` to try, at least one, which may be empty.

        All sets; or, if there are more than `_MOST_SETS`, those whose values hold the most at a
        step, and then those of neighbours in the same order.

        Parameters
        ----------
        beside
            int64[k, 4]: slots that the atom holds already. Only sets with their values are to try;
            if these are too many, or some machine has none, none is.
        held
            Returns [steps]: how many bundles a value holds, or how much; only called if not all
            sets are tried.
        """
        names, value_of = self.values(rule.within)
        lanes = self.lane_of // STRIPE
        used = (
            set() if beside is None else set(value_of[lanes[beside[beside[:, 3] >= 0, 3]]].tolist())
        )
        if len(used) > rule.values or -1 in used:
            return [()]
        others = [value for value in range(len(names)) if value not in used]
        size = min(rule.values - len(used), len(others))
        if size < 2 or comb(len(others), size) <= _MOST_SETS:
            return [(*used, *more) for more in combinations(others, size)]
        counts = np.stack([held(value) for value in others], axis=1)
        counts = counts[np.append(True, np.any(counts[1:] != counts[:-1], axis=1))]
        most = np.argsort(-counts, axis=1, kind="stable")[:, :size]
        total = np.take_along_axis(counts, most, axis=1).sum(axis=1)
        best = dict.fromkeys(_sorted_rows(most[np.argsort(-total, kind="stable")]))
        order = np.argsort(-counts.max(axis=0), kind="stable")
        neighbours = _sorted_rows(np.lib.stride_tricks.sliding_window_view(order, size))
        chosen = dict.fromkeys([*list(best)[:_MOST_SETS], *neighbours])
        return [(*used, *(others[i] for i in one)) for one in chosen]


def _sorted_rows(rows: I64) -> list[tuple[int, ...]]:
    return [tuple(row) for row in np.sort(rows, axis=1).tolist()]
