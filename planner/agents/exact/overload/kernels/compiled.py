"""How the loops over runs are compiled: they contain loops of the search too."""

from __future__ import annotations

from pathlib import Path

import planner.agents.exact.kernels
import planner.agents.exact.problem
import rdl.work_graph
from planner.kernel_cache import KernelFamily

_FAMILY = KernelFamily(
    Path(__file__).parent,
    Path(planner.agents.exact.kernels.__file__).parent,
    planner.agents.exact.problem,
    rdl.work_graph,
    nogil=True,
    error_model="numpy",
)

#: Compile a loop, keep it in numba's cache, and let other threads run meanwhile.
compiled = _FAMILY.kernel

#: The same for what stands in an inner loop: written into its caller.
inlined = _FAMILY.like(forceinline=True)
