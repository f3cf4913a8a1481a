"""How the kernels of a cell are compiled."""

from __future__ import annotations

from pathlib import Path

from planner.kernel_cache import KernelFamily

_FAMILY = KernelFamily(Path(__file__).parent, error_model="numpy")

#: Compile a kernel that only kernels call.
inner = _FAMILY.like(no_cpython_wrapper=True)

#: Compile a kernel that Python calls.
entry = _FAMILY.kernel
