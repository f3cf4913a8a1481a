"""Names of arrays, policies and outcomes that all kernels share."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

TOLERANCE: Final = 1e-9
NONE: Final = -1

LOTES, GREEDY, TETRIS, BEST_FIT, SPREAD = 0, 1, 2, 3, 4
