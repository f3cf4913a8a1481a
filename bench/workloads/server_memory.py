"""Memory of a bench's own process: the garbage collector as a server sets it, resident bytes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.server import settle_memory


@contextmanager
def as_served() -> Iterator[None]:
    """Time something under the settings that a server takes once its Plan is loaded."""
    before = gc.get_threshold()
    settle_memory()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def resident_bytes() -> int:
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
