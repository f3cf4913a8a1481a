"""Count the concurrent bundles of one atom on a machine or in a domain."""

from __future__ import annotations

import numpy as np

from planner.machines.kernels.arrays import (
    BUNDLES,
    I64,
    LANES,
    MACHINE,
    START,
    STOP,
    BundleKind,
    Int,
    MachineTable,
)
from planner.machines.kernels.compiled import kernel


@kernel
def key_of(table: MachineTable, wanted: BundleKind, machine: Int) -> Int:
    """Return the index in `use` of a machine, or of its domain, numbered after all machines."""
    domain = wanted.domains[table.lane_of[machine] // LANES]
    return machine if domain < 0 else table.lane_of.shape[0] + domain


@kernel
def no_use(table: MachineTable, wanted: BundleKind) -> I64:
    """Return zeros, one for each machine and domain; none if the rule has no limit."""
    if wanted.spread == 0:
        return np.zeros(0, dtype=np.int64)
    domains = np.int64(0)
    for stripe in range(wanted.domains.shape[0]):
        domains = max(domains, wanted.domains[stripe] + 1)
    return np.zeros(table.lane_of.shape[0] + domains, dtype=np.int64)


@kernel
def note_use(
    table: MachineTable, wanted: BundleKind, slots: I64, count: Int, start: Int, end: Int, use: I64
) -> None:
    """Write into `use` the maximum concurrent bundles of the first `count` slots in [start, end).

    A sweep over starts and ends; at equal steps ends come first.
    """
    use[:] = 0
    events = np.empty(2 * count, dtype=np.int64)
    found = 0
    for i in range(count):
        low, high = max(slots[i, START], start), min(slots[i, STOP], end)
        if slots[i, MACHINE] >= 0 and low < high:
            events[found] = (2 * (low - start) + 1) * count + i
            events[found + 1] = 2 * (high - start) * count + i
            found += 2
    held = np.zeros(use.shape[0], dtype=np.int64)
    for event in np.sort(events[:found]):
        i = event % count
        key = key_of(table, wanted, slots[i, MACHINE])
        if event // count % 2 == 1:
            held[key] += slots[i, BUNDLES]
            use[key] = max(use[key], held[key])
        else:
            held[key] -= slots[i, BUNDLES]
