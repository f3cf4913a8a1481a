"""How the kernels of the agents are compiled: what holds for all files of this package."""

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

#: Compile a kernel into its callers, as source: it has one caller, or is so small that passing its
#: arrays costs more than it does. (Asking LLVM to do it takes 90 s to compile instead of 20.)
inline = FAMILY.like(inline="always")
