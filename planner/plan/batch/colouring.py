"""Assign machines by interval colouring, if bundles have one shape or fill a machine.

A machine is then a number of units of which each bundle takes one, and totals decide: in order of
start each bundle takes any free unit. No machine is searched step by step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, bundles_per_machine, groups_with
from rdl.resources import Resources

I64 = NDArray[np.int64]


def units_of(cluster: Cluster, groups: Sequence[int], bundles: Iterable[Resources]) -> I64 | None:
    """Return how many bundles each machine of the cluster holds, 0 outside the groups.

    None if that depends on the mix of bundles.
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
    """Return the machine groups that every kind of bundle may use; None if they differ."""
    found = {frozenset(groups_with(cluster, label)) for _, label in kinds}
    return found.pop() if len(found) == 1 else None


def _joined(outages: I64, begin: int) -> I64:
    """Return the outages that end after a step, merged so that none overlap on one machine."""
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
    """Return the slots with machines, and the index of each one's origin; None if they do not fit.

    Parameters
    ----------
    slots
        int64[k, 4]: start step, end step, bundles, and the machine, -1 for new slots.
    keys
        int64[k]: slots of one atom have the same key.
    fixed
        bool[k]: slots that keep their machine.
    outages
        int64[m, 3]: machine, first step, end step.
    units
        int64[machines]: how many bundles each machine holds.

    Returns
    -------
    int64[n, 4] and int64[n], the index in `slots` that each slot comes from.
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
