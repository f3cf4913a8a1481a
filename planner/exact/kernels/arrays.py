"""Types of the loops' arrays, and what every loop reads: the forest and the room."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.exact.kernels.compiled import compiled
from planner.exact.problem import Forest, Room
from planner.kernels import _borrowed

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Int: TypeAlias = Any
"""A whole number: int64 where compiled, which Python's types do not tell from its own."""


@compiled
def borrow_forest(f: Forest) -> Forest:
    """Return the forest without owners of its arrays (see `planner.kernels`): calls cost less."""
    return Forest(
        _borrowed(f.vertices), _borrowed(f.first), _borrowed(f.children), _borrowed(f.shifts),
        _borrowed(f.preds), _borrowed(f.program), _borrowed(f.caps), _borrowed(f.inflow),
        _borrowed(f.flow), _borrowed(f.worth), _borrowed(f.prefer), _borrowed(f.value),
        _borrowed(f.succs), _borrowed(f.keep),
    )  # fmt: skip


@compiled
def borrow_room(r: Room) -> Room:
    """Return the room without owners of its arrays."""
    return Room(
        _borrowed(r.free), _borrowed(r.demand_first), _borrowed(r.demand_rows),
        _borrowed(r.demand_amounts), _borrowed(r.fit), _borrowed(r.scale),
        _borrowed(r.capacity), _borrowed(r.shares),
    )  # fmt: skip
