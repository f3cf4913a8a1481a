"""How the event loop is compiled: as placement is, and stale with any file of placement's too."""

from __future__ import annotations

from pathlib import Path

from dispatch.machines.placement import policy
from dispatch.machines.placement.kernels import compiled
from planner.kernel_cache import KernelFamily

_FAMILY = KernelFamily(Path(__file__).parent, Path(compiled.__file__).parent, policy, _nrt=False)

#: Compile a kernel that only kernels call.
inner = _FAMILY.like(no_cpython_wrapper=True)

#: Compile a kernel into each of its callers.
inline = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)

#: Compile a kernel that Python calls.
entry = _FAMILY.kernel
