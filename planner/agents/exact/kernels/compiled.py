"""How the exact planner's loops are compiled: what holds for all files of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import planner.agents.exact.problem
import rdl.work_graph
from planner.kernel_cache import KernelFamily


def exact_family(*folders: Path) -> KernelFamily:
    """Return the family of kernels in some folders, which read the problem's arrays."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    return KernelFamily(*folders, planner.agents.exact.problem, rdl.work_graph, **options)


_FAMILY = exact_family(Path(__file__).parent)

#: Compile a loop, keep it in numba's cache, and let other threads run meanwhile.
compiled = _FAMILY.kernel

#: The same for what stands in an inner loop and is called from one or two places: written into its
#: caller. A call hands over every field of every array of a tuple, some two thousand bytes, which
#: takes longer than placing a small atom.
#: Python cannot call it: what reads such tuples from Python takes a fifth of the time to compile.
inlined = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)

#: The same for one that Python calls too.
inlined_entry = _FAMILY.like(forceinline=True)
