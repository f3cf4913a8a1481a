"""Types of the loops' arrays and numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Int: TypeAlias = Any
"""A whole number: int64 where compiled, which Python's types do not tell from its own."""
