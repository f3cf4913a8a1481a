"""Compiled loops of the exact planner: the Lagrangian bound and the search for plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import planner.agents.exact.problem
import rdl.work_graph
from planner.kernel_cache import KernelFamily

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]
U64: TypeAlias = NDArray[np.uint64]
Int: TypeAlias = Any
"""A whole number: int64 where compiled, which Python's types do not tell from its own."""


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_FAMILY = KernelFamily(
    Path(__file__).parent, planner.agents.exact.problem, rdl.work_graph, **_OPTIONS
)

#: Compile a loop, cache it with numba, and release the interpreter while it runs.
compiled = _FAMILY.kernel

#: The same for functions called in an inner loop from one or two places: inlined into the caller. A
#: call passes every field of every array of a tuple, about two thousand bytes, which takes longer
#: than placing a small atom.
inlined = _FAMILY.like(forceinline=True)
