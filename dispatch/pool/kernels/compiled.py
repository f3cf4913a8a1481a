"""How the kernels of the core/elastic pool are compiled: alike, and stale together.

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

#: Compile a kernel into each of its callers, for what is called for every row of a line: a call
#: hands over every field of the arrays of all rows, which takes longer than a key does.
inline = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)

#: Compile a kernel that Python calls.
entry = _FAMILY.kernel
