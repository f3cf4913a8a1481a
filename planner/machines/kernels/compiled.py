"""Compiler settings for the kernels of this package."""

from __future__ import annotations

from pathlib import Path

from planner.kernel_cache import KernelFamily

FAMILY = KernelFamily(Path(__file__).parent, nogil=True, error_model="numpy")

#: Compile a kernel.
kernel = FAMILY.kernel
