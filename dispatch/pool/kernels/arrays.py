"""What the kernels work on, and the numbers of rules, allocations and lines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

# Rules and sizes, as in `ordering`.
STATIC, SRPT, HRRN, HRRN_PRINTED, DRF = 0, 1, 2, 3, 4
COMPONENTS, COMPONENTS_LEFT, AREA, AREA_LEFT = 1, 2, 3, 4
# Allocations.
FLEXIBLE, GROW_ONLY, MALLEABLE = 0, 1, 2
# Lines, and their places in `length`.
WAITING, URGENT, SERVING = 0, 1, 2


class ClaimArrays(NamedTuple):
    """One row a request; arrays of shape (rows,), (rows, L), (rows, G) or (rows, G, L)."""

    core: Longs
    want: Longs
    part: Longs
    part_count: Longs
    granted: Longs
    before: Longs
    rank: Floats
    key: Floats
    number: Longs
    submitted: Floats
    run: Floats
    left: Floats
    since: Floats
    speed: Floats
    tenant: Longs
    core_count: Floats
    all_count: Floats
    all_area: Floats
    factor: Floats
    part_area: Floats
    started: NDArray[np.bool_]


class PoolArrays(NamedTuple):
    """What there is, what is promised, and the three lines (rows by place)."""

    total: Longs
    cores: Longs
    wanted: Longs
    given: Longs
    held: Longs
    share: Floats
    lines: Longs
    length: Longs
    changed: Longs


class PoolRules(NamedTuple):
    """How rows are ordered and granted."""

    allocation: int
    rule: int
    size: int
    backfill: bool
    preemptive: bool
