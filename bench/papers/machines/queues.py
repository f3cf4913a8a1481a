"""Memory for jobs that wait: queues by class, or at each machine, and machines counted again.

`kernels` is imported inside the functions, because numba takes half a second to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.state import Machines, aligned_rows, build_forest

if TYPE_CHECKING:
    from bench.papers.machines.kernels.queues import MachineQueues, Queues
    from dispatch.machines.placement.kernels.machines import Fleet


def build_queues(queues: int, capacity: int, resources: int) -> Queues:
    """Empty queues of `capacity` positions each."""
    from bench.papers.machines.kernels.queues import Queues
    from dispatch.machines.placement.kernels.arrays import NONE

    forest = build_forest(np.full(queues, capacity, dtype=np.int64), resources, -np.inf)
    return Queues(
        forest=forest,
        slot=np.full(queues * capacity, NONE, dtype=np.int32),
        tail=np.zeros(queues, dtype=np.int64),
        length=np.zeros(queues, dtype=np.int64),
    )


def enlarged_queues(old: Queues) -> Queues:
    """The same queues with twice the positions, without gaps."""
    from dispatch.machines.placement.kernels.forest import forest_rebuild

    count = old.tail.size
    size = int(old.forest.level_size[0, 0])
    new = build_queues(count, 2 * size, old.forest.leaf.shape[1])
    for queue in range(count):
        first = int(old.forest.base[queue])
        held = np.flatnonzero(old.forest.leaf[first : first + size, 0] > -np.inf) + first
        target = int(new.forest.base[queue])
        new.forest.leaf[target : target + held.size] = old.forest.leaf[held]
        new.slot[target : target + held.size] = old.slot[held]
        new.tail[queue] = new.length[queue] = held.size
    forest_rebuild(new.forest)
    return new


def build_machine_queues(machines: Machines) -> MachineQueues:
    """An empty queue at each machine."""
    from bench.papers.machines.kernels.queues import MachineQueues
    from dispatch.machines.placement.kernels.arrays import NONE

    empty = np.full(machines.total, NONE, dtype=np.int32)
    return MachineQueues(empty, empty.copy(), build_forest(machines.count, 1, 0.0))


def reclassed_fleet(old: Fleet, classes: int) -> Fleet:
    """The same machines with what they run, to count jobs of other classes, none so far."""
    kept = old.by_class
    rows = aligned_rows(old.whole.shape[0], kept // 2 + -(-classes // 2))
    whole = rows.view(np.int32)
    whole[:, :kept] = old.whole[:, :kept]
    return old._replace(whole=whole, real=rows.view(np.float64))


def jobs_by_class(fleet: Fleet, classes: int) -> NDArray[np.int32]:
    """Jobs of each class on each machine, shape (machines, K): a view."""
    return fleet.whole[:, fleet.by_class : fleet.by_class + classes]
