"""How the loops over runs are compiled: they contain loops of the search too."""

from __future__ import annotations

from pathlib import Path

from planner.agents.exact.kernels import compiled as search_loops

_FAMILY = search_loops.exact_family(Path(__file__).parent, Path(search_loops.__file__).parent)

#: Compile a loop, keep it in numba's cache, and let other threads run meanwhile.
compiled = _FAMILY.kernel

#: The same for what stands in an inner loop: written into its caller, and not for Python to call.
inlined = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)
