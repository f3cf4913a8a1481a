"""Machines by interval colouring, where bundles are of one shape or fill a machine.

There a machine is a number of units, each bundle takes one, and totals decide: in order of begin a
bundle takes any unit that is free then. No machine is looked at step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, bundles_per_machine, groups_with
from rdl.resources import Resources

I64 = NDArray[np.int64]


def units_of(cluster: Cluster, groups: Sequence[int], bundles: Iterable[Resources]) -> I64 | None:
    """Return how many bundles each machine of the cluster holds, 0 outside of some groups.

    None if that depends on which bundles they are.
    """
    shapes = set(bundles)
    units = np.zeros(len(cluster.machines), dtype=np.int64)
    for index in groups:
        has = cluster.machines[index].resources
        counts = {bundles_per_machine(has, bundle) for bundle in shapes}
        if len(counts) > 1 or (len(shapes) > 1 and counts != {0} and not _exclude(has, shapes)):
            return None
        units[index] = counts.pop()
    return np.repeat(units, [group.count for group in cluster.machines])


def _exclude(machine: Resources, bundles: Iterable[Resources]) -> bool:
    """Return whether each bundle takes more than half of the same resource of a machine."""
    return any(all(2 * one.get(name, 0) > has for one in bundles) for name, has in machine.items())


def groups_for(
    cluster: Cluster, kinds: Iterable[tuple[Resources, str | None]]
) -> frozenset[int] | None:
    """Return the machine groups that all kinds of bundles may stand on; None if they differ."""
    found = {frozenset(groups_with(cluster, label)) for _, label in kinds}
    return found.pop() if len(found) == 1 else None


def _joined(outages: I64, begin: int) -> I64:
    """Return outages that end after a step as intervals that do not overlap on one machine."""
    later = outages[outages[:, 2] > begin]
    found: list[list[int]] = []
    for machine, start, end in later[np.lexsort((later[:, 1], later[:, 0]))].tolist():
        if found and found[-1][0] == machine and start <= found[-1][2]:
            found[-1][2] = max(found[-1][2], end)
        else:
            found.append([machine, start, end])
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def colour_slots(
    slots: I64, keys: I64, fixed: NDArray[np.bool_], outages: I64, units: I64
) -> tuple[I64, I64] | None:
    """Return slots of all current allocations and comes, with machines, and whose each is; or None.

    Parameters
    ----------
    slots
        int64[k, 4]: start step, end step, bundles, and the machine, -1 for what comes.
    keys
        int64[k]: slots of one atom have the same.
    fixed
        bool[k]: those that stay.
    outages
        int64[m, 3]: machine, first step, end step.
    units
        int64[machines]: how many bundles each holds.

    Returns
    -------
    int64[n, 4] and int64[n], the place in `slots` that each is of.
    """
    from planner.machines.kernels.colouring import Intervals, colour

    away = _joined(outages[units[outages[:, 0]] > 0], int(slots[:, 0].min(initial=0)))
    alone = np.column_stack([away[:, 1:], units[away[:, 0]], away[:, 0]])
    every = np.concatenate([alone, slots])
    number = np.arange(len(every)) - len(alone)
    source = np.repeat(number, every[:, 2])
    place = source + len(alone)
    source = source[np.lexsort((-every[place, 1], every[place, 0]))]
    own = every[source + len(alone)]
    is_fixed = np.concatenate([np.ones(len(alone), dtype=bool), fixed])[source + len(alone)]
    key = np.concatenate([-1 - np.arange(len(alone)), keys])[source + len(alone)]
    first_unit = np.concatenate([[0], np.cumsum(units)]).astype(np.int64)
    start, stop, machine = (np.ascontiguousarray(own[:, column]) for column in (0, 1, 3))
    unit = colour(Intervals(start, stop, machine, key, is_fixed), first_unit)
    if len(unit) < len(source):
        return None
    machine = np.searchsorted(first_unit, unit, side="right") - 1
    ones = np.ones(len(source), dtype=np.int64)
    laid = np.column_stack([start, stop, ones, machine])
    here = source >= 0
    return laid[here], source[here]
