"""How the exact planner's loops are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Kernel = TypeVar("_Kernel", bound=Callable[..., object])


def compiled(kernel: _Kernel) -> _Kernel:
    """Compile a loop, keep it in numba's cache, and let other threads run meanwhile."""
    decorate: Any = njit(cache=True, nogil=True, error_model="numpy")
    loop: _Kernel = decorate(kernel)
    return loop
