"""Compiler settings for the kernels of this package."""

from __future__ import annotations

from pathlib import Path

import planner.capacity.block_index
import planner.capacity.block_index_kernels
import rdl.work_graph
from planner.kernel_cache import KernelFamily

FAMILY = KernelFamily(
    Path(__file__).parent,
    planner.capacity.block_index,
    planner.capacity.block_index_kernels,
    rdl.work_graph,
    nogil=True,
    error_model="numpy",
)

#: Compile a kernel.
kernel = FAMILY.kernel

#: Inline a kernel's source into its callers: it has one caller, or costs less than passing its
#: arrays. (Inlining by LLVM raises the compile time from 20 s to 90 s.)
inline = FAMILY.like(inline="always")
