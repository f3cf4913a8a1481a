"""Count the bundles that find a slot over one interval."""

from __future__ import annotations

from planner.machines.kernels.arrays import BundleKind, Int, MachineTable
from planner.machines.kernels.compiled import kernel
from planner.machines.kernels.finding import count_slots
from planner.machines.kernels.tree import columns
from planner.machines.kernels.using import no_use


@kernel
def count_over(table: MachineTable, wanted: BundleKind, start: Int, end: Int, most: Int) -> Int:
    """Return the number of bundles that find a slot over the steps [start, end), up to `most`."""
    a, b = columns(table.ring, start, end)
    return count_slots(table, wanted, no_use(table, wanted), a, b, most)
