"""Kernels that read and update block minima (`planner.capacity.block_index`).

Loops run over slices from 0 on: numba then knows that no index is negative, and LLVM vectorizes
them.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import planner.capacity.block_index
from planner.capacity.block_index import BLOCK
from planner.kernel_cache import KernelFamily

I64 = NDArray[np.int64]

# Compiled code has one integer type, int64; in Python it is an int or a NumPy scalar.
Int: TypeAlias = Any

_kernel = KernelFamily(planner.capacity.block_index, nogil=True, error_model="numpy").kernel


@_kernel
def least_in(row: I64, t0: int, t1: int) -> Int:
    """Return the minimum of `row[t0:t1]`, not empty."""
    part = row[t0:t1]
    least = part[0]
    for i in range(part.shape[0]):
        least = min(least, part[i])
    return least


@_kernel
def least_of(row: I64, low: I64, t0: int, t1: int) -> Int:
    """Return the minimum of `row[t0:t1]`, not empty, using the minima of whole blocks."""
    first, last = (t0 + BLOCK - 1) // BLOCK, t1 // BLOCK
    if low.shape[0] == 0 or first >= last:
        return least_in(row, t0, t1)
    least = least_in(low, first, last)
    if t0 < first * BLOCK:
        least = min(least, least_in(row, t0, first * BLOCK))
    if last * BLOCK < t1:
        least = min(least, least_in(row, last * BLOCK, t1))
    return least


@_kernel
def index_again(row: I64, low: I64, t0: int, t1: int) -> None:
    """Recompute the minimum of every block that overlaps `row[t0:t1]`, not empty."""
    for block in range(t0 // BLOCK, (t1 + BLOCK - 1) // BLOCK):
        low[block] = least_in(row, block * BLOCK, min((block + 1) * BLOCK, row.shape[0]))


@_kernel
def index_moved(row: I64, low: I64, t0: int, t1: int, amount: int) -> None:
    """Update the minima after `amount` was added to all of `row[t0:t1]`, not empty."""
    first, last = (t0 + BLOCK - 1) // BLOCK, t1 // BLOCK
    if first >= last:
        index_again(row, low, t0, t1)
        return
    blocks = low[first:last]
    for i in range(blocks.shape[0]):
        blocks[i] += amount
    if t0 < first * BLOCK:
        index_again(row, low, t0, first * BLOCK)
    if last * BLOCK < t1:
        index_again(row, low, last * BLOCK, t1)
