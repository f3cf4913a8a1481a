"""Compilation of the core/elastic pool's kernels; they share one cache state.

Kernels are compiled without reference counting (`_nrt=False`), which would take most of their time;
they therefore allocate nothing.
"""

from __future__ import annotations

from pathlib import Path

from dispatch.pool import claims, ordering
from planner.kernel_cache import KernelFamily

_FAMILY = KernelFamily(Path(__file__).parent, claims, ordering, _nrt=False)

#: Compile a kernel that only kernels call.
inner = _FAMILY.like(no_cpython_wrapper=True)

#: Compile a kernel into each of its callers, for functions called for every row of a queue: a call
#: passes every field of the row arrays, which takes longer than computing a key.
inline = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)

#: Compile a kernel that Python calls.
entry = _FAMILY.kernel
