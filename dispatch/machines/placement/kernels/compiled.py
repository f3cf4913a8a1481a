"""Compilation of placement and of the machine-level event loop, and its cache.

Kernels are compiled without numba's reference counting (`_nrt=False`), which took three quarters of
the time with some fifty arrays per call. They therefore allocate nothing; scratch arrays are fields
of the tuples. `no_cpython_wrapper` avoids compiling a Python entry point that is not used.
Functions that the event loop calls with whole tuples are inlined (`inline`): a call copies the
descriptor of every array, which took three quarters of the remaining time.

Compiled callers include their callees, also across files: see `planner.kernel_cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dispatch.machines.placement import policy
from planner.kernel_cache import KernelFamily

_FAMILY = KernelFamily(Path(__file__).parent, policy, _nrt=False)

#: Compile a kernel that only kernels call.
inner = _FAMILY.like(no_cpython_wrapper=True)

#: Compile a kernel into each of its callers.
inline = _FAMILY.like(no_cpython_wrapper=True, forceinline=True)

#: Compile a kernel that Python calls.
entry = _FAMILY.kernel


def _lowest_bit(context, word):  # type: ignore[no-untyped-def]
    """Define typing and code of `trailing_zeros` as a numba intrinsic."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), build


def _fetch(context, array, row):  # type: ignore[no-untyped-def]
    """Define typing and code of `prefetch`."""

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        kind = signature.args[0]
        held = context.make_array(kind)(context, builder, arguments[0])
        first = context.get_constant(types.intp, 0)
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        places = [index] + [first] * (kind.ndim - 1)
        item_of: Any = cgutils.get_item_pointer
        item = item_of(context, builder, kind, held, places, wraparound=False)
        byte = builder.bitcast(item, cgutils.voidptr_t)
        flag = cgutils.int32_t
        call = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte.type], ir.FunctionType(
                ir.VoidType(), [byte.type, flag, flag, flag]
            ),
        )  # fmt: skip
        builder.call(call, [byte, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, row), build


trailing_zeros: Callable[[np.uint64], np.uint64] = intrinsic(_lowest_bit)  # type: ignore[assignment]
"""Index of the lowest set bit of a word that is not zero."""

prefetch: Callable[[Any, int], None] = intrinsic(_fetch)  # type: ignore[assignment]
"""Prefetch the first cache line of an array's row for writing."""
