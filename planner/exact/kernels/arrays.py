"""Types of the loops' arrays, and what every loop reads: the forest and the room."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.compiled import borrowed
from planner.exact.kernels.compiled import compiled
from planner.exact.problem import Forest, Room

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Int: TypeAlias = Any
"""A whole number: int64 where compiled, which Python's types do not tell from its own."""


@compiled
def borrow_forest(f: Forest) -> Forest:
    """Return the forest without owners of its arrays (see `planner.compiled`): calls cost less."""
    return Forest(
        borrowed(f.vertices), borrowed(f.first), borrowed(f.children), borrowed(f.shifts),
        borrowed(f.preds), borrowed(f.program), borrowed(f.caps), borrowed(f.inflow),
        borrowed(f.flow), borrowed(f.worth), borrowed(f.prefer), borrowed(f.value),
        borrowed(f.succs), borrowed(f.keep),
    )  # fmt: skip


@compiled
def borrow_room(r: Room) -> Room:
    """Return the room without owners of its arrays."""
    return Room(
        borrowed(r.free), borrowed(r.demand_first), borrowed(r.demand_rows),
        borrowed(r.demand_amounts), borrowed(r.fit), borrowed(r.scale),
        borrowed(r.capacity), borrowed(r.shares),
    )  # fmt: skip
