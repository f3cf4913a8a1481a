"""Names of arrays, policies and outcomes that all kernels share."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from dispatch.machines.placement.policy import POLICIES

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Amount by which a request may exceed the free capacity: sums of floats are not exact.
TOLERANCE: Final = 1e-9
#: No machine, slot or place.
NONE: Final = -1

LOTES: Final = POLICIES.index("lotes")
GREEDY: Final = POLICIES.index("greedy")
TETRIS: Final = POLICIES.index("tetris")
BEST_FIT: Final = POLICIES.index("best_fit")
SPREAD: Final = POLICIES.index("spread")
