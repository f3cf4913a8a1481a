"""Builds the mutable arrays of a placement, machines and targets, which the kernels change.

`kernels` is imported inside the functions, because numba takes half a second to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lp.lotes.dispatch_table import DispatchTable

if TYPE_CHECKING:
    from dispatch.machines.placement.kernels.forest import MaximaForest
    from dispatch.machines.placement.kernels.machines import Fleet, PlacementRules
    from dispatch.machines.placement.kernels.scores import Targets


@dataclass(frozen=True, slots=True)
class Machines:
    """Machines in order of their configuration.

    Attributes
    ----------
    count
        Machines of each configuration, shape (J,).
    capacity
        Shape (J, L).
    """

    count: NDArray[np.int64]
    capacity: NDArray[np.float64]

    @property
    def total(self) -> int:
        """Number of machines."""
        return int(self.count.sum())

    @property
    def configuration_of(self) -> NDArray[np.int32]:
        """Configuration of each machine, shape (machines,)."""
        return np.repeat(np.arange(self.count.size, dtype=np.int32), self.count)

    @classmethod
    def of_table(cls, table: DispatchTable) -> Machines:
        """Return the machines that a dispatch table covers."""
        count = np.bincount(table.configuration_of, minlength=len(table.configurations))
        return cls(count.astype(np.int64), table.capacity)


def aligned_rows(rows: int, width: int) -> NDArray[np.int64]:
    """Return zeros whose rows are aligned to cache lines if `width` is a multiple of eight."""
    line = 64
    held = np.zeros(rows * width + line // 8, dtype=np.int64)
    skip = -held.ctypes.data % line // 8
    return held[skip : skip + rows * width].reshape(rows, width)


def build_forest(sizes: NDArray[np.int64], columns: int, fill: float) -> MaximaForest:
    """Return a forest of one tree per group with all leaves at `fill`."""
    from dispatch.machines.placement.kernels import forest

    groups = sizes.size
    level_size = np.zeros((groups, forest.LEVELS), dtype=np.int64)
    level_base = np.zeros((groups, forest.LEVELS), dtype=np.int64)
    top = np.zeros(groups, dtype=np.int64)
    nodes = 0
    for group, size in enumerate(sizes):
        level_size[group, 0] = size
        level = 0
        while level_size[group, level] > 1:
            level += 1
            level_size[group, level] = -(-level_size[group, level - 1] // forest.FAN)
            level_base[group, level] = nodes
            nodes += int(level_size[group, level])
        top[group] = level
    base = np.cumsum(sizes) - sizes
    leaf = np.full((int(sizes.sum()), columns), fill)
    node = np.full((max(nodes, 1), columns), fill)
    scratch = np.zeros(columns)
    return forest.MaximaForest(
        leaf, node, base, level_base, level_size, top, scratch, np.zeros(columns)
    )


def build_fleet(machines: Machines, classes: int) -> Fleet:
    """Return empty machines, all open, that count jobs of `classes` classes."""
    from dispatch.machines.placement.kernels import forest
    from dispatch.machines.placement.kernels.machines import CONFIGURATION, LEFT, Fleet

    configuration = machines.configuration_of
    # Copied: a read-only array has another type, so all kernels would be compiled twice.
    capacity = np.array(machines.capacity, dtype=np.float64, order="C")
    size = capacity.shape[1]
    room = build_forest(machines.count, size + 1, 0.0)
    room.leaf[:, :size] = capacity[configuration]
    room.leaf[:, size] = np.where((capacity > 0).any(axis=1), 1.0, np.inf)[configuration]
    forest.forest_rebuild(room)
    rows = aligned_rows(machines.total, LEFT + size + -(-classes // 2))
    whole, real = rows.view(np.int32), rows.view(np.float64)
    whole[:, CONFIGURATION] = configuration
    real[:, LEFT : LEFT + size] = capacity[configuration]
    return Fleet(capacity, whole, real, 2 * (LEFT + size), room)


def room_left(fleet: Fleet) -> NDArray[np.float64]:
    """Return a view of the free capacity of each machine, shape (machines, L)."""
    from dispatch.machines.placement.kernels.machines import LEFT

    return fleet.real[:, LEFT : LEFT + fleet.capacity.shape[1]]


def build_targets(
    fleet: Fleet,
    machines: Machines,
    table: DispatchTable | None,
    speed: NDArray[np.float64],
    sample: int,
) -> Targets:
    """Return the targets of a dispatch table, or empty ones for policies without classes.

    Writes the bins into the fleet's rows; call `index_scores` afterwards.
    """
    from dispatch.machines.placement.kernels.machines import BIN
    from dispatch.machines.placement.kernels.scores import SCORES, Targets

    groups, classes = speed.shape
    if table is None:
        bin_of = np.zeros(machines.total, dtype=np.int32)
        bins, wheel = np.zeros((1, classes), dtype=np.int32), np.zeros((groups, classes))
    else:
        bin_of, bins = table.bin_of, table.bins.copy()
        wheel = np.where(speed > 0, table.wheel, 0.0)
    fleet.whole[:, BIN] = bin_of
    words = -(-machines.count // 64) if table is not None else np.zeros(groups, dtype=np.int64)
    over = -(-words // 64)
    per_class = np.repeat((over + words) * SCORES, classes)
    base = (np.cumsum(per_class) - per_class).reshape(groups, classes)
    # A class without any target is eligible everywhere: otherwise it would never run.
    aimless = ~(wheel > 0).any(axis=0)
    return Targets(
        bins=bins,
        wheel=wheel,
        eligible=((wheel > 0) | aimless) & (speed > 0),
        best=_best_scores(machines, bin_of, bins),
        bits=np.zeros(int(per_class.sum()), dtype=np.uint64),
        base=base.astype(np.int64),
        over=over.astype(np.int64),
        words=(over + words).astype(np.int64),
        scores=np.zeros((groups, classes), dtype=np.uint64),
        sample=np.array([sample], dtype=np.int64),
        tried=np.zeros(groups, dtype=np.bool_),
        done=np.zeros(classes, dtype=np.bool_),
    )


def _best_scores(
    machines: Machines, bin_of: NDArray[np.int32], bins: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Largest target of each configuration and class, shape (J, K)."""
    ends = np.cumsum(machines.count)
    best = np.zeros((machines.count.size, bins.shape[1]), dtype=np.int32)
    for group, (end, count) in enumerate(zip(ends, machines.count, strict=True)):
        if count:
            best[group] = bins[np.unique(bin_of[end - count : end])].max(axis=0)
    return best


def build_rules(
    policy: int,
    speed: NDArray[np.float64],
    *,
    tetris_hours: float = 1.0,
    memory: int = 1,
) -> PlacementRules:
    """Return the rules for the kernels; see `MachinePlacement` for the settings."""
    from dispatch.machines.placement.kernels.machines import PlacementRules

    return PlacementRules(
        policy=policy,
        speed=np.ascontiguousarray(speed, dtype=np.float64),
        time_weight=float(tetris_hours),
        memory=int(memory),
    )
